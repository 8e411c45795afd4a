//! Reading and writing that is given up when the time is up: stdin, the daemon's socket, stdout.
//!
//! ```text
//! poll, for what is left of the time ─► ready: one read, or a write that can't block
//!                                    └► TimedOut
//! ```
//!
//! A thread that watches the clock would do, too, and be a quarter of what a hook costs. It knows no frames, and no
//! socket from a pipe.
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What a pipe takes at once when it says that it takes something (POSIX's least `PIPE_BUF`).
pub const PIPE: usize = 512;

/// An end of something, until a moment.
pub struct InTime<T> {
    end: T,
    /// Of a write, if the end may block.
    at_once: usize,
    pub until: Instant,
}

impl<T: AsFd> InTime<T> {
    /// `at_once`: so many bytes are written at a time; of an end that may block, [`PIPE`].
    pub fn new(end: T, at_once: usize, until: Instant) -> Self {
        Self { end, at_once, until }
    }

    /// Anything but silence is for the read or write to find out: the other side may have hung up.
    fn wait_for(&self, what: PollFlags) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(&self.end, what)], Some(&left))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

/// One that was announced and can't be had after all is waited for again.
fn again_while_it_would_block(mut act: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
    }
}

impl<T: AsFd> Read for InTime<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        again_while_it_would_block(|| {
            self.wait_for(PollFlags::IN)?;
            Ok(rustix::io::read(&self.end, &mut *buffer)?)
        })
    }
}

impl<T: AsFd> Write for InTime<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = bytes.get(..self.at_once).unwrap_or(bytes);
        again_while_it_would_block(|| {
            self.wait_for(PollFlags::OUT)?;
            Ok(rustix::io::write(&self.end, piece)?)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
