//! Every event and effect as a line of a timeline: what `ccmux why` shows, and what `cargo xtask replay` runs.
//!
//! The lines are those of [`ccmux_policy::timeline`]; message bodies never come here, because policy has none. The file
//! is written by a thread of its own: a slow disk delays no decision. It is cut to one predecessor of 4 MiB.

mod words;

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use ccmux_policy::timeline::{effect_line, event_line};
use ccmux_policy::{Effect, Event, Mono, Now};
use ccmux_wire::status::Happened;

/// How many lines `ccmux why --json` shows.
const RECENT: usize = 24;
/// How much of the latest past is told in people's words.
const HAPPENED: usize = 20;
/// How many lines may wait for the disk; beyond that, lines are left out of the file.
const WAITING: usize = 10_000;
/// When a new file is begun.
const FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Takes lines.
#[derive(Debug, Clone)]
pub struct Recorder {
    recent: Arc<Mutex<VecDeque<String>>>,
    happened: Arc<Mutex<VecDeque<Happened>>>,
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
        Self { recent: Arc::default(), happened: Arc::default(), file, began: began.mono }
    }

    /// Something happened.
    pub fn event(&self, event: &Event, now: Now) {
        self.line(now, '>', &event_line(event));
        self.tell(now, words::of_event(event));
    }

    /// Something was ordered.
    pub fn effect(&self, effect: &Effect, now: Now) {
        self.line(now, '<', &effect_line(effect));
        self.tell(now, words::of_effect(effect));
    }

    /// The same again and again is told once, as of its last time.
    fn tell(&self, now: Now, what: Option<String>) {
        let Some(what) = what else { return };
        let mut happened = self.happened.lock().unwrap_or_else(PoisonError::into_inner);
        let repeats = happened.back().is_some_and(|last| last.what == what);
        if repeats || happened.len() == HAPPENED {
            let _ = if repeats { happened.pop_back() } else { happened.pop_front() };
        }
        happened.push_back(Happened { at: now.wall.0, what });
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

    /// The latest past in people's words, oldest first.
    pub fn happened(&self) -> Vec<Happened> {
        self.happened.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
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
        assert!(recorder.happened().is_empty(), "a silent pane is no news");
    }

    #[test]
    fn the_latest_past_is_told_in_words_and_a_repetition_once() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(folder.path(), Now::default());
        let at = |ms| Now { wall: ccmux_policy::UnixMs(ms), ..Now::default() };
        recorder.event(&Event::AgentStarted { pid: 7 }, at(1));
        for ms in 2..5 {
            let reason = "tmux: no answer within 5 s".to_owned();
            recorder.event(&Event::LookFailed { look: ms as u64, reason }, at(ms));
        }
        let told = recorder.happened();
        let told: Vec<(i64, &str)> = told.iter().map(|one| (one.at, one.what.as_str())).collect();
        let look = "the screen could not be looked at: tmux: no answer within 5 s";
        assert_eq!(told, [(1, "the agent runs (pid 7)"), (4, look)]);
        (0..100).for_each(|pid| recorder.event(&Event::AgentStarted { pid }, at(6)));
        assert_eq!(recorder.happened().len(), HAPPENED);
    }
}
