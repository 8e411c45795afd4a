//! The states of a message, and the receipt for one.

use serde::{Deserialize, Serialize};

use crate::channel::ChannelName;
use crate::id::Seq;

/// Where a message stands.
///
/// ```text
/// accepted ─► in_flight ─► delivered ─► answered
///    ▲           │  │
///    └───────────┘  ├─► uncertain ─► delivered
///  (redelivered)    └─► failed
/// accepted ─► expired
/// accepted, uncertain ─► failed       somebody dropped it
/// uncertain, failed ─► accepted       somebody wants it tried again: (redelivered)
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// Committed to the inbox.
    Accepted,
    /// Part of a batch that is being typed.
    InFlight,
    /// Claude Code itself proved that it took the message.
    Delivered,
    /// A turn that the message was delivered into has ended, with no background task left.
    Answered,
    /// It can't be proved either way; never sent again by itself.
    Uncertain,
    /// Given up: after repeated failures, or because somebody dropped it.
    Failed,
    /// The channel's time to live passed before it could be sent.
    Expired,
}

impl MessageState {
    /// All of them, in the order of a message's life.
    pub const ALL: [Self; 7] = [
        Self::Accepted,
        Self::InFlight,
        Self::Delivered,
        Self::Answered,
        Self::Uncertain,
        Self::Failed,
        Self::Expired,
    ];

    /// The word used in the database, in JSON and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::InFlight => "in_flight",
            Self::Delivered => "delivered",
            Self::Answered => "answered",
            Self::Uncertain => "uncertain",
            Self::Failed => "failed",
            Self::Expired => "expired",
        }
    }

    /// Reads the word of [`MessageState::word`].
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    /// Nothing further will happen to the message by itself.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Answered | Self::Uncertain | Self::Failed | Self::Expired)
    }
}

/// Who proved that Claude Code took a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// Its `UserPromptSubmit` hook named the text.
    Hook,
    /// Its transcript holds the text behind the offset of the paste.
    Transcript,
}

impl Proof {
    /// The word used in the database and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::Transcript => "transcript",
        }
    }
}

/// What whoever waits for a message is told. Times are Unix milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The id the sender gave, or the one ccmux made.
    pub id: String,
    /// The channel it came from.
    pub channel: ChannelName,
    /// Where it stands.
    pub state: MessageState,
    /// Who proved delivery, once delivered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub proof: Option<Proof>,
    /// Why it is not simply delivered: for `uncertain`, `failed` and `expired`; for `delivered`, why nothing will answer it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// When it was committed to the inbox.
    pub accepted_at: i64,
    /// When its batch was last typed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub injected_at: Option<i64>,
    /// When Enter was last pressed for it; unknown if the daemon was started again between Enter and proof.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub entered_at: Option<i64>,
    /// When delivery was proved.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delivered_at: Option<i64>,
    /// When the turn that answers it was published.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answered_at: Option<i64>,
    /// How long each leg of its way took, once it was typed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub legs: Option<Legs>,
    /// The line on `output.sock` that answers it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turn_seq: Option<Seq>,
}

impl Receipt {
    /// The receipt with its legs, from its times.
    pub fn with_legs(self) -> Self {
        let legs = Legs {
            queued_ms: span(Some(self.accepted_at), self.injected_at),
            typed_ms: span(self.injected_at, self.entered_at),
            proved_ms: span(self.entered_at, self.delivered_at),
            answered_ms: span(self.delivered_at, self.answered_at),
        };
        Self { legs: (legs != Legs::default()).then_some(legs), ..self }
    }

    /// Nothing further will happen to the message by itself: whoever waits has waited enough.
    pub fn goes_no_further(&self) -> bool {
        let is_unanswered = self.state == MessageState::Delivered && self.reason.is_some();
        self.state.is_final() || is_unanswered
    }
}

/// How long each leg of a message's way took, in milliseconds. A leg that was not gone, or whose ends are not both known,
/// is absent. Of several attempts the last one counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Legs {
    /// From the inbox to the prompt box: it waited for the gate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queued_ms: Option<u64>,
    /// From the prompt box to Enter: the box was seen to hold it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub typed_ms: Option<u64>,
    /// From Enter to the proof.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub proved_ms: Option<u64>,
    /// From the proof to the turn that answers it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answered_ms: Option<u64>,
}

/// The wall clock may have been set back meanwhile.
fn span(from: Option<i64>, to: Option<i64>) -> Option<u64> {
    Some(u64::try_from(to?.saturating_sub(from?)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_reads_back_from_its_word() {
        for word in ["accepted", "in_flight", "delivered", "answered", "uncertain", "failed", "expired"] {
            assert_eq!(MessageState::from_word(word).map(MessageState::word), Some(word));
            let json = serde_json::to_string(&MessageState::from_word(word)).unwrap();
            assert_eq!(json, format!("{word:?}"));
        }
        assert_eq!(MessageState::from_word("lost"), None);
    }

    fn receipt(json: &str) -> Receipt {
        serde_json::from_str(&format!(r#"{{"id":"a","channel":"x",{json}}}"#)).unwrap()
    }

    #[test]
    fn legs_are_the_spans_between_the_times_that_are_known() {
        let whole = receipt(
            r#""state":"answered","accepted_at":10,"injected_at":20,"entered_at":25,"delivered_at":37,"answered_at":100"#,
        );
        let json = serde_json::to_value(whole.with_legs().legs).unwrap();
        let expected = serde_json::json!({"queued_ms":10,"typed_ms":5,"proved_ms":12,"answered_ms":63});
        assert_eq!(json, expected);
        let found = receipt(r#""state":"delivered","accepted_at":10,"injected_at":20,"delivered_at":5"#);
        let legs = found.with_legs().legs.unwrap();
        assert_eq!((legs.queued_ms, legs.typed_ms, legs.proved_ms), (Some(10), None, None));
        assert_eq!(receipt(r#""state":"accepted","accepted_at":10"#).with_legs().legs, None);
    }
}
