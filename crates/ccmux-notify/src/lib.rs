//! What agents of one repository leave for each other: notes for whoever listens, a doorbell, and questions. Works with
//! and without a daemon: files, locks and FIFOs are all there is.
//!
//! ```text
//! notify ─ rings ──► doorbell ─┐               <repository>/.ccmux/notify/
//!        └ appends ► queue.jsonl ─► listen ─► stdout, then out of the queue
//! ask    ─ appends ► questions.jsonl ◄─ answer ─ rings ► doorbell.q-… ─► ask --wait
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`repository`] | from a directory to the repository's own place for notes; worktrees share it |
//! | [`git_dir`], [`git_config`] | whether a git directory that a file names belongs to that place |
//! | [`folder`] | that place: files opened without following links, and its locks |
//! | [`note`] | one line of the queue |
//! | [`queue`] | what waits to be listened to: the truth |
//! | [`bell`] | the FIFO that wakes who listens |
//! | [`listener`] | takes notes, or waits for some at no cost |
//! | [`question`] | what was asked, and what became of it |
//!
//! It knows no daemon, no session and no terminal.
#![deny(missing_docs)]

pub mod bell;
pub mod folder;
mod git_config;
mod git_dir;
pub mod listener;
pub mod note;
pub mod question;
pub mod queue;
pub mod repository;
