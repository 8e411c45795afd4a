//! The task that writes to one socket.
//!
//! ```text
//! connect ─► wait for a wish (0.1 s at most) ─► replay what the store has behind `sent` ─► live ─► gone
//!                                                     ▲                                      │ │
//!                                                     └──────────── a late wish ─────────────┘ └─► bye
//! ```
//!
//! Whoever connects gets everything that is published from then on: without `since` the replay begins at the last line
//! of that moment, so the wait for a wish leaves no gap. Numbers at or below `sent` are never sent again, so the seam
//! between replay and live has no double.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ccmux_wire::id::Seq;
use ccmux_wire::output::{Bye, Only, Wish};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::hang_up::HangUp;
use super::mailbox::{Front, Mailbox};
use super::{Broadcast, FAREWELL, Line};

/// A subscriber that has a wish writes it at once.
const WISH_WAIT: Duration = Duration::from_millis(100);

/// A line longer than this is no wish.
const MAX_WISH_BYTES: usize = 4096;

/// How long one that is too slow may take for the rest of its line and the goodbye.
const BYE_WAIT: Duration = Duration::from_secs(5);

/// A replay reads so many lines, or so many bytes, at once.
const PAGE: (usize, usize) = (64, 256 * 1024);

/// One connection.
#[derive(Debug)]
pub(super) struct Subscriber {
    broadcast: Broadcast,
    stream: UnixStream,
    hang_up: HangUp,
    shutdown: CancellationToken,
    mailbox: Arc<Mailbox>,
    only: Option<Only>,
    /// The last line that was sent, or left out because it was not wanted.
    sent: Seq,
    wish: WishLine,
    /// Set once the connection is to end: what is being written must be taken until then.
    deadline: Option<Instant>,
}

/// The one line that a subscriber may write.
#[derive(Debug)]
enum WishLine {
    /// Its beginning, if anything.
    Awaited(Vec<u8>),
    /// Read, or never to come: nothing is read any more.
    Settled,
}

/// Why a connection ends.
#[derive(Debug)]
enum End {
    /// The peer is gone, or didn't take its goodbye in time.
    Gone,
    /// It fell too far behind.
    TooSlow,
    /// The daemon stops.
    Shutdown,
}

/// What woke a live subscriber.
enum Woken {
    Mail,
    Wish(Option<Wish>),
}

impl Subscriber {
    pub(super) fn new(
        broadcast: Broadcast,
        stream: UnixStream,
        wish: Option<Wish>,
        shutdown: CancellationToken,
    ) -> io::Result<Self> {
        let hang_up = HangUp::of(&stream)?;
        let mut subscriber = Self {
            sent: broadcast.last_seq(),
            mailbox: Arc::new(Mailbox::new(None)),
            only: None,
            wish: WishLine::Awaited(Vec::new()),
            deadline: None,
            broadcast,
            stream,
            hang_up,
            shutdown,
        };
        if let Some(wish) = wish {
            subscriber.wish = WishLine::Settled;
            subscriber.grant(wish);
        }
        Ok(subscriber)
    }

    /// Serves the connection until it ends.
    pub(super) async fn run(mut self) {
        let end = match self.serve().await {
            Err(end) => end,
            Ok(never) => match never {},
        };
        self.broadcast.detach(&self.mailbox);
        if matches!(end, End::TooSlow) {
            tracing::info!(event = "subscriber.too_slow", last_seq = %self.sent);
            self.say_goodbye().await;
        }
    }

    async fn serve(&mut self) -> Result<std::convert::Infallible, End> {
        self.await_wish().await?;
        loop {
            self.replay().await?;
            self.live().await?;
        }
    }

    async fn await_wish(&mut self) -> Result<(), End> {
        if matches!(self.wish, WishLine::Settled) {
            return Ok(());
        }
        let woken = {
            let Self { stream, wish, hang_up, shutdown, .. } = self;
            tokio::select! {
                woken = timeout(WISH_WAIT, wish.read(stream)) => woken.ok().flatten(),
                () = hang_up.wait() => return Err(End::Gone),
                // What was published up to now is still sent.
                () = shutdown.cancelled() => None,
            }
        };
        if let Some(wish) = woken {
            self.grant(wish);
        }
        Ok(())
    }

    fn grant(&mut self, wish: Wish) {
        self.only = wish.only;
        // A number from the future is one of another database: it says nothing.
        let last = self.broadcast.last_seq();
        self.sent = wish.since.filter(|since| *since <= last).unwrap_or(self.sent);
    }

    /// Sends what the store has behind `sent`; returns once the mailbox is live.
    async fn replay(&mut self) -> Result<(), End> {
        self.broadcast.detach(&self.mailbox);
        self.mailbox = Arc::new(Mailbox::new(self.only));
        while !self.broadcast.attach(&self.mailbox, self.sent) {
            self.end_in_time()?;
            for line in self.page().await? {
                self.send(&line).await?;
            }
        }
        Ok(())
    }

    /// A replay may be long, a shutdown not.
    fn end_in_time(&mut self) -> Result<(), End> {
        if self.shutdown.is_cancelled() {
            let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + FAREWELL);
            if Instant::now() >= deadline {
                return Err(End::Shutdown);
            }
        }
        Ok(())
    }

    async fn page(&mut self) -> Result<Vec<Line>, End> {
        let (store, sent) = (Arc::clone(&self.broadcast.0.store), self.sent);
        let published = self.broadcast.last_seq();
        let read = tokio::task::spawn_blocking(move || store.since(sent, PAGE.0, PAGE.1)).await;
        let page = read.map_err(|_| End::Shutdown)?.map_err(|error| {
            tracing::error!(event = "replay.failed", %error);
            End::Gone
        })?;
        if page.is_empty() {
            // What is published was stored before; it was deleted since.
            self.sent = published;
        }
        Ok(page)
    }

    /// Sends what is published; returns if a late wish asks for a replay.
    async fn live(&mut self) -> Result<(), End> {
        loop {
            match self.mailbox.front() {
                Front::Line(line) => {
                    self.send(&line).await?;
                    self.mailbox.pop();
                }
                Front::Overflowed => return Err(End::TooSlow),
                Front::Empty => {
                    if let Woken::Wish(Some(wish)) = self.woken().await? {
                        self.grant(wish);
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn woken(&mut self) -> Result<Woken, End> {
        let Self { stream, wish, hang_up, shutdown, mailbox, .. } = self;
        let awaits_wish = matches!(wish, WishLine::Awaited(_));
        tokio::select! {
            () = mailbox.changed() => Ok(Woken::Mail),
            wish = wish.read(stream), if awaits_wish => Ok(Woken::Wish(wish)),
            () = hang_up.wait() => Err(End::Gone),
            () = shutdown.cancelled() => Err(End::Shutdown),
        }
    }

    async fn send(&mut self, line: &Line) -> Result<(), End> {
        if line.seq() <= self.sent {
            return Ok(());
        }
        if line.is_wanted(self.only) {
            self.write(line.bytes()).await?;
        }
        self.sent = line.seq();
        Ok(())
    }

    /// Writes all of it, for as long as it takes; but once the mailbox overflowed or the daemon stops there is a limit.
    async fn write(&mut self, mut bytes: &[u8]) -> Result<(), End> {
        loop {
            match self.stream.try_write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.room().await?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(End::Gone),
            }
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Waits until the socket may take more.
    async fn room(&mut self) -> Result<(), End> {
        if self.deadline.is_none() && self.mailbox.has_overflowed() {
            self.deadline = Some(Instant::now() + BYE_WAIT);
        }
        let unlimited = self.deadline.is_none();
        tokio::select! {
            writable = self.stream.writable() => writable.map_err(|_| End::Gone),
            () = self.hang_up.wait() => Err(End::Gone),
            // What changed is seen above, the next time.
            () = self.mailbox.changed(), if unlimited => Ok(()),
            () = self.shutdown.cancelled(), if unlimited => {
                self.deadline = Some(Instant::now() + FAREWELL);
                Ok(())
            }
            () = sleep_until(self.deadline.unwrap_or_else(Instant::now)), if !unlimited => Err(End::Gone),
        }
    }

    async fn say_goodbye(&mut self) {
        let bye = Bye { bye: "too slow".to_owned(), last_seq: self.sent };
        if let Ok(mut json) = serde_json::to_string(&bye) {
            json.push('\n');
            // The connection ends either way.
            let _ = self.write(json.as_bytes()).await;
        }
    }
}

impl WishLine {
    /// Returns when the line is settled: with the wish, or with `None` if there will be none.
    async fn read(&mut self, stream: &UnixStream) -> Option<Wish> {
        loop {
            if stream.readable().await.is_err() {
                *self = Self::Settled;
                return None;
            }
            if let Some(settled) = self.read_some(stream) {
                *self = Self::Settled;
                return settled;
            }
        }
    }

    fn read_some(&mut self, stream: &UnixStream) -> Option<Option<Wish>> {
        let Self::Awaited(text) = self else {
            return Some(None);
        };
        let mut piece = [0; 512];
        match stream.try_read(&mut piece) {
            // A half-close: it will not speak any more, but it listens. What it wrote without a newline counts.
            Ok(0) => Some(parse_wish(text)),
            Ok(read) => {
                text.extend_from_slice(&piece[..read]);
                take_line(text)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(_) => Some(None),
        }
    }
}

/// The first line that is not blank, once it is whole (or too long to be one).
fn take_line(text: &mut Vec<u8>) -> Option<Option<Wish>> {
    while let Some(newline) = text.iter().position(|&byte| byte == b'\n') {
        let line: Vec<u8> = text.drain(..=newline).collect();
        if !line.trim_ascii().is_empty() {
            return Some(parse_wish(&line));
        }
    }
    (text.len() > MAX_WISH_BYTES).then(|| parse_wish(text))
}

fn parse_wish(line: &[u8]) -> Option<Wish> {
    if line.trim_ascii().is_empty() {
        return None;
    }
    serde_json::from_slice(line)
        .inspect_err(|error| tracing::warn!(event = "subscriber.wish_ignored", %error))
        .ok()
}
