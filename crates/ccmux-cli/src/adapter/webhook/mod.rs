//! `ccmux adapter webhook`: what HTTP requests say goes to a channel, and the answer tells whether it arrived.
//!
//! ```text
//! request ─► Desk: Host, token ─► form: message ─► post ─► 202, once the daemon has it
//!                                                     └──► 503: nothing was taken, try again
//! ```
//!
//! The only part of the client that is not blocking: a thread for each of many slow senders would be worse. Connections
//! are counted and every one has its time, so that nobody keeps others out for ever.

mod desk;
mod form;
mod secret;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use self::desk::Desk;
use self::secret::Secret;
use super::arguments::WebhookOptions;
use super::note;
use crate::failure::Failure;

/// At the same time; further ones wait in the system's queue.
const MOST_CONNECTIONS: usize = 64;

/// For the head of a request, and for a connection without a request.
const HEAD_LIMIT: Duration = Duration::from_secs(10);

/// For a connection, whatever goes on in it.
const CONNECTION_LIMIT: Duration = Duration::from_secs(120);

/// For requests that are being answered when we are told to stop.
const GOODBYE_LIMIT: Duration = Duration::from_secs(5);

/// After the system refused to give a connection: mostly, no descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

pub fn run(dir: &Path, options: WebhookOptions) -> Result<(), Failure> {
    if !options.listen.ip().is_loopback() && !options.allow_remote {
        return Err(Failure::Refused(format!(
            "{} is reached from other machines: a reverse proxy with TLS in front of 127.0.0.1 is better; \
             --allow-remote listens all the same",
            options.listen
        )));
    }
    let secret = Secret::read(options.token_file.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| cant("start", &error))?.block_on(listen(dir, options, secret))
}

fn cant(what: &str, error: &io::Error) -> Failure {
    Failure::Failed(format!("can't {what}: {error}"))
}

async fn listen(dir: &Path, options: WebhookOptions, secret: Secret) -> Result<(), Failure> {
    let bound = TcpListener::bind(options.listen).await;
    let listener = bound.map_err(|error| cant(&format!("listen on {}", options.listen), &error))?;
    let address = listener.local_addr().map_err(|error| cant("tell the address", &error))?;
    let signals = Stop::new().map_err(|error| cant("hear signals", &error))?;
    announce(address, &options)?;
    let desk = Desk {
        dir: dir.to_owned(),
        channel: options.channel,
        secret,
        raw: options.raw,
        address,
        hosts: options.host,
    };
    serve(listener, Arc::new(desk), signals).await;
    Ok(())
}

/// On stdout, for whoever chose port 0. A reader that went away is no reason to stop.
fn announce(address: SocketAddr, options: &WebhookOptions) -> Result<(), Failure> {
    let mut out = io::stdout();
    writeln!(out, "listening on http://{address}/ for channel {}", options.channel)?;
    Ok(out.flush()?)
}

async fn serve(listener: TcpListener, desk: Arc<Desk>, mut stop: Stop) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let open = GracefulShutdown::new();
    loop {
        tokio::select! {
            () = stop.told() => break,
            next = next_connection(&listener, &room) => {
                if let Some((stream, permit)) = next {
                    begin(stream, Arc::clone(&desk), &open, permit);
                }
            }
        }
    }
    drop(listener);
    let _ = timeout(GOODBYE_LIMIT, open.shutdown()).await;
}

async fn next_connection(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, permit)),
        Err(error) => {
            note("webhook", &format!("can't take a connection: {error}"));
            sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

fn begin(stream: TcpStream, desk: Arc<Desk>, open: &GracefulShutdown, permit: OwnedSemaphorePermit) {
    let answer = service_fn(move |request| {
        let desk = Arc::clone(&desk);
        async move { Ok::<_, std::convert::Infallible>(desk.answer(request).await) }
    });
    // One request each: a sender that put its next one on a connection that we are closing would not know its fate, and
    // idle connections would take the place of others.
    let connection = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .serve_connection(TokioIo::new(stream), answer);
    let watched = open.watch(connection);
    tokio::spawn(async move {
        // A sender that breaks off, or is too slow, is its own affair.
        let _ = timeout(CONNECTION_LIMIT, watched).await;
        drop(permit);
    });
}

/// The signals that end it well.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn told(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
