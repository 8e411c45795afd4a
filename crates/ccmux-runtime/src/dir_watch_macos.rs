//! Following a directory where there is no inotify: kqueue on the directory, and on the files in it where their contents
//! are worth a hint.
//!
//! A change of a file's mode or owner gives no hint here: watching a FIFO would mean opening it, which its writers would
//! notice. Whoever watches names looks again after a while anyway.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::libc;
use nix::sys::event::{EventFilter, FilterFlag};

use crate::dir_watch::Watched;
use crate::kqueue::Queue;

/// So many files of a directory are followed; a further one is seen when it comes or goes.
const MOST_FILES: usize = 64;

/// Open for events alone: it keeps no volume from being unmounted.
#[cfg(target_os = "macos")]
const EVENTS_ONLY: i32 = libc::O_EVTONLY;
#[cfg(not(target_os = "macos"))]
const EVENTS_ONLY: i32 = libc::O_NONBLOCK;

/// Follows one directory at a time.
#[derive(Debug)]
pub struct Follower {
    queue: Queue,
    following: Option<File>,
    files: Vec<File>,
}

impl Follower {
    pub fn new() -> io::Result<Self> {
        Ok(Self { queue: Queue::new()?, following: None, files: Vec::new() })
    }

    pub fn follow(&mut self, dir: &Path, watched: Watched) -> io::Result<()> {
        let found = fs::metadata(dir)?;
        if !found.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let own = self.following.as_ref().and_then(|own| own.metadata().ok());
        if own.is_none_or(|own| (own.dev(), own.ino()) != (found.dev(), found.ino())) {
            self.following = Some(self.watch(dir)?);
        }
        if watched == Watched::Contents {
            self.files.clear();
            let paths = fs::read_dir(dir)?.flatten().filter(|entry| is_file(entry)).map(|entry| entry.path());
            // One that is gone meanwhile is a change of the directory.
            let files: Vec<File> = paths.take(MOST_FILES).filter_map(|path| self.watch(&path).ok()).collect();
            self.files = files;
        }
        Ok(())
    }

    pub async fn changed(&self) -> io::Result<()> {
        self.queue.wait().await
    }

    fn watch(&self, path: &Path) -> io::Result<File> {
        let file = File::options().read(true).custom_flags(EVENTS_ONLY).open(path)?;
        let ident = usize::try_from(file.as_raw_fd()).map_err(io::Error::other)?;
        let notes = FilterFlag::NOTE_WRITE
            | FilterFlag::NOTE_EXTEND
            | FilterFlag::NOTE_ATTRIB
            | FilterFlag::NOTE_LINK
            | FilterFlag::NOTE_DELETE
            | FilterFlag::NOTE_RENAME
            | FilterFlag::NOTE_REVOKE;
        self.queue.add(ident, EventFilter::EVFILT_VNODE, notes)?;
        Ok(file)
    }
}

fn is_file(entry: &fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|found| found.is_file())
}
