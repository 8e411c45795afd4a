//! Real FIFOs in a temporary runtime directory, and a sink that splits lines.

mod adoption;
mod crash;
mod full_disk;
mod log;

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, symlink};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccmux_wire::channel::ChannelName;
use ccmux_wire::status::{ChannelStatus, Direction};
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::{Uid, mkfifo};
use tempfile::TempDir;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::runtime_dir::RuntimeDir;

const LIMIT: Duration = Duration::from_secs(20);

/// Lines of all channels in order of arrival; what is unfinished waits for a flush.
#[derive(Default)]
struct Lines {
    done: Vec<(String, String)>,
    rest: HashMap<ChannelName, Vec<u8>>,
    taken: HashMap<ChannelName, u64>,
}

struct Recorder {
    lines: Mutex<Lines>,
    count: watch::Sender<usize>,
    /// One permit a call of `ingest`.
    room: Semaphore,
    refusals: Mutex<u32>,
    offered: watch::Sender<u32>,
}

impl Recorder {
    fn new(room: usize, refusals: u32) -> Arc<Self> {
        Arc::new(Self {
            lines: Mutex::default(),
            count: watch::Sender::new(0),
            room: Semaphore::new(room),
            refusals: Mutex::new(refusals),
            offered: watch::Sender::new(0),
        })
    }

    fn refuses(&self) -> bool {
        let mut left = self.refusals.lock().unwrap();
        let refuses = *left > 0;
        *left = left.saturating_sub(1);
        refuses
    }

    fn accept(&self, channel: &ChannelName, line: Vec<u8>) {
        let line = (channel.to_string(), String::from_utf8(line).unwrap());
        self.lines.lock().unwrap().done.push(line);
        self.count.send_modify(|count| *count += 1);
    }

    async fn wait_for(&self, count: usize) -> Vec<(String, String)> {
        let mut counted = self.count.subscribe();
        let reached =
            timeout(LIMIT, counted.wait_for(|seen| *seen >= count)).await.map(|seen| *seen.unwrap());
        assert!(reached.is_ok(), "{} of {count} lines came", self.count.borrow().to_owned());
        self.lines.lock().unwrap().done.clone()
    }

    /// Until that is what waits, unfinished.
    async fn holds(&self, text: &str) {
        let mut offered = self.offered.subscribe();
        let holds = || self.lines.lock().unwrap().rest.values().any(|rest| rest == text.as_bytes());
        let reached = async {
            while !holds() {
                let _ = timeout(Duration::from_millis(20), offered.changed()).await;
            }
        };
        assert!(timeout(LIMIT, reached).await.is_ok(), "{text:?} did not come");
    }

    async fn texts(&self, count: usize) -> Vec<String> {
        self.wait_for(count).await.into_iter().map(|(_, text)| text).collect()
    }
}

impl Sink for Recorder {
    async fn start_offset(&self, channel: &ChannelName) -> Result<u64, SinkError> {
        Ok(self.lines.lock().unwrap().taken.get(channel).copied().unwrap_or(0))
    }

    async fn has_partial(&self, channel: &ChannelName) -> Result<bool, SinkError> {
        Ok(self.lines.lock().unwrap().rest.contains_key(channel))
    }

    async fn ingest(
        &self,
        channel: &ChannelName,
        offset: u64,
        bytes: Vec<u8>,
    ) -> Result<Ingested, SinkError> {
        self.offered.send_modify(|offered| *offered += 1);
        self.room.acquire().await.unwrap().forget();
        if self.refuses() {
            return Err(SinkError("no space left".into()));
        }
        let (whole, pending) = {
            let mut lines = self.lines.lock().unwrap();
            let taken = lines.taken.entry(channel.clone()).or_default();
            assert_eq!(*taken, offset, "bytes of {channel} come once and in order");
            *taken += bytes.len() as u64;
            let rest = lines.rest.entry(channel.clone()).or_default();
            rest.extend(bytes);
            let mut whole: Vec<Vec<u8>> = rest.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            *rest = whole.pop().unwrap();
            (whole, !rest.is_empty())
        };
        whole.into_iter().for_each(|line| self.accept(channel, line));
        Ok(Ingested { pending })
    }

    async fn flush_quiet(&self, channel: &ChannelName) -> Result<(), SinkError> {
        let rest = self.lines.lock().unwrap().rest.remove(channel).unwrap_or_default();
        if !rest.is_empty() {
            self.accept(channel, rest);
        }
        Ok(())
    }
}

fn logs_in(keep: &TempDir) -> IntakeLogs {
    let path = keep.path().join("intake");
    fs::create_dir_all(&path).unwrap();
    IntakeLogs::new(path)
}

struct House {
    _keep: Arc<TempDir>,
    dir: Arc<RuntimeDir>,
    sink: Arc<Recorder>,
    channels: watch::Receiver<Vec<ChannelStatus>>,
    shutdown: CancellationToken,
    registry: JoinHandle<()>,
}

/// A temporary directory in which daemons come and go; a sink outlives them, as the inbox's file does.
struct Place {
    keep: Arc<TempDir>,
    sink: Arc<Recorder>,
}

impl Place {
    fn new(room: usize) -> Self {
        Self { keep: Arc::new(tempfile::tempdir().unwrap()), sink: Recorder::new(room, 0) }
    }

    fn open(&self) -> House {
        House::in_place(Arc::clone(&self.keep), Arc::clone(&self.sink))
    }

    fn logs(&self) -> PathBuf {
        self.keep.path().join("intake")
    }

    /// Names of the files in the folder of logs.
    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.logs()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl House {
    fn open() -> Self {
        Self::with(Recorder::new(Semaphore::MAX_PERMITS, 0))
    }

    fn with(sink: Arc<Recorder>) -> Self {
        Self::in_place(Arc::new(tempfile::tempdir().unwrap()), sink)
    }

    fn in_place(keep: Arc<TempDir>, sink: Arc<Recorder>) -> Self {
        Self::with_partials(&Place { keep, sink }, Vec::new())
    }

    fn with_partials(place: &Place, partials: Vec<ChannelName>) -> Self {
        let (keep, sink) = (Arc::clone(&place.keep), Arc::clone(&place.sink));
        let dir = Arc::new(RuntimeDir::claim(&keep.path().join("ccmux")).unwrap());
        let shutdown = CancellationToken::new();
        let logs = logs_in(&keep);
        let registry = Registry::new(Arc::clone(&dir), Arc::clone(&sink), logs, shutdown.clone());
        let registry = registry.with_partials(partials);
        let channels = registry.channels();
        Self { _keep: keep, dir, sink, channels, shutdown, registry: tokio::spawn(registry.run()) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn make(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        path
    }

    /// The state that the board shows, once it fits.
    async fn state(&mut self, name: &str, direction: Direction, fits: impl Fn(Option<&str>) -> bool) {
        let shown = |list: &Vec<ChannelStatus>| {
            let entry = list.iter().find(|entry| entry.name.as_str() == name && entry.direction == direction);
            fits(entry.map(|entry| entry.state.as_str()))
        };
        let mut channels = self.channels.clone();
        let reached = timeout(LIMIT, channels.wait_for(shown)).await.is_ok();
        assert!(reached, "{name}: {:?}", self.channels.borrow().to_owned());
    }

    async fn opened(&mut self, name: &str) {
        self.state(name, Direction::In, |state| state == Some("open")).await;
    }

    async fn refused(&mut self, name: &str, why: &str) {
        let fits = |state: Option<&str>| state.is_some_and(|s| s.starts_with("refused: ") && s.contains(why));
        self.state(name, Direction::In, fits).await;
    }

    async fn close(self) -> Vec<(String, String)> {
        self.shutdown.cancel();
        timeout(LIMIT, self.registry).await.expect("the registry hangs").unwrap();
        self.sink.lines.lock().unwrap().done.clone()
    }
}

/// As `echo` does: waits until somebody reads, writes, leaves.
async fn write(path: PathBuf, text: impl AsRef<[u8]> + Send + 'static) {
    let write = move || OpenOptions::new().write(true).open(path)?.write_all(text.as_ref());
    timeout(LIMIT, tokio::task::spawn_blocking(write)).await.expect("nobody reads").unwrap().unwrap();
}

fn writer(path: &PathBuf) -> std::io::Result<File> {
    OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)
}

/// Opens as soon as somebody reads.
async fn patient_writer(path: &PathBuf) -> File {
    let started = Instant::now();
    loop {
        match writer(path) {
            Ok(file) => return file,
            Err(error) => assert!(started.elapsed() < LIMIT, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_line_in_the_default_fifo_arrives() {
    let mut house = House::open();
    house.opened("default").await;
    assert!(house.path("in").symlink_metadata().unwrap().file_type().is_fifo());
    write(house.path("in"), "hello\n").await;
    assert_eq!(house.sink.wait_for(1).await, [("default".to_owned(), "hello".to_owned())]);
}

#[tokio::test]
async fn what_was_there_before_the_start_is_found() {
    let keep = tempfile::tempdir().unwrap();
    let dir = Arc::new(RuntimeDir::claim(&keep.path().join("ccmux")).unwrap());
    for name in ["in.telegram", "out.telegram", "in.x.swp", "index"] {
        mkfifo(&dir.path().join(name), Mode::S_IRWXU).unwrap();
    }
    let sink = Recorder::new(10, 0);
    let registry = Registry::new(dir, sink, logs_in(&keep), CancellationToken::new());
    let mut channels = registry.channels();
    let task = tokio::spawn(registry.run());
    let listed = timeout(LIMIT, channels.wait_for(|list| list.len() >= 3)).await.unwrap().unwrap().clone();
    let listed: Vec<_> = listed.iter().map(|c| (c.name.as_str(), c.direction, c.state.as_str())).collect();
    let (incoming, outgoing) = (Direction::In, Direction::Out);
    let wanted =
        [("default", incoming, "open"), ("telegram", incoming, "open"), ("telegram", outgoing, "open")];
    assert_eq!(listed, wanted);
    task.abort();
}

#[tokio::test]
async fn a_new_fifo_is_usable_within_a_tenth_of_a_second() {
    let mut house = House::open();
    house.opened("default").await;
    let mut waits = Vec::new();
    for round in 0..21 {
        let started = Instant::now();
        let path = house.make(&format!("in.c{round}"));
        patient_writer(&path).await;
        waits.push(started.elapsed());
    }
    waits.sort();
    println!("median {:?}, longest {:?}", waits[10], waits[20]);
    assert!(waits[10] < Duration::from_millis(100), "{waits:?}");
}

#[tokio::test]
async fn fault_36_a_fifo_deleted_and_made_again_at_once_loses_nothing() {
    let mut house = House::open();
    house.opened("default").await;
    for round in 0..1_000 {
        let path = house.make("in.x");
        write(path.clone(), format!("{round}\n")).await;
        fs::remove_file(path).unwrap();
    }
    let wanted: Vec<String> = (0..1_000).map(|round| round.to_string()).collect();
    assert_eq!(house.sink.texts(1_000).await, wanted);
    house.state("x", Direction::In, |state| state.is_none()).await;
}

#[tokio::test]
async fn a_writer_that_opened_before_the_deletion_may_still_write() {
    let mut house = House::open();
    let path = house.make("in.x");
    house.opened("x").await;
    let mut early = writer(&path).unwrap();
    fs::remove_file(&path).unwrap();
    house.state("x", Direction::In, |state| state.is_none()).await;
    early.write_all(b"late\n").unwrap();
    assert_eq!(house.sink.texts(1).await, ["late"]);
}

#[tokio::test]
async fn the_next_fifo_of_a_name_waits_until_the_last_one_is_taken() {
    let mut house = House::with(Recorder::new(0, 0));
    let path = house.make("in.x");
    house.opened("x").await;
    let mut offered = house.sink.offered.subscribe();
    write(path.clone(), "first\n").await;
    timeout(LIMIT, offered.wait_for(|times| *times == 1)).await.unwrap().unwrap();
    fs::remove_file(&path).unwrap();
    house.state("x", Direction::In, |state| state.is_none()).await;
    write(house.make("in.x"), "second\n").await;
    house.sink.room.add_permits(10);
    assert_eq!(house.sink.texts(2).await, ["first", "second"]);
}

#[tokio::test]
async fn an_unfinished_line_does_not_join_the_next_fifo_of_that_name() {
    let mut house = House::open();
    let path = house.make("in.x");
    house.opened("x").await;
    write(path.clone(), "half").await;
    fs::remove_file(&path).unwrap();
    write(house.make("in.x"), "whole\n").await;
    assert_eq!(house.sink.texts(2).await, ["half", "whole"]);
}

#[tokio::test]
async fn a_line_without_newline_waits_for_quiet() {
    let house = House::open();
    let mut open = patient_writer(&house.path("in")).await;
    open.write_all(b"no newline").unwrap();
    let written = Instant::now();
    assert_eq!(house.sink.texts(1).await, ["no newline"]);
    assert!(written.elapsed() >= QUIET - Duration::from_millis(100), "{:?}", written.elapsed());
    open.write_all(b"next\n").unwrap();
    assert_eq!(house.sink.texts(2).await, ["no newline", "next"], "the writer that stays is heard on");
}

#[tokio::test]
async fn five_writers_and_a_line_of_a_mebibyte() {
    let mut house = House::open();
    let big = house.make("in.big");
    house.opened("big").await;
    let line = "x".repeat(1024 * 1024);
    let mut tasks = vec![tokio::spawn(write(big, line.clone() + "\n"))];
    for who in 0..5 {
        let lines: String = (0..200).map(|n| format!("{who}:{n}\n")).collect();
        let path = house.path("in");
        tasks.push(tokio::spawn(async move {
            for line in lines.split_inclusive('\n') {
                write(path.clone(), line.to_owned()).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let came = house.sink.wait_for(1001).await;
    assert_eq!(came.iter().filter(|(channel, text)| channel == "big" && *text == line).count(), 1);
    for who in 0..5 {
        let own = came.iter().filter_map(|(_, text)| text.strip_prefix(&format!("{who}:")));
        let own: Vec<usize> = own.map(|n| n.parse().unwrap()).collect();
        assert_eq!(own, (0..200).collect::<Vec<_>>(), "writer {who}");
    }
}

#[tokio::test]
async fn a_full_inbox_stops_the_writer_and_loses_nothing() {
    let house = House::with(Recorder::new(0, 0));
    let mut open = patient_writer(&house.path("in")).await;
    open.write_all(b"0\n").unwrap();
    let mut offered = house.sink.offered.subscribe();
    timeout(LIMIT, offered.wait_for(|times| *times == 1)).await.unwrap().unwrap();
    let mut written = 1;
    while open.write_all(format!("{written}\n").as_bytes()).is_ok() {
        written += 1;
        assert!(written < 1_000_000, "the writer is never stopped");
    }
    house.sink.room.add_permits(1_000);
    let wanted: Vec<String> = (0..written).map(|n| n.to_string()).collect();
    assert_eq!(house.sink.texts(written).await, wanted);
}

#[tokio::test]
async fn bytes_that_the_inbox_refused_are_offered_again() {
    let mut house = House::with(Recorder::new(100, 2));
    house.opened("default").await;
    write(house.path("in"), "").await;
    let mut open = patient_writer(&house.path("in")).await;
    open.write_all(b"once\n").unwrap();
    house.state("default", Direction::In, |state| state == Some("stalled: no space left")).await;
    assert_eq!(house.sink.texts(1).await, ["once"]);
    house.opened("default").await;
}

#[tokio::test]
async fn what_is_no_fifo_of_ours_is_refused_and_untouched() {
    let mut house = House::open();
    fs::create_dir(house.path("in.dir")).unwrap();
    symlink("/dev/null", house.path("in.link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(house.path("in.sock")).unwrap();
    fs::hard_link(house.make("other"), house.path("in.linked")).unwrap();
    fs::write(house.path("in.b d"), "").unwrap();
    fs::write(house.path("in.default"), "").unwrap();
    house.refused("dir", "directory").await;
    house.refused("link", "symbolic link").await;
    house.refused("sock", "socket").await;
    house.refused("linked", "2 names").await;
    fs::remove_file(house.path("other")).unwrap();
    house.opened("linked").await;
}

#[tokio::test]
async fn another_users_fifo_is_refused() {
    if !Uid::effective().is_root() {
        return; // Only root can make one.
    }
    let mut house = House::open();
    let path = house.make("in.theirs");
    nix::unistd::chown(&path, Some(Uid::from_raw(65534)), None).unwrap();
    house.refused("theirs", "uid 65534").await;
}

#[tokio::test]
async fn an_out_channel_is_listed_and_never_opened() {
    let mut house = House::open();
    let path = house.make("out.x");
    house.state("x", Direction::Out, |state| state == Some("open")).await;
    assert!(writer(&path).is_err(), "somebody reads it");
    fs::remove_file(&path).unwrap();
    house.state("x", Direction::Out, |state| state.is_none()).await;
}

#[tokio::test]
async fn the_fifo_after_the_last_allowed_one_waits_for_a_place() {
    let mut house = House::open();
    house.opened("default").await;
    for number in 1..MAX_CHANNELS {
        house.make(&format!("in.c{number}"));
    }
    house.opened(&format!("c{}", MAX_CHANNELS - 1)).await;
    house.make("in.z");
    house.refused("z", "256").await;
    fs::remove_file(house.path("in.c1")).unwrap();
    house.opened("z").await;
}

#[tokio::test]
async fn a_tmp_cleaner_does_no_lasting_harm() {
    let mut house = House::open();
    house.opened("default").await;
    fs::remove_file(house.path("in")).unwrap();
    write_soon(&house, "after the fifo").await;
    assert_eq!(house.sink.texts(1).await, ["after the fifo"]);
    let _control = house.dir.bind_socket(&house.path("control.sock")).unwrap();
    let mut lost = house.dir.lost_sockets();
    fs::remove_dir_all(house.dir.path()).unwrap();
    timeout(LIMIT, lost.changed()).await.expect("nobody noticed").unwrap();
    write_soon(&house, "after the directory").await;
    assert_eq!(house.sink.texts(2).await, ["after the fifo", "after the directory"]);
    house.make("in.x");
    house.opened("x").await;
}

/// Writes to `in` as soon as it is there again.
async fn write_soon(house: &House, text: &str) {
    let mut open = patient_writer(&house.path("in")).await;
    open.write_all(format!("{text}\n").as_bytes()).unwrap();
}

#[tokio::test]
async fn shutdown_takes_what_is_in_the_pipes() {
    let mut house = House::open();
    let path = house.make("in.x");
    house.opened("x").await;
    let (mut one, mut two) = (writer(&path).unwrap(), patient_writer(&house.path("in")).await);
    one.write_all("line\n".repeat(5_000).as_bytes()).unwrap();
    two.write_all(b"unfinished").unwrap();
    let sink = Arc::clone(&house.sink);
    let lines = house.close().await;
    assert_eq!(lines.len(), 5_000);
    let rest = sink.lines.lock().unwrap().rest[&ChannelName::default_channel()].clone();
    assert_eq!(rest, b"unfinished", "taken, and left to be finished after the restart");
}

#[tokio::test]
async fn shutdown_does_not_wait_for_an_inbox_that_hangs_or_a_writer_that_floods() {
    let house = House::with(Recorder::new(0, 0));
    let mut open = patient_writer(&house.path("in")).await;
    open.write_all(b"stuck\n").unwrap();
    let mut offered = house.sink.offered.subscribe();
    timeout(LIMIT, offered.wait_for(|times| *times == 1)).await.unwrap().unwrap();
    let asked = Instant::now();
    house.close().await;
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());

    let house = House::open();
    let mut flood = patient_writer(&house.path("in")).await;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let flooder =
        std::thread::spawn(move || while !stopped.is_cancelled() && !is_closed(flood.write(b"x\n")) {});
    house.sink.wait_for(10).await;
    let asked = Instant::now();
    house.close().await;
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    stop.cancel();
    flooder.join().unwrap();
}

fn is_closed(written: std::io::Result<usize>) -> bool {
    written.is_err_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
