//! `<repository>/.ccmux/notify`: its files and locks.
//!
//! ```text
//! .ccmux/notify/queue.jsonl       what waits           questions.jsonl  what was asked
//! .ccmux/notify/doorbell          a FIFO               queue.lock       held for a moment by whoever changes a file
//! .ccmux/notify/listener.pid      shared by who listens drain.lock      held by the one who takes notes
//! ```
//!
//! Everything is opened relative to the directory's own descriptor and without following links: others may be able to
//! write beside it. What is not the user's own is refused.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{AT_FDCWD, OFlag, openat, renameat};
use nix::sys::stat::{Mode, fchmod, fstat, mkdirat};
use nix::unistd::{Uid, UnlinkatFlags, unlinkat};

use crate::repository::Repository;

/// Whoever changes a file does so in a moment; if not, something is wrong with them.
pub const LOCK_LIMIT: Duration = Duration::from_secs(10);
const HIDDEN: &str = ".ccmux";
const NOTIFY: &str = "notify";
const TRIES: usize = 8;
const EXCLUDED: &str = "/.ccmux/";
const MAX_EXCLUDE_BYTES: u64 = 1 << 20;

/// What can go wrong with files.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The system said no.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Not a file of ours.
    #[error("{} is refused: {why}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
    /// Somebody keeps a lock.
    #[error("{} is locked by another process for too long: is one of ccmux stopped?", path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
    },
    /// Nobody takes anything.
    #[error("{} is full ({bytes} bytes): run `ccmux listen`, or `ccmux notify --clear`", path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// How much it holds.
        bytes: u64,
    },
    /// What was begun there can't end there.
    #[error("{} was moved or removed meanwhile: put it back, or begin anew", path.display())]
    Moved {
        /// The directory.
        path: PathBuf,
    },
}

/// The directory, open.
#[derive(Debug)]
pub struct Folder {
    root: OwnedFd,
    dir: OwnedFd,
    repository: Repository,
    path: PathBuf,
}

/// Held while it lives.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "closing it lets go")] File);

impl Folder {
    /// Opens the repository's, makes it if it is missing, and keeps it out of git.
    ///
    /// # Errors
    /// If something of the path is another user's, a link or no directory, or the system refuses.
    pub fn open(repository: &Repository) -> Result<Self, FolderError> {
        let root = openat(AT_FDCWD, &repository.root, directory_flags(), Mode::empty());
        Self::within(root.map_err(|errno| io_at(&repository.root, errno.into()))?, repository.clone())
    }

    /// The one that stands in its place, where it was moved or removed; made if nothing does. The repository itself may be
    /// elsewhere by now.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn again(&self) -> Result<Self, FolderError> {
        let mut last = self.moved();
        for _ in 0..TRIES {
            let root = self.root.try_clone().map_err(|source| io_at(&self.repository.root, source))?;
            match Self::within(root, self.repository.clone()) {
                Ok(found) if found.is_in_place() => return Ok(found),
                Ok(_) => last = self.moved(),
                // Whoever removes it may be at it still.
                Err(FolderError::Io { path, source }) if source.kind() == io::ErrorKind::NotFound => {
                    last = FolderError::Io { path, source };
                }
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn within(root: OwnedFd, repository: Repository) -> Result<Self, FolderError> {
        let hidden_path = repository.root.join(HIDDEN);
        let hidden = directory(&root, HIDDEN, &hidden_path)?;
        let path = hidden_path.join(NOTIFY);
        let dir = directory(&hidden, NOTIFY, &path)?;
        fchmod(&dir, Mode::S_IRWXU).map_err(|errno| io_at(&path, errno.into()))?;
        let folder = Self { root, dir, repository, path };
        if let Some(exclude) = &folder.repository.exclude {
            folder.keep_out_of_git(exclude)?;
        }
        Ok(folder)
    }

    /// Whether others find this very directory where they look for it.
    pub fn is_in_place(&self) -> bool {
        let found = inner(&self.root, HIDDEN).and_then(|hidden| inner(&hidden, NOTIFY));
        let same = found.and_then(|found| fstat(&found)).ok().zip(fstat(&self.dir).ok());
        same.is_some_and(|(found, ours)| (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino))
    }

    /// It is not.
    pub(crate) fn moved(&self) -> FolderError {
        FolderError::Moved { path: self.path.clone() }
    }

    /// The directories that can be moved away: itself, and the one above.
    #[cfg(target_os = "linux")]
    pub(crate) fn movable(&self) -> [PathBuf; 2] {
        [self.path.clone(), self.repository.root.join(HIDDEN)]
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in it, for people and for `mkfifo`.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a file of it, and never waits for another end.
    ///
    /// # Errors
    /// What the system says; [`FolderError::Refused`] if it is not a plain file of ours.
    pub fn file(&self, name: &str, flags: OFlag) -> Result<File, FolderError> {
        let file = self.entry(name, flags)?;
        let found = file.metadata().map_err(|source| io_at(&self.path_of(name), source))?;
        let refused = |why| Err(FolderError::Refused { path: self.path_of(name), why });
        match found {
            found if !found.is_file() => refused("it is no regular file: remove it"),
            found if found.uid() != Uid::effective().as_raw() => refused("it belongs to another user"),
            found if found.nlink() != 1 => refused("it has another name elsewhere"),
            _ => Ok(file),
        }
    }

    /// Opens whatever stands there, if it is no link.
    pub(crate) fn entry(&self, name: &str, flags: OFlag) -> Result<File, FolderError> {
        let safe = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let file = openat(&self.dir, name, flags | safe, mode);
        file.map(File::from).map_err(|errno| refusal(&self.path_of(name), errno))
    }

    /// Takes a name away, whatever it stands for.
    pub(crate) fn remove(&self, name: &str) -> Result<(), FolderError> {
        match unlinkat(&self.dir, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(nix::Error::ENOENT) => Ok(()),
            Err(errno) => Err(refusal(&self.path_of(name), errno)),
        }
    }

    /// Whether that name stands for this very file.
    pub(crate) fn holds(&self, name: &str, file: impl AsFd) -> bool {
        let named = nix::sys::stat::fstatat(&self.dir, name, nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW);
        let same = named.ok().zip(fstat(file).ok());
        same.is_some_and(|(named, open)| (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino))
    }

    /// The lock for whoever changes a file.
    ///
    /// # Errors
    /// If the system refuses, or somebody has it for [`LOCK_LIMIT`].
    pub fn lock(&self) -> Result<Lock, FolderError> {
        let locked = self.lock_within("queue.lock", Some(Instant::now() + LOCK_LIMIT))?;
        locked.ok_or_else(|| FolderError::Locked { path: self.path_of("queue.lock") })
    }

    /// A lock by that name; `None` if it can't be had by then.
    pub(crate) fn lock_within(
        &self,
        name: &'static str,
        deadline: Option<Instant>,
    ) -> Result<Option<Lock>, FolderError> {
        let file = self.file(name, OFlag::O_RDWR | OFlag::O_CREAT)?;
        if file.try_lock().is_ok() {
            return Ok(Some(Lock(file)));
        }
        // The system knows no lock with a limit.
        let (locked, result) = mpsc::channel();
        thread::spawn(move || locked.send(file.lock().map(|()| file)));
        let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        let result = match deadline {
            Some(_) => result.recv_timeout(left).ok(),
            None => result.recv().ok(),
        };
        match result {
            Some(Ok(file)) => Ok(Some(Lock(file))),
            Some(Err(source)) => Err(io_at(&self.path_of(name), source)),
            None => Ok(None),
        }
    }

    /// Appends a line in one write, or leaves the file as it was; returns how long that was. The caller holds
    /// [`Folder::lock`].
    ///
    /// # Errors
    /// If there is no room for it, or the file holds `limit` bytes.
    pub(crate) fn append(&self, name: &str, line: &[u8], limit: u64) -> Result<u64, FolderError> {
        let mut file = self.file(name, OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_APPEND)?;
        let at = |source| io_at(&self.path_of(name), source);
        let length = mended_length(&mut file).map_err(at)?;
        if length + line.len() as u64 > limit {
            return Err(FolderError::Full { path: self.path_of(name), bytes: length });
        }
        let written = match file.write(line) {
            Ok(written) if written == line.len() => return Ok(length),
            Ok(_) => io::Error::from(io::ErrorKind::StorageFull),
            Err(error) => error,
        };
        file.set_len(length).map_err(at)?;
        Err(at(written))
    }

    /// All whole lines. The caller holds [`Folder::lock`].
    pub(crate) fn lines(&self, name: &str) -> Result<Vec<u8>, FolderError> {
        let at = |source| io_at(&self.path_of(name), source);
        let mut file = match self.file(name, OFlag::O_RDWR) {
            Ok(file) => file,
            Err(FolderError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        let length = mended_length(&mut file).map_err(at)?;
        let mut lines = Vec::new();
        file.seek(SeekFrom::Start(0)).and_then(|_| file.take(length).read_to_end(&mut lines)).map_err(at)?;
        Ok(lines)
    }

    /// Takes back what was appended. The caller has held [`Folder::lock`] since.
    pub(crate) fn cut(&self, name: &str, length: u64) -> Result<(), FolderError> {
        let file = self.file(name, OFlag::O_RDWR)?;
        file.set_len(length).map_err(|source| io_at(&self.path_of(name), source))
    }

    /// Has the file hold this instead: in one step, or, where there is no room for a second file, in the one that is
    /// there. The caller holds [`Folder::lock`].
    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> Result<(), FolderError> {
        let at = |source| io_at(&self.path_of(name), source);
        if content.is_empty() {
            // Needs no room, so that a full disk keeps nothing in the queue.
            return self.file(name, OFlag::O_RDWR | OFlag::O_CREAT)?.set_len(0).map_err(at);
        }
        let new = format!("{name}.new");
        self.renewed(name, &new, content).or_else(|error| {
            // What was written of it takes room that nobody needs.
            let _ = self.remove(&new);
            self.overwrite(name, content).map_err(|_| error)
        })
    }

    fn renewed(&self, name: &str, new: &str, content: &[u8]) -> Result<(), FolderError> {
        let at = |source| io_at(&self.path_of(name), source);
        self.remove(new)?;
        let mut file = self.file(new, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL)?;
        file.write_all(content).and_then(|()| file.sync_data()).map_err(at)?;
        renameat(&self.dir, new, &self.dir, name).map_err(|errno| at(errno.into()))
    }

    /// Writes into the blocks that the file has. One write covers all of it, with empty lines at the end: who is killed
    /// before the end is cut off leaves no line twice.
    fn overwrite(&self, name: &str, content: &[u8]) -> Result<(), FolderError> {
        let at = |source| io_at(&self.path_of(name), source);
        let file = self.file(name, OFlag::O_RDWR)?;
        let length = file.metadata().map_err(at)?.len();
        if content.len() as u64 > length {
            return Err(at(io::ErrorKind::StorageFull.into()));
        }
        let mut all = content.to_vec();
        all.resize(usize::try_from(length).unwrap_or(content.len()), b'\n');
        file.write_all_at(&all, 0).and_then(|()| file.set_len(content.len() as u64)).map_err(at)
    }

    /// Adds a line to `info/exclude`, which is the user's. One that can't be written keeps no note back.
    fn keep_out_of_git(&self, exclude: &Path) -> Result<(), FolderError> {
        let has_line =
            |text: &[u8]| text.split(|byte| *byte == b'\n').any(|line| line == EXCLUDED.as_bytes());
        let read = || {
            let mut text = Vec::new();
            // It came with the repository, and may be anything: a FIFO would be waited for.
            let file = std::fs::OpenOptions::new()
                .read(true)
                .custom_flags(OFlag::O_NONBLOCK.bits())
                .open(exclude)?;
            let is_plain = file.metadata()?.is_file();
            file.take(if is_plain { MAX_EXCLUDE_BYTES } else { 0 }).read_to_end(&mut text)?;
            io::Result::Ok(text)
        };
        if read().is_ok_and(|text| has_line(&text)) {
            return Ok(());
        }
        let _lock = self.lock()?;
        let text = read().unwrap_or_default();
        if !has_line(&text) {
            let _ = append_exclude(exclude, text.last().is_some_and(|last| *last != b'\n'));
        }
        Ok(())
    }
}

fn append_exclude(exclude: &Path, is_torn: bool) -> io::Result<()> {
    if let Some(info) = exclude.parent() {
        let _ = std::fs::create_dir(info);
    }
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.append(true).create(true).custom_flags(flags).open(exclude)?;
    let end = if is_torn { "\n" } else { "" };
    file.write_all(format!("{end}{EXCLUDED}\n").as_bytes())
}

/// The length of what is whole. A line that a killed writer left without its end was never acknowledged, and goes; one
/// that is all there gets its end.
fn mended_length(file: &mut File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let Some(before) = length.checked_sub(1) else { return Ok(0) };
    let mut last = [0];
    file.seek(SeekFrom::Start(before))?;
    file.read_exact(&mut last)?;
    if last == [b'\n'] {
        return Ok(length);
    }
    let mut all = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut all)?;
    let begin = all.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let is_whole = serde_json::from_slice::<serde_json::Map<_, _>>(&all[begin..]).is_ok();
    file.seek(SeekFrom::End(0))?;
    if is_whole && file.write(b"\n")? == 1 {
        return Ok(length + 1);
    }
    file.set_len(begin as u64)?;
    Ok(begin as u64)
}

/// Makes it if it is missing.
fn directory(above: &OwnedFd, name: &str, path: &Path) -> Result<OwnedFd, FolderError> {
    let _ = mkdirat(above, name, Mode::S_IRWXU);
    let dir = inner(above, name).map_err(|errno| refusal(path, errno))?;
    let found = fstat(&dir).map_err(|errno| io_at(path, errno.into()))?;
    if found.st_uid != Uid::effective().as_raw() {
        return Err(FolderError::Refused { path: path.to_owned(), why: "it belongs to another user" });
    }
    Ok(dir)
}

fn inner(above: &OwnedFd, name: &str) -> nix::Result<OwnedFd> {
    openat(above, name, directory_flags() | OFlag::O_NOFOLLOW, Mode::empty())
}

fn directory_flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC
}

fn io_at(path: &Path, source: io::Error) -> FolderError {
    FolderError::Io { path: path.to_owned(), source }
}

/// What stands there is none of ours, if the system says so.
fn refusal(path: &Path, errno: nix::Error) -> FolderError {
    let why = match errno {
        nix::Error::ELOOP => "it is a link: remove it",
        nix::Error::ENOTDIR => "it is a link, or no directory: remove it",
        nix::Error::EISDIR => "it is a directory: remove it",
        _ => return io_at(path, errno.into()),
    };
    FolderError::Refused { path: path.to_owned(), why }
}
