//! `GET /events`: the stream of `output.sock` as server-sent events.
//!
//! ```text
//! id: 7                                     every line's number; a client that comes back says `Last-Event-ID: 7`
//! data: {"seq":7,"ts":1740000000,...}
//!
//! event: gap                                lines that are no longer kept; has no id
//! data: {"gap":{"after":7,"before":12}}
//!
//! event: bye                                the client fell too far behind
//! data: {"bye":"too slow","last_seq":41}
//! ```
//!
//! A client gets a feed of its own, like every subscriber. The HTTP library takes one piece at a time; while it takes none
//! the client is not reading, and what is said of subscribers holds: it may fall so far behind, is told goodbye, and hung
//! up on. The library can't be told to hang up on a client that reads nothing, so the connection itself is shut down.

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderMap};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use ccmux_wire::id::Seq;
use ccmux_wire::output::{Bye, GapLine, Only, Wish};
use rustix::net::{Shutdown, shutdown, sockopt::set_socket_linger};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use super::connections::Connection;
use crate::turns::broadcast::feed::{Feed, Over, Piece};
use crate::turns::broadcast::{BYE_WAIT, Broadcast, FAREWELL, Line};

/// After so long without a line a comment goes out, so that neither end takes the other for dead.
const HEARTBEAT: Duration = Duration::from_secs(20);

/// How soon a browser's client comes back.
const HELLO: &str = "retry: 1000\n\n";

/// A line up to this length goes out in one piece with what stands around it; a longer one is not copied.
const COPIED: usize = 16 * 1024;

/// What a request is answered from.
#[derive(Debug, Clone)]
pub struct Events {
    /// The lines.
    pub broadcast: Broadcast,
    /// Ends all streams: a server does not stop as long as one is open.
    pub shutdown: CancellationToken,
}

/// `GET /events`
pub async fn open(
    State(events): State<Events>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    request: Request,
) -> Response {
    let wish = match wish_of(request.uri().query().unwrap_or_default(), request.headers()) {
        Ok(wish) => wish,
        Err(why) => return (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
    };
    let mut feed = match events.broadcast.feed() {
        Ok(feed) => feed,
        Err(too_many) => return (StatusCode::SERVICE_UNAVAILABLE, format!("{too_many}\n")).into_response(),
    };
    feed.grant(wish);
    let (body, pieces) = mpsc::channel(1);
    let connection = connection.socket().map_or_else(Weak::new, Arc::downgrade);
    let courier = Courier { feed, body, shutdown: events.shutdown, deadline: None, too_slow: false };
    tokio::spawn(courier.run(connection));
    let mut response = Response::new(Body::from_stream(ReceiverStream::new(pieces).map(Ok::<_, Infallible>)));
    for (name, value) in
        [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store"), (CONNECTION, "close")]
    {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// `?since=SEQ&only=turns`. A client that comes back says the same again, and `Last-Event-ID`, which is newer.
fn wish_of(query: &str, headers: &HeaderMap) -> Result<Wish, String> {
    let mut wish = Wish::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("since", seq) => wish.since = Some(number(seq, "since")?),
            ("only", "turns") => wish.only = Some(Only::Turns),
            ("only", "alerts") => wish.only = Some(Only::Alerts),
            _ => return Err("there are ?since=SEQ and ?only=turns or ?only=alerts, nothing else".to_owned()),
        }
    }
    match headers.get("last-event-id").map(HeaderValue::to_str) {
        None | Some(Ok("")) => {}
        Some(seq) => wish.since = Some(number(seq.unwrap_or_default(), "Last-Event-ID")?),
    }
    Ok(wish)
}

fn number(text: &str, name: &str) -> Result<Seq, String> {
    text.parse().map(Seq).map_err(|_| format!("{name} must be a line's number"))
}

/// Carries a feed's pieces to the body of a response.
struct Courier {
    feed: Feed,
    body: mpsc::Sender<Bytes>,
    shutdown: CancellationToken,
    /// Set once the stream is to end: what is on the way must be taken until then.
    deadline: Option<Instant>,
    too_slow: bool,
}

/// Why a stream ends.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The client is gone.
    Gone,
    /// It fell too far behind.
    TooSlow,
    /// It took nothing until the deadline.
    Stuck,
    /// The daemon stops, or there is nothing to give.
    Over,
}

impl Courier {
    async fn run(mut self, connection: Weak<OwnedFd>) {
        let end = match self.serve().await {
            Err(end) => end,
            Ok(never) => match never {},
        };
        if end == End::Gone {
            return;
        }
        let deadline = self.deadline.unwrap_or_else(|| Instant::now() + self.patience(&end));
        self.deadline = Some(deadline);
        let last_seq = self.feed.last_seq();
        if end == End::TooSlow || self.too_slow {
            tracing::info!(event = "subscriber.too_slow", %last_seq);
        }
        if end == End::TooSlow {
            let bye = Bye { bye: Over::TooSlow.to_string(), last_seq };
            // The connection ends either way.
            let _ = self.give(named("bye", &bye)).await;
        }
        drop(self);
        sleep_until(deadline).await;
        hang_up(&connection);
    }

    fn patience(&self, end: &End) -> Duration {
        if *end == End::TooSlow { BYE_WAIT } else { FAREWELL }
    }

    async fn serve(&mut self) -> Result<Infallible, End> {
        self.give(Bytes::from_static(HELLO.as_bytes())).await?;
        loop {
            let Some(piece) = self.next().await? else { continue };
            match &piece {
                Piece::Line(line) => self.give_line(line).await?,
                Piece::Gap(gap) => self.give(named("gap", &GapLine { gap: *gap })).await?,
            }
            self.feed.taken(&piece);
            if self.too_slow {
                return Err(End::TooSlow);
            }
        }
    }

    async fn next(&mut self) -> Result<Option<Piece>, End> {
        let Self { feed, body, shutdown, deadline, .. } = self;
        let stops = shutdown.is_cancelled();
        if stops && *deadline.get_or_insert_with(|| Instant::now() + FAREWELL) <= Instant::now() {
            return Err(End::Over);
        }
        let is_live = feed.is_live();
        tokio::select! {
            // What is there already is sent before anything else, at shutdown, too.
            biased;
            piece = feed.next() => piece.map_err(|over| match over {
                Over::TooSlow => End::TooSlow,
                Over::Unreadable => End::Over,
            }),
            () = body.closed() => Err(End::Gone),
            () = shutdown.cancelled(), if is_live => Err(End::Over),
            () = sleep(HEARTBEAT) => self.give(Bytes::from_static(b":\n\n")).await.map(|()| None),
        }
    }

    async fn give_line(&mut self, line: &Line) -> Result<(), End> {
        let head = format!("id: {}\ndata: ", line.seq());
        if line.bytes().len() <= COPIED {
            return self.give([head.as_bytes(), line.bytes(), b"\n"].concat().into()).await;
        }
        self.give(head.into()).await?;
        self.give(Bytes::from_owner(SharedLine(line.clone()))).await?;
        self.give(Bytes::from_static(b"\n")).await
    }

    /// Waits until the client has taken what went before, for as long as that takes; but once it fell behind or the
    /// daemon stops there is a limit.
    async fn give(&mut self, bytes: Bytes) -> Result<(), End> {
        let Self { feed, body, shutdown, deadline, too_slow } = self;
        loop {
            let unlimited = deadline.is_none();
            tokio::select! {
                biased;
                room = body.reserve() => {
                    room.map_err(|_| End::Gone)?.send(bytes);
                    if !*too_slow {
                        feed.progressed();
                    }
                    return Ok(());
                }
                () = feed.changed(), if unlimited => if feed.has_overflowed() {
                    *too_slow = true;
                    *deadline = Some(Instant::now() + BYE_WAIT);
                },
                () = shutdown.cancelled(), if unlimited => *deadline = Some(Instant::now() + FAREWELL),
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if !unlimited => return Err(End::Stuck),
            }
        }
    }
}

/// Ends the connection if it is still there; what was not taken is thrown away.
fn hang_up(connection: &Weak<OwnedFd>) {
    if let Some(socket) = connection.upgrade() {
        let _ = set_socket_linger(&socket, Some(Duration::ZERO));
        let _ = shutdown(&socket, Shutdown::Both);
    }
}

fn named(name: &str, value: &impl Serialize) -> Bytes {
    // Made of words and numbers: there is nothing in it that JSON can't say.
    let json = serde_json::to_string(value).unwrap_or_default();
    format!("event: {name}\ndata: {json}\n\n").into()
}

/// The text of a line, which all subscribers share.
struct SharedLine(Line);

impl AsRef<[u8]> for SharedLine {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

#[cfg(test)]
mod tests;
