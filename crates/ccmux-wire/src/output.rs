//! Lines on `output.sock`: one JSON object a line, each with `seq` and `ts`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::channel::ChannelName;
use crate::id::{PromptId, Seq, SessionId};

/// A message that was delivered into a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyTo {
    /// The message's id as its sender knows it.
    pub id: String,
    /// The channel it came from.
    pub channel: ChannelName,
}

/// One finished turn: all content blocks after the prompt, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Monotonic over restarts.
    pub seq: Seq,
    /// Unix seconds.
    pub ts: i64,
    /// The owned session.
    pub session: SessionId,
    /// The prompt that began the turn; absent where Claude Code has no such ids.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prompt_id: Option<PromptId>,
    /// The messages that were delivered into the turn.
    pub in_reply_to: Vec<ReplyTo>,
    /// Content blocks as Claude Code wrote them: `thinking`, `text`, `tool_use`, `tool_result`.
    pub turn: Vec<Value>,
    /// Present, and true, only if the turn could not be completed from the transcript.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub partial: bool,
    /// Where the turn comes from, if not from the transcript.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub source: Option<TurnSource>,
}

/// Where a turn comes from that was not read from a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnSource {
    /// A `broadcast` frame on `control.sock`: nobody but its sender knows that it is complete.
    Broadcast,
}

/// Something a subscriber should know that is not a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AlertLine {
    /// Monotonic over restarts, in one sequence with turns.
    pub seq: Seq,
    /// Unix seconds.
    pub ts: i64,
    /// The session it is about, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<SessionId>,
    /// What happened.
    pub alert: Alert,
}

/// What an alert says: `kind` from the list in docs/PROTOCOL.md, and a sentence for people.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// A word from the list in docs/PROTOCOL.md.
    pub kind: String,
    /// One sentence for people.
    pub message: String,
    /// The tool that Claude asks about, of a `permission_request` or `question`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<String>,
    /// The channel it is about, of `channel_*` and `rejected`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub channel: Option<ChannelName>,
    /// The messages it is about, by the ids their senders know.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub messages: Vec<String>,
    /// For `unknown_screen`: the last rows of the agent's terminal as plain text, at most 8 KiB.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub screen: Option<String>,
}

/// The last line for a subscriber that fell too far behind, or one too many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bye {
    /// Why the daemon closes.
    pub bye: String,
    /// The last line that was sent whole.
    pub last_seq: Seq,
}

/// In the place of lines that a replay should have and that are no longer kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapLine {
    /// Which.
    pub gap: Gap,
}

/// Those between two numbers. `before` not above `after`: the numbers began anew, and `after` was never given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The number that was asked for, or the last one that was sent.
    pub after: Seq,
    /// The next one that follows.
    pub before: Seq,
}

/// The one line that a subscriber may write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// `turns`: leave out the alerts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub only: Option<Only>,
    /// Replay what came after this line, then go on live.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub since: Option<Seq>,
}

/// Which lines a subscriber wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Only {
    /// Turns, no alerts.
    Turns,
    /// Alerts, no turns.
    Alerts,
}
