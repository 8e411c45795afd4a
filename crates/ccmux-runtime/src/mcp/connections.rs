//! The connections of the HTTP server: how many there may be, and how long a stranger may stay.
//!
//! ```text
//! accept ──► stranger ── a request passes the guard ──► admitted ── the client goes ──► gone
//!               └── 10 s passed, or 64 newer strangers came, or the daemon stops ──────►
//! ```
//!
//! Every process of the machine can connect. Whoever has not shown the token gets little time and little room: half a
//! request, or none, holds a connection for [`STRANGER_STAYS`], and of more than [`STRANGERS`] the oldest is hung up on,
//! so that a crowd keeps nobody out who speaks at once. Admitted are this user's own programs: their streams stay open
//! as long as they like, [`ADMITTED`] of them. What a request says is the guard's business.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use nix::errno::Errno;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::guard::Guarded;

/// Connections that have shown no token.
pub(super) const STRANGERS: usize = 64;

/// How long such a one may stay.
const STRANGER_STAYS: Duration = Duration::from_secs(10);

/// Connections of programs that have shown it.
pub(super) const ADMITTED: usize = 256;

/// Where the system has no room for a connection, it is asked again after a while.
const ROOM_AGAIN: Duration = Duration::from_secs(1);

/// Calls that run at shutdown get this long.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// Serves until `stop`, or until the listener fails. Streams that are open then go on.
///
/// # Errors
/// Why nobody can connect any more.
pub(super) async fn serve(
    listener: TcpListener,
    routes: Guarded,
    stop: &CancellationToken,
) -> io::Result<()> {
    serve_strangers_for(STRANGER_STAYS, listener, routes, stop).await
}

/// The same, where strangers may stay so long.
pub(super) async fn serve_strangers_for(
    stays: Duration,
    listener: TcpListener,
    routes: Guarded,
    stop: &CancellationToken,
) -> io::Result<()> {
    let (over, failure) = (stop.child_token(), Arc::new(Mutex::new(None)));
    let listener = BoundedListener {
        listener,
        stays,
        book: Book::default(),
        over: over.clone(),
        failure: Arc::clone(&failure),
    };
    let service = routes.into_router().into_make_service_with_connect_info::<Connection>();
    let serving = axum::serve(listener, service).with_graceful_shutdown(over.clone().cancelled_owned());
    let late = async {
        over.cancelled().await;
        sleep(ENDS_WITHIN).await;
    };
    tokio::select! {
        _ = serving.into_future() => {}
        () = late => tracing::debug!(event = "mcp.stopped_late"),
    }
    let failed = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    failed.map_or(Ok(()), Err)
}

/// Who is connected; clones are the same book.
#[derive(Debug, Clone, Default)]
struct Book(Arc<Mutex<Pages>>);

#[derive(Debug, Default)]
struct Pages {
    next: u64,
    /// The oldest first; what ends each.
    strangers: BTreeMap<u64, CancellationToken>,
    admitted: BTreeSet<u64>,
}

impl Book {
    fn open(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, in the place of the oldest stranger if there are too many.
    fn enter(&self, hang_up: CancellationToken) -> u64 {
        let mut pages = self.open();
        if pages.strangers.len() >= STRANGERS
            && let Some((_, oldest)) = pages.strangers.pop_first()
        {
            oldest.cancel();
        }
        pages.next += 1;
        let number = pages.next;
        pages.strangers.insert(number, hang_up);
        number
    }

    /// False: there are too many of them already.
    fn admit(&self, number: u64) -> bool {
        let mut pages = self.open();
        if pages.admitted.len() >= ADMITTED && !pages.admitted.contains(&number) {
            return false;
        }
        pages.strangers.remove(&number);
        pages.admitted.insert(number);
        true
    }

    fn leave(&self, number: u64) {
        let mut pages = self.open();
        pages.strangers.remove(&number);
        pages.admitted.remove(&number);
    }

    fn hang_up_on_strangers(&self) {
        std::mem::take(&mut self.open().strangers).values().for_each(CancellationToken::cancel);
    }
}

/// Accepts, and enters everybody in the book.
struct BoundedListener {
    listener: TcpListener,
    stays: Duration,
    book: Book,
    /// Cancelled when the server ends, by whatever reason.
    over: CancellationToken,
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl Listener for BoundedListener {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => return (self.enter(stream), address),
                Err(error) if has_failed(&error) => {
                    *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    self.over.cancel();
                    std::future::pending::<()>().await;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::error!(event = "mcp.accept_failed", %error);
                    self.book.hang_up_on_strangers();
                    sleep(ROOM_AGAIN).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Whether nothing will ever be accepted again; what else there is, is about one connection, or passes.
fn has_failed(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EBADF | Errno::EINVAL | Errno::ENOTSOCK | Errno::EOPNOTSUPP))
}

impl BoundedListener {
    fn enter(&self, stream: TcpStream) -> BoundedStream {
        let hang_up = self.over.child_token();
        let number = self.book.enter(hang_up.clone());
        let visit = Visit { book: self.book.clone(), number, admitted: AtomicBool::new(false) };
        let stays = self.stays;
        let ends = async move { drop(timeout(stays, hang_up.cancelled()).await) };
        BoundedStream { stream, visit: Arc::new(visit), ends: Some(Box::pin(ends)) }
    }
}

/// One connection in the book.
#[derive(Debug)]
struct Visit {
    book: Book,
    number: u64,
    admitted: AtomicBool,
}

/// A connection that ends by itself as long as it is a stranger's.
struct BoundedStream {
    stream: TcpStream,
    visit: Arc<Visit>,
    /// `None`: it has come.
    ends: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl BoundedStream {
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.visit.admitted.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.ends.as_mut().is_some_and(|ends| ends.as_mut().poll(context).is_pending()) {
            return Ok(());
        }
        self.ends = None;
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl Drop for BoundedStream {
    fn drop(&mut self) {
        self.visit.book.leave(self.visit.number);
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The connection that a request came by, as its handlers know it.
#[derive(Debug, Clone)]
pub struct Connection {
    visit: Arc<Visit>,
    socket: Option<Arc<OwnedFd>>,
}

impl Connected<IncomingStream<'_, BoundedListener>> for Connection {
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Self {
        // Without one (no descriptors left) a client that stops reading is let go later, by TCP.
        let socket = stream.io().stream.as_fd().try_clone_to_owned().ok().map(Arc::new);
        Self { visit: Arc::clone(&stream.io().visit), socket }
    }
}

impl Connection {
    /// It may stay: a request of it was admitted. False: there are too many already.
    pub(super) fn admit(&self) -> bool {
        let admitted = self.visit.book.admit(self.visit.number);
        self.visit.admitted.fetch_or(admitted, Ordering::AcqRel);
        admitted
    }

    /// The socket itself, as long as the connection is served.
    pub(super) fn socket(&self) -> Option<&Arc<OwnedFd>> {
        self.socket.as_ref()
    }
}

#[cfg(test)]
mod tests;
