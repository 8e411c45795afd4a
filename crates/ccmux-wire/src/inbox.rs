//! What `ccmux inbox` asks, and how a message of the inbox is shown.
//!
//! A message is named by the id that its sender knows (its own, or `m-ROW`), or by `CHANNEL/ID` where several channels
//! know the same one.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::channel::ChannelName;
use crate::id::BatchId;
use crate::receipt::{MessageState, Receipt};

/// The most messages that a list shows, and how many it shows if nobody says.
pub const LIST_AT_MOST: u32 = 1_000;
/// How many it shows if nobody says.
pub const LIST_BY_DEFAULT: u32 = 50;

/// What is asked of the inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum InboxRequest {
    /// The latest messages, newest first.
    List {
        /// Only those in this state.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        state: Option<MessageState>,
        /// Only those of this channel.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        channel: Option<ChannelName>,
        /// So many; [`LIST_BY_DEFAULT`] if absent, at most [`LIST_AT_MOST`].
        #[serde(skip_serializing_if = "Option::is_none", default)]
        limit: Option<u32>,
    },
    /// One message with its text.
    Show {
        /// Which.
        message: String,
    },
    /// Messages that are uncertain or failed wait again, as `(redelivered)`. All of them, or none.
    Retry {
        /// Which.
        messages: Vec<String>,
    },
    /// Messages that wait, or are uncertain or failed, are given up. All of them, or none.
    Drop {
        /// Which.
        messages: Vec<String>,
    },
}

/// A message of the inbox as people and programs are shown it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InboxMessage {
    /// Id, channel, state, times.
    #[serde(flatten)]
    pub receipt: Receipt,
    /// The channel as Claude is shown it, if that is not its name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shown: Option<String>,
    /// It is, or was, tried again after doubt.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub redelivered: bool,
    /// How often a batch with it failed.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub failures: u32,
    /// The batch that it was last typed in.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub batch: Option<BatchId>,
    /// Bytes that it takes in a prompt.
    pub bytes: u64,
    /// The beginning of the text.
    pub preview: String,
    /// The text as Claude gets it; `show` only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub content: Option<String>,
    /// What the sender gave with it; `show` only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub meta: Option<Value>,
    /// When it was sent, Unix milliseconds; `show` only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sent_at: Option<i64>,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

#[cfg(test)]
mod tests {
    use crate::control::{Frame, Request};

    use super::*;

    #[test]
    fn requests_read_as_documented() {
        let read = |line: &str| match serde_json::from_str::<Frame>(line).unwrap().request {
            Request::Inbox(request) => request,
            other => panic!("{other:?}"),
        };
        let all = InboxRequest::List { state: None, channel: None, limit: None };
        assert_eq!(read(r#"{"v":1,"type":"inbox","verb":"list"}"#), all);
        let failed = InboxRequest::List { state: Some(MessageState::Failed), channel: None, limit: Some(3) };
        assert_eq!(read(r#"{"v":1,"type":"inbox","verb":"list","state":"failed","limit":3}"#), failed);
        let again = InboxRequest::Retry { messages: vec!["m-1".to_owned()] };
        let line = serde_json::to_string(&Frame::new(Request::Inbox(again.clone()))).unwrap();
        assert_eq!(line, r#"{"v":1,"type":"inbox","verb":"retry","messages":["m-1"]}"#);
        assert_eq!(read(&line), again);
    }
}
