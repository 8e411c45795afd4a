//! Hands the bytes of an intake log to the sink, in order, one call at a time.
//!
//! ```text
//!            the log has more                          2 s of quiet, something pending
//! idle ─────────────────────► Errand::Ingest ──► idle ────────────────────────────────► Errand::Flush
//!                                    └ refused ──► pause (0.1 s .. 5 s) ──► the same bytes again
//! ```
//!
//! The errand lives here and not in [`Feed::step`], so that whoever waits for it may wait for something else meanwhile.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ccmux_wire::channel::ChannelName;
use tokio::time::{Instant, sleep_until};

use super::log::IntakeLog;
use super::sink::{Ingested, Sink, SinkError};
use super::trouble::Trouble;

/// What is unfinished after that long without a byte is accepted as it stands.
pub const QUIET: Duration = Duration::from_secs(2);

type Answer = Pin<Box<dyn Future<Output = Result<Ingested, SinkError>> + Send>>;

/// What the sink is doing for us.
enum Errand {
    /// Taking the bytes below that offset.
    Ingest(u64, Answer),
    /// Accepting what is unfinished.
    Flush(Answer),
}

/// One channel's bytes on their way from the log to the sink.
pub(super) struct Feed<S> {
    channel: ChannelName,
    sink: Arc<S>,
    /// Bytes of this channel that the sink has taken.
    received: u64,
    errand: Option<Errand>,
    /// When what is pending is accepted as it stands.
    quiet_at: Option<Instant>,
    /// Silence before that says nothing: the bytes that would break it can't be moved.
    no_quiet_before: Instant,
    trouble: Trouble,
}

impl<S: Sink> Feed<S> {
    /// Goes on behind what the sink has taken; `pending`: it holds something unfinished.
    pub(super) fn new(
        channel: ChannelName,
        sink: Arc<S>,
        received: u64,
        pending: bool,
        trouble: Trouble,
    ) -> Self {
        let now = Instant::now();
        let quiet_at = pending.then(|| now + QUIET);
        Self { channel, sink, received, errand: None, quiet_at, no_quiet_before: now, trouble }
    }

    /// How far the sink is.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Offers what is next in the log, unless the sink is busy or wants a pause.
    pub(super) fn offer(&mut self, log: &IntakeLog) {
        if self.errand.is_some() || self.trouble.pauses() {
            return;
        }
        match log.next(self.received) {
            Ok(Some((offset, bytes))) => self.ingest(offset, bytes),
            Ok(None) => {}
            Err(error) => self.trouble.met(&error.to_string()),
        }
    }

    /// Until something changed: the sink answered, a pause or the quiet is over. Cancel safe.
    pub(super) async fn step(&mut self) {
        match &mut self.errand {
            Some(Errand::Ingest(end, answer)) => {
                let (end, answer) = (*end, answer.await);
                self.ingested(end, answer);
            }
            Some(Errand::Flush(answer)) => {
                let answer = answer.await;
                self.flushed(answer);
            }
            None if self.trouble.pauses() => self.trouble.pause_over().await,
            None => {
                at(self.quiet_at.map(|quiet_at| quiet_at.max(self.no_quiet_before))).await;
                self.flush();
            }
        }
    }

    /// Bytes may wait that are moved then at the earliest: what is unfinished waits for them.
    pub(super) fn expect_more_at(&mut self, instant: Instant) {
        self.no_quiet_before = self.no_quiet_before.max(instant + QUIET);
    }

    /// What is unfinished will not be finished.
    pub(super) fn end_quiet(&mut self) {
        self.no_quiet_before = Instant::now();
        self.quiet_at = self.quiet_at.map(|_| Instant::now());
    }

    /// What is unfinished, by this daemon or an earlier one, will not be finished.
    pub(super) fn end_line(&mut self) {
        self.no_quiet_before = Instant::now();
        self.quiet_at = Some(Instant::now());
    }

    /// Whether the sink has taken everything that is in the log.
    pub(super) fn has_taken(&self, log: &IntakeLog) -> bool {
        self.errand.is_none() && self.received >= log.end()
    }

    /// Whether the sink holds something unfinished.
    pub(super) fn is_pending(&self) -> bool {
        self.quiet_at.is_some()
    }

    fn ingest(&mut self, offset: u64, bytes: Vec<u8>) {
        let end = offset + bytes.len() as u64;
        let (sink, channel) = (Arc::clone(&self.sink), self.channel.clone());
        let answer = Box::pin(async move { sink.ingest(&channel, offset, bytes).await });
        self.quiet_at = None;
        self.errand = Some(Errand::Ingest(end, answer));
    }

    fn flush(&mut self) {
        let (sink, channel) = (Arc::clone(&self.sink), self.channel.clone());
        let flushed = async move { sink.flush_quiet(&channel).await };
        let answer = Box::pin(async move { flushed.await.map(|()| Ingested::default()) });
        self.errand = Some(Errand::Flush(answer));
    }

    fn ingested(&mut self, end: u64, answer: Result<Ingested, SinkError>) {
        self.errand = None;
        match answer {
            Ok(ingested) => {
                self.received = end;
                self.quiet_at = ingested.pending.then(|| Instant::now() + QUIET);
                self.trouble.over();
            }
            Err(error) => self.trouble.met(&error.to_string()),
        }
    }

    fn flushed(&mut self, answer: Result<Ingested, SinkError>) {
        self.errand = None;
        match answer {
            Ok(_) => {
                self.quiet_at = None;
                self.trouble.over();
            }
            Err(error) => self.trouble.met(&error.to_string()),
        }
    }
}

impl<S> fmt::Debug for Feed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Feed({}, {})", self.channel, self.received)
    }
}

pub(super) async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
