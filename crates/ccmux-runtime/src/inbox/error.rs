//! Why the inbox did not do what it was asked.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use ccmux_wire::channel::ChannelName;
use ccmux_wire::id::{BatchId, MessageId};

use super::again::passes;
use super::message::BatchState;
use ccmux_wire::receipt::MessageState;

/// Why an order to the inbox failed. Nothing of it was done. Cheap to clone: a failed commit is told to its whole group.
#[derive(Debug, Clone, thiserror::Error)]
pub enum InboxError {
    /// SQLite said no: disk full, damaged, busy. Bytes of a failed `ingest` may be given again.
    #[error("inbox database: {what}: {source}")]
    Database {
        /// What was tried.
        what: &'static str,
        /// SQLite's words.
        source: Arc<rusqlite::Error>,
    },
    /// The file can't be made, opened or moved.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's words.
        source: Arc<io::Error>,
    },
    /// Something else stands where the database should be.
    #[error("{} is refused: {why}; move it away", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A newer ccmux wrote it.
    #[error("{} has schema {found}, this ccmux knows up to {known}: start the newer ccmux, or move the file away", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The writer thread can't be started.
    #[error("the inbox thread can't be started: {0}")]
    Thread(Arc<io::Error>),
    /// There is no such message.
    #[error("there is no message {0}")]
    NoMessage(MessageId),
    /// No message, or several, have the name that somebody gave.
    #[error("{0}")]
    Unnamed(String),
    /// What somebody asks can't be done to the message as it is.
    #[error("{message} is {}: {why}", state.word())]
    NotNow {
        /// As it was named.
        message: String,
        /// Where it stands.
        state: MessageState,
        /// Why not, and what to do.
        why: &'static str,
    },
    /// There is no such batch.
    #[error("there is no batch {0}")]
    NoBatch(BatchId),
    /// A batch of that number was begun before.
    #[error("batch {0} was begun before")]
    BatchExists(BatchId),
    /// A batch needs messages.
    #[error("batch {0} has no messages")]
    EmptyBatch(BatchId),
    /// The message's state does not allow it.
    #[error("message {message} is {}, it can't become {}", from.word(), to.word())]
    Illegal {
        /// Which message.
        message: MessageId,
        /// Its state.
        from: MessageState,
        /// The state asked for.
        to: MessageState,
    },
    /// The batch's state does not allow it.
    #[error("batch {batch} is {}, it can't become {}", from.word(), to.word())]
    IllegalBatch {
        /// Which batch.
        batch: BatchId,
        /// Its state.
        from: BatchState,
        /// The state asked for.
        to: BatchState,
    },
    /// The inbox was closed.
    #[error("the inbox is closed")]
    Closed,
}

impl InboxError {
    /// Tells what was being done when SQLite failed.
    pub(super) fn during(what: &'static str) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::Database { what, source: Arc::new(source) }
    }

    /// The database's own trouble, which may pass (disk full, busy): the same order may be given again.
    pub fn is_storage(&self) -> bool {
        matches!(self, Self::Database { .. })
    }

    /// Storage trouble that giving the order again can end.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Database { source, .. } if passes(source))
    }
}

/// Why a message was not accepted from `control.sock`.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AcceptError {
    /// Nothing in it that Claude could read.
    #[error("the message is empty")]
    Empty,
    /// Over `limits.message_bytes`.
    #[error("the message has {bytes} bytes, at most {limit} are allowed (limits.message_bytes)")]
    TooLarge {
        /// What it has.
        bytes: u64,
        /// What is allowed.
        limit: u64,
    },
    /// Over the channel's `max_bytes`.
    #[error(
        "the message has {bytes} bytes, at most {limit} are allowed on {channel} (channels.{channel}.max_bytes)"
    )]
    TooLargeForChannel {
        /// Where it was to go.
        channel: ChannelName,
        /// What it has.
        bytes: u64,
        /// What is allowed.
        limit: u64,
    },
    /// Not from one of the channel's `allowed` senders.
    #[error("its sender (meta.sender) may not write on {channel} (channels.{channel}.allowed)")]
    NotAllowed {
        /// Where it was to go.
        channel: ChannelName,
    },
    /// The sender's id.
    #[error("an id has 1 to {limit} bytes, this one has {bytes}")]
    BadId {
        /// What it has.
        bytes: usize,
        /// What is allowed.
        limit: usize,
    },
    /// Too much waits already.
    #[error("the inbox is full: {messages} messages, {bytes} bytes wait (limits.queue); try again later")]
    QueueFull {
        /// Messages that wait.
        messages: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// The inbox itself failed.
    #[error(transparent)]
    Inbox(#[from] InboxError),
}
