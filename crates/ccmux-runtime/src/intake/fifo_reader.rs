//! Moves the bytes of one FIFO to the sink.
//!
//! ```text
//!            readable                      2 s of quiet, something pending
//! following ─────────► read ≤ 64 KiB, ingest ─────────► flush_quiet
//!     │ closing: the FIFO vanished, or the daemon stops
//!     ▼
//! draining: what is in the pipe, then closed; if the FIFO vanished, flush_quiet before, so that what it left
//!           unfinished never joins the first line of the next FIFO of that name
//! ```
//!
//! When the daemon stops, what is unfinished stays so: the sink keeps it, the writer may go on after the restart.
//!
//! Nothing is read while the sink has not taken the last bytes: writers block, nothing is dropped.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::time::Duration;

use ccmux_wire::channel::ChannelName;
use ccmux_wire::status::Direction;
use nix::fcntl::OFlag;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::board::{ChannelBoard, OPEN};
use super::fifo::OpenFifo;
use super::sink::Sink;
use crate::readable::Readable;

/// What is unfinished after that long without a byte is accepted as it stands.
pub const QUIET: Duration = Duration::from_secs(2);

const CHUNK: usize = 64 * 1024;
/// A closing reader gives up that long after it was told.
pub(super) const DRAIN_LIMIT: Duration = Duration::from_millis(1_500);
/// How long a vanished FIFO is kept for a writer that has opened it and not written yet.
const LINGER: Duration = Duration::from_millis(200);
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LAST: Duration = Duration::from_secs(5);

/// The task that reads one FIFO. Ends after `closing`, or if the FIFO can't be read any more.
#[derive(Debug)]
pub struct FifoReader<S> {
    /// Whose bytes they are.
    pub channel: ChannelName,
    /// Where they come from.
    pub fifo: OpenFifo,
    /// Where they go.
    pub sink: Arc<S>,
    /// Where trouble is shown.
    pub board: ChannelBoard,
    /// Drain, then end.
    pub closing: CancellationToken,
    /// Whether it closes because the daemon stops.
    pub shutdown: CancellationToken,
    /// The reader of the FIFO that had this name before: it must have ended before the first byte is taken.
    pub predecessor: Option<JoinHandle<()>>,
}

impl<S: Sink> FifoReader<S> {
    /// Reads until told to close.
    pub async fn run(mut self) {
        if let Some(predecessor) = self.predecessor.take() {
            let _ = predecessor.await;
        }
        let channel = self.channel.clone();
        match self.follow().await {
            Ok(()) => tracing::info!(event = "channel.closed", %channel),
            Err(error) => tracing::warn!(event = "channel.closed", %channel, %error),
        }
    }

    async fn follow(self) -> io::Result<()> {
        let pipe = Readable::new(self.fifo.reader)?;
        let mut stream = Stream {
            channel: self.channel,
            sink: self.sink,
            board: self.board,
            closing: self.closing,
            offset: 0,
            quiet_at: None,
            give_up_at: None,
        };
        if !stream.start().await {
            return Err(io::Error::other("the inbox did not tell where to begin"));
        }
        let end = match stream.follow(&pipe).await {
            Ok(()) => drain(&mut stream, pipe).await,
            failed => failed,
        };
        if stream.quiet_at.is_some() && !self.shutdown.is_cancelled() {
            stream.flush().await;
        }
        end
    }
}

/// One channel's bytes on their way to the sink.
struct Stream<S> {
    channel: ChannelName,
    sink: Arc<S>,
    board: ChannelBoard,
    closing: CancellationToken,
    /// Bytes of this channel that the sink has taken.
    offset: u64,
    /// When what is pending is accepted as it stands.
    quiet_at: Option<Instant>,
    /// When a closing stream stops trying; set once it closes.
    give_up_at: Option<Instant>,
}

impl<S: Sink> Stream<S> {
    /// Returns false if it is too late to begin.
    async fn start(&mut self) -> bool {
        let mut trouble = Trouble::default();
        loop {
            match self.sink.start_offset(&self.channel).await {
                Ok(offset) => {
                    self.offset = offset;
                    self.resumed(&trouble);
                    tracing::info!(event = "channel.opened", channel = %self.channel, offset);
                    return true;
                }
                Err(error) => self.stalled(&trouble, &error.to_string()),
            }
            if !self.pause(&mut trouble).await {
                return false;
            }
        }
    }

    /// Until it closes.
    async fn follow(&mut self, pipe: &Readable) -> io::Result<()> {
        loop {
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return Ok(()),
                bytes = pipe.read(CHUNK) => self.take(bytes?).await,
                () = at(self.quiet_at) => self.flush().await,
            }
        }
    }

    async fn take(&mut self, bytes: Vec<u8>) {
        let mut trouble = Trouble::default();
        loop {
            match self.sink.ingest(&self.channel, self.offset, bytes.clone()).await {
                Ok(ingested) => {
                    self.offset += bytes.len() as u64;
                    self.quiet_at = ingested.pending.then(|| Instant::now() + QUIET);
                    return self.resumed(&trouble);
                }
                Err(error) => self.stalled(&trouble, &error.to_string()),
            }
            if !self.pause(&mut trouble).await {
                let bytes = bytes.len();
                return tracing::error!(event = "channel.bytes_lost", channel = %self.channel, bytes);
            }
        }
    }

    async fn flush(&mut self) {
        self.quiet_at = None;
        if let Err(error) = self.sink.flush_quiet(&self.channel).await {
            self.quiet_at = Some(Instant::now() + QUIET);
            tracing::warn!(event = "channel.stalled", channel = %self.channel, %error);
        }
    }

    /// Waits before the next try. Returns false if it is too late for one.
    async fn pause(&mut self, trouble: &mut Trouble) -> bool {
        let pause = trouble.next_pause();
        if self.give_up_at.is_none() {
            tokio::select! {
                () = sleep(pause) => return true,
                () = self.closing.cancelled() => {}
            }
        }
        let give_up_at = self.give_up_at();
        if Instant::now() >= give_up_at {
            return false;
        }
        sleep_until(give_up_at.min(Instant::now() + pause)).await;
        true
    }

    fn give_up_at(&mut self) -> Instant {
        *self.give_up_at.get_or_insert_with(|| Instant::now() + DRAIN_LIMIT)
    }

    fn stalled(&self, trouble: &Trouble, error: &str) {
        if trouble.tries == 0 {
            tracing::warn!(event = "channel.stalled", channel = %self.channel, error);
        }
        self.board.set(&self.channel, Direction::In, &format!("stalled: {error}"));
    }

    fn resumed(&self, trouble: &Trouble) {
        if trouble.tries > 0 {
            tracing::info!(event = "channel.resumed", channel = %self.channel);
            self.board.set(&self.channel, Direction::In, OPEN);
        }
    }
}

/// How often the sink has refused the same bytes.
#[derive(Debug, Default)]
struct Trouble {
    tries: u32,
}

impl Trouble {
    fn next_pause(&mut self) -> Duration {
        let pause = RETRY_FIRST.saturating_mul(1 << self.tries.min(8));
        self.tries += 1;
        pause.min(RETRY_LAST)
    }
}

/// Takes what is left in the pipe, within [`DRAIN_LIMIT`].
async fn drain<S: Sink>(stream: &mut Stream<S>, pipe: Readable) -> io::Result<()> {
    let give_up_at = stream.give_up_at();
    while Instant::now() < give_up_at {
        match pipe.read_now(CHUNK)? {
            Some(bytes) if !bytes.is_empty() => stream.take(bytes).await,
            _ => break,
        }
    }
    match without_writer(pipe) {
        Some(rest) => linger(stream, &rest).await,
        None => Ok(()),
    }
}

/// Reads on until the last writer has left or hesitates.
async fn linger<S: Sink>(stream: &mut Stream<S>, rest: &Readable) -> io::Result<()> {
    let give_up_at = stream.give_up_at();
    while let Ok(Ok(bytes)) = timeout_at(give_up_at, timeout(LINGER, rest.read(CHUNK))).await {
        match bytes? {
            bytes if bytes.is_empty() => break,
            bytes => stream.take(bytes).await,
        }
    }
    Ok(())
}

/// A FIFO that nobody can open any more, without our own write end: its end can be seen now. `None` if it still has a
/// name, or if the system can't do that (no `/proc`).
fn without_writer(pipe: Readable) -> Option<Readable> {
    if !cfg!(target_os = "linux") || nix::sys::stat::fstat(&pipe).ok()?.st_nlink > 0 {
        return None;
    }
    let path = format!("/proc/self/fd/{}", pipe.as_fd().as_raw_fd());
    let flags = OFlag::O_NONBLOCK.bits();
    let reader = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    drop(pipe);
    Readable::new(OwnedFd::from(reader)).ok()
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
