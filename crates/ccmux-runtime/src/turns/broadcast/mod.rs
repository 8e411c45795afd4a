//! `output.sock`: every line to every subscriber, and nobody waits for anybody.
//!
//! ```text
//!             ┌─ Mailbox ─ Subscriber ─► socket     reads: gets every line
//! publish ────┼─ Mailbox ─ Subscriber ─► socket     asks `since`: replay from the store first, then live
//!             └─ Mailbox ─ Subscriber ─► socket     never reads: its mailbox overflows, it is told goodbye
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`mailbox`] | what one subscriber has still to be sent, bounded by bytes |
//! | [`feed`] | the lines of one subscriber in order: replay, then live; also behind `/events` |
//! | [`subscriber`] | the task that writes to one socket |
//! | [`hang_up`] | notices that a peer is gone without writing to it |
//!
//! A line is one piece of memory that all mailboxes share. Publishing takes a lock for as long as it takes to push into
//! the mailboxes and never waits for a socket. Knows no transcript.

pub(crate) mod feed;
mod hang_up;
mod mailbox;
mod subscriber;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ccmux_wire::id::Seq;
use ccmux_wire::output::{Bye, Only, Wish};
use rustix::process::{Resource, getrlimit};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::feed::Feed;
use self::mailbox::Mailbox;
use self::subscriber::Subscriber;
use super::store::Store;

/// How long subscribers may take at shutdown to be sent what they have coming.
pub(crate) const FAREWELL: Duration = Duration::from_millis(500);

/// How long one that is too slow may take for the rest of its line and the goodbye.
pub(crate) const BYE_WAIT: Duration = Duration::from_secs(5);

/// The most subscribers at once, whatever the system allows: beyond, one has another purpose than to read.
const MOST_SUBSCRIBERS: u64 = 4096;

/// A subscriber takes two descriptors, and subscribers get half of all: channels, hooks and tmux need theirs.
const DESCRIPTORS_EACH: u64 = 4;

/// Pause after the system refused to accept (out of descriptors): it would refuse again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a line holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// A finished turn.
    Turn,
    /// An alert.
    Alert,
}

/// One line as it goes out, newline included. Clones share the text.
#[derive(Debug, Clone)]
pub struct Line(Arc<LineText>);

/// A line as long as somebody else has it.
#[derive(Debug)]
pub(super) struct WeakLine(Weak<LineText>);

impl WeakLine {
    pub(super) fn upgrade(&self) -> Option<Line> {
        self.0.upgrade().map(Line)
    }
}

#[derive(Debug)]
struct LineText {
    seq: Seq,
    kind: LineKind,
    json: String,
}

impl Line {
    /// A line; `json` ends with its newline.
    pub fn new(seq: Seq, kind: LineKind, json: String) -> Self {
        Self(Arc::new(LineText { seq, kind, json }))
    }

    /// Its number.
    pub fn seq(&self) -> Seq {
        self.0.seq
    }

    /// What it holds.
    pub fn kind(&self) -> LineKind {
        self.0.kind
    }

    /// Its bytes, newline included.
    pub fn bytes(&self) -> &[u8] {
        self.0.json.as_bytes()
    }

    /// The same line, without keeping it.
    pub(super) fn downgrade(&self) -> WeakLine {
        WeakLine(Arc::downgrade(&self.0))
    }

    fn is_wanted(&self, only: Option<Only>) -> bool {
        match only {
            None => true,
            Some(Only::Turns) => self.0.kind == LineKind::Turn,
            Some(Only::Alerts) => self.0.kind == LineKind::Alert,
        }
    }
}

/// The handle: publishes lines and takes in subscribers. Clones are the same broadcast.
#[derive(Debug, Clone)]
pub struct Broadcast(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Arc<Store>,
    /// A mailbox that falls so many bytes behind overflows.
    limit: AtomicUsize,
    connected: AtomicUsize,
    most: usize,
    live: Mutex<Live>,
    /// Bytes of all lines since the start.
    published: watch::Sender<u64>,
}

/// There are as many subscribers as the daemon can bear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many subscribers")]
pub struct TooMany;

#[derive(Debug)]
struct Live {
    last_seq: Seq,
    mailboxes: Vec<Arc<Mailbox>>,
}

impl Shared {
    fn new(store: Arc<Store>, last_seq: Seq, limit: usize) -> Self {
        let live = Mutex::new(Live { last_seq, mailboxes: Vec::new() });
        let (connected, published) = (AtomicUsize::new(0), watch::Sender::new(0));
        Self { store, limit: AtomicUsize::new(limit), connected, most: most_subscribers(), live, published }
    }
}

impl Broadcast {
    /// Goes on after `last_seq`; replays come from `store`.
    pub fn new(store: Arc<Store>, last_seq: Seq, limit: usize) -> Self {
        Self(Arc::new(Shared::new(store, last_seq, limit)))
    }

    /// Gives a line to every subscriber. The line is in the store already, and numbers only grow. Never blocks.
    pub fn publish(&self, line: &Line) {
        let mut live = self.live();
        live.last_seq = line.seq();
        live.mailboxes.retain(|mailbox| mailbox.push(line));
        drop(live);
        self.0.published.send_modify(|bytes| *bytes += line.bytes().len() as u64);
    }

    /// Bytes of all lines that were published since the start.
    pub(super) fn published_bytes(&self) -> u64 {
        *self.0.published.borrow()
    }

    /// Another limit for subscribers that come from now on.
    pub fn change_limit(&self, limit: usize) {
        self.0.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns once so many bytes were published.
    pub(super) async fn published(&self, bytes: u64) {
        // The sender is ours: it is there as long as we are.
        let _ = self.0.published.subscribe().wait_for(|published| *published >= bytes).await;
    }

    /// How many are connected.
    pub fn subscribers(&self) -> usize {
        self.0.connected.load(Ordering::Relaxed)
    }

    /// How many are not closed.
    #[cfg(test)]
    pub(crate) fn mailboxes(&self) -> usize {
        self.live().mailboxes.len()
    }

    /// The number of the last line.
    pub fn last_seq(&self) -> Seq {
        self.live().last_seq
    }

    /// Serves one connection until it ends. Without a wish it may still write one.
    ///
    /// It subscribes at once, not when it is first awaited, and the subscriber lies in the future once: what an async
    /// function is given, it keeps beside what it makes of it.
    pub fn subscribe(
        &self,
        stream: UnixStream,
        wish: Option<Wish>,
        shutdown: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let mut admitted = self.admit(stream, wish, shutdown);
        async move {
            match &mut admitted {
                Ok(subscriber) => subscriber.run().await,
                Err(refused) => refused.say_why().await,
            }
        }
    }

    fn admit(
        &self,
        stream: UnixStream,
        wish: Option<Wish>,
        shutdown: CancellationToken,
    ) -> Result<Subscriber, Refused> {
        match self.feed() {
            Ok(feed) => Subscriber::new(feed, stream, wish, shutdown).map_err(Refused::Unwatchable),
            Err(too_many) => {
                Err(Refused::TooMany(stream, Bye { bye: too_many.to_string(), last_seq: self.last_seq() }))
            }
        }
    }

    /// The lines for one more subscriber, from this moment on.
    pub(crate) fn feed(&self) -> Result<Feed, TooMany> {
        let counted = Counted(self.clone());
        if self.0.connected.fetch_add(1, Ordering::Relaxed) >= self.0.most {
            tracing::warn!(event = "subscriber.refused", why = %TooMany, most = self.0.most);
            return Err(TooMany);
        }
        Ok(Feed::new(self.clone(), counted))
    }

    /// A mailbox that counts what is published, and the last line before.
    fn attach(&self, only: Option<Only>) -> (Arc<Mailbox>, Seq) {
        let mailbox = Arc::new(Mailbox::new(only, self.0.limit.load(Ordering::Relaxed)));
        let mut live = self.live();
        live.mailboxes.push(Arc::clone(&mailbox));
        (mailbox, live.last_seq)
    }

    /// Has the mailbox store what is published, unless lines behind `sent` were published already.
    fn go_live(&self, mailbox: &Mailbox, sent: Seq) -> bool {
        let live = self.live();
        let current = sent >= live.last_seq;
        if current {
            mailbox.store();
        }
        current
    }

    fn detach(&self, mailbox: &Arc<Mailbox>) {
        self.live().mailboxes.retain(|other| !Arc::ptr_eq(other, mailbox));
    }

    /// Nothing in there can be half done: a panic of another thread leaves it usable.
    fn live(&self) -> MutexGuard<'_, Live> {
        self.0.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is not served.
#[derive(Debug)]
enum Refused {
    TooMany(UnixStream, Bye),
    /// Nothing would tell that its peer is gone.
    Unwatchable(io::Error),
}

impl Refused {
    async fn say_why(&self) {
        match self {
            Self::TooMany(stream, bye) => {
                if let Ok(json) = serde_json::to_string(bye)
                    && timeout(FAREWELL, stream.writable()).await.is_ok()
                {
                    // Its socket is empty: there is room, or the peer is gone.
                    let _ = stream.try_write((json + "\n").as_bytes());
                }
            }
            Self::Unwatchable(error) => tracing::warn!(event = "subscriber.refused", %error),
        }
    }
}

/// Counts a subscriber for as long as it lives.
#[derive(Debug)]
struct Counted(Broadcast);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.connected.fetch_sub(1, Ordering::Relaxed);
    }
}

fn most_subscribers() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from((descriptors / DESCRIPTORS_EACH).min(MOST_SUBSCRIBERS)).unwrap_or(usize::MAX)
}

/// The task behind `output.sock`.
#[derive(Debug)]
pub struct Broadcaster {
    /// Whom the connections are given to.
    pub broadcast: Broadcast,
    /// Bound, with mode 0600.
    pub listener: UnixListener,
    /// Ends the task and every connection.
    pub shutdown: CancellationToken,
}

impl Broadcaster {
    /// Accepts until shutdown, then lets connections end.
    pub async fn run(self) {
        let subscribers = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = self.shutdown.cancelled() => break,
            };
            match accepted {
                Ok((stream, _)) if is_ours(&stream) => {
                    subscribers.spawn(self.broadcast.subscribe(stream, None, self.shutdown.clone()));
                }
                Ok(_) => tracing::warn!(event = "subscriber.refused", why = "another user's process"),
                Err(error) => {
                    tracing::warn!(event = "subscriber.refused", %error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        subscribers.close();
        // Each one limits itself to FAREWELL; this is for a runtime that is busy.
        let _ = timeout(2 * FAREWELL, subscribers.wait()).await;
    }
}

fn is_ours(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == nix::unistd::geteuid().as_raw())
}

#[cfg(test)]
mod tests;
