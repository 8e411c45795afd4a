//! The task that writes to one socket.
//!
//! ```text
//! connect ─► wait for a wish (0.1 s at most) ─► the feed's pieces, one after the other ─► gone
//!                                                     ▲                      │        │
//!                                                     └──── a late wish ─────┘        └─► bye
//! ```
//!
//! Whoever connects gets everything that is published from then on: without `since` the feed begins at the last line of
//! that moment, so the wait for a wish leaves no gap. It knows the socket and the wish; which line is next is the feed's
//! business.

use std::io;
use std::time::Duration;

use ccmux_wire::output::{Bye, Wish};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::feed::{Feed, Over, Piece, gap_line};
use super::hang_up::HangUp;
use super::{BYE_WAIT, FAREWELL};
use crate::body::logged;

/// A subscriber that has a wish writes it at once.
const WISH_WAIT: Duration = Duration::from_millis(100);

/// A line longer than this is no wish.
const MAX_WISH_BYTES: usize = 4096;

/// One connection.
#[derive(Debug)]
pub(super) struct Subscriber {
    feed: Feed,
    wish: WishLine,
    socket: Socket,
}

/// The writing end.
#[derive(Debug)]
struct Socket {
    stream: UnixStream,
    hang_up: HangUp,
    shutdown: CancellationToken,
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
    /// The peer is gone, or there is nothing to give.
    Gone,
    /// It fell too far behind.
    TooSlow,
    /// It took nothing until the deadline.
    Stuck,
    /// The daemon stops.
    Shutdown,
}

impl From<Over> for End {
    fn from(over: Over) -> Self {
        match over {
            Over::TooSlow => Self::TooSlow,
            Over::Unreadable => Self::Gone,
        }
    }
}

/// What woke a subscriber.
enum Woken {
    Piece(Option<Piece>),
    Wish(Option<Wish>),
}

impl Subscriber {
    pub(super) fn new(
        mut feed: Feed,
        stream: UnixStream,
        wish: Option<Wish>,
        shutdown: CancellationToken,
    ) -> io::Result<Self> {
        let hang_up = HangUp::of(&stream)?;
        let awaited = match wish {
            None => WishLine::Awaited(Vec::new()),
            Some(wish) => {
                feed.grant(wish);
                WishLine::Settled
            }
        };
        Ok(Self { feed, wish: awaited, socket: Socket { stream, hang_up, shutdown, deadline: None } })
    }

    /// Serves the connection until it ends.
    pub(super) async fn run(&mut self) {
        let end = match self.serve().await {
            Err(end) => end,
            Ok(never) => match never {},
        };
        let last_seq = self.feed.last_seq();
        if matches!(end, End::TooSlow) || (matches!(end, End::Stuck) && self.feed.has_overflowed()) {
            tracing::info!(event = "subscriber.too_slow", %last_seq);
        }
        if matches!(end, End::TooSlow) {
            let bye = Bye { bye: Over::TooSlow.to_string(), last_seq };
            self.socket.say_goodbye(&bye).await;
        }
    }

    async fn serve(&mut self) -> Result<std::convert::Infallible, End> {
        self.await_wish().await?;
        loop {
            match self.woken().await? {
                Woken::Wish(wish) => wish.into_iter().for_each(|wish| self.feed.grant(wish)),
                Woken::Piece(None) => {}
                Woken::Piece(Some(piece)) => {
                    let too_slow = match &piece {
                        Piece::Line(line) => self.socket.write(line.bytes(), &self.feed).await?,
                        Piece::Gap(gap) => self.socket.write(gap_line(*gap).as_bytes(), &self.feed).await?,
                    };
                    self.feed.taken(&piece);
                    if too_slow {
                        return Err(End::TooSlow);
                    }
                }
            }
        }
    }

    async fn await_wish(&mut self) -> Result<(), End> {
        if matches!(self.wish, WishLine::Settled) {
            return Ok(());
        }
        let Socket { stream, hang_up, shutdown, .. } = &self.socket;
        let wish = tokio::select! {
            wish = timeout(WISH_WAIT, self.wish.read(stream)) => wish.ok().flatten(),
            () = hang_up.wait() => return Err(End::Gone),
            // What was published up to now is still sent.
            () = shutdown.cancelled() => None,
        };
        wish.into_iter().for_each(|wish| self.feed.grant(wish));
        Ok(())
    }

    async fn woken(&mut self) -> Result<Woken, End> {
        let Self { feed, wish, socket } = self;
        socket.end_in_time()?;
        let awaits_wish = feed.is_live() && matches!(wish, WishLine::Awaited(_));
        let is_live = feed.is_live();
        tokio::select! {
            // What is there already is sent before anything else, at shutdown, too.
            biased;
            piece = feed.next() => Ok(Woken::Piece(piece?)),
            wish = wish.read(&socket.stream), if awaits_wish => Ok(Woken::Wish(wish)),
            () = socket.hang_up.wait() => Err(End::Gone),
            () = socket.shutdown.cancelled(), if is_live => Err(End::Shutdown),
        }
    }
}

impl Socket {
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

    /// Writes all of it, for as long as it takes; but once the subscriber overflowed or the daemon stops there is a
    /// limit. True: it fell too far behind meanwhile.
    async fn write(&mut self, mut bytes: &[u8], feed: &Feed) -> Result<bool, End> {
        let mut too_slow = false;
        loop {
            match self.stream.try_write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    too_slow |= feed.has_overflowed();
                    self.room(too_slow, feed).await?;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Err(End::Gone),
            }
            if !too_slow {
                feed.progressed();
            }
            if bytes.is_empty() {
                return Ok(too_slow);
            }
        }
    }

    /// Waits until the socket may take more.
    async fn room(&mut self, too_slow: bool, feed: &Feed) -> Result<(), End> {
        if too_slow {
            self.deadline.get_or_insert_with(|| Instant::now() + BYE_WAIT);
        }
        let unlimited = self.deadline.is_none();
        tokio::select! {
            writable = self.stream.writable() => writable.map_err(|_| End::Gone),
            () = self.hang_up.wait() => Err(End::Gone),
            // What changed is seen above, the next time.
            () = feed.changed(), if unlimited => Ok(()),
            () = self.shutdown.cancelled(), if unlimited => {
                self.deadline = Some(Instant::now() + FAREWELL);
                Ok(())
            }
            () = sleep_until(self.deadline.unwrap_or_else(Instant::now)), if !unlimited => Err(End::Stuck),
        }
    }

    async fn say_goodbye(&mut self, bye: &Bye) {
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + BYE_WAIT);
        let Ok(mut json) = serde_json::to_string(bye) else { return };
        json.push('\n');
        let mut bytes = json.as_bytes();
        // The connection ends either way.
        while !bytes.is_empty() {
            match self.stream.try_write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::select! {
                    writable = self.stream.writable() => if writable.is_err() { return },
                    () = self.hang_up.wait() => return,
                    () = sleep_until(deadline) => return,
                },
                Err(_) => return,
            }
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
    // What the parser says may quote the line.
    serde_json::from_slice(line)
        .inspect_err(|error| {
            let (bytes, column) = (line.len(), error.column());
            tracing::warn!(event = "subscriber.wish_ignored", bytes, column, body = logged(line));
        })
        .ok()
}
