//! What makes a file the same file: device and inode number.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Device and inode. Unique only while the file is held open or linked: the system uses numbers again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    /// `st_dev`.
    pub dev: u64,
    /// `st_ino`.
    pub ino: u64,
}

impl FileId {
    /// Of an open file.
    ///
    /// # Errors
    /// If the system refuses to tell.
    pub fn of_file(file: &File) -> io::Result<Self> {
        file.metadata().map(|metadata| Self::from(&metadata))
    }

    /// Of whatever has that name now; a symbolic link is not followed.
    pub fn of_path(path: &Path) -> Option<Self> {
        path.symlink_metadata().ok().map(|metadata| Self::from(&metadata))
    }
}

impl From<&Metadata> for FileId {
    fn from(metadata: &Metadata) -> Self {
        Self { dev: metadata.dev(), ino: metadata.ino() }
    }
}
