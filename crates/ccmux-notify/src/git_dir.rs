//! A git directory that somebody named, opened: who owns it, and which place it says it belongs to.
//!
//! ```text
//! /src/app-fix/.git ── gitdir: ─► /src/app/.git/worktrees/app-fix ── gitdir ─────────► /src/app-fix/.git ✓
//! /src/app/sub/.git ── gitdir: ─► /src/app/.git/modules/sub ──────── core.worktree ──► /src/app/sub ✓
//! ```
//!
//! Files are read beside the open directory and compared by device and inode, not by name: what was checked is what is read.
//! Knows no notes.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::Uid;

use crate::git_config::core_worktree;

/// git's own pointer files hold one path.
const MAX_POINTER_BYTES: u64 = 8 * 1024;
/// Each branch may have its section.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// The directory, and its path without links.
#[derive(Debug)]
pub struct GitDir {
    dir: OwnedFd,
    path: PathBuf,
}

impl GitDir {
    /// Opens whatever directory is there.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(Self { dir: open(&path, flags, Mode::empty())?, path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it has what git looks for.
    pub fn is_one(&self) -> bool {
        let has = |name: &str, kind| {
            self.named(Path::new(name))
                .is_ok_and(|found| SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == kind)
        };
        has("HEAD", SFlag::S_IFREG) && has("objects", SFlag::S_IFDIR) && has("refs", SFlag::S_IFDIR)
    }

    /// Whether it is this user's.
    pub fn is_ours(&self) -> bool {
        fstat(&self.dir).is_ok_and(|found| found.st_uid == Uid::effective().as_raw())
    }

    /// Whether it lies below that place, with which it came.
    pub fn is_within(&self, place: &Path) -> bool {
        place.canonicalize().is_ok_and(|place| self.path != place && self.path.starts_with(place))
    }

    /// The repository of a linked worktree's git directory; `None`: it is no such one.
    ///
    /// # Errors
    /// If it says that it is one, and its repository is not there.
    pub fn common(&self) -> io::Result<Option<Self>> {
        match self.line("commondir") {
            Ok(common) => Self::open(&self.path.join(common)).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether that one is a linked worktree's, kept in this repository.
    pub fn lists(&self, worktree: &Self) -> bool {
        let (listed, above) = (self.named(Path::new("worktrees")), worktree.named(Path::new("..")));
        listed.ok().zip(above.ok()).is_some_and(|(listed, above)| is_same(&listed, &above))
    }

    /// Whether it is a linked worktree's, and that file is the worktree's `.git`.
    pub fn names_back(&self, mark: impl AsFd) -> bool {
        self.line("gitdir").is_ok_and(|back| self.is_at(&back, mark))
    }

    /// Whether its files are checked out in that directory.
    pub fn is_checked_out_in(&self, place: impl AsFd) -> bool {
        // Where a submodule has settings of its own for each worktree, git has moved this one to them.
        let settings = ["config", "config.worktree"].map(|name| self.settings(name).ok());
        let named = settings.into_iter().flatten().filter_map(|config| core_worktree(&config)).next_back();
        named.is_some_and(|named| self.is_at(&named, place))
    }

    fn is_at(&self, name: &str, what: impl AsFd) -> bool {
        let (named, what) = (self.named(Path::new(name)), fstat(what));
        named.ok().zip(what.ok()).is_some_and(|(named, what)| is_same(&named, &what))
    }

    fn named(&self, name: &Path) -> nix::Result<FileStat> {
        fstatat(&self.dir, name, AtFlags::empty())
    }

    fn line(&self, name: &str) -> io::Result<String> {
        let file = plain_file(&self.dir, name)?;
        text_of(file, MAX_POINTER_BYTES).map(only_line)
    }

    /// Somebody's name in it may be in any encoding.
    fn settings(&self, name: &str) -> io::Result<String> {
        let (file, mut bytes) = (plain_file(&self.dir, name)?, Vec::new());
        file.take(MAX_CONFIG_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A `.git` file, opened, and its one line.
///
/// # Errors
/// If it can't be opened, or may be anything: a link, a FIFO, a device.
pub fn mark(place: impl AsFd) -> io::Result<(File, String)> {
    let file = plain_file(place, ".git")?;
    let text = text_of(file.try_clone()?, MAX_POINTER_BYTES)?;
    Ok((file, only_line(text)))
}

fn plain_file(dir: impl AsFd, name: &str) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = File::from(openat(dir, name, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    Ok(file)
}

fn text_of(file: File, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    file.take(limit).read_to_string(&mut text)?;
    Ok(text)
}

fn only_line(text: String) -> String {
    text.trim_end_matches(['\n', '\r']).to_owned()
}

fn is_same(one: &FileStat, other: &FileStat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}
