//! A FIFO of a channel, opened for reading and checked on the opened descriptor.
//!
//! On Linux it is opened for reading and writing: our own write end keeps the pipe from ending when the last writer
//! leaves. Elsewhere that is undefined, so a write end is opened beside the reader and held.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::unistd::Uid;

use crate::runtime_dir::FileId;

/// A checked FIFO; its bytes stay in the pipe as long as this is held.
#[derive(Debug)]
pub struct OpenFifo {
    /// Which file it is.
    pub id: FileId,
    pub(super) reader: OwnedFd,
    #[cfg(not(target_os = "linux"))]
    pub(super) _writer: File,
}

/// Why a file with the name of a channel is not one.
#[derive(Debug, thiserror::Error)]
pub enum FifoRefused {
    /// What `echo >` leaves when the FIFO is missing.
    #[error("a regular file, not a FIFO: move it away and mkfifo that name")]
    RegularFile,
    /// Symbolic link, directory, device, socket.
    #[error("{0}, not a FIFO: remove it and mkfifo that name")]
    Kind(&'static str),
    /// Another user's.
    #[error("a FIFO of uid {0}, not yours")]
    Foreign(u32),
    /// It has other names, perhaps where others can write.
    #[error("a FIFO with {0} names (hard links): make one of its own")]
    Links(u64),
    /// There are too many.
    #[error("one more than {0} channels")]
    TooMany(usize),
    /// Removed meanwhile.
    #[error("gone")]
    Gone,
    /// The system said no.
    #[error("it can't be opened: {0}")]
    Io(#[from] io::Error),
}

impl OpenFifo {
    /// Opens the FIFO of that name. Never blocks, follows no link, and touches nothing that does not look like a FIFO.
    ///
    /// # Errors
    /// If it is not a FIFO of ours with that one name.
    pub fn open(path: &Path) -> Result<Self, FifoRefused> {
        check(&path.symlink_metadata().map_err(gone_or)?)?;
        let reader = open(path, cfg!(target_os = "linux")).map_err(gone_or)?;
        let found = checked(&reader)?;
        Ok(Self {
            id: FileId::from(&found),
            #[cfg(not(target_os = "linux"))]
            _writer: open_writer(path, &found)?,
            reader: reader.into(),
        })
    }

    /// One that was opened for reading and writing, and checked, by whoever passed it on; it may have lost its name.
    pub(super) fn passed(fifo: File) -> io::Result<Self> {
        Ok(Self {
            id: FileId::of_file(&fifo)?,
            #[cfg(not(target_os = "linux"))]
            _writer: fifo.try_clone()?,
            reader: fifo.into(),
        })
    }
}

/// What was opened. It may have lost its name meanwhile: a writer that waited for us to open it has written, left and
/// removed it, and its message is in there.
fn checked(opened: &File) -> Result<Metadata, FifoRefused> {
    let found = opened.metadata()?;
    match check(&found) {
        Ok(()) | Err(FifoRefused::Gone) => Ok(found),
        Err(refused) => Err(refused),
    }
}

/// Whether whatever was looked at may be a channel's FIFO.
pub(crate) fn check(found: &Metadata) -> Result<(), FifoRefused> {
    if let Some(refused) = refused_kind(found) {
        return Err(refused);
    }
    if found.uid() != Uid::effective().as_raw() {
        return Err(FifoRefused::Foreign(found.uid()));
    }
    match found.nlink() {
        0 => Err(FifoRefused::Gone),
        1 => Ok(()),
        links => Err(FifoRefused::Links(links)),
    }
}

fn refused_kind(found: &Metadata) -> Option<FifoRefused> {
    let kind = found.file_type();
    let refused = match () {
        () if kind.is_fifo() => return None,
        () if kind.is_file() => FifoRefused::RegularFile,
        () if kind.is_symlink() => FifoRefused::Kind("a symbolic link"),
        () if kind.is_dir() => FifoRefused::Kind("a directory"),
        () if kind.is_socket() => FifoRefused::Kind("a socket"),
        () => FifoRefused::Kind("a device"),
    };
    Some(refused)
}

fn open(path: &Path, write: bool) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    OpenOptions::new().read(true).write(write).custom_flags(flags.bits()).open(path)
}

#[cfg(not(target_os = "linux"))]
fn open_writer(path: &Path, reader: &Metadata) -> Result<File, FifoRefused> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let writer = OpenOptions::new().write(true).custom_flags(flags.bits()).open(path).map_err(gone_or)?;
    match FileId::from(&writer.metadata()?) == FileId::from(reader) {
        true => Ok(writer),
        false => Err(FifoRefused::Gone),
    }
}

fn gone_or(error: io::Error) -> FifoRefused {
    match error.kind() {
        io::ErrorKind::NotFound => FifoRefused::Gone,
        _ => FifoRefused::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    /// Field fault 36.
    #[test]
    fn what_lost_its_name_between_opening_and_checking_is_still_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in.x");
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        let opened = open(&path, cfg!(target_os = "linux")).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(checked(&opened).unwrap().nlink(), 0);
        assert!(matches!(OpenFifo::open(&path), Err(FifoRefused::Gone)));
    }

    #[test]
    fn a_second_name_made_between_looking_and_opening_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in.x");
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        let opened = open(&path, cfg!(target_os = "linux")).unwrap();
        std::fs::hard_link(&path, dir.path().join("elsewhere")).unwrap();
        assert!(matches!(checked(&opened), Err(FifoRefused::Links(2))));
    }
}
