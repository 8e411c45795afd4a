//! Requests and replies on `control.sock`: one JSON object a line, one reply line a request.
//!
//! Every frame carries `"v":1` and a `type`. Unknown types and versions are answered with an error that names them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::WIRE_VERSION;
use crate::afar::{OpenAsk, PermissionRequest};
use crate::attention::{MuteRequest, Standing};
use crate::container::{ContainerRequest, Containers, GuestRequest};
use crate::hook::HookFrame;
use crate::id::SessionId;
use crate::inbox::{InboxMessage, InboxRequest};
use crate::notes::NotesNews;
use crate::opencode::OpencodeHello;
use crate::output::Wish;
use crate::receipt::{MessageState, Receipt};
use crate::status::{Status, Why};
use crate::tools::{ToolCall, ToolDone};

/// A request with its version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// [`WIRE_VERSION`].
    pub v: u32,
    /// What is asked.
    #[serde(flatten)]
    pub request: Request,
}

impl Frame {
    /// Wraps a request in the current version.
    pub fn new(request: Request) -> Self {
        Self { v: WIRE_VERSION, request }
    }
}

/// What a client or a hook asks of the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// One of Claude Code's hooks fired.
    Hook(HookFrame),
    /// Put a message into the inbox.
    Send(SendRequest),
    /// Show the daemon's state.
    Status,
    /// Say why nothing is injected.
    Why,
    /// Show the agent's screen as text.
    Screen {
        /// Keep colours (SGR sequences).
        #[serde(default)]
        ansi: bool,
    },
    /// Show messages, put some back, drop some.
    Inbox(InboxRequest),
    /// The same stream as `output.sock`.
    Subscribe(Wish),
    /// The older way of a hook to show a turn: published if the transcript does not show it within 2 s.
    Broadcast(BroadcastRequest),
    /// Read again what can change while the daemon runs.
    Reload,
    /// Do one of Claude's tools.
    Tool(ToolCall),
    /// A stream: the channels as they are, and again whenever they are others.
    Channels,
    /// A stream the other way: events of OpenCode, one a line, not answered.
    Opencode(OpencodeHello),
    /// Show what waits for somebody.
    Attention {
        /// Answer only once it is something else than this, or after 60 s.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unlike: Option<Standing>,
    },
    /// Say nothing about a session or a kind for a while.
    Mute(MuteRequest),
    /// Show what Claude asks and can be answered from afar, or answer it.
    Permission(PermissionRequest),
    /// Stop the running turn, as Esc does.
    Interrupt,
    /// Hear of notes and questions between agents.
    Notify(NotesNews),
    /// Send a test notice by a route, now.
    TestRoute {
        /// `[routes.NAME]`.
        route: String,
    },
    /// Open a container's directory, close it, show them, answer a question of one.
    Container(ContainerRequest),
    /// What a container says; on its own socket only.
    Guest(GuestRequest),
}

/// A turn as an older hook shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BroadcastRequest {
    /// Whose; only the owned session's is taken.
    pub session: SessionId,
    /// Content blocks.
    pub turn: Vec<Value>,
}

/// A message for the inbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SendRequest {
    /// The channel it is shown under; `default` if absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub channel: Option<String>,
    /// The text; it may hold newlines.
    pub content: String,
    /// The same id on the same channel is accepted once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<String>,
    /// When it was sent, Unix seconds or milliseconds, within 24 h of now; otherwise the time of arrival counts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ts: Option<f64>,
    /// Kept with the message, not shown to Claude.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub meta: Option<Value>,
    /// Reply only once this state was reached (or can't be reached any more).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wait: Option<MessageState>,
    /// Give up waiting after that many seconds; the message stays in the inbox.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeout_s: Option<u64>,
}

/// The answer to a request other than a hook's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Whether it was done.
    pub ok: bool,
    /// Why not: a word for programs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<ErrorCode>,
    /// Why not: a sentence for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// For `send`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub receipt: Option<Receipt>,
    /// For `send`: the id was known on its channel; the receipt is the first message's, and nothing was stored.
    #[serde(skip_serializing_if = "is_false", default)]
    pub duplicate: bool,
    /// For `send` with `wait: answered`: Claude's text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer: Option<String>,
    /// For `status`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<Box<Status>>,
    /// For `why`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<Box<Why>>,
    /// For `inbox`: the messages asked for, or as they are now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub messages: Option<Vec<InboxMessage>>,
    /// For `screen`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub screen: Option<String>,
    /// For `reload`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reload: Option<Reloaded>,
    /// For `tool`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<ToolDone>,
    /// For `attention` and `mute`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub attention: Option<Box<Standing>>,
    /// For `permission`: what can be answered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asks: Option<Vec<OpenAsk>>,
    /// For `permission` and `interrupt`: what was done, in a sentence; with `asks`: why there can be none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub done: Option<String>,
    /// For `container` and `guest`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub container: Option<Box<Containers>>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// What a reload did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// What was read again, and from where.
    pub reread: Vec<String>,
    /// What counts from the daemon's next start only.
    pub needs_restart: Vec<String>,
}

impl Reply {
    /// Done, nothing further to say.
    pub fn ok() -> Self {
        Self { ok: true, ..Self::default() }
    }

    /// Not done, with the reason.
    pub fn refused(code: ErrorCode, error: impl Into<String>) -> Self {
        Self { ok: false, code: Some(code), error: Some(error.into()), ..Self::default() }
    }
}

/// Why a request was not done, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The frame is no JSON, or not of a known form.
    BadFrame,
    /// The frame's version is not [`WIRE_VERSION`].
    BadVersion,
    /// Whoever speaks may not use this verb.
    NotAllowed,
    /// The message can't be taken (empty, too large, bad channel), what is asked can't be done to it, or what was to be
    /// read again is broken.
    Rejected,
    /// So many messages wait that no further one is taken now: the same may be tried again later.
    Full,
    /// The state waited for was not reached in time.
    TimedOut,
    /// The message ended `uncertain`.
    Uncertain,
    /// The daemon ends; nothing was done, and the next one may be asked the same.
    Stopping,
    /// The daemon failed; see its log.
    Internal,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_reads_as_documented() {
        let frame: Frame =
            serde_json::from_str(r#"{"v":1,"type":"send","content":"hi","channel":"phone"}"#).unwrap();
        let Request::Send(send) = frame.request else { panic!("{frame:?}") };
        assert_eq!((send.content.as_str(), send.channel.as_deref()), ("hi", Some("phone")));
    }

    #[test]
    fn a_request_without_fields_writes_its_type_alone() {
        let line = serde_json::to_string(&Frame::new(Request::Status)).unwrap();
        assert_eq!(line, r#"{"v":1,"type":"status"}"#);
    }

    #[test]
    fn a_hook_frame_keeps_its_payload() {
        let line =
            r#"{"v":1,"type":"hook","event":"Stop","token":"t","claude_pid":7,"payload":{"session_id":"s"}}"#;
        let frame: Frame = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&frame).unwrap(), line);
    }

    #[test]
    fn the_older_broadcast_has_no_version() {
        let line = r#"{"type":"broadcast","session":"s","turn":[{"type":"text","text":"hi"}]}"#;
        let Request::Broadcast(shown) = serde_json::from_str(line).unwrap() else { panic!("{line}") };
        assert_eq!((shown.session.as_str(), shown.turn.len()), ("s", 1));
    }

    #[test]
    fn an_unknown_type_is_an_error() {
        assert!(serde_json::from_str::<Frame>(r#"{"v":1,"type":"explode"}"#).is_err());
    }
}
