//! Whether the disk has room: what `degraded: ["disk"]` in `ccmux status` stands for.
//!
//! Whoever writes tells it. A refused write is tried again within seconds by whoever needs it, so what was refused
//! longer ago is history. Knows no file.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use rusqlite::ErrorCode;
use rusqlite::ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_WRITE};

/// No pause between two attempts is as long.
const RECENT: Duration = Duration::from_secs(12);

/// One disk, as those who write to it see it. Clones share what they know.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<Option<Instant>>>);

impl Disk {
    /// Something was written.
    pub(crate) fn took(&self) {
        *self.refused_at() = None;
    }

    /// Something was not, if the error says that there is no room.
    pub(crate) fn failed(&self, is_full: bool) {
        if is_full {
            *self.refused_at() = Some(Instant::now());
        }
    }

    /// Whether somebody waits for room.
    pub(crate) fn is_full(&self) -> bool {
        self.refused_at().is_some_and(|at| at.elapsed() < RECENT)
    }

    fn refused_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// No space, no quota, or a limit on the size of files.
pub(crate) fn is_full(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG))
}

/// The same, in SQLite's words: it tells a limit on the size of files as a failed write.
pub(crate) fn is_full_for_sqlite(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => {
            failure.code == ErrorCode::DiskFull
                || [SQLITE_IOERR_WRITE, SQLITE_IOERR_SHMSIZE].contains(&failure.extended_code)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_full_from_a_refused_write_to_the_next_that_succeeds() {
        let disk = Disk::default();
        let other = disk.clone();
        disk.failed(is_full(&io::Error::from_raw_os_error(Errno::EIO as i32)));
        assert!(!other.is_full());
        for errno in [Errno::ENOSPC, Errno::EDQUOT, Errno::EFBIG] {
            disk.failed(is_full(&io::Error::from_raw_os_error(errno as i32)));
            assert!(other.is_full(), "{errno}");
            other.took();
            assert!(!disk.is_full());
        }
    }
}
