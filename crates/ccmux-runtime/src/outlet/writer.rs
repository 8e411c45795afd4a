//! The writer of one channel: one message after the other, each whole or an error.
//!
//! ```text
//!            letter               reader there            all written
//! closed ──────────► opening ──────────────────► writing ───────────► lingering ──► closed
//!                       │ out.wait passed           │ 5 s passed, or the reader left
//!                       ▼                           ▼
//!                  nobody listens               torn: the next message begins with a newline
//! ```

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ccmux_wire::channel::ChannelName;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::fifo::{NotOpen, OutFifo};
use super::{OutletError, OutletSettings, Rules};
use crate::body::logged;
use crate::clock::unix_ms;
use crate::intake::FifoRefused;
use crate::runtime_dir::FileId;

/// First and longest pause between two tries to open a FIFO that nobody reads.
const RETRY: Duration = Duration::from_millis(2);
const RETRY_CAP: Duration = Duration::from_millis(50);

/// A message that was begun when the daemon is stopped gets this long.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What is in a pipe when the daemon is stopped is held that long for whoever reads it, and looked at that often.
const LAST_READ: Duration = Duration::from_secs(1);
const LAST_LOOKS: Duration = Duration::from_millis(10);

/// What nobody has read is held, and looked at again at most that rarely.
const LINGER_CAP: Duration = Duration::from_secs(60);

/// Whoever waits for the outcome.
type Caller = oneshot::Sender<Result<(), OutletError>>;

/// One message, and whom to tell.
#[derive(Debug)]
pub(super) struct Letter {
    message: String,
    sent_at: Instant,
    answer: Caller,
}

impl Letter {
    pub fn new(message: String, answer: Caller) -> Self {
        Self { message, sent_at: Instant::now(), answer }
    }
}

/// The task.
#[derive(Debug)]
pub(super) struct ChannelWriter {
    /// Whose it is.
    pub channel: ChannelName,
    /// The FIFO.
    pub path: PathBuf,
    /// What is to be written.
    pub letters: mpsc::Receiver<Letter>,
    /// What counts for the next message.
    pub rules: Arc<Rules>,
    /// How patient it is.
    pub settings: OutletSettings,
    /// Messages are lines of JSON.
    pub json: bool,
    /// Ends it.
    pub shutdown: CancellationToken,
}

/// What is known of the FIFO between two messages.
#[derive(Debug, Default)]
struct Held {
    fifo: Option<OutFifo>,
    /// Which FIFO has the beginning of a message whose end never came.
    torn: Option<FileId>,
    /// The reader let the last message stand: the next one doesn't wait for it again.
    stalled: bool,
}

fn json_line(message: &str) -> String {
    format!("{}\n", serde_json::json!({ "content": message, "ts": unix_ms().0 / 1000 }))
}

impl ChannelWriter {
    /// Runs until shutdown, and until what it wrote is read or the time for that is over.
    pub async fn run(mut self) {
        let mut held = Held::default();
        self.write_until_shutdown(&mut held).await;
        // Those whose turn did not come are told so now, not after the wait.
        self.letters.close();
        while self.letters.try_recv().is_ok() {}
        self.hold_what_is_unread(&held).await;
    }

    /// A message that is in the pipe was told as sent, and the pipe forgets it when its last end is closed.
    async fn hold_what_is_unread(&self, held: &Held) {
        let Some(fifo) = &held.fifo else { return };
        let until = Instant::now() + LAST_READ;
        while fifo.unread() > 0 && fifo.is_at(&self.path) {
            if Instant::now() >= until {
                tracing::warn!(event = "answer.unread", channel = %self.channel, bytes = fifo.unread());
                return;
            }
            sleep(LAST_LOOKS).await;
        }
    }

    async fn write_until_shutdown(&mut self, held: &mut Held) {
        let mut linger = self.settings.linger;
        loop {
            let letter = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return,
                letter = self.letters.recv() => letter,
                () = sleep(linger), if held.fifo.is_some() => {
                    linger = self.let_go(held, linger);
                    continue;
                }
            };
            let Some(letter) = letter else { return };
            (self.settings, self.json) = self.rules.of(&self.channel);
            linger = self.settings.linger;
            if !letter.answer.is_closed() {
                self.deliver(letter, held).await;
            }
        }
    }

    /// Closes the FIFO, unless that would throw away what is still in it. Returns when to look again.
    fn let_go(&self, held: &mut Held, linger: Duration) -> Duration {
        let keep = held.fifo.as_ref().is_some_and(|fifo| fifo.is_at(&self.path) && fifo.unread() > 0);
        if keep {
            return (linger * 2).clamp(Duration::from_millis(100), LINGER_CAP);
        }
        held.fifo = None;
        self.settings.linger
    }

    async fn deliver(&self, letter: Letter, held: &mut Held) {
        let Letter { message, sent_at, mut answer } = letter;
        let line = if self.json { json_line(&message) } else { format!("{message}\n") };
        let bytes = line.len();
        let written = self.write(&line, sent_at, &mut answer, held).await;
        match &written {
            Ok(()) => {
                let body = logged(&message);
                tracing::info!(event = "answer.written", channel = %self.channel, bytes, body);
            }
            Err(error) => tracing::warn!(event = "answer.refused", channel = %self.channel, bytes, %error),
        }
        let _ = answer.send(written);
    }

    async fn write(
        &self,
        message: &str,
        sent_at: Instant,
        caller: &mut Caller,
        held: &mut Held,
    ) -> Result<(), OutletError> {
        let patience = sent_at + self.settings.wait;
        loop {
            let fifo = match held.fifo.take().filter(|fifo| fifo.is_at(&self.path)) {
                Some(fifo) => fifo,
                None => self.open(patience, caller).await?,
            };
            let text = match held.torn == Some(fifo.id) {
                true => Cow::Owned(format!("\n{message}")),
                false => Cow::Borrowed(message),
            };
            let finish = if held.stalled { Duration::ZERO } else { self.settings.finish };
            let begun = Writing { fifo: &fifo, text: text.as_bytes(), written: 0 };
            let (written, ended) = self.write_all(begun, patience, Instant::now() + finish).await;
            held.stalled = matches!(ended, Ended::Late);
            if written > 0 {
                held.torn = (written < text.len()).then_some(fifo.id);
            }
            match ended {
                Ended::Left if written == 0 && !fifo.is_at(&self.path) && Instant::now() < patience => {
                    continue;
                }
                // Closing drops what is left of it, so that the next reader doesn't begin in the middle.
                Ended::Left if fifo.unread() < written => {}
                _ => held.fifo = Some(fifo),
            }
            return self.outcome(ended, written, text.len());
        }
    }

    fn outcome(&self, ended: Ended, written: usize, bytes: usize) -> Result<(), OutletError> {
        let channel = self.channel.clone();
        Err(match ended {
            Ended::Whole => return Ok(()),
            Ended::Left if written == 0 => OutletError::nobody(&self.channel, self.settings.wait),
            Ended::Late if written == 0 => OutletError::Full { channel },
            Ended::Left => OutletError::Torn { channel, how: "left", written, bytes },
            Ended::Late => OutletError::Torn { channel, how: "stopped reading", written, bytes },
            Ended::Failed(source) => OutletError::Io { channel, source },
        })
    }

    /// Opens the FIFO as soon as somebody reads it: at least one try, none after `until`.
    async fn open(&self, until: Instant, caller: &mut Caller) -> Result<OutFifo, OutletError> {
        let mut pause = RETRY;
        loop {
            match OutFifo::open(&self.path) {
                Ok(fifo) => return Ok(fifo),
                Err(NotOpen::NobodyListens) => {}
                // Removed or being made anew while a message waits: as if nobody listened.
                Err(NotOpen::Refused(FifoRefused::Gone)) => {}
                Err(NotOpen::Refused(why)) => return Err(OutletError::refused(&self.channel, &why)),
            }
            if Instant::now() >= until {
                return Err(OutletError::nobody(&self.channel, self.settings.wait));
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return Err(OutletError::Stopping),
                () = caller.closed() => return Err(OutletError::CallerGone),
                () = sleep_until(until.min(Instant::now() + pause)) => pause = (pause * 2).min(RETRY_CAP),
            }
        }
    }

    /// Writes all of it; says how far it came. `patience`: until when a reader may come, `finish`: until when it may take.
    async fn write_all(
        &self,
        mut writing: Writing<'_>,
        patience: Instant,
        finish: Instant,
    ) -> (usize, Ended) {
        while writing.written < writing.text.len() {
            let ended = match writing.go_on() {
                Ok(()) => continue,
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => continue,
                    io::ErrorKind::WouldBlock => self.room(writing.fifo, finish).await,
                    io::ErrorKind::BrokenPipe => {
                        let until = if writing.written == 0 { patience } else { finish };
                        self.reader_again(&writing, until).await
                    }
                    _ => Some(Ended::Failed(error)),
                },
            };
            if let Some(ended) = ended {
                return (writing.written, ended);
            }
        }
        (writing.written, Ended::Whole)
    }

    /// Waits for room in the pipe.
    async fn room(&self, fifo: &OutFifo, until: Instant) -> Option<Ended> {
        let room = tokio::select! {
            biased;
            room = timeout_at(until, fifo.pipe.writable()) => room,
            () = self.shutdown.cancelled() => timeout(LAST_WORDS, fifo.pipe.writable()).await,
        };
        match room {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Ended::Failed(error)),
            Err(_elapsed) => Some(Ended::Late),
        }
    }

    /// The reader left. As long as it has nothing of this message it may come again, or another one: the pipe with
    /// all that is unread in it is held meanwhile.
    async fn reader_again(&self, writing: &Writing<'_>, until: Instant) -> Option<Ended> {
        let has_a_part = writing.fifo.unread() < writing.written;
        if has_a_part || Instant::now() >= until || !writing.fifo.is_at(&self.path) {
            return Some(Ended::Left);
        }
        tokio::select! {
            () = self.shutdown.cancelled() => Some(Ended::Left),
            () = sleep(RETRY) => None,
        }
    }
}

/// How far a message is.
#[derive(Debug)]
struct Writing<'a> {
    fifo: &'a OutFifo,
    text: &'a [u8],
    written: usize,
}

impl Writing<'_> {
    fn go_on(&mut self) -> io::Result<()> {
        self.written += self.fifo.pipe.try_write(&self.text[self.written..])?;
        Ok(())
    }
}

/// How writing ended.
#[derive(Debug)]
enum Ended {
    Whole,
    Left,
    Late,
    Failed(io::Error),
}
