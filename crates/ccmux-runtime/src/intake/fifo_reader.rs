//! Moves the bytes of one FIFO to the channel's log, and from there to the sink.
//!
//! ```text
//! following:  FIFO ── splice, at most 1 MiB ahead ──► IntakeLog ──► Feed ──► sink
//!     │ closing: the FIFO vanished, or the daemon stops
//!     ▼
//! draining:   what is in the pipe goes into the log
//!     ▼
//! settling:   what is in the log goes to the sink. If the FIFO vanished: all of it, and what it left unfinished is
//!             accepted as it stands, so that it never joins the first line of the next FIFO of that name
//! ```
//!
//! When the daemon stops, what the sink has not taken stays in the log and what is unfinished in the sink: the next
//! daemon goes on with both, whether or not the FIFO is still there.
//!
//! While the sink takes nothing at most [`AHEAD`] bytes leave the FIFO: then writers block, nothing is dropped. While the
//! log can't be written (disk full, quota, no descriptor left) the bytes stay in the pipe.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ccmux_wire::channel::ChannelName;
use ccmux_wire::status::Direction;
use nix::fcntl::OFlag;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::board::{ChannelBoard, OPEN};
use super::feed::{Feed, at};
use super::fifo::OpenFifo;
use super::kept::Kept;
use super::log::{IntakeLog, IntakeLogs, LogError, SEGMENT};
use super::sink::Sink;
use super::trouble::Trouble;
use crate::disk::is_full;
use crate::readable::Readable;

/// Bytes that may have left the FIFO before the sink took them.
const AHEAD: u64 = SEGMENT;
/// A closing reader takes no more than that out of the pipe of somebody who goes on writing: it holds more than a pipe.
const DRAIN_BYTES: u64 = 4 * SEGMENT;
/// A reader that is told to close has left the pipe, and at shutdown the log too, that long afterwards.
pub(super) const DRAIN_LIMIT: Duration = Duration::from_millis(1_500);
/// How long a vanished FIFO is kept for a writer that has opened it and not written yet.
const LINGER: Duration = Duration::from_millis(200);
/// A sink that took nothing for that long is shown.
const FULL_AFTER: Duration = Duration::from_secs(1);

/// The task that reads one FIFO, or only what an earlier daemon left in the log. Ends after `closing`, or without a FIFO
/// when all is taken.
#[derive(Debug)]
pub struct FifoReader<S> {
    /// Whose bytes they are.
    pub channel: ChannelName,
    /// Where they come from.
    pub fifo: Option<OpenFifo>,
    /// Where they are kept meanwhile.
    pub logs: IntakeLogs,
    /// Where they go.
    pub sink: Arc<S>,
    /// Where trouble is shown.
    pub board: ChannelBoard,
    /// Drain, then end.
    pub closing: CancellationToken,
    /// The daemon stops.
    pub shutdown: CancellationToken,
    /// The reader of the FIFO that had this name before: it must have ended before the first byte is taken.
    pub predecessor: Option<JoinHandle<()>>,
    /// systemd holds the FIFO too; let go when this reader ends, unless the daemon does.
    pub kept: Option<Kept>,
}

impl<S: Sink> FifoReader<S> {
    /// Reads until told to close.
    pub async fn run(mut self) {
        if let Some(predecessor) = self.predecessor.take() {
            self.wait_for(predecessor).await;
        }
        let (channel, kept, shutdown) = (self.channel.clone(), self.kept.take(), self.shutdown.clone());
        let read = self.read().await;
        if let Some(kept) = kept.filter(|_| !shutdown.is_cancelled()) {
            kept.let_go();
        }
        match read {
            Ok(()) => tracing::info!(event = "channel.closed", %channel),
            Err(error) => tracing::warn!(event = "channel.closed", %channel, %error),
        }
    }

    async fn wait_for(&self, mut predecessor: JoinHandle<()>) {
        if timeout(FULL_AFTER, &mut predecessor).await.is_ok() {
            return;
        }
        let show = |state| self.board.set(&self.channel, Direction::In, state);
        if self.fifo.is_some() {
            show("full: the inbox has not taken all of the last FIFO of this name");
        }
        let _ = predecessor.await;
        if self.fifo.is_some() {
            show(OPEN);
        }
    }

    async fn read(mut self) -> io::Result<()> {
        let pipe = self.fifo.take().map(|fifo| Readable::new(fifo.reader)).transpose()?;
        let Some(mut stream) = self.open().await else {
            return Err(io::Error::other("the inbox did not tell where to begin"));
        };
        stream.adopt().await;
        if let Some(pipe) = pipe {
            stream.follow(&pipe).await;
            stream.drain(pipe).await;
        }
        stream.settle().await;
        let received = stream.feed.received();
        stream.log.close(received);
        Ok(())
    }

    /// `None` if the daemon stops before it is possible.
    async fn open(self) -> Option<Stream<S>> {
        let mut trouble = Trouble::none(&self.channel, &self.board);
        loop {
            match self.try_open().await {
                Ok((log, received, pending)) => {
                    trouble.over();
                    let (channel, behind) = (&self.channel, log.end().saturating_sub(received));
                    tracing::info!(event = "channel.opened", %channel, offset = received, behind);
                    return Some(self.stream(log, received, pending));
                }
                Err(error) => trouble.met(&error),
            }
            tokio::select! {
                () = trouble.pause_over() => {}
                () = self.shutdown.cancelled() => return None,
            }
        }
    }

    async fn try_open(&self) -> Result<(IntakeLog, u64, bool), String> {
        let received = self.sink.start_offset(&self.channel).await;
        let received = received.map_err(|error| error.to_string())?;
        let pending = self.sink.has_partial(&self.channel).await;
        let pending = pending.map_err(|error| error.to_string())?;
        let log = self.logs.open(&self.channel, received);
        Ok((log.map_err(|error| error.to_string())?, received, pending))
    }

    fn stream(self, log: IntakeLog, received: u64, pending: bool) -> Stream<S> {
        let trouble = || Trouble::none(&self.channel, &self.board);
        Stream {
            feed: Feed::new(self.channel.clone(), self.sink, received, pending, trouble()),
            disk: trouble(),
            log,
            full: Full::No,
            give_up_at: None,
            channel: self.channel,
            logs: self.logs,
            board: self.board,
            closing: self.closing,
            shutdown: self.shutdown,
        }
    }
}

/// One channel's bytes on their way.
struct Stream<S> {
    channel: ChannelName,
    logs: IntakeLogs,
    log: IntakeLog,
    feed: Feed<S>,
    board: ChannelBoard,
    closing: CancellationToken,
    shutdown: CancellationToken,
    /// What keeps bytes from the log.
    disk: Trouble,
    full: Full,
    /// When a closing stream stops trying; set once it closes.
    give_up_at: Option<Instant>,
}

/// Whether the log is as far ahead of the sink as it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    No,
    /// It is shown from then on.
    Until(Instant),
    Shown,
}

impl<S: Sink> Stream<S> {
    /// Until it closes.
    async fn follow(&mut self, pipe: &Readable) {
        loop {
            self.feed.offer(&self.log);
            self.note_full();
            let may_append = self.full == Full::No && !self.disk.pauses();
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                () = self.feed.step() => self.log.forget(self.feed.received()),
                moved = pipe.take_with(|fd| self.log.append_from(fd)), if may_append => self.appended(moved),
                () = self.disk.pause_over() => {}
                () = at(self.full.shown_at()) => self.show_full(),
            }
        }
    }

    fn appended(&mut self, moved: io::Result<usize>) {
        match moved {
            Ok(_) => {
                self.disk.over();
                self.board.disk.took();
            }
            Err(error) => {
                self.board.disk.failed(is_full(&error));
                self.disk.met(&format!("the intake log can't be written: {error}"));
                self.log.seal();
                self.log.forget(self.feed.received());
                // The rest of a line may be what can't be moved.
                self.feed.expect_more_at(self.disk.again_at().unwrap_or_else(Instant::now));
            }
        }
    }

    fn note_full(&mut self) {
        let is_full = self.log.end().saturating_sub(self.feed.received()) >= AHEAD;
        match (self.full, is_full) {
            (Full::No, true) => self.full = Full::Until(Instant::now() + FULL_AFTER),
            (Full::Until(_), false) => self.full = Full::No,
            (Full::Shown, false) => {
                self.full = Full::No;
                self.board.set(&self.channel, Direction::In, OPEN);
            }
            _ => {}
        }
    }

    fn show_full(&mut self) {
        self.full = Full::Shown;
        let state = "full: the inbox takes nothing more, writers wait";
        self.board.set(&self.channel, Direction::In, state);
    }

    /// Puts what is left in the pipe into the log, within [`DRAIN_LIMIT`].
    async fn drain(&mut self, pipe: Readable) {
        let give_up_at = Instant::now() + DRAIN_LIMIT;
        self.give_up_at = Some(give_up_at);
        let stop_at = self.log.end() + DRAIN_BYTES;
        while Instant::now() < give_up_at && self.log.end() < stop_at {
            match self.log.append_from(pipe.as_fd()) {
                Ok(0) => break,
                Ok(_) => self.disk.over(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                failed => {
                    self.appended(failed);
                    let _ = timeout_at(give_up_at, self.disk.pause_over()).await;
                }
            }
        }
        if let Some(rest) = without_writer(pipe) {
            self.linger(&rest, stop_at).await;
        }
    }

    /// Reads on until the last writer has left or hesitates.
    async fn linger(&mut self, rest: &Readable, stop_at: u64) {
        let give_up_at = self.give_up_at.unwrap_or_else(Instant::now);
        while self.log.end() < stop_at {
            let moved = timeout(LINGER, rest.take_with(|fd| self.log.append_from(fd)));
            match timeout_at(give_up_at, moved).await {
                Ok(Ok(Ok(0))) | Ok(Err(_)) | Err(_) => return,
                Ok(Ok(moved)) => self.appended(moved),
            }
            let _ = timeout_at(give_up_at, self.disk.pause_over_if_any()).await;
        }
    }

    /// Until the sink has taken all that is in the log, and what is unfinished too unless the daemon stops: then at most
    /// until the limit.
    async fn settle(&mut self) -> bool {
        let (shutdown, give_up_at) = (self.shutdown.clone(), self.give_up_at);
        let too_late = async move {
            shutdown.cancelled().await;
            sleep_until(give_up_at.unwrap_or_else(Instant::now)).await;
        };
        tokio::pin!(too_late);
        loop {
            self.feed.offer(&self.log);
            if !self.shutdown.is_cancelled() {
                self.feed.end_quiet();
            }
            let unfinished = self.feed.is_pending() && !self.shutdown.is_cancelled();
            if self.feed.has_taken(&self.log) && !unfinished {
                return true;
            }
            tokio::select! {
                () = self.feed.step() => self.log.forget(self.feed.received()),
                () = &mut too_late => return false,
            }
        }
    }

    /// Gives files that were adopted for this channel their place in its stream: behind everything that came before.
    async fn adopt(&mut self) {
        let staged = match self.logs.staged(&self.channel) {
            Ok(staged) if staged.is_empty() => return,
            Ok(staged) => staged,
            Err(error) => return self.not_adopted(&error),
        };
        self.feed.end_line();
        if !self.settle().await {
            return;
        }
        if let Err(error) = self.place(&staged) {
            self.not_adopted(&error);
        }
    }

    fn place(&mut self, staged: &[PathBuf]) -> Result<(), LogError> {
        for file in staged {
            let bytes = self.log.adopt(file)?;
            tracing::info!(event = "channel.adopted_file_read", channel = %self.channel, bytes);
        }
        Ok(())
    }

    /// They stay where they are, for the next reader of the channel.
    fn not_adopted(&self, error: &LogError) {
        tracing::error!(event = "channel.adoption_failed", channel = %self.channel, %error);
    }
}

impl Full {
    fn shown_at(self) -> Option<Instant> {
        match self {
            Self::Until(instant) => Some(instant),
            Self::No | Self::Shown => None,
        }
    }
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
