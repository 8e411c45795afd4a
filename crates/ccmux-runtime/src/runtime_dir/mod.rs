//! Makes, checks and holds the runtime directory: FIFOs, sockets and the pid file live there.
//!
//! ```text
//! RuntimeDir::claim(path)     made 0700 or checked, locked, ccmuxd.pid written
//!   .make_fifo("in")          0600, unless something is there
//!   .bind_socket(path)        0600 under a private name, then renamed over the stale one
//!   .restore()                what a tmp cleaner took is made again; lost sockets are signalled
//!   .release()                own sockets and the pid file go, FIFOs stay
//! ```
//!
//! [`StateDir`] is the same for the state directory. Two locks (`flock`) keep a second daemon out and tmp cleaners away:
//! one on the directory, one on `ccmuxd.pid`. Nothing here knows channels, messages or what a socket is for.

mod error;
mod file_id;
mod pid_file;
mod private_dir;
mod socket;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::stat::Mode;
use tokio::sync::watch;

pub use error::RuntimeDirError;
pub use file_id::FileId;

use pid_file::PidFile;
use socket::BoundSocket;

/// The file that names the daemon's process, in the runtime directory.
pub const PID_FILE: &str = "ccmuxd.pid";

/// How long a start waits for a lock that is not a living daemon's: systemd-tmpfiles locks a directory while it looks, and a
/// program that a daemon was starting when it was killed holds its locks until its exec (2 s were too few on a machine with
/// a load of 28).
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

const RUNTIME_VARIABLE: &str = "CCMUX_RUNTIME_DIR";
const STATE_VARIABLE: &str = "CCMUX_STATE_DIR";

/// The runtime directory, held by this process until it is dropped.
#[derive(Debug)]
pub struct RuntimeDir {
    path: PathBuf,
    held: Mutex<Held>,
    lost_sockets: watch::Sender<u64>,
}

/// What is held on the disk right now; changes when the directory had to be made again.
#[derive(Debug)]
struct Held {
    /// Keeps the lock on the directory.
    _dir: File,
    dir_id: FileId,
    pid_file: PidFile,
    sockets: Vec<BoundSocket>,
    released: bool,
}

/// What [`RuntimeDir::restore`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// The directory is the one that is held.
    Intact,
    /// It was gone or another one: it was made or checked again, and is held now.
    Remade,
}

impl RuntimeDir {
    /// Makes the directory 0700 (its parent must exist) or checks the one that is there, locks it, writes the pid file.
    ///
    /// # Errors
    /// If it is refused (exit code 73) or another daemon holds it (exit code 1, see [`RuntimeDirError::exit_code`]).
    pub fn claim(path: &Path) -> Result<Self, RuntimeDirError> {
        let path = private_dir::plain_path(path)?;
        let held = Held::claim(&path, LOCK_PATIENCE)?;
        Ok(Self { path, held: Mutex::new(held), lost_sockets: watch::Sender::new(0) })
    }

    /// Where it is: absolute, without a trailing slash.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a FIFO with mode 0600. Returns false if something of that name is there already, whatever it is: whoever
    /// opens it checks it.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn make_fifo(&self, name: &str) -> Result<bool, RuntimeDirError> {
        let path = self.path.join(name);
        match nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR) {
            Ok(()) => Ok(true),
            Err(Errno::EEXIST) => Ok(false),
            Err(errno) => Err(RuntimeDirError::io("make the fifo", &path, errno.into())),
        }
    }

    /// Binds a socket with mode 0600 in place of a stale one of ours. The listener is non-blocking.
    ///
    /// # Errors
    /// If the path is too long for a socket, something else is in the way, or the system refuses.
    pub fn bind_socket(&self, path: &Path) -> Result<UnixListener, RuntimeDirError> {
        let mut held = self.lock();
        let (listener, bound) = socket::bind_private(path)?;
        held.sockets.retain(|socket| socket.path() != path);
        held.sockets.push(bound);
        Ok(listener)
    }

    /// Removes a socket that was bound; nothing if it is not there any more, or another one.
    pub fn unbind_socket(&self, path: &Path) {
        let mut held = self.lock();
        held.sockets.iter().filter(|socket| socket.path() == path).for_each(BoundSocket::remove);
        held.sockets.retain(|socket| socket.path() != path);
    }

    /// Changes whenever bound sockets were found missing: whoever listens binds again.
    pub fn lost_sockets(&self) -> watch::Receiver<u64> {
        self.lost_sockets.subscribe()
    }

    /// Looks whether the directory, the pid file and the sockets are still ours, and makes the first two again if not.
    ///
    /// # Errors
    /// If what is there now is refused, or another daemon took it.
    pub fn restore(&self) -> Result<Restored, RuntimeDirError> {
        let mut held = self.lock();
        if held.released {
            return Ok(Restored::Intact);
        }
        let restored = held.restore(&self.path)?;
        if held.forget_lost_sockets() {
            self.lost_sockets.send_modify(|times| *times += 1);
        }
        Ok(restored)
    }

    /// Removes what only a living daemon may have: its sockets and the pid file. FIFOs stay. A second call does nothing.
    pub fn release(&self) {
        self.lock().release();
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RuntimeDir {
    fn drop(&mut self) {
        self.release();
    }
}

impl Held {
    fn claim(path: &Path, patience: Duration) -> Result<Self, RuntimeDirError> {
        let dir = private_dir::open(path, RUNTIME_VARIABLE)?;
        let pid_path = path.join(PID_FILE);
        private_dir::lock(&dir, path, patience, || pid_file::holder(&pid_path))?;
        let dir_id = FileId::of_file(&dir).map_err(|error| RuntimeDirError::io("look at", path, error))?;
        let pid_file = PidFile::claim(&pid_path)?;
        socket::sweep(path);
        Ok(Self { _dir: dir, dir_id, pid_file, sockets: Vec::new(), released: false })
    }

    fn restore(&mut self, path: &Path) -> Result<Restored, RuntimeDirError> {
        if FileId::of_path(path) != Some(self.dir_id) {
            let sockets = std::mem::take(&mut self.sockets);
            *self = Self { sockets, ..Self::claim(path, Duration::ZERO)? };
            return Ok(Restored::Remade);
        }
        if !self.pid_file.is_in_place() {
            self.pid_file = PidFile::claim(&path.join(PID_FILE))?;
        }
        Ok(Restored::Intact)
    }

    /// Returns whether there were any.
    fn forget_lost_sockets(&mut self) -> bool {
        let before = self.sockets.len();
        self.sockets.retain(BoundSocket::is_in_place);
        self.sockets.len() < before
    }

    fn release(&mut self) {
        if std::mem::replace(&mut self.released, true) {
            return;
        }
        for socket in self.sockets.drain(..) {
            socket.remove();
        }
        self.pid_file.remove();
    }
}

/// The state directory: databases, intake logs, generated files. Held by this process until it is dropped.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    /// Keeps the lock: two daemons must not share one inbox.
    _dir: File,
}

impl StateDir {
    /// Makes the directory 0700, missing parents too, or checks the one that is there; locks it.
    ///
    /// # Errors
    /// If it is refused (exit code 73) or another daemon holds it (exit code 1).
    pub fn claim(path: &Path) -> Result<Self, RuntimeDirError> {
        let path = private_dir::plain_path(path)?;
        private_dir::make_parents(&path)?;
        let dir = private_dir::open(&path, STATE_VARIABLE)?;
        private_dir::lock(&dir, &path, LOCK_PATIENCE, || None)?;
        Ok(Self { path, _dir: dir })
    }

    /// Makes a private directory in it, or checks the one that is there.
    ///
    /// # Errors
    /// If it is refused.
    pub fn subdirectory(&self, name: &str) -> Result<PathBuf, RuntimeDirError> {
        let path = self.path.join(name);
        private_dir::open(&path, STATE_VARIABLE)?;
        Ok(path)
    }

    /// Where it is: absolute, without a trailing slash.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
