//! `ccmuxd.pid`: locked while the daemon lives, so that its number can be believed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::signal::kill;
use nix::unistd::{Pid, Uid};

use super::{FileId, RuntimeDirError};

/// A starting daemon that looks who holds the file ([`holder`]) locks it for a moment; a dead one's program does, too.
const PATIENCE: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(5);

/// Our own pid file, locked.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
    /// Keeps the lock.
    _file: File,
    id: FileId,
}

impl PidFile {
    /// Locks the file and writes our pid. The caller holds the lock on the directory.
    pub(super) fn claim(path: &Path) -> Result<Self, RuntimeDirError> {
        let mut file = open(path, true).map_err(|error| RuntimeDirError::io("open", path, error))?;
        check(&file, path)?;
        lock(&mut file, path)?;
        write_pid(&mut file).map_err(|error| RuntimeDirError::io("write", path, error))?;
        let id = FileId::of_file(&file).map_err(|error| RuntimeDirError::io("look at", path, error))?;
        Ok(Self { path: path.to_owned(), _file: file, id })
    }

    pub(super) fn is_in_place(&self) -> bool {
        FileId::of_path(&self.path) == Some(self.id)
    }

    pub(super) fn remove(&self) {
        if self.is_in_place() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The daemon that holds the file, if a living one does.
pub(super) fn holder(path: &Path) -> Option<i32> {
    let mut file = open(path, false).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => read_pid(&mut file).filter(|pid| is_alive(*pid)),
        _ => None,
    }
}

/// A daemon that was killed just as it started a program leaves its locks to that one until its exec: its number says so.
fn is_alive(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH)
}

fn open(path: &Path, write: bool) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).write(write).create(write).truncate(false).mode(0o600);
    options.custom_flags(flags.bits()).open(path)
}

fn check(file: &File, path: &Path) -> Result<(), RuntimeDirError> {
    let found = file.metadata().map_err(|error| RuntimeDirError::io("look at", path, error))?;
    let what = if !found.is_file() {
        "no regular file".to_owned()
    } else if found.uid() != Uid::effective().as_raw() {
        format!("a file of uid {}", found.uid())
    } else if found.nlink() != 1 {
        format!("a file with {} names", found.nlink())
    } else {
        return Ok(());
    };
    Err(RuntimeDirError::InTheWay { path: path.to_owned(), what })
}

fn lock(file: &mut File, path: &Path) -> Result<(), RuntimeDirError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(RuntimeDirError::io("lock", path, error)),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(RETRY),
            Err(TryLockError::WouldBlock) => return Err(held_by(file, path)),
        }
    }
}

fn held_by(file: &mut File, path: &Path) -> RuntimeDirError {
    match read_pid(file).filter(|pid| is_alive(*pid)) {
        Some(pid) => RuntimeDirError::AlreadyRunning { pid, dir: path.parent().unwrap_or(path).to_owned() },
        None => RuntimeDirError::Locked { path: path.to_owned() },
    }
}

fn read_pid(file: &mut File) -> Option<i32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}
