//! Opening a transcript: only what can be one is ever read.
//!
//! A hook names the path, so it is hostile input: the descriptor must be a regular file of our own uid beneath Claude
//! Code's projects directory. A FIFO, a device, a link out of the directory and another user's file are refused at once
//! and never block.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

/// Why a transcript can't be read.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// There is no such file (yet): Claude Code makes it with the first prompt.
    #[error("transcript {path} does not exist")]
    Missing {
        /// As the hook named it.
        path: PathBuf,
    },
    /// It is something that is never read.
    #[error("transcript {path} is refused: {why}")]
    Refused {
        /// As the hook named it.
        path: PathBuf,
        /// What it is.
        why: String,
    },
    /// The system says no.
    #[error("transcript {path}: {what}: {source}")]
    Io {
        /// As the hook named it.
        path: PathBuf,
        /// What was done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl TranscriptError {
    fn refused(path: &Path, why: impl Into<String>) -> Self {
        Self::Refused { path: path.to_owned(), why: why.into() }
    }

    pub(crate) fn io(path: &Path, what: &'static str, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::NotFound {
            return Self::Missing { path: path.to_owned() };
        }
        Self::Io { path: path.to_owned(), what, source }
    }
}

/// Opens a transcript for reading.
///
/// # Errors
/// If there is none, or it is anything but a regular file of ours beneath `projects_dir`.
pub fn open_transcript(path: &Path, projects_dir: &Path) -> Result<File, TranscriptError> {
    let real = real_path(path, projects_dir)?;
    let kind = real.symlink_metadata().map_err(|source| TranscriptError::io(path, "stat", source))?;
    refuse_others(path, &kind)?;
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(&real)
        .map_err(|source| TranscriptError::io(path, "open", source))?;
    // The path may have changed since: what counts is what was opened.
    let opened = file.metadata().map_err(|source| TranscriptError::io(path, "fstat", source))?;
    refuse_others(path, &opened)?;
    if (kind.dev(), kind.ino()) != (opened.dev(), opened.ino()) {
        return Err(TranscriptError::refused(path, "it was exchanged while it was opened"));
    }
    Ok(file)
}

/// The path with every directory on it resolved; the last part is not followed.
fn real_path(path: &Path, projects_dir: &Path) -> Result<PathBuf, TranscriptError> {
    let root = projects_dir
        .canonicalize()
        .map_err(|source| TranscriptError::io(path, "resolve the projects directory", source))?;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(TranscriptError::refused(path, "it names no file"));
    };
    let parent = parent.canonicalize().map_err(|source| TranscriptError::io(path, "resolve", source))?;
    if !parent.starts_with(&root) {
        let why = format!("it is not beneath Claude Code's projects directory {}", root.display());
        return Err(TranscriptError::refused(path, why));
    }
    Ok(parent.join(name))
}

fn refuse_others(path: &Path, metadata: &std::fs::Metadata) -> Result<(), TranscriptError> {
    if !metadata.is_file() {
        return Err(TranscriptError::refused(path, format!("it is {}", kind_word(metadata))));
    }
    let ours = nix::unistd::geteuid().as_raw();
    if metadata.uid() != ours {
        return Err(TranscriptError::refused(path, format!("it belongs to uid {}", metadata.uid())));
    }
    Ok(())
}

fn kind_word(metadata: &std::fs::Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    let kind = metadata.file_type();
    match () {
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }
}
