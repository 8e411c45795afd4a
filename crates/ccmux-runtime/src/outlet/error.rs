//! Why a message did not leave, in sentences that Claude can act on.

use std::io;
use std::time::Duration;

use ccmux_wire::channel::ChannelName;

use super::MESSAGE_BYTES;
use crate::intake::FifoRefused;

/// Why a message did not leave. Its text is what Claude sees.
#[derive(Debug, thiserror::Error)]
pub enum OutletError {
    /// There is no FIFO of that name.
    #[error("there is no channel {channel:?} to send to; {there}")]
    NoSuchChannel {
        /// What was asked for.
        channel: String,
        /// What there is.
        there: String,
    },
    /// Nobody has the FIFO open for reading.
    #[error(
        "nobody is listening on {channel}: no program reads out.{channel} (waited {waited_s} s); nothing was sent, \
         try again later or tell the user"
    )]
    NobodyListens {
        /// The channel.
        channel: ChannelName,
        /// How long it was tried.
        waited_s: f64,
    },
    /// Over the limit.
    #[error(
        "the message is too large: {bytes} bytes, the limit is {MESSAGE_BYTES}; nothing was sent, send less or in parts"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// What stands in the FIFO's place is not one of ours.
    #[error("out.{channel} is refused: {why}; nothing was sent, tell the user")]
    Refused {
        /// The channel.
        channel: ChannelName,
        /// What is wrong with it.
        why: String,
    },
    /// The reader does not read, and nothing of the message is in the pipe.
    #[error(
        "the program that reads {channel} does not read: its pipe is full; nothing was sent, try again later or tell the user"
    )]
    Full {
        /// The channel.
        channel: ChannelName,
    },
    /// The reader stopped or left in the middle.
    #[error(
        "the program that reads {channel} {how} after {written} of {bytes} bytes: it has only a part of the message; \
         send it again if it matters, or tell the user"
    )]
    Torn {
        /// The channel.
        channel: ChannelName,
        /// `stopped reading` or `left`.
        how: &'static str,
        /// How much is in the pipe.
        written: usize,
        /// How much there is.
        bytes: usize,
    },
    /// The system said no.
    #[error("out.{channel} can't be written: {source}; tell the user")]
    Io {
        /// The channel.
        channel: ChannelName,
        /// What it said.
        source: io::Error,
    },
    /// Whoever asked doesn't wait any more; nobody sees this but the log.
    #[error("the caller left before anybody listened; nothing was sent")]
    CallerGone,
    /// The daemon ends.
    #[error("ccmux is being stopped; nothing was sent, try again later")]
    Stopping,
}

impl OutletError {
    pub(super) fn no_such_channel(channel: &str, there: &[ChannelName]) -> Self {
        let names: Vec<&str> = there.iter().map(ChannelName::as_str).collect();
        let there = match names.as_slice() {
            [] => "no channel takes messages now (no program has made an out.NAME FIFO)".to_owned(),
            _ => format!("these take messages: {}", names.join(", ")),
        };
        let channel = channel.chars().take(100).collect();
        Self::NoSuchChannel { channel, there }
    }

    pub(super) fn nobody(channel: &ChannelName, waited: Duration) -> Self {
        Self::NobodyListens { channel: channel.clone(), waited_s: waited.as_secs_f64() }
    }

    pub(super) fn refused(channel: &ChannelName, refused: &FifoRefused) -> Self {
        let why = match refused {
            // What the intake says of such a file is about messages that come in.
            FifoRefused::RegularFile => FifoRefused::Kind("a regular file").to_string(),
            other => other.to_string(),
        };
        Self::Refused { channel: channel.clone(), why }
    }
}
