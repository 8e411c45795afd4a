//! Listening sockets that nobody else can connect to, not even for a moment.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::unistd::Uid;

use super::{FileId, RuntimeDirError};

/// Bytes of a path that fit into `sun_path`, whose last byte is NUL.
const PATH_LIMIT: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// A socket that this process bound.
#[derive(Debug)]
pub(super) struct BoundSocket {
    path: PathBuf,
    id: FileId,
}

impl BoundSocket {
    pub(super) fn path(&self) -> &Path {
        &self.path
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

/// Binds under a private name, closes it to others, and only then gives it its own name.
pub(super) fn bind_private(path: &Path) -> Result<(UnixListener, BoundSocket), RuntimeDirError> {
    let private = path.with_file_name(format!(".{}", std::process::id()));
    check_length(path)?;
    check_length(&private)?;
    check_replaceable(path)?;
    let bound = bind(&private, path);
    if bound.is_err() {
        let _ = fs::remove_file(&private);
    }
    let (listener, id) = bound.map_err(|error| RuntimeDirError::io("bind", path, error))?;
    Ok((listener, BoundSocket { path: path.to_owned(), id }))
}

/// Removes what a daemon left that died between bind and rename. Only the daemon that holds the directory does that.
pub(super) fn sweep(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.as_bytes().strip_prefix(b".").filter(|pid| !pid.is_empty());
        let is_private = pid.is_some_and(|pid| pid.iter().all(u8::is_ascii_digit));
        if is_private && entry.file_type().is_ok_and(|kind| kind.is_socket()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn bind(private: &Path, path: &Path) -> io::Result<(UnixListener, FileId)> {
    // A daemon with our pid may have died between bind and rename.
    let _ = fs::remove_file(private);
    let listener = UnixListener::bind(private)?;
    listener.set_nonblocking(true)?;
    fs::set_permissions(private, Permissions::from_mode(0o600))?;
    let id = FileId::from(&private.symlink_metadata()?);
    fs::rename(private, path)?;
    Ok((listener, id))
}

fn check_length(path: &Path) -> Result<(), RuntimeDirError> {
    let length = path.as_os_str().as_bytes().len();
    if length > PATH_LIMIT {
        return Err(RuntimeDirError::SocketPathTooLong { path: path.to_owned(), length, limit: PATH_LIMIT });
    }
    Ok(())
}

/// Only a socket of ours may be replaced.
fn check_replaceable(path: &Path) -> Result<(), RuntimeDirError> {
    let Ok(found) = path.symlink_metadata() else {
        return Ok(());
    };
    let what = if !found.file_type().is_socket() {
        "no socket".to_owned()
    } else if found.uid() != Uid::effective().as_raw() {
        format!("a socket of uid {}", found.uid())
    } else {
        return Ok(());
    };
    Err(RuntimeDirError::InTheWay { path: path.to_owned(), what })
}
