//! What Claude Code publishes about itself: `sessions/<pid>.json` under its config directory.
//!
//! Undocumented, so its absence or an unknown word is never an error: the other witnesses are asked then. It is believed
//! only if it names the pid and the start time of our agent: after SIGKILL the file stays, and pids come again.
//! `<pid>.*.key` beside it is a secret of that session and is never opened.
//!
//! ```text
//! inotify hint ─► read ≤ 64 KiB ─► parsed, ours? ─► changed? ─► StateFile to the event loop
//!                                └ torn: again in 20 ms
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ccmux_policy::event::FileState;
use ccmux_wire::id::SessionId;
use nix::fcntl::OFlag;
use nix::unistd::Uid;
use serde::Deserialize;
use tokio::sync::{Mutex, mpsc};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::process::start_time;
use crate::dir_watch::{DirWatch, Watched};

/// The most that is read of the file; it has about 1 KiB.
const LIMIT_BYTES: u64 = 64 * 1024;
/// A torn file is read again that soon, that often; then it counts as absent until it changes.
const TORN_RETRY: Duration = Duration::from_millis(20);
const TORN_TRIES: u32 = 25;
/// A directory that can't be followed although it is there is not tried for ever.
const FOLLOW_TRIES: u32 = 4;

/// What the file says now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFile {
    /// What the agent is doing.
    pub state: FileState,
    /// The session it has now (`/clear` changes it).
    pub session: Option<SessionId>,
    /// Its version.
    pub version: Option<String>,
}

/// The task that follows the state file of one process. Stopped by whoever sees the process end.
#[derive(Debug, Clone)]
pub struct StateFileWatcher {
    /// Claude's `sessions` directory; it may not exist yet.
    pub dir: PathBuf,
    /// The agent.
    pub pid: i32,
    /// When it was started ([`super::process::start_time`]).
    pub start_time: u64,
}

/// The eyes that one watcher after the other uses. To let an inotify instance go makes somebody wait for about 20 ms, and
/// where a child has just been forked, that is the child: not when the next agent is to be started.
#[derive(Debug, Clone, Default)]
pub struct Watches(Arc<Mutex<Option<Pair>>>);

#[derive(Debug)]
struct Pair {
    there: DirWatch,
    above: DirWatch,
}

/// The fields that matter; everything may be missing.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    pid: Option<i64>,
    proc_start: Option<String>,
    status: Option<String>,
    waiting_for: Option<String>,
    session_id: Option<String>,
    cwd: Option<PathBuf>,
    version: Option<String>,
}

/// What one read gave.
#[derive(Debug, PartialEq, Eq)]
enum Reading {
    Said(StateFile),
    /// Not JSON: it is being written.
    Torn,
}

impl StateFile {
    fn absent() -> Self {
        Self { state: FileState::Absent, session: None, version: None }
    }
}

impl StateFileWatcher {
    /// Sends what the file says at first, and then every change, until shutdown or until nobody listens.
    pub async fn run(self, news: mpsc::Sender<StateFile>, shutdown: CancellationToken) {
        self.run_with(Watches::default(), news, shutdown).await;
    }

    /// [`StateFileWatcher::run`], once whoever has the watches lets them go.
    pub async fn run_with(
        self,
        watches: Watches,
        news: mpsc::Sender<StateFile>,
        shutdown: CancellationToken,
    ) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.follow(&watches, news) => {}
        }
    }

    async fn follow(self, watches: &Watches, news: mpsc::Sender<StateFile>) {
        let mut watches = watches.0.lock().await;
        let Pair { there, above } = watches.get_or_insert_with(|| Pair {
            there: DirWatch::new(Watched::Contents),
            above: DirWatch::new(Watched::Names),
        });
        let mut last = None;
        loop {
            let is_there = follow_dir(there, above, &self.dir);
            let now = self.read_settled().await;
            if last.as_ref() != Some(&now) {
                if news.send(now.clone()).await.is_err() {
                    return;
                }
                last = Some(now);
            }
            if is_there { there.changed().await } else { above.changed().await }
        }
    }

    /// Reads until the file is whole.
    async fn read_settled(&self) -> StateFile {
        for _ in 0..TORN_TRIES {
            match self.read() {
                Reading::Said(said) => return said,
                Reading::Torn => sleep(TORN_RETRY).await,
            }
        }
        StateFile::absent()
    }

    fn read(&self) -> Reading {
        let path = self.dir.join(format!("{}.json", self.pid));
        match read_bounded(&path) {
            Ok(Some(bytes)) => self.judge(&bytes),
            Ok(None) => Reading::Said(StateFile::absent()),
            Err(error) => {
                tracing::debug!(event = "state_file.unreadable", path = %path.display(), %error);
                Reading::Said(StateFile::absent())
            }
        }
    }

    fn judge(&self, bytes: &[u8]) -> Reading {
        match serde_json::from_slice::<Record>(bytes) {
            Ok(record) if self.is_ours(&record) => Reading::Said(record.into()),
            Ok(_) => Reading::Said(StateFile::absent()),
            // JSON of another shape is whole, and of no use.
            Err(error) if error.is_data() => Reading::Said(StateFile::absent()),
            Err(_) => Reading::Torn,
        }
    }

    fn is_ours(&self, record: &Record) -> bool {
        // What Claude Code writes elsewhere than on Linux is not known: there the number alone counts.
        let same_start = cfg!(not(target_os = "linux"))
            || record.proc_start.as_deref() == Some(self.start_time.to_string().as_str());
        record.pid == Some(self.pid.into()) && same_start
    }
}

impl From<Record> for StateFile {
    fn from(record: Record) -> Self {
        let state = match record.status.as_deref() {
            Some("idle") => FileState::Idle,
            Some("busy") => FileState::Busy,
            Some("shell") => FileState::Shell,
            Some("waiting") => FileState::Waiting(record.waiting_for.unwrap_or_default()),
            _ => FileState::Absent,
        };
        Self { state, session: record.session_id.map(SessionId::new), version: record.version }
    }
}

/// Whether another session of the folder `cwd` lives, as the state files in `dir` tell: one that is none of our processes `own`.
pub fn others_live_in(dir: &Path, cwd: &Path, own: &[i32]) -> bool {
    let Ok(entries) = std::fs::read_dir(dir) else { return false };
    let files = entries.flatten().map(|entry| entry.path());
    let states = files.filter(|path| path.extension().is_some_and(|it| it == "json"));
    let records =
        states.filter_map(|path| serde_json::from_slice::<Record>(&read_bounded(&path).ok()??).ok());
    let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    records.filter(|record| record.cwd.as_ref() == Some(&cwd)).any(|record| {
        let pid = record.pid.and_then(|pid| i32::try_from(pid).ok()).filter(|pid| !own.contains(pid));
        let start_time = pid.and_then(start_time).map(|at| at.to_string());
        start_time.is_some() && (cfg!(not(target_os = "linux")) || record.proc_start == start_time)
    })
}

/// The file's bytes; `None` if it is not there, not a regular file of ours, or too big.
fn read_bounded(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits()).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    if !is_plain_and_ours(&file)? {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(LIMIT_BYTES + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= LIMIT_BYTES).then_some(bytes))
}

fn is_plain_and_ours(file: &File) -> io::Result<bool> {
    let found = file.metadata()?;
    Ok(found.is_file() && found.uid() == Uid::effective().as_raw() && found.nlink() == 1)
}

/// Follows the directory, or else the nearest one above it that exists, to hear when the next one is made. Returns
/// whether it was the directory itself.
fn follow_dir(there: &mut DirWatch, above: &mut DirWatch, dir: &Path) -> bool {
    for _ in 0..FOLLOW_TRIES {
        if there.follow(dir).is_ok() {
            return true;
        }
        let mut missing = dir;
        for parent in dir.ancestors().skip(1) {
            if above.follow(parent).is_ok() {
                break;
            }
            missing = parent;
        }
        // Made before its parent was followed? Then there is no hint: try again.
        if !missing.is_dir() {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests;
