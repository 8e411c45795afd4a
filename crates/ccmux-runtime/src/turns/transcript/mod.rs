//! Claude Code's transcripts: `~/.claude/projects/<cwd>/<session>.jsonl`, one line a content block.
//!
//! | module | what it does |
//! |---|---|
//! | [`open`] | opens what can be a transcript, refuses everything else |
//! | [`lines`] | whole lines of a growing file, bounded |
//! | [`mod@line`] | one line → what it says |
//! | [`scan`] | lines → a turn |
//! | [`history`] | which lines are old, although nobody read them |
//! | [`read`] | the above together: from a cursor, with patience for a late last line |
//! | [`find`] | the second witness: was this text taken as a prompt? |
//!
//! Knows no database, no subscriber and no inbox. Everything here blocks: callers are threads, not tasks.

pub mod find;
pub mod history;
pub mod line;
pub mod lines;
pub mod open;
pub mod read;
pub mod scan;

pub use find::{Compare, FoundElsewhere, Wanted, find_batch, find_elsewhere};
pub use open::{TranscriptError, open_transcript};
pub use read::{Cursor, Read, TranscriptReader, TurnRequest};
pub use scan::{ApiFailure, TurnBody, same_words, text_of, turns_in};

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
