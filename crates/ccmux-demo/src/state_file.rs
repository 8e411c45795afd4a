//! `sessions/<pid>.json`: what Claude Code publishes of its own state (FINDINGS 1).
//!
//! Knows the file's keys; does not decide what the state is.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::clock;

/// The state of the session as the file says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Idle,
    Busy,
    PermissionPrompt,
    InputNeeded,
    DialogOpen,
}

impl Status {
    fn words(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Idle => ("idle", None),
            Self::Busy => ("busy", None),
            Self::PermissionPrompt => ("waiting", Some("permission prompt")),
            Self::InputNeeded => ("waiting", Some("input needed")),
            Self::DialogOpen => ("waiting", Some("dialog open")),
        }
    }
}

/// Keeps the file up to date.
pub struct StateFile {
    path: PathBuf,
    /// Off: a fault switch.
    written: bool,
    cwd: String,
    started_ms: u64,
    proc_start: String,
    last: Option<(Status, String)>,
}

impl StateFile {
    pub fn new(path: PathBuf, cwd: &Path, written: bool) -> Self {
        Self {
            path,
            written,
            cwd: cwd.to_string_lossy().into_owned(),
            started_ms: clock::unix_ms(),
            proc_start: proc_start(),
            last: None,
        }
    }

    /// Writes the state if it is not what the file says already.
    pub fn publish(&mut self, status: Status, session: &str) {
        let now = (status, session.to_owned());
        if !self.written || self.last.as_ref() == Some(&now) {
            return;
        }
        let text = self.content(status, session).to_string();
        if let Some(directory) = self.path.parent() {
            let _ = std::fs::create_dir_all(directory);
        }
        if overwrite(&self.path, &text).is_ok() {
            self.last = Some(now);
        }
    }

    /// Ordinary exits take the file away.
    pub fn remove(&mut self) {
        if self.last.take().is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    fn content(&self, status: Status, session: &str) -> Value {
        let (word, waiting_for) = status.words();
        let now = clock::unix_ms();
        let mut content = json!({
            "pid": std::process::id(), "sessionId": session, "cwd": self.cwd, "startedAt": self.started_ms,
            "procStart": self.proc_start, "version": crate::cli::version_number(), "kind": "interactive",
            "entrypoint": "cli", "name": "demo", "nameSource": "derived", "nameSince": self.started_ms,
            "status": word, "updatedAt": now, "statusUpdatedAt": now,
        });
        if let Some(waiting_for) = waiting_for {
            content["waitingFor"] = waiting_for.into();
        }
        content
    }
}

/// In place and cut off behind it, as Claude Code does: a disk that is full has room for that.
fn overwrite(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)
}

/// Field 22 of `/proc/self/stat`; elsewhere than on Linux the start of our clock does.
fn proc_start() -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The command's name may hold blanks and parentheses: fields are counted from its end (it is field 2).
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    after_name.split(' ').nth(19).map_or_else(|| clock::unix_ms().to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_recorded_keys_and_goes_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions/1.json");
        let mut file = StateFile::new(path.clone(), Path::new("/x"), true);
        file.publish(Status::PermissionPrompt, "S");
        let read: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!((&read["status"], &read["waitingFor"]), (&json!("waiting"), &json!("permission prompt")));
        assert_eq!(
            (&read["sessionId"], &read["kind"], &read["pid"]),
            (&json!("S"), &json!("interactive"), &json!(std::process::id()))
        );
        assert!(read["procStart"].as_str().unwrap().parse::<u64>().unwrap() > 0);
        file.publish(Status::Idle, "S");
        assert!(!std::fs::read_to_string(&path).unwrap().contains("waitingFor"));
        file.remove();
        assert!(!path.exists());
    }

    #[test]
    fn a_file_switched_off_is_never_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1.json");
        StateFile::new(path.clone(), Path::new("/x"), false).publish(Status::Idle, "S");
        assert!(!path.exists());
    }
}
