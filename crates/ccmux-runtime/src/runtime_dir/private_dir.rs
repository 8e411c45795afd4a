//! A directory that is ours alone: made 0700 or checked, opened, locked.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::unistd::Uid;

use super::RuntimeDirError;

const PRIVATE: u32 = 0o700;
const OTHERS: u32 = 0o077;
const LOCK_RETRY: Duration = Duration::from_millis(20);

/// Absolute and without `/` or `/.` at the end, which would follow a symbolic link in the last component.
pub(super) fn plain_path(path: &Path) -> Result<PathBuf, RuntimeDirError> {
    let absolute = std::path::absolute(path).map_err(|error| RuntimeDirError::io("resolve", path, error))?;
    Ok(absolute.components().collect())
}

/// Makes the missing parents, private too.
pub(super) fn make_parents(path: &Path) -> Result<(), RuntimeDirError> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    let made = DirBuilder::new().recursive(true).mode(PRIVATE).create(parent);
    made.map_err(|error| RuntimeDirError::io("make", parent, error))
}

/// Makes the directory if it is missing, opens it without following a link, and checks what was opened.
pub(super) fn open(path: &Path, variable: &'static str) -> Result<File, RuntimeDirError> {
    make(path, variable)?;
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path);
    let dir = opened.map_err(|error| explain(path, variable, error))?;
    check(&dir, path, variable)?;
    Ok(dir)
}

fn make(path: &Path, variable: &'static str) -> Result<(), RuntimeDirError> {
    match DirBuilder::new().mode(PRIVATE).create(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(RuntimeDirError::NoParent { path: path.to_owned(), variable })
        }
        Err(error) => Err(RuntimeDirError::io("make", path, error)),
    }
}

/// Why it could not be opened, in words: Linux says ENOTDIR for a symbolic link too.
fn explain(path: &Path, variable: &'static str, error: io::Error) -> RuntimeDirError {
    let path = path.to_owned();
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => RuntimeDirError::Symlink { path, variable },
        Ok(found) if !found.is_dir() => RuntimeDirError::NotADirectory { path, variable },
        Ok(found) if found.uid() != Uid::effective().as_raw() => {
            RuntimeDirError::Foreign { path, uid: found.uid(), variable }
        }
        _ => RuntimeDirError::io("open", &path, error),
    }
}

fn check(dir: &File, path: &Path, variable: &'static str) -> Result<(), RuntimeDirError> {
    let found = dir.metadata().map_err(|error| RuntimeDirError::io("look at", path, error))?;
    let (path, mode) = (path.to_owned(), found.mode() & 0o7777);
    if found.uid() != Uid::effective().as_raw() {
        return Err(RuntimeDirError::Foreign { path, uid: found.uid(), variable });
    }
    if mode & OTHERS != 0 {
        return Err(RuntimeDirError::OpenToOthers { path, mode, variable });
    }
    Ok(())
}

/// Locks the directory until it is closed. `daemon` says which living daemon holds it, if it is one.
pub(super) fn lock(
    dir: &File,
    path: &Path,
    patience: Duration,
    daemon: impl Fn() -> Option<i32>,
) -> Result<(), RuntimeDirError> {
    let deadline = Instant::now() + patience;
    loop {
        match dir.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(RuntimeDirError::io("lock", path, error)),
            Err(TryLockError::WouldBlock) => {}
        }
        if let Some(pid) = daemon() {
            return Err(RuntimeDirError::AlreadyRunning { pid, dir: path.to_owned() });
        }
        if Instant::now() >= deadline {
            return Err(RuntimeDirError::Locked { path: path.to_owned() });
        }
        thread::sleep(LOCK_RETRY);
    }
}
