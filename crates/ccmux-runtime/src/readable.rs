//! Any descriptor that a task can wait on and read without blocking: FIFO, inotify, pidfd.
//!
//! The one place that registers a descriptor with tokio's reactor. Knows nothing of what is read.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A non-blocking descriptor, owned, registered with the reactor.
#[derive(Debug)]
pub struct Readable(AsyncFd<OwnedFd>);

impl Readable {
    /// Registers a descriptor that was opened non-blocking. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the reactor refuses it (a regular file is always readable and can't be waited for).
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        // Deprecated because a hostile `AsRawFd` could hand out a descriptor that is not its own; `OwnedFd` never does.
        // Its replacement is `unsafe`, which this workspace denies.
        #[allow(deprecated)]
        AsyncFd::with_interest(fd, Interest::READABLE).map(Self)
    }

    /// Returns when it is readable, without reading. Cancel safe.
    ///
    /// # Errors
    /// If the reactor is gone.
    pub async fn ready(&self) -> io::Result<()> {
        self.0.readable().await.map(|mut guard| guard.retain_ready())
    }

    /// Waits, then reads once, at most `limit` bytes; nothing is the end. Cancel safe: what was not returned was not
    /// read. Takes no memory while it waits.
    ///
    /// # Errors
    /// As read(2).
    pub async fn read(&self, limit: usize) -> io::Result<Vec<u8>> {
        self.take_with(|fd| read_fd(fd, limit)).await
    }

    /// Waits until it is readable, then lets `take` take what is there; waits on if that would block. Cancel safe: what
    /// `take` did is returned.
    ///
    /// # Errors
    /// As `take`.
    pub async fn take_with<T>(&self, mut take: impl FnMut(BorrowedFd<'_>) -> io::Result<T>) -> io::Result<T> {
        loop {
            let mut guard = self.0.readable().await?;
            match guard.try_io(|fd| take(fd.as_fd())) {
                Ok(taken) => return taken,
                Err(_would_block) => continue,
            }
        }
    }

    /// Reads what is there now. Asks the system, not the reactor, whose knowledge lags behind; `None` if it is empty.
    ///
    /// # Errors
    /// As read(2).
    pub fn read_now(&self, limit: usize) -> io::Result<Option<Vec<u8>>> {
        match read_fd(self.as_fd(), limit) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Readable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }
}

fn read_fd(fd: BorrowedFd<'_>, limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; limit];
    loop {
        match nix::unistd::read(fd, &mut bytes) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(length) => {
                bytes.truncate(length);
                bytes.shrink_to_fit();
                return Ok(bytes);
            }
        }
    }
}
