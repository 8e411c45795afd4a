//! Notices that a peer is gone without writing to it.
//!
//! End of file is no goodbye (`nc -N` and `socat` half-close), so reading can't tell; the poll result of a hang-up can.
//! It is awaited on a duplicate of the descriptor, whose readiness to write is always forgotten again, so that only news
//! wake the task. (On the original that would make the next write wait for news that never come.)

use std::io;
use std::os::fd::AsFd;

use tokio::io::Interest;
use tokio::net::UnixStream;

/// Watches one connection.
#[derive(Debug)]
pub(super) struct HangUp(UnixStream);

impl HangUp {
    pub(super) fn of(stream: &UnixStream) -> io::Result<Self> {
        let duplicate = std::os::unix::net::UnixStream::from(stream.as_fd().try_clone_to_owned()?);
        UnixStream::from_std(duplicate).map(Self)
    }

    /// Returns once nobody can read any more.
    pub(super) async fn wait(&self) {
        // An error means that the runtime shuts down, which ends the connection as well.
        while let Ok(ready) = self.0.ready(Interest::WRITABLE).await {
            if ready.is_write_closed() {
                return;
            }
            let forget = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            // Always that error: it is what clears the readiness.
            let _ = self.0.try_io(Interest::WRITABLE, forget);
        }
    }
}
