//! The lock that Claude Code itself takes while it changes `.claude.json`: a directory `.claude.json.lock` beside the
//! name of the file, removed afterwards. One that was not touched for ten seconds counts as left behind.
//!
//! Claude reads the file again under that lock and then renames a new one over it (measured with 2.1.332), so whoever
//! holds the lock too loses nothing to it, and takes nothing from it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

/// Claude holds it for milliseconds.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(10);
const LEFT_BEHIND: Duration = Duration::from_secs(10);

/// Why it could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody keeps it.
    #[error("{0} is held by a running Claude Code: try again")]
    Held(PathBuf),
    /// The system said no.
    #[error("can't take the lock {path}: {source}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Held until it is dropped.
#[derive(Debug)]
pub struct ClaudeLock(PathBuf);

impl ClaudeLock {
    /// Takes it; the directory that it is in must exist.
    ///
    /// # Errors
    /// If somebody keeps it.
    pub fn take(file: &Path) -> Result<Self, LockError> {
        let mut name = file.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(LockError::Io { path, source }),
            }
            if is_left_behind(&path) {
                let _ = fs::remove_dir(&path);
            } else if Instant::now() >= deadline {
                return Err(LockError::Held(path));
            } else {
                sleep(PAUSE);
            }
        }
    }
}

fn is_left_behind(path: &Path) -> bool {
    let touched = path.symlink_metadata().and_then(|found| found.modified());
    touched.is_ok_and(|touched| SystemTime::now().duration_since(touched).is_ok_and(|age| age > LEFT_BEHIND))
}

impl Drop for ClaudeLock {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn whoever_has_it_keeps_others_out_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".claude.json");
        let lock = ClaudeLock::take(&file).unwrap();
        assert!(dir.path().join(".claude.json.lock").is_dir());
        let released = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| ClaudeLock::take(&file).map(|_| released.load(Ordering::SeqCst)));
            assert!(
                fs::create_dir(dir.path().join(".claude.json.lock")).is_err(),
                "Claude would be kept out, too"
            );
            released.store(true, Ordering::SeqCst);
            drop(lock);
            assert!(
                second.join().unwrap().unwrap(),
                "the second one had it before the first one gave it back"
            );
        });
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn one_that_was_left_behind_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join("x.lock");
        fs::create_dir(&left).unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(11);
        fs::File::open(&left).unwrap().set_modified(long_ago).unwrap();
        let begin = Instant::now();
        ClaudeLock::take(&dir.path().join("x")).unwrap();
        assert!(begin.elapsed() < PATIENCE);
    }
}
