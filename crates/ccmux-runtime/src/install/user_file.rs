//! One file of the user: found at the end of its links, checked on the opened descriptor, replaced in one step.
//!
//! ```text
//! write .NAME.ccmux-new ─► fsync ─► still the same? ─► exchange names ─► the one that came out is the one we read?
//!                                        │ no: read again                     │ no: exchange back, read again
//! ```
//!
//! Whoever opens it sees the old file or the new one, whole, also if we are killed in between; and whatever another
//! program wrote meanwhile is not lost. It knows nothing of the content.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::Uid;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// No file of this kind is that big.
const LIMIT_BYTES: u64 = 64 * 1024 * 1024;
/// A file that did not exist is private; so is its directory.
const NEW_FILE: u32 = 0o600;
const NEW_DIRECTORY: u32 = 0o700;

/// Why a file is left alone.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is something that must not be written.
    #[error("{path} is refused: {why}")]
    Refused {
        /// As named.
        path: PathBuf,
        /// With the remedy.
        why: String,
    },
    /// The system said no.
    #[error("can't {what} {path}: {source}")]
    Io {
        /// A verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// A file that is there, or is not yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserFile {
    /// As Claude Code names it.
    pub path: PathBuf,
    /// Behind all links.
    real: PathBuf,
}

/// What it held, and whose it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// All of it.
    pub bytes: Vec<u8>,
    mode: u32,
    owner: (u32, u32),
}

/// How an attempt to replace it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// It is what was wanted.
    Yes,
    /// Another program wrote meanwhile, and its content stands: look again.
    Changed,
}

impl UserFile {
    /// Finds it.
    ///
    /// # Errors
    /// If its links lead nowhere.
    pub fn find(path: &Path) -> Result<Self, FileError> {
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Ok(link) = fs::read_link(path) {
                    let why =
                        format!("it is a link to {}, which is not there: remove the link", link.display());
                    return Err(refused(path, why));
                }
                real_of_missing(path)?
            }
            Err(error) => return Err(not_found(path, error)),
        };
        Ok(Self { path: path.to_owned(), real })
    }

    /// Reads it; `None`: it is not there.
    ///
    /// # Errors
    /// If it is not a plain file of this user.
    pub fn read(&self) -> Result<Option<Content>, FileError> {
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let file = match OpenOptions::new().read(true).custom_flags(flags.bits()).open(&self.real) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // A socket can't be opened at all.
            Err(error) if self.real.symlink_metadata().is_ok_and(|found| found.file_type().is_socket()) => {
                return Err(refused(&self.path, format!("it is a socket ({error})")));
            }
            Err(source) => return Err(io_error("open", &self.path, source)),
        };
        let found = file.metadata().map_err(|source| io_error("look at", &self.path, source))?;
        self.check(&found)?;
        let mut bytes = Vec::new();
        let read = file.take(LIMIT_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|source| io_error("read", &self.path, source))?;
        if bytes.len() as u64 > LIMIT_BYTES {
            return Err(refused(&self.path, "it is too big".to_owned()));
        }
        Ok(Some(Content { bytes, mode: found.mode() & 0o7777, owner: (found.uid(), found.gid()) }))
    }

    fn check(&self, found: &fs::Metadata) -> Result<(), FileError> {
        let kind = found.file_type();
        let why = if kind.is_dir() {
            "it is a directory".to_owned()
        } else if kind.is_fifo() {
            "it is a FIFO".to_owned()
        } else if !kind.is_file() {
            "it is a device".to_owned()
        } else if found.uid() != Uid::effective().as_raw() {
            format!("it belongs to user {}", found.uid())
        } else if found.nlink() > 1 {
            format!("it has {} names (hard links), of which only one would be changed", found.nlink())
        } else if found.mode() & 0o200 == 0 {
            "it is read-only: chmod u+w, if that is not on purpose".to_owned()
        } else {
            return Ok(());
        };
        Err(refused(&self.path, why))
    }

    /// The directories that would have to be made for it, the outermost first.
    pub fn missing_directories(&self) -> Vec<PathBuf> {
        let missing = self.real.ancestors().skip(1).take_while(|dir| !dir.exists());
        let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        missing.reverse();
        missing
    }

    /// Puts `new` in the place of `old`; `None` is no file.
    ///
    /// # Errors
    /// What the system says; then the file is one of both, whole.
    pub fn replace(&self, old: Option<&Content>, new: Option<&[u8]>) -> Result<Replaced, FileError> {
        let failed = |source| io_error("replace", &self.path, source);
        let replaced = match (old, new) {
            (None, None) => Ok(Replaced::Yes),
            (None, Some(bytes)) => self.create(bytes),
            (Some(old), Some(bytes)) => self.exchange(old, bytes),
            (Some(old), None) => self.remove(old),
        };
        let replaced = replaced.map_err(failed)?;
        let directory = self.real.parent().map(File::open).transpose().map_err(failed)?;
        directory.map_or(Ok(()), |directory| directory.sync_all()).map_err(failed)?;
        Ok(replaced)
    }

    fn create(&self, bytes: &[u8]) -> io::Result<Replaced> {
        for directory in self.missing_directories() {
            DirBuilder::new().mode(NEW_DIRECTORY).create(directory)?;
        }
        let beside = self.write_beside(bytes, None)?;
        match rename_to_new_name(&beside, &self.real) {
            Ok(()) => Ok(Replaced::Yes),
            Err(error) => {
                fs::remove_file(&beside)?;
                if error.kind() == io::ErrorKind::AlreadyExists { Ok(Replaced::Changed) } else { Err(error) }
            }
        }
    }

    fn exchange(&self, old: &Content, bytes: &[u8]) -> io::Result<Replaced> {
        let beside = self.write_beside(bytes, Some(old))?;
        if self.read().ok().flatten().is_none_or(|now| now.bytes != old.bytes) {
            fs::remove_file(&beside)?;
            return Ok(Replaced::Changed);
        }
        match renameat_with(CWD, &beside, CWD, &self.real, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            Err(Errno::NOENT) => {
                fs::remove_file(&beside)?;
                return Ok(Replaced::Changed);
            }
            // Not every file system can.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                return fs::rename(&beside, &self.real).map(|()| Replaced::Yes);
            }
            Err(errno) => {
                fs::remove_file(&beside)?;
                return Err(errno.into());
            }
        }
        let replaced = self.look_at_what_came_out(&beside, &old.bytes, bytes)?;
        fs::remove_file(&beside)?;
        Ok(replaced)
    }

    /// If it is not what we had read, it is newer than our change and goes back; until what comes out is what we put in.
    fn look_at_what_came_out(&self, beside: &Path, old: &[u8], new: &[u8]) -> io::Result<Replaced> {
        let (mut expected, mut inside) = (old.to_vec(), new.to_vec());
        let mut out = fs::read(beside)?;
        let mut replaced = Replaced::Yes;
        while out != expected {
            renameat_with(CWD, beside, CWD, &self.real, RenameFlags::EXCHANGE)?;
            (expected, inside) = (inside, out);
            out = fs::read(beside)?;
            replaced = Replaced::Changed;
        }
        Ok(replaced)
    }

    fn remove(&self, old: &Content) -> io::Result<Replaced> {
        let aside = self.beside();
        match fs::rename(&self.real, &aside) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Replaced::Changed),
            Err(error) => return Err(error),
        }
        if fs::read(&aside)? == old.bytes {
            return fs::remove_file(&aside).map(|()| Replaced::Yes);
        }
        // Newer than what we read; and if yet another one was made meanwhile, that is the newest.
        match rename_to_new_name(&aside, &self.real) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::remove_file(&aside)?,
            other => other?,
        }
        Ok(Replaced::Changed)
    }

    fn beside(&self) -> PathBuf {
        let name = self.real.file_name().unwrap_or_default().to_string_lossy();
        self.real.with_file_name(format!(".{name}.ccmux-new"))
    }

    /// Writes the new content to a file of the same mode, owner and attributes.
    fn write_beside(&self, bytes: &[u8], like: Option<&Content>) -> io::Result<PathBuf> {
        let beside = self.beside();
        // Left behind by one of us that was killed: there is only one of us at a time.
        let _ = fs::remove_file(&beside);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(NEW_FILE).open(&beside)?;
        let written = (|| {
            file.write_all(bytes)?;
            if let Some(like) = like {
                let found = file.metadata()?;
                if (found.uid(), found.gid()) != like.owner {
                    fchown(&file, Some(like.owner.0), Some(like.owner.1))?;
                }
                copy_attributes(&self.real, &file);
                file.set_permissions(fs::Permissions::from_mode(like.mode))?;
            }
            file.sync_all()
        })();
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written.map(|()| beside)
    }
}

/// Extended attributes, access lists among them, as far as the file system lets us.
fn copy_attributes(from: &Path, to: &File) {
    let (mut names, mut value) = (vec![0u8; 64 * 1024], vec![0u8; 64 * 1024]);
    let Ok(length) = rustix::fs::listxattr(from, &mut names) else { return };
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if let Ok(length) = rustix::fs::getxattr(from, name, &mut value) {
            let _ = rustix::fs::fsetxattr(to, name, &value[..length], rustix::fs::XattrFlags::empty());
        }
    }
}

/// A rename that replaces nothing.
fn rename_to_new_name(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        other => Ok(other?),
    }
}

/// The nearest directory that is there, without links, and the rest.
fn real_of_missing(path: &Path) -> Result<PathBuf, FileError> {
    let there = path.ancestors().skip(1).find(|dir| dir.symlink_metadata().is_ok()).unwrap_or(path);
    let real = fs::canonicalize(there).map_err(|error| match fs::read_link(there) {
        Ok(link) if error.kind() == io::ErrorKind::NotFound => {
            let why = format!("{} is a link to {}, which is not there", there.display(), link.display());
            refused(path, why)
        }
        _ => not_found(path, error),
    })?;
    let rest = path.strip_prefix(there).unwrap_or(path);
    Ok(real.join(rest))
}

fn not_found(path: &Path, error: io::Error) -> FileError {
    match error.raw_os_error() {
        Some(errno) if errno == nix::errno::Errno::ELOOP as i32 => {
            refused(path, "its links lead in a circle: remove one".to_owned())
        }
        Some(errno) if errno == nix::errno::Errno::ENOTDIR as i32 => {
            refused(path, "a file stands where its directory should be: move that away".to_owned())
        }
        _ => io_error("find", path, error),
    }
}

fn refused(path: &Path, why: String) -> FileError {
    FileError::Refused { path: path.to_owned(), why }
}

fn io_error(what: &'static str, path: &Path, source: io::Error) -> FileError {
    FileError::Io { what, path: path.to_owned(), source }
}
