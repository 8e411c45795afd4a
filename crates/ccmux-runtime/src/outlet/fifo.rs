//! A channel's FIFO, opened for writing and checked on the opened descriptor.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use tokio::net::unix::pipe::Sender;

use crate::intake::{FifoRefused, check_fifo};
use crate::runtime_dir::FileId;

/// A checked FIFO that somebody reads.
#[derive(Debug)]
pub(super) struct OutFifo {
    /// Which file it is.
    pub id: FileId,
    /// Our end.
    pub pipe: Sender,
}

/// Why it can't be written now.
#[derive(Debug)]
pub(super) enum NotOpen {
    /// Nobody has it open for reading.
    NobodyListens,
    /// It is not a FIFO of ours, or gone.
    Refused(FifoRefused),
}

impl OutFifo {
    /// Opens it. Never blocks, follows no link, and touches nothing that does not look like a FIFO.
    pub fn open(path: &Path) -> Result<Self, NotOpen> {
        check_fifo(&path.symlink_metadata().map_err(not_open)?)?;
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = OpenOptions::new().write(true).custom_flags(flags.bits()).open(path).map_err(not_open)?;
        let found = file.metadata().map_err(not_open)?;
        check_fifo(&found)?;
        let pipe = Sender::from_owned_fd(file.into()).map_err(not_open)?;
        Ok(Self { id: FileId::from(&found), pipe })
    }

    /// Whether that is still the file of that name.
    pub fn is_at(&self, path: &Path) -> bool {
        FileId::of_path(path) == Some(self.id)
    }

    /// How many bytes nobody has read yet: they would be lost if this end were closed while no reader is there. Where
    /// the system doesn't tell, none.
    pub fn unread(&self) -> usize {
        rustix::io::ioctl_fionread(&self.pipe).map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }
}

impl From<FifoRefused> for NotOpen {
    fn from(refused: FifoRefused) -> Self {
        Self::Refused(refused)
    }
}

fn not_open(error: io::Error) -> NotOpen {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENXIO) => NotOpen::NobodyListens,
        Some(Errno::ENOENT) => NotOpen::Refused(FifoRefused::Gone),
        _ => NotOpen::Refused(FifoRefused::Io(error)),
    }
}
