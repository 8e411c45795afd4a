//! Where the bytes of channels go: the inbox, or a fake in tests.

use std::future::Future;

use ccmux_wire::channel::ChannelName;

/// What became of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ingested {
    /// Something unfinished waits (a line without a newline, an open NUL frame): after some quiet it is accepted as it
    /// stands.
    pub pending: bool,
}

/// The sink can't take them now; the same bytes are offered again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SinkError(pub String);

/// Takes the bytes of channels. One caller a channel at a time. What is unfinished must survive the daemon: nobody
/// flushes it at shutdown.
pub trait Sink: Send + Sync + 'static {
    /// How many bytes of the channel were taken over all times: where the next ones begin.
    fn start_offset(&self, channel: &ChannelName) -> impl Future<Output = Result<u64, SinkError>> + Send;

    /// Whether something of the channel is unfinished, from an earlier daemon.
    fn has_partial(&self, channel: &ChannelName) -> impl Future<Output = Result<bool, SinkError>> + Send;

    /// Takes bytes that begin at `offset` of the channel's stream. Returns only when they are safe, and, if the queue
    /// is full, not before there is room: nothing more is read until then. After an error the same call comes again.
    fn ingest(
        &self,
        channel: &ChannelName,
        offset: u64,
        bytes: Vec<u8>,
    ) -> impl Future<Output = Result<Ingested, SinkError>> + Send;

    /// Accepts what is unfinished as it stands: nothing came for a while, or nothing will.
    fn flush_quiet(&self, channel: &ChannelName) -> impl Future<Output = Result<(), SinkError>> + Send;
}
