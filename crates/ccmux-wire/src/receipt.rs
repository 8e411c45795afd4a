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
    /// Given up after repeated failures.
    Failed,
    /// The channel's time to live passed before it could be sent.
    Expired,
}

impl MessageState {
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
        [
            Self::Accepted,
            Self::InFlight,
            Self::Delivered,
            Self::Answered,
            Self::Uncertain,
            Self::Failed,
            Self::Expired,
        ]
        .into_iter()
        .find(|state| state.word() == word)
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
    /// Why it is not simply delivered: for `uncertain`, `failed` and `expired`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// When it was committed to the inbox.
    pub accepted_at: i64,
    /// When its batch was last typed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub injected_at: Option<i64>,
    /// When delivery was proved.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delivered_at: Option<i64>,
    /// The line on `output.sock` that answers it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turn_seq: Option<Seq>,
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
}
