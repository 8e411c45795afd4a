//! Why a directory, a pid file or a socket is refused: one clear line each, with the remedy.

use std::io;
use std::path::{Path, PathBuf};

/// Why the runtime or state directory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeDirError {
    /// The last component is a symbolic link.
    #[error("{path} is a symbolic link: remove it, or set {variable} to a directory of your own")]
    Symlink {
        /// The directory.
        path: PathBuf,
        /// The variable that names another one.
        variable: &'static str,
    },
    /// Something else has that name.
    #[error("{path} is not a directory: remove it, or set {variable} to another path")]
    NotADirectory {
        /// The directory.
        path: PathBuf,
        /// The variable that names another one.
        variable: &'static str,
    },
    /// It is another user's.
    #[error("{path} belongs to uid {uid}, not to you: set {variable} to a directory of your own")]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// The variable that names another one.
        variable: &'static str,
    },
    /// Group or others have rights on it.
    #[error(
        "{path} is open to others (mode {mode:04o}): chmod 700 it, or set {variable} to another directory"
    )]
    OpenToOthers {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// The variable that names another one.
        variable: &'static str,
    },
    /// The directory it should be made in is missing.
    #[error(
        "{path} can't be made, its parent directory is missing: make that first, or set {variable} to another path"
    )]
    NoParent {
        /// The directory.
        path: PathBuf,
        /// The variable that names another one.
        variable: &'static str,
    },
    /// A file of ours can't be made because something else has its name.
    #[error("{path} is {what}: remove it")]
    InTheWay {
        /// The file.
        path: PathBuf,
        /// What is there instead.
        what: String,
    },
    /// A socket's path does not fit into a socket address.
    #[error(
        "{path} has {length} bytes, a socket path has at most {limit}: set CCMUX_RUNTIME_DIR to a shorter path"
    )]
    SocketPathTooLong {
        /// The socket.
        path: PathBuf,
        /// Bytes of its path.
        length: usize,
        /// What the system takes.
        limit: usize,
    },
    /// A living daemon holds the runtime directory.
    #[error("ccmuxd already runs (pid {pid}) in {dir}: stop it, or choose another instance with -i NAME")]
    AlreadyRunning {
        /// Its process.
        pid: i32,
        /// The runtime directory.
        dir: PathBuf,
    },
    /// Somebody holds a lock on it that is no daemon with a pid file.
    #[error(
        "{path} is locked by another process (lsof {path} names it): stop it, or choose another instance with -i NAME"
    )]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// The system said no.
    #[error("can't {what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl RuntimeDirError {
    pub(super) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), source }
    }

    /// The exit code of `ccmuxd`: 1 if another daemon is there, 73 if something was refused.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::AlreadyRunning { .. } | Self::Locked { .. } => 1,
            _ => 73,
        }
    }
}
