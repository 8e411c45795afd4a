//! The database of messages: accepted once, delivered once.
//!
//! ```text
//! FIFO bytes ─ ingest ─┐                                        ┌─► Event::MessageAccepted, in row order
//! control.sock accept ─┼─► writer thread ─ one COMMIT a group ──┼─► receipts (subscribe, wait_for)
//! batch transitions ───┘   owns the connection and the framers  └─► replies to the callers
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `handle` | [`Inbox`], the async handle |
//! | `message` | the values that go in and out |
//! | `state` | which state may follow which |
//! | `database` | the file: made, checked, migrated, moved aside when damaged |
//! | `writer` | the thread and its group commit |
//! | `forward` | events on their way from there to the event loop |
//! | `intake` | bytes → frames → rows, and the parse cursor |
//! | `answers` | lines that answer an ask of Claude's, and are no messages |
//! | `batches` | what becomes of a batch |
//! | `channels` | what is particular about a channel: who may write, how long, for how long |
//! | `by_hand` | `ccmux inbox`: messages that people look at, have tried again, drop |
//! | `retention` | forgets what is over |
//! | `mending` | the file is removed, replaced or damaged under a running daemon |
//! | `caretaker` | the task that looks after the file when nothing is ordered |
//! | `rows` | rows → values |
//! | `again` | patience with a database that is locked or full |
//!
//! `inbox.db` is SQLite in WAL mode with `synchronous=FULL`; the `sqlite3` tool may read it while the daemon runs:
//! `sqlite3 inbox.db "SELECT id, channel, state, content FROM messages ORDER BY id DESC LIMIT 9"`.
//!
//! What it does not know: tmux, transcripts, when to inject, how a prompt is composed. Sanitising and measuring texts
//! come in as [`Texts`].

mod again;
mod answers;
mod batches;
mod by_hand;
mod caretaker;
mod channels;
mod database;
mod error;
mod forward;
mod handle;
mod intake;
mod mending;
mod message;
mod retention;
mod rows;
#[cfg(feature = "sabotage")]
mod sabotage;
mod state;
mod writer;

pub(crate) use again::{passes, stopped, until_done};
pub use answers::{AnswerLine, AnswersLeft, IsAnswer};
pub use batches::Proved;
pub use by_hand::Selection;
pub use caretaker::Caretaker;
pub use channels::{ChannelPolicy, Channels};
pub use error::{AcceptError, InboxError};
pub use handle::{Inbox, Opened};
pub use message::{
    Accepted, BatchRow, BatchState, Body, InboxSettings, Ingested, Mark, Measure, NewMessage, Normalise,
    Rejected, Retention, Size, Texts,
};
pub use retention::Forgotten;
pub use state::may_become;

#[cfg(test)]
mod tests;
