//! The log alone: a real pipe on one side, on the other what the inbox has received.

use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use ccmux_policy::Event;
use proptest::prelude::*;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::super::log::{IntakeLog, IntakeLogs};
use super::*;
use crate::inbox::Inbox;

const SMALL: u64 = 100;

fn x() -> ChannelName {
    "x".parse().unwrap()
}

fn logs(dir: &TempDir) -> IntakeLogs {
    IntakeLogs::new(dir.path().to_owned()).with_segments_of(SMALL)
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

struct Pipe {
    writer: File,
    reader: std::os::fd::OwnedFd,
}

impl Pipe {
    fn new() -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        Self { writer: std::os::fd::OwnedFd::from(writer).into(), reader: reader.into() }
    }

    fn move_into(&mut self, log: &mut IntakeLog, bytes: &[u8]) {
        self.writer.write_all(bytes).unwrap();
        assert_eq!(log.append_from(self.reader.as_fd()).unwrap(), bytes.len());
    }
}

fn everything(log: &IntakeLog, mut from: u64) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some((at, bytes)) = log.next(from).unwrap() {
        assert_eq!(at, from, "no gap");
        from += bytes.len() as u64;
        all.extend(bytes);
    }
    all
}

#[test]
fn what_was_not_received_is_there_after_a_restart_and_the_stream_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut pipe = Pipe::new();
    let mut log = logs(&dir).open(&x(), 0).unwrap();
    pipe.move_into(&mut log, b"one\ntwo\n");
    log.forget(4);
    drop(log);
    let mut log = logs(&dir).open(&x(), 4).unwrap();
    assert_eq!((everything(&log, 4), log.end()), (b"two\n".to_vec(), 8));
    pipe.move_into(&mut log, b"three\n");
    assert_eq!(everything(&log, 4), b"two\nthree\n");
    assert_eq!(names(dir.path()), ["x.0.log", "x.8.log"]);
    let mode = fs::metadata(dir.path().join("x.8.log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    log.forget(14);
    assert_eq!(names(dir.path()), ["x.8.log"], "received files go");
    log.close(14);
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn a_full_file_is_followed_by_the_next_and_goes_when_it_is_received() {
    let dir = tempfile::tempdir().unwrap();
    let mut pipe = Pipe::new();
    let mut log = logs(&dir).open(&x(), 0).unwrap();
    for _ in 0..5 {
        pipe.move_into(&mut log, &[b'x'; 60]);
    }
    assert_eq!(names(dir.path()), ["x.0.log", "x.120.log", "x.240.log"]);
    log.forget(239);
    assert_eq!(names(dir.path()), ["x.120.log", "x.240.log"]);
    log.forget(300);
    assert_eq!(names(dir.path()), ["x.240.log"], "it may take more");
    pipe.move_into(&mut log, &[b'x'; 60]);
    log.forget(360);
    assert_eq!(names(dir.path()), [""; 0], "it takes no more");
    pipe.move_into(&mut log, b"y");
    assert_eq!((everything(&log, 360), names(dir.path())), (b"y".to_vec(), vec!["x.360.log".to_owned()]));
}

#[test]
fn channels_whose_names_look_like_files_or_differ_by_case_do_not_meet() {
    let dir = tempfile::tempdir().unwrap();
    let channels: Vec<ChannelName> =
        ["a", "A", "a.0", "a.0.log", "a.log", "a.5.adopted"].map(|name| name.parse().unwrap()).to_vec();
    for channel in &channels {
        let mut log = logs(&dir).open(channel, 0).unwrap();
        Pipe::new().move_into(&mut log, channel.as_str().as_bytes());
    }
    for channel in &channels {
        let log = logs(&dir).open(channel, 0).unwrap();
        assert_eq!(everything(&log, 0), channel.as_str().as_bytes());
    }
    let mut sorted = channels.clone();
    sorted.sort();
    assert_eq!(logs(&dir).channels().unwrap().into_iter().collect::<Vec<_>>(), sorted);
}

#[test]
fn a_log_that_is_behind_the_inbox_begins_where_the_inbox_is() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("x.0.log"), "lost its end with the power").unwrap();
    let mut log = logs(&dir).open(&x(), 1_000).unwrap();
    Pipe::new().move_into(&mut log, b"new\n");
    assert_eq!(everything(&log, 1_000), b"new\n");
    assert_eq!(names(dir.path()), ["x.1000.log"]);
}

#[test]
fn logs_of_an_inbox_that_is_gone_are_moved_aside_and_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("intake");
    assert_eq!(IntakeLogs::move_aside(&folder, 7).unwrap(), None, "there are none");
    fs::create_dir(&folder).unwrap();
    assert_eq!(IntakeLogs::move_aside(&folder, 7).unwrap(), None, "it is empty");
    fs::write(folder.join("x.0.log"), "perhaps delivered\n").unwrap();
    let aside = IntakeLogs::move_aside(&folder, 7).unwrap().unwrap();
    assert_eq!(aside, dir.path().join("intake.damaged-7"));
    assert_eq!((names(&aside), folder.exists()), (vec!["x.0.log".to_owned()], false));
}

#[test]
fn what_is_no_file_of_ours_alone_is_refused_and_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("target");
    fs::write(&target, "secret\n").unwrap();
    symlink(&target, dir.path().join("x.0.log")).unwrap();
    assert!(logs(&dir).open(&x(), 0).is_err(), "a link");
    fs::remove_file(dir.path().join("x.0.log")).unwrap();
    fs::hard_link(&target, dir.path().join("x.0.log")).unwrap();
    let refused = logs(&dir).open(&x(), 0).unwrap_err().to_string();
    assert!(refused.contains("x.0.log"), "{refused}");
    assert_eq!(fs::read(&target).unwrap(), b"secret\n");
}

#[test]
fn an_adopted_file_takes_its_place_between_what_came_before_and_after() {
    let dir = tempfile::tempdir().unwrap();
    let mut pipe = Pipe::new();
    let mut log = logs(&dir).open(&x(), 0).unwrap();
    pipe.move_into(&mut log, b"before\n");
    let staged = logs(&dir).staged_path(&x(), "1_2_3");
    fs::write(&staged, "file\n").unwrap();
    assert_eq!(logs(&dir).staged(&x()).unwrap(), std::slice::from_ref(&staged));
    assert_eq!(log.adopt(&staged).unwrap(), 5);
    pipe.move_into(&mut log, b"after\n");
    assert_eq!(everything(&log, 0), b"before\nfile\nafter\n");
    // Somebody who still had it open: no byte of the stream moves.
    let mut late = OpenOptions::new().append(true).open(dir.path().join("x.7.log")).unwrap();
    late.write_all(b"late\n").unwrap();
    let log = logs(&dir).open(&x(), 0).unwrap();
    assert_eq!(everything(&log, 0), b"before\nfile\nafter\n");
}

#[test]
fn an_adopted_file_replaces_a_file_that_took_nothing_yet() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = logs(&dir).open(&x(), 0).unwrap();
    assert!(log.append_from(Pipe::new().reader.as_fd()).is_err(), "the pipe is empty");
    assert_eq!(names(dir.path()), ["x.0.log"]);
    let staged = logs(&dir).staged_path(&x(), "1_2_3");
    fs::write(&staged, "file\n").unwrap();
    log.adopt(&staged).unwrap();
    assert_eq!(everything(&log, 0), b"file\n");
}

#[test]
fn a_disk_that_was_full_is_freed_by_what_was_received() {
    let dir = tempfile::tempdir().unwrap();
    let mut pipe = Pipe::new();
    let mut log = logs(&dir).open(&x(), 0).unwrap();
    pipe.move_into(&mut log, b"one\n");
    log.seal();
    log.forget(4);
    assert_eq!(names(dir.path()), [""; 0]);
    log.seal();
    pipe.move_into(&mut log, b"two\n");
    assert_eq!(everything(&log, 4), b"two\n");
}

/// One thing that happens to the intake.
#[derive(Debug, Clone)]
enum Step {
    Write(usize),
    Splice,
    /// At most that many bytes are offered.
    Ingest(usize),
    Forget,
    /// The process dies here.
    Crash,
    /// It dies before the files that it was about to remove are removed.
    CrashBeforeRemoval,
    /// It dies after it made the next file.
    CrashBeforeFirstByte,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..150_usize).prop_map(Step::Write),
        4 => Just(Step::Splice),
        4 => (1..120_usize).prop_map(Step::Ingest),
        2 => Just(Step::Forget),
        1 => Just(Step::Crash),
        1 => Just(Step::CrashBeforeRemoval),
        1 => Just(Step::CrashBeforeFirstByte),
    ];
    prop::collection::vec(step, 1..60)
}

/// The endless stream `0\n1\n2\n...`.
fn stream(bytes: usize) -> Vec<u8> {
    (0..).flat_map(|n: u32| format!("{n}\n").into_bytes()).take(bytes).collect()
}

/// One life after the other on the same files.
struct Lives {
    dir: TempDir,
    pipe: Pipe,
    written: usize,
    log: IntakeLog,
    inbox: Inbox,
    events: mpsc::Receiver<Event>,
}

impl Lives {
    async fn begin() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("intake")).unwrap();
        let (inbox, events) = open_inbox(dir.path());
        let log = Self::logs(&dir).open(&x(), 0).unwrap();
        Self { dir, pipe: Pipe::new(), written: 0, log, inbox, events }
    }

    fn logs(dir: &TempDir) -> IntakeLogs {
        IntakeLogs::new(dir.path().join("intake")).with_segments_of(SMALL)
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Write(bytes) => {
                let all = stream(self.written + bytes);
                self.pipe.writer.write_all(&all[self.written..]).unwrap();
                self.written = all.len();
            }
            Step::Splice => {
                let _ = self.log.append_from(self.pipe.reader.as_fd());
            }
            Step::Ingest(bytes) => self.ingest(bytes).await,
            Step::Forget => self.log.forget(self.received().await),
            Step::Crash => self.live_again().await,
            Step::CrashBeforeRemoval => {
                let folder = self.dir.path().join("intake");
                let before: Vec<_> = names(&folder)
                    .into_iter()
                    .map(|name| (fs::read(folder.join(&name)).unwrap(), name))
                    .collect();
                self.log.forget(self.received().await);
                for (bytes, name) in before {
                    fs::write(folder.join(name), bytes).unwrap();
                }
                self.live_again().await;
            }
            Step::CrashBeforeFirstByte => {
                let next = format!("intake/x.{}.log", self.log.end());
                OpenOptions::new().append(true).create(true).open(self.dir.path().join(next)).unwrap();
                self.live_again().await;
            }
        }
    }

    async fn received(&self) -> u64 {
        self.inbox.received(&x()).await.unwrap()
    }

    async fn ingest(&mut self, bytes: usize) {
        if let Some((at, mut next)) = self.log.next(self.received().await).unwrap() {
            next.truncate(bytes);
            self.inbox.ingest(&x(), at, next).await.unwrap();
        }
    }

    async fn live_again(&mut self) {
        (self.inbox, self.events) = open_inbox(self.dir.path());
        self.log = Self::logs(&self.dir).open(&x(), self.received().await).unwrap();
    }

    /// All that was written goes in.
    async fn end(&mut self) -> Vec<String> {
        while self.log.append_from(self.pipe.reader.as_fd()).is_ok() {}
        while self.log.next(self.received().await).unwrap().is_some() {
            self.ingest(usize::MAX).await;
        }
        self.inbox.flush_quiet(&x()).await.unwrap();
        self.inbox.close().await;
        contents(&self.dir.path().join("inbox.db"))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn wherever_it_dies_every_line_is_accepted_once_and_in_order(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (written, accepted) = runtime.block_on(async {
            let mut lives = Lives::begin().await;
            for step in steps {
                lives.step(step).await;
            }
            (lives.written, lives.end().await)
        });
        let stream = String::from_utf8(stream(written)).unwrap();
        let lines: Vec<&str> = stream.lines().collect();
        prop_assert_eq!(accepted, lines);
    }
}
