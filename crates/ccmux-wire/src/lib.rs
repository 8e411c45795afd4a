//! What crosses a process boundary, and nothing else.
//!
//! | module | what it holds |
//! |---|---|
//! | [`afar`] | codes, and answers to what Claude asks |
//! | [`attention`] | what `ccmux attention` shows: what waits for somebody |
//! | [`channel`] | channel names and the file names they come from |
//! | [`halves`] | JSON of JavaScript's with half a character in it |
//! | [`id`] | the identifiers of messages, batches, sessions and prompts |
//! | [`inbound`] | bytes from a FIFO → frames → messages |
//! | [`container`] | what is asked about containers, and what they may say |
//! | [`control`] | requests and replies on `control.sock` |
//! | [`inbox`] | what `ccmux inbox` asks, and messages as it shows them |
//! | [`hook`] | the frame a hook sends and the reply it obeys |
//! | [`notes`] | what clients tell of notes and questions between agents |
//! | [`output`] | lines on `output.sock`: turns, alerts, the goodbye |
//! | [`receipt`] | the states of a message and the receipt for one |
//! | [`sender`] | three lines of older senders over TCP |
//! | [`status`] | what `ccmux status` and `ccmux why` show |
//! | [`tools`] | Claude's tools, and how `ccmux mcp` has them done |
//! | [`paths`] | where the daemon and its clients meet |
//!
//! This crate opens no file and no socket but for the lookup of [`paths`]; it knows no policy and no tmux.
#![deny(missing_docs)]

pub mod afar;
pub mod attention;
pub mod channel;
pub mod container;
pub mod control;
pub mod halves;
pub mod hook;
pub mod id;
pub mod inbound;
pub mod inbox;
pub mod notes;
pub mod output;
pub mod paths;
pub mod receipt;
pub mod sender;
pub mod status;
pub mod tools;

/// The version of every frame on `control.sock`. A peer that sends another one is told so.
pub const WIRE_VERSION: u32 = 1;
