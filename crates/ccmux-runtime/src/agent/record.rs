//! What a daemon must know of the agent that an earlier daemon started: its process, its session, its token.
//!
//! `agent.json`, `launched.json` and `session.token` in the state directory, all 0600, written beside and renamed. A file that can't be
//! read counts as absent: the agent is adopted by what can be seen of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ccmux_policy::hold::Held;
use ccmux_wire::id::SessionId;
use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};

use super::process;
use super::tmux_server::TmuxServer;

/// The most that is read of either file.
const LIMIT_BYTES: u64 = 64 * 1024;

/// What is remembered of the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRecord {
    /// Its process.
    pub pid: Option<i32>,
    /// When that was started, in the system's own unit: pids come again.
    pub start_time: Option<u64>,
    /// The owned session.
    pub session: Option<SessionId>,
    /// Its transcript.
    pub transcript: Option<PathBuf>,
    /// What `--version` said when it was started.
    pub version: Option<String>,
    /// The command that it was started by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// The tmux server that it runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<TmuxServer>,
    /// What was held back because the API failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
}

impl AgentRecord {
    /// Its process, if that still lives.
    pub fn living(&self) -> Option<i32> {
        self.pid.filter(|pid| self.start_time.is_some_and(|started| process::is_same(*pid, started)))
    }

    /// Reads it; nothing, if there is none or it is damaged.
    pub fn read(state_dir: &Path) -> Self {
        read_bounded(&file(state_dir))
            .and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::other))
            .unwrap_or_default()
    }

    /// Writes it.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, state_dir: &Path) -> io::Result<()> {
        replace(&file(state_dir), &serde_json::to_vec_pretty(self)?)
    }
}

/// The process that became the agent last, as it said itself: a daemon that died right after the start left no record of
/// it, and one in a sandbox can't look into its environment.
#[derive(Debug, Serialize, Deserialize)]
struct Launched {
    pid: i32,
    start_time: u64,
}

/// Notes that this process is about to become the agent.
///
/// # Errors
/// What the system says.
pub fn note_launch(state_dir: &Path) -> io::Result<()> {
    let pid = std::process::id().cast_signed();
    let start_time = process::start_time(pid).ok_or_else(|| io::Error::other("no start time"))?;
    // Not for the time after a power cut: there is no such process then, and the agent waits for this.
    let path = launched_file(state_dir);
    let (new, _) = write_beside(&path, &serde_json::to_vec(&Launched { pid, start_time })?)?;
    fs::rename(new, path)
}

/// Whether that process is the one that became the agent last.
pub fn is_launched(state_dir: &Path, pid: i32) -> bool {
    let bytes = read_bounded(&launched_file(state_dir)).unwrap_or_default();
    let launched = serde_json::from_slice(&bytes).ok();
    launched
        .is_some_and(|launched: Launched| launched.pid == pid && process::is_same(pid, launched.start_time))
}

fn launched_file(state_dir: &Path) -> PathBuf {
    state_dir.join("launched.json")
}

fn file(state_dir: &Path) -> PathBuf {
    state_dir.join("agent.json")
}

/// The token of the owned session: made once, kept, so that the hooks of an adopted agent are still known.
///
/// # Errors
/// If there is no randomness, or it can't be written.
pub fn session_token(state_dir: &Path) -> io::Result<String> {
    kept_token(state_dir, "session.token")
}

/// The token in that file: made once, kept, 0600.
///
/// # Errors
/// If there is no randomness, or it can't be written.
pub fn kept_token(state_dir: &Path, file_name: &str) -> io::Result<String> {
    let path = state_dir.join(file_name);
    if let Ok(bytes) = read_bounded(&path)
        && let Ok(token) = String::from_utf8(bytes)
        && token.len() == 64
    {
        return Ok(token);
    }
    let mut random = [0u8; 32];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    replace(&path, token.as_bytes())?;
    Ok(token)
}

/// Reads a small file of ours: regular, no link followed.
pub(crate) fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LIMIT_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a file (0600) beside and renames it: a reader sees the old or the new one.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (new, file) = write_beside(path, bytes)?;
    file.sync_all()?;
    fs::rename(new, path)
}

fn write_beside(path: &Path, bytes: &[u8]) -> io::Result<(PathBuf, File)> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new); // left behind by a daemon that died here
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    Ok((new, file))
}

/// Whether that file is as [`replace`] would leave it: a start that changes nothing need not wait for the disk.
pub(crate) fn holds(path: &Path, bytes: &[u8]) -> bool {
    let is_private = |found: fs::Metadata| found.is_file() && found.permissions().mode() & 0o7777 == 0o600;
    fs::symlink_metadata(path).is_ok_and(is_private) && read_bounded(path).is_ok_and(|held| held == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_a_damaged_one_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let record =
            AgentRecord { pid: Some(7), session: Some(SessionId::new("s")), ..AgentRecord::default() };
        record.write(folder.path()).unwrap();
        assert_eq!(AgentRecord::read(folder.path()), record);
        fs::write(file(folder.path()), "{").unwrap();
        assert_eq!(AgentRecord::read(folder.path()), AgentRecord::default());
    }

    #[test]
    fn a_file_that_holds_the_same_is_kept_unless_others_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.json");
        assert!(!holds(&path, b"{}"), "there is none");
        replace(&path, b"{}").unwrap();
        assert!(holds(&path, b"{}") && !holds(&path, b"{ }") && !holds(&path, b""));
        std::os::unix::fs::symlink(&path, folder.path().join("link")).unwrap();
        assert!(!holds(&folder.path().join("link"), b"{}"), "a link is not what we wrote");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(!holds(&path, b"{}"));
    }

    #[test]
    fn the_token_stays_the_same_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let token = session_token(folder.path()).unwrap();
        assert_eq!(session_token(folder.path()).unwrap(), token);
        let mode = fs::metadata(folder.path().join("session.token")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
