//! Tells that something changed in a directory. Hints only: whoever is told looks for himself.
//!
//! ```text
//! let mut watch = DirWatch::new(Watched::Names);
//! loop { watch.follow(dir)?; look_at(dir); watch.changed().await; }
//! ```
//!
//! inotify on Linux, kqueue on macOS (`dir_watch_macos`). Where the system has no instance of it left, `changed` returns
//! four times a second.

use std::io;
use std::path::Path;
use std::time::Duration;

#[cfg(not(target_os = "linux"))]
use crate::dir_watch_macos::Follower;
#[cfg(target_os = "linux")]
use linux::Follower;

const POLL: Duration = Duration::from_millis(250);

/// What is worth a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// Files that come, go or change owner and mode. Not what is written into them.
    Names,
    /// What is written into files, too.
    Contents,
}

/// Follows one directory at a time.
#[derive(Debug)]
pub struct DirWatch {
    watched: Watched,
    follower: Option<Follower>,
}

impl DirWatch {
    /// Must be called within a tokio runtime. Follows nothing yet.
    pub fn new(watched: Watched) -> Self {
        Self {
            watched,
            follower: Follower::new()
                .inspect_err(|error| tracing::warn!(event = "watch.degraded", %error))
                .ok(),
        }
    }

    /// Follows that directory from now on, and no other. Cheap if it is the same one; a directory that was replaced
    /// has to be followed again.
    ///
    /// # Errors
    /// If it is not there or is not a directory.
    pub fn follow(&mut self, dir: &Path) -> io::Result<()> {
        if let Some(follower) = &mut self.follower {
            return follower.follow(dir, self.watched);
        }
        dir.metadata()
            .and_then(|found| if found.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) })
    }

    /// Returns when something may have changed since the last call, the directory itself included. Cancel safe.
    pub async fn changed(&mut self) {
        if let Some(follower) = &mut self.follower {
            match follower.changed().await {
                Ok(()) => return,
                Err(error) => tracing::warn!(event = "watch.degraded", %error),
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::AsFd;
    use std::path::Path;

    use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
    use tokio::runtime::Handle;

    use super::Watched;
    use crate::readable::Readable;

    /// Bytes of hints taken at once; one takes at most 272.
    const HINTS: usize = 4096;

    #[derive(Debug)]
    pub(super) struct Follower {
        /// There until it is dropped.
        inotify: Option<Inotify>,
        /// The same inotify instance, to wait on.
        hints: Option<Readable>,
        following: Option<WatchDescriptor>,
    }

    impl Follower {
        pub(super) fn new() -> io::Result<Self> {
            let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
            let hints = Readable::new(inotify.as_fd().try_clone_to_owned()?)?;
            Ok(Self { inotify: Some(inotify), hints: Some(hints), following: None })
        }

        pub(super) fn follow(&mut self, dir: &Path, watched: Watched) -> io::Result<()> {
            let inotify = self.inotify.as_ref().ok_or(io::ErrorKind::NotConnected)?;
            let following = inotify.add_watch(dir, mask(watched))?;
            if let Some(old) = self.following.replace(following).filter(|old| *old != following) {
                // Fails if that directory is gone: then the system removed the watch.
                let _ = inotify.rm_watch(old);
            }
            Ok(())
        }

        /// Takes everything that waits, an overflow too, and parses nothing: one look answers all of it.
        pub(super) async fn changed(&self) -> io::Result<()> {
            let hints = self.hints.as_ref().ok_or(io::ErrorKind::NotConnected)?;
            hints.read(HINTS).await?;
            while hints.read_now(HINTS)?.is_some() {}
            Ok(())
        }
    }

    /// Linux lets whoever closes the last descriptor of an instance wait until nobody can still look at its watches: 10 to
    /// 20 ms, in which the thread does nothing, and takes no signal that a child of it has ended. No thread of the runtime
    /// may be that one.
    impl Drop for Follower {
        fn drop(&mut self) {
            drop(self.hints.take());
            let inotify = self.inotify.take();
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn_blocking(move || drop(inotify));
            }
        }
    }

    fn mask(watched: Watched) -> AddWatchFlags {
        let names = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        match watched {
            Watched::Names => names,
            Watched::Contents => names | AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CLOSE_WRITE,
        }
    }
}
