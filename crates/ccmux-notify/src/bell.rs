//! The doorbell: a FIFO that wakes who listens. It carries no news; the files do.
//!
//! ```text
//! ring      one byte, if somebody has it open for reading; never waits
//! Bell      made and held open by who listens; its bytes stay until somebody saw that nothing is left
//! ```
//!
//! A byte is taken only by [`Bell::silence`], under the lock that every change holds: were it taken by a listener that is
//! killed then, the others would sleep beside a note.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::folder::{Folder, FolderError};

/// The one that every listener hears.
pub const DOORBELL: &str = "doorbell";
const TRIES: usize = 8;

/// A doorbell that rings for what is held.
#[derive(Debug)]
pub struct Bell {
    name: String,
    reader: File,
    /// Held, or the reader would see the end as soon as one writer is gone.
    _writer: File,
}

/// Whether somebody heard it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rung {
    /// It is open somewhere.
    Heard,
    /// Nobody listens.
    Nobody,
}

impl Bell {
    /// Opens it; whatever else stands in its place is replaced. The caller holds [`Folder::lock`].
    ///
    /// # Errors
    /// If the system refuses.
    pub fn hang(folder: &Folder, name: &str) -> Result<Self, FolderError> {
        // Whoever takes it away, or puts something in its place, may be at it still.
        for _ in 1..TRIES {
            if let Ok(bell) = Self::hang_once(folder, name) {
                return Ok(bell);
            }
        }
        Self::hang_once(folder, name)
    }

    fn hang_once(folder: &Folder, name: &str) -> Result<Self, FolderError> {
        match Self::open(folder, name) {
            Ok(bell) => return Ok(bell),
            Err(FolderError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(_) => folder.remove(name)?,
        }
        let path = folder.path_of(name);
        let made = mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR);
        made.map_err(|errno| FolderError::Io { path, source: errno.into() })?;
        Self::open(folder, name)
    }

    fn open(folder: &Folder, name: &str) -> Result<Self, FolderError> {
        let reader = fifo(folder, name, OFlag::O_RDONLY)?;
        let writer = fifo(folder, name, OFlag::O_WRONLY)?;
        Ok(Self { name: name.to_owned(), reader, _writer: writer })
    }

    /// Whether who rings finds it: somebody may have removed it.
    pub fn still_hangs(&self, folder: &Folder) -> bool {
        folder.holds(&self.name, &self.reader)
    }

    /// Takes its bytes. The caller holds [`Folder::lock`] and saw that nothing waits.
    pub fn silence(&self) {
        let mut bytes = [0; 1024];
        while (&self.reader).read(&mut bytes).is_ok_and(|read| read == bytes.len()) {}
    }

    /// The name of its file.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

/// Rings, if somebody listens. A bell that is full of rings rings already. It takes no time.
pub fn ring(folder: &Folder, name: &str) -> Rung {
    match fifo(folder, name, OFlag::O_WRONLY) {
        Ok(mut bell) => {
            let _ = bell.write(b"!");
            Rung::Heard
        }
        Err(_) => Rung::Nobody,
    }
}

/// Whether somebody would hear it. Rings for nobody.
pub(crate) fn is_heard(folder: &Folder, name: &str) -> bool {
    fifo(folder, name, OFlag::O_WRONLY).is_ok()
}

fn fifo(folder: &Folder, name: &str, flags: OFlag) -> Result<File, FolderError> {
    let file = folder.entry(name, flags)?;
    let is_fifo = file.metadata().is_ok_and(|found| found.file_type().is_fifo());
    let why = "it is no FIFO";
    if is_fifo { Ok(file) } else { Err(FolderError::Refused { path: folder.path_of(name), why }) }
}

/// The bell of who listens under a name, or waits for an answer. Names may hold anything, and two have two bells.
pub fn bell_of(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.len() <= 64 && name.chars().all(is_plain) {
        return format!("{DOORBELL}.{name}");
    }
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let plain: String = name.chars().filter(|c| is_plain(*c)).take(40).collect();
    format!("{DOORBELL}.{plain}.{:016x}", hasher.finish())
}
