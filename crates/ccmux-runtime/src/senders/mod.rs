//! Older senders: three lines over TCP become something that waits for somebody. Off by default.
//!
//! ```text
//! complete⏎ 77⏎ The tests pass.⏎   ─► an item `reply` of the session `w-77`, "ok"
//! GET / HTTP/1.1                   ─► 200, nothing else
//! anything else, or too slow       ─► "refused: ...", nothing else
//! ```
//!
//! Anybody who reaches the port may be an attacker: a connection has five seconds and 8 KiB, there are so many at once
//! ([`places`]), and so many messages in a while. Away from loopback a token is wanted, and who says wrong ones is not
//! listened to ([`guesses`]). It answers nothing about the daemon.

mod guesses;
mod places;
mod told;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ccmux_wire::container::{SenderEvent, WindowId};
use ccmux_wire::sender::{MAX_SENDER_BYTES, Said, SenderError, is_whole, read};
use subtle::ConstantTimeEq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::attention::{Ears, GuestNews, Heard};
use crate::containers::rate::Rate;
use crate::containers::verbs::kind_of;
use guesses::Guesses;
use places::Places;
use told::Told;

/// From the first byte to the last.
const WITHIN: Duration = Duration::from_secs(5);
/// Messages at once, and how often one more.
const BURST: u32 = 30;
const EVERY: Duration = Duration::from_millis(200);
/// So many windows are told apart at a time.
const MAX_SPEAKERS: usize = 64;
/// After a failed accept; before a port that is taken is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const BIND_AGAIN: Duration = Duration::from_secs(30);

const HTTP_OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// The task.
#[derive(Debug)]
pub struct SenderDoor {
    /// Where.
    pub address: SocketAddr,
    /// What a sender must know.
    pub token: Option<String>,
    /// Who hears of it.
    pub ears: Ears,
    /// Ends it.
    pub shutdown: CancellationToken,
}

/// What connections share.
#[derive(Debug)]
struct Desk {
    token: Option<String>,
    ears: Ears,
    rate: Mutex<Rate>,
    guesses: Mutex<Guesses>,
    known: Mutex<Known>,
}

/// Who spoke lately, so that no sender can make the daemon remember without end.
#[derive(Debug, Default)]
struct Known {
    speakers: VecDeque<String>,
}

impl SenderDoor {
    /// Runs until shutdown. A port in use is tried again.
    pub async fn run(self) {
        let listener = tokio::select! {
            () = self.shutdown.cancelled() => return,
            listener = bind(self.address) => listener,
        };
        tracing::info!(event = "tcp.listening", address = %self.address);
        let connections = TaskTracker::new();
        let places = Places::default();
        let desk = Arc::new(Desk::new(self.token, self.ears));
        let mut full = Told::default();
        loop {
            let accepted = tokio::select! {
                () = self.shutdown.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, peer)) = accepted else {
                sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let Some(place) = places.take(peer.ip()) else {
                if let Some(untold) = full.again(Instant::now()) {
                    tracing::warn!(event = "tcp.full", peer = %peer.ip(), refused_before = untold);
                }
                continue;
            };
            let (desk, shutdown) = (Arc::clone(&desk), self.shutdown.clone());
            connections.spawn(async move {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    _late = timeout(WITHIN, desk.serve(stream, peer.ip())) => {}
                }
                drop(place);
            });
        }
        connections.close();
        connections.wait().await;
    }
}

async fn bind(address: SocketAddr) -> TcpListener {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => tracing::error!(event = "tcp.not_listening", %address, %error),
        }
        sleep(BIND_AGAIN).await;
    }
}

impl Desk {
    fn new(token: Option<String>, ears: Ears) -> Self {
        let rate = Mutex::new(Rate::new(BURST, EVERY));
        Self { token, ears, rate, guesses: Mutex::default(), known: Mutex::default() }
    }

    /// Nobody who hung up needs an answer.
    async fn serve(&self, mut stream: TcpStream, peer: IpAddr) {
        let Some(said) = all_said(&mut stream).await else { return };
        let answer = match read(&said) {
            Ok(Said::Http) => HTTP_OK.to_vec(),
            Ok(Said::Lines { token, event, window, message }) => {
                let let_in = self.let_in(token.as_deref(), peer, Instant::now());
                match let_in.and_then(|()| self.take(event, window.as_ref(), message)) {
                    Ok(()) => b"ok\n".to_vec(),
                    Err(why) => format!("refused: {why}\n").into_bytes(),
                }
            }
            Err(error) => format!("refused: {error}\n").into_bytes(),
        };
        let _ = stream.write_all(&answer).await;
        let _ = stream.shutdown().await;
        // Closed with bytes unread the answer would be lost on the way: what else comes is thrown away, for a while.
        let mut rest = [0; 1024];
        while matches!(stream.read(&mut rest).await, Ok(1..)) {}
    }

    /// Whether it has the token, where one is wanted. One that is missing is no guess.
    fn let_in(&self, token: Option<&str>, peer: IpAddr, now: Instant) -> Result<(), &'static str> {
        const WRONG: &str = "the token is wrong or missing: the first line is `token SECRET`";
        let Some(wanted) = self.token.as_deref() else { return Ok(()) };
        let mut guesses = self.guesses.lock().unwrap_or_else(PoisonError::into_inner);
        if guesses.shut_out(peer, now) {
            return Err("too many wrong tokens came from your address, try again in a minute");
        }
        let token = token.ok_or(WRONG)?;
        if bool::from(wanted.as_bytes().ct_eq(token.as_bytes())) {
            guesses.right(peer);
            return Ok(());
        }
        if let Some(untold) = guesses.wrong(peer, now) {
            tracing::warn!(event = "tcp.shut_out", %peer, others_before = untold);
        }
        Err(WRONG)
    }

    fn take(&self, event: SenderEvent, window: Option<&WindowId>, text: String) -> Result<(), &'static str> {
        if !self.rate.lock().unwrap_or_else(PoisonError::into_inner).try_take() {
            return Err("too many messages, try again in a second");
        }
        let session = window.map_or_else(|| "tcp".to_owned(), |window| format!("w-{window}"));
        let kind = kind_of(event);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).note(&session, &self.ears);
        tracing::info!(event = "tcp.heard", session, kind = kind.word(), bytes = text.len());
        self.ears.tell(Heard::Guest(GuestNews::Began { session, kind, subject: None, text }));
        Ok(())
    }
}

impl Known {
    /// Notes who speaks; whoever spoke longest ago is forgotten.
    fn note(&mut self, session: &str, ears: &Ears) {
        self.speakers.retain(|known| known != session);
        self.speakers.push_back(session.to_owned());
        if self.speakers.len() > MAX_SPEAKERS
            && let Some(session) = self.speakers.pop_front()
        {
            ears.tell(Heard::Guest(GuestNews::Gone { session }));
        }
    }
}

/// Until it is whole, too long, or at its end; `None`: the connection broke.
async fn all_said(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut said = Vec::new();
    let mut piece = [0; 2048];
    while said.len() <= MAX_SENDER_BYTES && !is_whole(&said) {
        match stream.read(&mut piece).await.ok()? {
            0 => break,
            read => said.extend_from_slice(&piece[..read]),
        }
    }
    if said.len() > MAX_SENDER_BYTES {
        tracing::debug!(event = "tcp.refused", why = %SenderError::TooLong);
    }
    (!said.is_empty()).then_some(said)
}

#[cfg(test)]
mod tests;
