//! One container's connections. What speaks here may be an attacker: one line at a time, none over 1 MiB, so many
//! connections, so many lines in a while, and nobody may sit there without a word.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ccmux_wire::container::{ContainerId, MAX_GUEST_BYTES};
use ccmux_wire::control::{ErrorCode, Reply};
use nix::unistd::Uid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::rate::Rate;
use super::verbs::{Answer, guest};
use crate::control::Desk;
use crate::control::tools::tell_channels;
use crate::terminal::Terminal;

/// Of one container; the agent's tools need one, each hook one for a moment.
const MAX_CONNECTIONS: usize = 32;
/// A line, and the pause before it.
const LINE_WITHIN: Duration = Duration::from_secs(30);
/// Whoever does not take its answer.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);
/// After a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Lines at once, and how often one more: Claude fires a hook for each tool call.
const BURST: u32 = 100;
const EVERY: Duration = Duration::from_millis(20);

/// A container's door.
#[derive(Debug)]
pub struct Door<T> {
    /// Answers.
    pub desk: Arc<Desk<T>>,
    /// Who speaks here.
    pub id: ContainerId,
    /// As which user; the daemon's own may, too.
    pub uid: u32,
    /// Bound by the host.
    pub listener: UnixListener,
    /// Ends all connections.
    pub shutdown: CancellationToken,
}

impl<T: Terminal> Door<T> {
    /// Runs until the container is gone.
    pub async fn run(self) {
        let connections = TaskTracker::new();
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let rate = Arc::new(Mutex::new(Rate::new(BURST, EVERY)));
        loop {
            let accepted = tokio::select! {
                () = self.shutdown.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(event = "container.accept_failed", container = %self.id, %error);
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(place) = self.let_in(&stream, &places) else { continue };
            let visitor =
                Visitor { desk: Arc::clone(&self.desk), id: self.id.clone(), rate: Arc::clone(&rate) };
            let shutdown = self.shutdown.clone();
            connections.spawn(async move {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    () = visitor.serve(BufReader::new(stream), place, shutdown.clone()) => {}
                }
            });
        }
        connections.close();
        connections.wait().await;
    }

    fn let_in(&self, stream: &UnixStream, places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        let uid = stream.peer_cred().ok()?.uid();
        if uid != self.uid && uid != Uid::effective().as_raw() {
            tracing::warn!(event = "container.refused", container = %self.id, uid);
            return None;
        }
        let place = Arc::clone(places).try_acquire_owned();
        if place.is_err() {
            tracing::warn!(event = "container.full", container = %self.id, connections = MAX_CONNECTIONS);
        }
        place.ok()
    }
}

struct Visitor<T> {
    desk: Arc<Desk<T>>,
    id: ContainerId,
    rate: Arc<Mutex<Rate>>,
}

impl<T: Terminal> Visitor<T> {
    async fn serve(
        self,
        mut stream: BufReader<UnixStream>,
        _place: OwnedSemaphorePermit,
        shutdown: CancellationToken,
    ) {
        while let Ok(Some(line)) = timeout(LINE_WITHIN, next_line(&mut stream)).await {
            let pause = self.rate.lock().unwrap_or_else(PoisonError::into_inner).take();
            sleep(pause).await;
            let reply = match guest(&self.desk, &self.id, &line).await {
                Answer::Line(reply) => reply,
                Answer::Channels => return tell_channels(stream, self.desk.tools.changes(), shutdown).await,
            };
            if !matches!(timeout(TAKEN_WITHIN, stream.get_mut().write_all(&reply)).await, Ok(Ok(()))) {
                return;
            }
        }
    }
}

/// A line; `None` at the end. One that is too long is said so, and ends the connection.
async fn next_line(stream: &mut BufReader<UnixStream>) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let limit = MAX_GUEST_BYTES as u64 + 1;
    let read = (&mut *stream).take(limit).read_until(b'\n', &mut line).await.ok()?;
    if line.len() > MAX_GUEST_BYTES {
        let reply =
            Reply::refused(ErrorCode::BadFrame, format!("a line has at most {MAX_GUEST_BYTES} bytes"));
        let mut reply = serde_json::to_vec(&reply).unwrap_or_default();
        reply.push(b'\n');
        let _ = stream.get_mut().write_all(&reply).await;
        return None;
    }
    (read > 0).then_some(line)
}
