//! Finds FIFOs in the runtime directory and moves their bytes to the inbox, so that a daemon that dies loses none.
//!
//! ```text
//! Registry ── sees in.telegram ──► FifoReader ── splice ──► IntakeLog ──► Feed ──► Sink::ingest(channel, offset, bytes)
//!     │                                                     (survives the process)  (commits; says how far it is)
//!     ├── FifoStore: systemd holds each FIFO open too, over the daemon's end
//!     ├── sees a regular file in.x ──► Adoption ── becomes a piece of x's log, a FIFO takes its place
//!     └── ChannelBoard: what is open, what was refused and why ──► ccmux channels
//! ```
//!
//! At the start every log is compared with what the sink has: the rest is ingested before anything newer, whether or not
//! the channel's FIFO is still there. What no log can cover: bytes in a pipe that nobody else holds open when the daemon
//! dies (the system drops them), power loss, and where there is no splice(2) the moment between read and write.
//!
//! Knows no lines, no JSON, no messages: a channel is a stream of bytes with an offset.

mod adoption;
mod board;
mod feed;
mod fifo;
mod fifo_reader;
mod kept;
mod log;
mod registry;
mod sink;
#[cfg(test)]
mod tests;
mod trouble;

pub use board::ChannelBoard;
pub use feed::QUIET;
pub(crate) use fifo::check as check_fifo;
pub use fifo::{FifoRefused, OpenFifo};
pub use fifo_reader::FifoReader;
pub use kept::{FifoStore, Kept};
pub use log::{IntakeLogs, LogError};
pub use registry::{MAX_CHANNELS, Registry};
pub use sink::{Ingested, Sink, SinkError};
