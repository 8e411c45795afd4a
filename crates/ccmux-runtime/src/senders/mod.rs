//! Older senders: three lines over TCP become something that waits for somebody. Off by default.
//!
//! ```text
//! complete⏎ 77⏎ The tests pass.⏎   ─► an item `reply` of the session `w-77`, "ok"
//! GET / HTTP/1.1                   ─► 200, nothing else
//! anything else, or too slow       ─► "refused: ...", nothing else
//! ```
//!
//! Anybody who reaches the port may be an attacker: a connection has five seconds and 8 KiB, there are so many at once,
//! and so many messages in a while. Away from loopback a token is wanted. It answers nothing about the daemon.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ccmux_wire::container::{SenderEvent, WindowId};
use ccmux_wire::sender::{MAX_SENDER_BYTES, Said, SenderError, is_whole, read};
use subtle::ConstantTimeEq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::attention::{Ears, GuestNews, Heard};
use crate::containers::rate::Rate;
use crate::containers::verbs::kind_of;

/// At once; more are hung up on.
const MAX_CONNECTIONS: usize = 128;
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
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let (rate, known) = (Mutex::new(Rate::new(BURST, EVERY)), Mutex::default());
        let desk = Arc::new(Desk { token: self.token, ears: self.ears, rate, known });
        let mut was_full = false;
        loop {
            let accepted = tokio::select! {
                () = self.shutdown.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                if !std::mem::replace(&mut was_full, true) {
                    tracing::warn!(event = "tcp.full", connections = MAX_CONNECTIONS);
                }
                continue;
            };
            was_full = false;
            let (desk, shutdown) = (Arc::clone(&desk), self.shutdown.clone());
            connections.spawn(async move {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    _late = timeout(WITHIN, desk.serve(stream)) => {}
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
    /// Nobody who hung up needs an answer.
    async fn serve(&self, mut stream: TcpStream) {
        let Some(said) = all_said(&mut stream).await else { return };
        let answer = match read(&said) {
            Ok(Said::Http) => HTTP_OK.to_vec(),
            Ok(Said::Lines { token, event, window, message }) => {
                match self.take(token.as_deref(), event, window.as_ref(), message) {
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

    fn take(
        &self,
        token: Option<&str>,
        event: SenderEvent,
        window: Option<&WindowId>,
        text: String,
    ) -> Result<(), &'static str> {
        let wanted = self.token.as_deref();
        let knows =
            wanted.is_none_or(|wanted| bool::from(wanted.as_bytes().ct_eq(token.unwrap_or("").as_bytes())));
        if !knows {
            return Err("the token is wrong or missing: the first line is `token SECRET`");
        }
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
