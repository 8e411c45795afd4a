//! Every event and effect as a line of a timeline: what `ccmux why` shows, and what `cargo xtask replay` runs.
//!
//! The lines are those of [`ccmux_policy::timeline`]; message bodies never come here, because policy has none. The file
//! is written by a thread of its own: a slow disk delays no decision. What it could not take is counted in a comment.
//!
//! ```text
//! timeline.log.1  # ccmux 0.1.0                 timeline.log   # goes on from timeline.log.1
//!                 set idle_threshold_ms=0 ...                  2812344  > pane_silent
//!                 0        @ wall_ms=...                       ...
//!                 0        > daemon_started next_batch=1
//! ```
//!
//! Each daemon begins a file with what a replay needs, and so it does after 4 MiB, but then the policy's state is in what
//! came before: a replay of the second file of a daemon needs the first. Two are kept, so of a daemon that wrote three,
//! the record shows what happened and can't be replayed.

mod words;

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ccmux_policy::timeline::{effect_line, event_line, settings_line, wall_line};
use ccmux_policy::{Effect, Event, Mono, Now, PolicySettings};
use ccmux_wire::status::Happened;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How many lines `ccmux why --json` shows.
const RECENT: usize = 24;
/// How much of the latest past is told in people's words.
const HAPPENED: usize = 20;
/// How many lines may wait for the disk; beyond that, lines are left out of the file.
const WAITING: usize = 10_000;
/// Bytes of lines that are written at once, if so many wait.
const BLOCK: usize = 16 * 1024;
/// When a new file is begun.
const FILE_BYTES: u64 = 4 * 1024 * 1024;
/// A disk that hangs must not keep the daemon from its end.
const WRITTEN_WITHIN: Duration = Duration::from_millis(500);

/// What the file's thread is given.
#[derive(Debug)]
enum Entry {
    Line(String),
    /// Tell when all before it is written.
    Mark(oneshot::Sender<()>),
}

/// Lines that are written together.
#[derive(Debug, Default)]
struct Block {
    text: String,
    /// Whom to tell then.
    marks: Vec<oneshot::Sender<()>>,
}

/// What the file was told last.
#[derive(Debug, Default)]
struct Told {
    /// What the wall clock showed when the record began, by the clock of now.
    wall: Option<(i64, i32)>,
    /// Lines that the file had no room for.
    left_out: u64,
}

/// Takes lines.
#[derive(Debug, Clone)]
pub struct Recorder {
    recent: Arc<Mutex<VecDeque<String>>>,
    happened: Arc<Mutex<VecDeque<Happened>>>,
    file: SyncSender<Entry>,
    told: Arc<Mutex<Told>>,
    began: Mono,
}

impl Recorder {
    /// A recorder that writes to `timeline.log` in the state directory.
    pub fn new(state_dir: &std::path::Path, began: Now, settings: &PolicySettings) -> Self {
        Self::with_limit(state_dir, began, settings, FILE_BYTES)
    }

    fn with_limit(state_dir: &std::path::Path, began: Now, settings: &PolicySettings, limit: u64) -> Self {
        let (file, lines) = sync_channel(WAITING);
        let path = state_dir.join("timeline.log");
        let head = format!("# ccmux {}\n{}\n", env!("CARGO_PKG_VERSION"), settings_line(settings));
        let writer = RecordFile { path, head, limit, lines };
        // Without a thread there is no file; the recent lines are kept all the same.
        let _ = std::thread::Builder::new().name("recorder".into()).spawn(move || writer.run());
        Self {
            recent: Arc::default(),
            happened: Arc::default(),
            file,
            told: Arc::default(),
            began: began.mono,
        }
    }

    /// Something happened.
    pub fn event(&self, event: &Event, now: Now) {
        self.line(now, '>', &event_line(event));
        self.tell(now, words::of_event(event));
    }

    /// The policy was woken by its own clock: of interest to a replay alone.
    pub fn deadline(&self, now: Now) {
        let line = self.timed(now, '>', &event_line(&Event::DeadlinePassed));
        self.write(now, line);
    }

    /// Returns when all is in the file, or the disk takes too long.
    pub async fn written(&self) {
        let (mark, written) = oneshot::channel();
        if self.file.try_send(Entry::Mark(mark)).is_ok() {
            let _ = timeout(WRITTEN_WITHIN, written).await;
        }
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
        let line = self.timed(now, sign, text);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() == RECENT {
            recent.pop_front();
        }
        recent.push_back(line.clone());
        drop(recent);
        self.write(now, line);
    }

    fn timed(&self, now: Now, sign: char, text: &str) -> String {
        format!("{:<8} {sign} {text}", now.mono.since(self.began))
    }

    /// Before it, what a replay must know: the wall clock if it is another one, and that lines are missing.
    fn write(&self, now: Now, line: String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let ms = i64::try_from(now.mono.since(self.began)).unwrap_or(i64::MAX);
        let wall = Some((now.wall.0.saturating_sub(ms), now.utc_offset_s));
        let mut lines = Vec::new();
        if told.left_out > 0 {
            lines.push(format!("# {} lines are missing here", told.left_out));
        }
        if told.wall != wall {
            lines.push(self.timed(now, '@', &wall_line(now)));
        }
        lines.push(line);
        let count = lines.len() as u64;
        match self.file.try_send(Entry::Line(lines.join("\n"))) {
            Ok(()) => *told = Told { wall, left_out: 0 },
            Err(_) => told.left_out += count,
        }
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

/// How a file begins that is not a daemon's first; the name of the one before follows.
const GOES_ON: &str = "# goes on from ";

/// The thread that writes the file.
struct RecordFile {
    path: PathBuf,
    /// What a daemon's record begins with.
    head: String,
    limit: u64,
    lines: Receiver<Entry>,
}

impl RecordFile {
    fn run(self) {
        let Ok(mut file) = self.begin(&self.head) else { return };
        let goes_on = format!("{GOES_ON}{}.1\n{}", self.name(), self.head);
        let mut written = 0;
        while let Ok(first) = self.lines.recv() {
            let block = self.block(first, self.limit.saturating_sub(written));
            if file.write_all(block.text.as_bytes()).is_err() {
                return;
            }
            for mark in block.marks {
                let _ = mark.send(());
            }
            written += block.text.len() as u64;
            if written > self.limit {
                let Ok(next) = self.begin(&goes_on) else { return };
                file = next;
                written = 0;
            }
        }
    }

    /// What waits, up to the line that reaches `room`: a flood of lines is written in few calls.
    fn block(&self, first: Entry, room: u64) -> Block {
        let mut block = Block::default();
        let mut next = Some(first);
        while let Some(entry) = next {
            match entry {
                Entry::Line(line) => {
                    block.text.push_str(&line);
                    block.text.push('\n');
                }
                Entry::Mark(mark) => block.marks.push(mark),
            }
            let full = block.text.len() >= BLOCK || block.text.len() as u64 > room;
            next = if full { None } else { self.lines.try_recv().ok() };
        }
        block
    }

    /// Each daemon, and each 4 MiB, begins a file: times count from the daemon's start.
    fn begin(&self, head: &str) -> std::io::Result<File> {
        let _ = fs::rename(&self.path, self.path.with_extension("log.1"));
        let mut file =
            OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&self.path)?;
        file.write_all(head.as_bytes())?;
        Ok(file)
    }

    fn name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_lines_are_kept_and_read_back_as_a_timeline() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(folder.path(), Now::default(), &PolicySettings::default());
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
        let recorder = Recorder::new(folder.path(), Now::default(), &PolicySettings::default());
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

    #[tokio::test]
    async fn two_files_are_kept_however_long_it_runs_and_the_second_names_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let settings = PolicySettings { max_rss: 77, ..PolicySettings::default() };
        let recorder = Recorder::with_limit(folder.path(), Now::default(), &settings, 1_000);
        for ms in 0..500 {
            let now = Now { mono: Mono(ms), wall: ccmux_policy::UnixMs(ms as i64), ..Now::default() };
            recorder.event(&Event::PaneSilent, now);
        }
        recorder.written().await;
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["timeline.log", "timeline.log.1"]);
        for name in names {
            let text = fs::read_to_string(folder.path().join(&name)).unwrap();
            assert!(text.len() < 1_500, "{name:?}: {} bytes", text.len());
            assert!(text.starts_with("# goes on from timeline.log.1\n# ccmux "), "{text}");
            assert!(text.contains("\nset ") && text.contains(" max_rss=77 "), "{text}");
        }
        let last = fs::read_to_string(folder.path().join("timeline.log")).unwrap();
        assert!(last.ends_with("499      > pane_silent\n"), "{last}");
    }

    #[tokio::test]
    async fn the_wall_clock_is_told_at_first_and_when_it_jumps() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(folder.path(), Now::default(), &PolicySettings::default());
        for (ms, wall) in [(0, 1_000), (5, 1_005), (9, 7_009), (10, 7_010)] {
            let now = Now { mono: Mono(ms), wall: ccmux_policy::UnixMs(wall), utc_offset_s: 60 };
            recorder.event(&Event::PaneSilent, now);
        }
        recorder.written().await;
        let text = fs::read_to_string(folder.path().join("timeline.log")).unwrap();
        let told: Vec<&str> = text.lines().filter(|line| line.contains(" @ ")).collect();
        assert_eq!(
            told,
            ["0        @ wall_ms=1000 utc_offset_s=60", "9        @ wall_ms=7009 utc_offset_s=60"]
        );
    }
}
