//! Finds FIFOs in the runtime directory and moves their bytes to the inbox.
//!
//! ```text
//! Registry ── sees in.telegram ──► FifoReader ── 64 KiB at a time ──► Sink::ingest(channel, offset, bytes)
//!     └── ChannelBoard: what is open, what was refused and why ──► ccmux channels
//! ```
//!
//! Knows no lines, no JSON, no messages: a channel is a stream of bytes with an offset.

mod board;
mod fifo;
mod fifo_reader;
mod registry;
mod sink;
#[cfg(test)]
mod tests;

pub use board::ChannelBoard;
pub(crate) use fifo::check as check_fifo;
pub use fifo::{FifoRefused, OpenFifo};
pub use fifo_reader::{FifoReader, QUIET};
pub use registry::{MAX_CHANNELS, Registry};
pub use sink::{Ingested, Sink, SinkError};
