//! The values that go into the inbox and come out of it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ccmux_wire::channel::ChannelName;
use ccmux_wire::id::{BatchId, MessageId, PromptId};
use ccmux_wire::receipt::Receipt;
use serde_json::Value;

use super::channels::Channels;

/// The limits of the inbox: `limits.*`, and its patience.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxSettings {
    /// The longest message as it was written, in bytes.
    pub message_bytes: u64,
    /// How many messages may wait.
    pub queue_messages: u64,
    /// How many bytes may wait; the last message may go over it.
    pub queue_bytes: u64,
    /// How long another program (the `sqlite3` tool) may hold the write lock before an order fails.
    pub busy_limit: Duration,
    /// What is particular about channels.
    pub channels: Channels,
    /// How long messages are kept.
    pub retention: Retention,
}

/// How long messages are kept that nothing will happen to any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Days after they came; 0: for ever.
    pub days: u64,
    /// Bytes of the database above which the oldest go; 0: no matter how many.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { days: 30, bytes: 1 << 30 }
    }
}

impl Default for InboxSettings {
    fn default() -> Self {
        Self {
            message_bytes: 256 * 1024,
            queue_messages: 10_000,
            queue_bytes: 64 * 1024 * 1024,
            busy_limit: Duration::from_secs(10),
            channels: Channels::default(),
            retention: Retention::default(),
        }
    }
}

/// What a message takes in a prompt, head included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Bytes.
    pub bytes: u64,
    /// Lines.
    pub rows: u32,
}

/// (channel, content as written) → content as Claude may get it.
pub type Normalise = dyn Fn(&ChannelName, &str) -> String + Send + Sync;

/// (shown channel, normalised content) → what it takes in a prompt.
pub type Measure = dyn Fn(&str, &str) -> Size + Send + Sync;

/// What the inbox needs to know about texts: called in the writer thread, once a message, before it is stored.
#[derive(Clone)]
pub struct Texts {
    /// (channel, content as written) → content as Claude may get it.
    pub normalise: Arc<Normalise>,
    /// (shown channel, normalised content) → what it takes in a prompt.
    pub measure: Arc<Measure>,
}

#[cfg(test)]
impl Texts {
    /// For tests of others: texts as they are, each as small as can be.
    pub(crate) fn plain() -> Self {
        Self {
            normalise: Arc::new(|_, text| text.to_owned()),
            measure: Arc::new(|_, _| Size { bytes: 1, rows: 1 }),
        }
    }
}

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Texts")
    }
}

/// A message that is to be accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    /// The channel it belongs to.
    pub channel: ChannelName,
    /// The channel as Claude is shown it.
    pub shown: String,
    /// The text as written.
    pub content: String,
    /// The sender's id: the same on the same channel is accepted once.
    pub id: Option<String>,
    /// Kept, not shown.
    pub meta: Option<Value>,
    /// When it was sent, Unix milliseconds.
    pub ts_ms: i64,
}

/// A message that is in the inbox now, or was already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Its row.
    pub message: MessageId,
    /// Where it stands.
    pub receipt: Receipt,
    /// The sender's id was known: this is the first message's receipt, nothing was stored.
    pub duplicate: bool,
}

/// A frame that can't be a message: to be alerted. (The inbox logs it.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The FIFO it came from.
    pub channel: ChannelName,
    /// Why, for people. Holds no text of the message.
    pub reason: String,
    /// Bytes of the frame.
    pub bytes: u64,
}

/// What became of bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ingested {
    /// Messages that were committed.
    pub accepted: u64,
    /// Messages whose id was known.
    pub duplicates: u64,
    /// Frames that can't be messages.
    pub rejected: Vec<Rejected>,
    /// Offset of the first byte that is not yet part of a message (or of a skipped line).
    pub cursor: u64,
    /// Offset behind the last byte that is in the database, as message or as the beginning of one: everything below is
    /// safe and need not be given again.
    pub received: u64,
    /// Something is held that [`super::Inbox::flush_quiet`] would accept: call it after 2 s without a byte.
    pub pending: bool,
}

/// A message as the composer of a prompt needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// Its row.
    pub id: MessageId,
    /// The channel it belongs to.
    pub channel: ChannelName,
    /// The channel as Claude is shown it.
    pub shown: String,
    /// The normalised text.
    pub content: String,
    /// When it was sent, Unix milliseconds.
    pub ts_ms: i64,
    /// It is tried again after doubt.
    pub redelivered: bool,
    /// The id as its sender knows it: the sender's own, or `m-<row>`.
    pub sender_id: String,
}

/// What must be remembered of the moment before a batch is pasted, to find it afterwards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mark {
    /// The session's transcript, if it is known.
    pub transcript_path: Option<PathBuf>,
    /// Its length: the batch can only be behind it.
    pub offset: u64,
    /// The agent's process.
    pub agent_pid: Option<i32>,
}

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchState {
    /// On its way.
    InFlight,
    /// Claude Code proved that it took it.
    Delivered,
    /// It can't be proved either way.
    Uncertain,
    /// It was provably not taken; its messages wait again.
    Requeued,
}

impl BatchState {
    /// The word used in the database.
    pub fn word(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Delivered => "delivered",
            Self::Uncertain => "uncertain",
            Self::Requeued => "requeued",
        }
    }

    /// Reads the word of [`BatchState::word`].
    pub(super) fn from_word(word: &str) -> Option<Self> {
        [Self::InFlight, Self::Delivered, Self::Uncertain, Self::Requeued]
            .into_iter()
            .find(|s| s.word() == word)
    }
}

/// A batch as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchRow {
    /// Its number.
    pub batch: BatchId,
    /// What became of it.
    pub state: BatchState,
    /// Messages whose latest batch it is, in order.
    pub messages: Vec<MessageId>,
    /// Where to look for it.
    pub mark: Mark,
    /// When it was recorded, before the paste; Unix milliseconds.
    pub began_at: i64,
    /// When it was typed, or may have been.
    pub pasted_at: Option<i64>,
    /// The prompt it became.
    pub prompt: Option<PromptId>,
    /// As it was pasted, byte for byte; empty once it is delivered or requeued.
    pub text: Arc<str>,
}
