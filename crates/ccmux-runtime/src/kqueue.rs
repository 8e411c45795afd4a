//! A kqueue that a task can wait on: what pidfd and inotify are on Linux. Knows nothing of what is watched.
//!
//! ```text
//! queue.add(pid, EVFILT_PROC, NOTE_EXIT)?; queue.wait().await?;
//! ```
//!
//! A kqueue is itself a descriptor that the reactor's own kqueue can wait for.

use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::libc::timespec;
use nix::sys::event::{EvFlags, EventFilter, FilterFlag, KEvent, Kqueue};

use crate::readable::Readable;

/// Taken at once.
const EVENTS: usize = 16;

const AT_ONCE: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

/// A queue of hints.
pub struct Queue {
    queue: Kqueue,
    /// The same kqueue, to wait on.
    hints: Readable,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("hints", &self.hints).finish_non_exhaustive()
    }
}

impl Queue {
    /// Must be called within a tokio runtime. Watches nothing yet.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub fn new() -> io::Result<Self> {
        let queue = Kqueue::new()?;
        let hints = Readable::new(queue.as_fd().try_clone_to_owned()?)?;
        Ok(Self { queue, hints })
    }

    /// Watches a process, or an open file; a file until it is closed.
    ///
    /// # Errors
    /// As kevent(2): ESRCH if there is no such process.
    pub fn add(&self, ident: usize, filter: EventFilter, notes: FilterFlag) -> io::Result<()> {
        let change = KEvent::new(ident, filter, EvFlags::EV_ADD | EvFlags::EV_CLEAR, notes, 0, 0);
        match self.queue.kevent(&[change], &mut [], Some(AT_ONCE)) {
            Ok(_) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns when something happened, and takes everything that waits. Cancel safe.
    ///
    /// # Errors
    /// If the reactor is gone.
    pub async fn wait(&self) -> io::Result<()> {
        self.hints.take_with(|_| self.take_all()).await
    }

    fn take_all(&self) -> io::Result<()> {
        let empty = KEvent::new(0, EventFilter::EVFILT_READ, EvFlags::empty(), FilterFlag::empty(), 0, 0);
        let mut events = [empty; EVENTS];
        let mut any = false;
        loop {
            match self.queue.kevent(&[], &mut events, Some(AT_ONCE)) {
                Ok(0) if any => return Ok(()),
                Ok(0) => return Err(io::ErrorKind::WouldBlock.into()),
                Ok(_) => any = true,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}
