//! Every event and effect as a line of a timeline: what `ccmux why` shows, and what `cargo xtask replay` runs.
//!
//! The lines are those of [`ccmux_policy::timeline`]; message bodies never come here, because policy has none. The file
//! is written by a thread of its own: a slow disk delays no decision. It is cut to one predecessor of 4 MiB.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use ccmux_policy::timeline::{effect_line, event_line};
use ccmux_policy::{Effect, Event, Mono, Now};

/// How many lines `ccmux why` shows.
const RECENT: usize = 24;
/// How many lines may wait for the disk; beyond that, lines are left out of the file.
const WAITING: usize = 10_000;
/// When a new file is begun.
const FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Takes lines.
#[derive(Debug, Clone)]
pub struct Recorder {
    recent: Arc<Mutex<VecDeque<String>>>,
    file: SyncSender<String>,
    began: Mono,
}

impl Recorder {
    /// A recorder that writes to `timeline.log` in the state directory.
    pub fn new(state_dir: &std::path::Path, began: Now) -> Self {
        let (file, lines) = sync_channel(WAITING);
        let path = state_dir.join("timeline.log");
        let writer = RecordFile { path, lines };
        // Without a thread there is no file; the recent lines are kept all the same.
        let _ = std::thread::Builder::new().name("recorder".into()).spawn(move || writer.run());
        Self { recent: Arc::default(), file, began: began.mono }
    }

    /// Something happened.
    pub fn event(&self, event: &Event, now: Now) {
        self.line(now, '>', &event_line(event));
    }

    /// Something was ordered.
    pub fn effect(&self, effect: &Effect, now: Now) {
        self.line(now, '<', &effect_line(effect));
    }

    fn line(&self, now: Now, sign: char, text: &str) {
        let line = format!("{:<8} {sign} {text}", now.mono.since(self.began));
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() == RECENT {
            recent.pop_front();
        }
        recent.push_back(line.clone());
        drop(recent);
        let _ = self.file.try_send(line);
    }

    /// The latest lines, oldest first.
    pub fn recent(&self) -> Vec<String> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// The thread that writes the file.
struct RecordFile {
    path: PathBuf,
    lines: Receiver<String>,
}

impl RecordFile {
    fn run(self) {
        let Ok(mut file) = self.begin() else { return };
        let mut written = 0;
        while let Ok(line) = self.lines.recv() {
            if writeln!(file, "{line}").is_err() {
                return;
            }
            written += line.len() as u64 + 1;
            if written > FILE_BYTES {
                let Ok(next) = self.begin() else { return };
                file = next;
                written = 0;
            }
        }
    }

    /// Each daemon, and each 4 MiB, begins a file: times count from the daemon's start.
    fn begin(&self) -> std::io::Result<File> {
        let _ = fs::rename(&self.path, self.path.with_extension("log.1"));
        OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_lines_are_kept_and_read_back_as_a_timeline() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(folder.path(), Now::default());
        for ms in 0..100 {
            let now = Now { mono: Mono(ms), ..Now::default() };
            recorder.event(&Event::PaneSilent, now);
        }
        let recent = recorder.recent();
        assert_eq!(recent.len(), RECENT);
        assert_eq!(recent.last().map(String::as_str), Some("99       > pane_silent"));
    }
}
