//! The daemon ends, politely or by `kill -9`, and the next one goes on.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

#[tokio::test]
async fn what_the_inbox_did_not_take_is_taken_after_the_restart() {
    let place = Place::new(0);
    let mut house = place.open();
    let path = house.make("in.x");
    house.opened("x").await;
    write(path.clone(), "one\ntwo\nhalf").await;
    let mut offered = house.sink.offered.subscribe();
    timeout(LIMIT, offered.wait_for(|times| *times == 1)).await.unwrap().unwrap();
    house.close().await;
    assert_eq!(place.left(), ["x.0.log"]);
    place.sink.room.add_permits(100);
    let mut house = place.open();
    house.opened("x").await;
    assert_eq!(house.sink.texts(2).await, ["one", "two"]);
    write(path, " and whole\n").await;
    assert_eq!(house.sink.texts(3).await, ["one", "two", "half and whole"]);
}

#[tokio::test]
async fn the_log_of_a_channel_whose_fifo_has_gone_is_taken_and_removed() {
    let place = Place::new(0);
    let mut house = place.open();
    let path = house.make("in.x");
    house.opened("x").await;
    write(path.clone(), "one\ntwo\nhalf").await;
    fs::remove_file(&path).unwrap();
    house.state("x", Direction::In, |state| state.is_none()).await;
    house.close().await;
    place.sink.room.add_permits(100);
    let house = place.open();
    assert_eq!(house.sink.texts(3).await, ["one", "two", "half"]);
    write(house.make("in.x"), "next\n").await;
    assert_eq!(house.sink.texts(4).await, ["one", "two", "half", "next"]);
    house.close().await;
    assert_eq!(place.left(), [""; 0]);
}

#[tokio::test]
async fn a_reader_that_waits_for_the_inbox_shows_it() {
    let mut house = House::with(Recorder::new(0, 0));
    house.opened("default").await;
    let flood = tokio::spawn(write(house.path("in"), "0123456\n".repeat(300_000)));
    let full = |state: Option<&str>| state.is_some_and(|state| state.starts_with("full: "));
    house.state("default", Direction::In, full).await;
    assert!(!flood.is_finished(), "the writer waits");
    house.sink.room.add_permits(1_000);
    flood.await.unwrap();
    house.sink.wait_for(300_000).await;
    house.opened("default").await;
}

#[tokio::test]
async fn the_beginning_of_a_line_that_an_earlier_daemon_took_is_finished_or_waits_for_quiet() {
    let place = Place::new(Semaphore::MAX_PERMITS);
    let house = place.open();
    drop(patient_writer(&house.path("in")).await);
    let mut open = File::options().read(true).write(true).open(house.path("in")).unwrap();
    open.write_all(b"half").unwrap();
    house.sink.holds("half").await;
    assert!(house.close().await.is_empty(), "nobody flushes it at shutdown");
    let house = place.open();
    let started = Instant::now();
    assert_eq!(house.sink.texts(1).await, ["half"]);
    assert!(started.elapsed() >= QUIET - Duration::from_millis(100), "{:?}", started.elapsed());
    open.write_all(b"an").unwrap();
    house.sink.holds("an").await;
    house.close().await;
    open.write_all(b"other\n").unwrap();
    assert_eq!(place.open().sink.texts(2).await, ["half", "another"]);
}

#[tokio::test]
async fn the_beginning_of_a_line_is_accepted_at_once_where_its_fifo_has_gone() {
    let place = Place::new(Semaphore::MAX_PERMITS);
    let house = place.open();
    write(house.make("in.x"), "half").await;
    house.sink.holds("half").await;
    let fifo = house.path("in.x");
    house.close().await;
    fs::remove_file(fifo).unwrap();
    let house = House::with_partials(&place, vec!["x".parse().unwrap()]);
    assert_eq!(house.sink.texts(1).await, ["half"]);
}

const CHILD_DIR: &str = "CCMUX_TEST_INTAKE_DIR";
const CHANNELS: usize = 50;
const EACH: usize = 200;

/// Run by the next test in a process of its own, which it kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_reads_fifos_until_it_is_killed() {
    let Some(dir) = std::env::var_os(CHILD_DIR).map(PathBuf::from) else {
        return;
    };
    let runtime_dir = Arc::new(RuntimeDir::claim(&dir.join("ccmux")).unwrap());
    let (inbox, mut events) = open_inbox(&dir);
    tokio::spawn(async move { while events.recv().await.is_some() {} });
    let sink = Arc::new(InboxSink(inbox));
    // Small files: one is ended, and removed, all the time.
    let logs = IntakeLogs::new(dir.join("intake")).with_segments_of(8 * 1024);
    Registry::new(runtime_dir, sink, logs, CancellationToken::new()).run().await;
}

fn spawn_child(dir: &TempDir) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "intake::tests::crash::a_child_reads_fifos_until_it_is_killed", "--nocapture"])
        .env(CHILD_DIR, dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Holds every FIFO, as systemd's descriptor store does, and writes its lines into it.
fn write_all(dir: &TempDir, channel: usize) {
    let path = dir.path().join(format!("ccmux/in.c{channel:02}"));
    let mut fifo = OpenOptions::new().read(true).write(true).open(path).unwrap();
    for n in 0..EACH {
        let padding = "x".repeat((channel * 31 + n * 17) % 900);
        fifo.write_all(format!("{channel:02} {n:03} {padding}\n").as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(10));
    }
    // Held until the last child has taken it.
    std::mem::forget(fifo);
}

fn wait_until_accepted(dir: &TempDir) -> Vec<String> {
    let started = std::time::Instant::now();
    loop {
        let accepted = contents(&dir.path().join("inbox.db"));
        if accepted.len() >= CHANNELS * EACH || started.elapsed() > LIMIT {
            return accepted;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Acceptance B4.
#[test]
fn kill_9_every_200_ms_loses_and_doubles_none_of_10_000_lines_on_50_channels() {
    let dir = tempfile::tempdir().unwrap();
    drop(RuntimeDir::claim(&dir.path().join("ccmux")).unwrap());
    fs::create_dir(dir.path().join("intake")).unwrap();
    for channel in 0..CHANNELS {
        mkfifo(&dir.path().join(format!("ccmux/in.c{channel:02}")), Mode::S_IRWXU).unwrap();
    }
    let done = AtomicBool::new(false);
    let kills = thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let mut kills = 0;
            while !done.load(Ordering::Relaxed) {
                let mut child = spawn_child(&dir);
                thread::sleep(Duration::from_millis(200));
                child.kill().unwrap();
                child.wait().unwrap();
                kills += 1;
            }
            kills
        });
        let writers: Vec<_> = (0..CHANNELS)
            .map(|channel| {
                scope.spawn({
                    let dir = &dir;
                    move || write_all(dir, channel)
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        killer.join().unwrap()
    });
    let mut last = spawn_child(&dir);
    let mut accepted = wait_until_accepted(&dir);
    last.kill().unwrap();
    last.wait().unwrap();
    // Stable: what is left is the order within a channel.
    accepted.sort_by_key(|line| line[..2].to_owned());
    let heads: Vec<&str> = accepted.iter().map(|line| &line[..6]).collect();
    let wanted: Vec<String> =
        (0..CHANNELS).flat_map(|channel| (0..EACH).map(move |n| format!("{channel:02} {n:03}"))).collect();
    println!("{} lines, {kills} kills", wanted.len());
    assert!(kills >= 5, "{kills} kills");
    assert_eq!(heads, wanted);
}
