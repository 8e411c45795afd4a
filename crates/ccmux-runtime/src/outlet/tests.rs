//! Outgoing FIFOs with real readers: none, slow, gone, late.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use ccmux_wire::status::Direction;
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, SFlag, mknod};
use nix::unistd::{Uid, chown, mkfifo};

use super::*;

const LIMIT: Duration = Duration::from_secs(20);

/// A runtime directory with outlets; the list of channels is what a test says.
struct Place {
    dir: tempfile::TempDir,
    list: watch::Sender<Vec<ChannelStatus>>,
    outlets: Outlets,
}

fn place() -> Place {
    place_with(|_| {})
}

fn place_with(change: impl FnOnce(&mut OutletSettings)) -> Place {
    place_with_policies(change, &[])
}

fn place_with_policies(change: impl FnOnce(&mut OutletSettings), policies: &[(&str, OutletPolicy)]) -> Place {
    let mut settings = OutletSettings {
        wait: Duration::from_millis(200),
        linger: Duration::from_secs(2),
        finish: Duration::from_millis(300),
    };
    change(&mut settings);
    let dir = tempfile::tempdir().unwrap();
    let (list, channels) = watch::channel(Vec::new());
    let policies = policies.iter().map(|(name, policy)| (name.parse().unwrap(), *policy)).collect();
    let (path, shutdown) = (dir.path().to_owned(), CancellationToken::new());
    let outlets = Outlets::with_policies(path, settings, policies, channels, shutdown);
    Place { dir, list, outlets }
}

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("out.{name}"))
    }

    fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        let name = name.parse().unwrap();
        let entry = ChannelStatus { name, direction: Direction::Out, state: "open".into() };
        self.list.send_modify(|list| list.push(entry));
        path
    }

    async fn send(&self, channel: &str, message: &str) -> Result<(), OutletError> {
        tokio::time::timeout(LIMIT, self.outlets.send(channel, message.to_owned())).await.unwrap()
    }
}

/// A reader that has the FIFO open and doesn't read yet.
fn open_reader(path: &Path) -> File {
    OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path).unwrap()
}

/// What is in the pipe now.
fn drain(reader: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = reader.read_to_end(&mut bytes);
    bytes
}

/// Reads that many lines, the FIFO opened once.
fn read_lines(path: PathBuf, count: usize) -> JoinHandle<Vec<String>> {
    std::thread::spawn(move || {
        let reader = BufReader::new(File::open(path).unwrap());
        reader.lines().take(count).map(Result::unwrap).collect()
    })
}

async fn joined<T: Send + 'static>(thread: JoinHandle<T>) -> T {
    let joining = tokio::task::spawn_blocking(move || thread.join().unwrap());
    tokio::time::timeout(LIMIT, joining).await.expect("the reader got all of it").unwrap()
}

#[tokio::test]
async fn a_message_arrives_whole_and_ends_with_a_newline() {
    let place = place();
    let mut reader = open_reader(&place.fifo("x"));
    place.send("x", "grüße\n  second line").await.unwrap();
    assert_eq!(drain(&mut reader), "grüße\n  second line\n".as_bytes());
}

#[tokio::test]
async fn a_channel_of_json_gets_a_line_of_it_and_waits_as_its_policy_says() {
    let policy = OutletPolicy { wait: Some(LIMIT), json: true };
    let place = place_with_policies(|settings| settings.wait = Duration::ZERO, &[("x", policy)]);
    let (path, outlets) = (place.fifo("x"), place.outlets.clone());
    let send = tokio::spawn(async move { outlets.send("x", "grüße\n\"second\" line".into()).await });
    tokio::task::yield_now().await;
    let lines = joined(read_lines(path, 1)).await;
    send.await.unwrap().unwrap();
    let line: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(line["content"], "grüße\n\"second\" line");
    assert!(line["ts"].as_i64().is_some_and(|ts| ts > 1_700_000_000), "{line}");
    place.fifo("y");
    assert!(place.send("y", "nobody").await.is_err());
}

#[tokio::test]
async fn fifty_callers_at_once_get_fifty_whole_lines_through() {
    let place = place();
    let reader = read_lines(place.fifo("x"), 50);
    let texts: Vec<String> = (0..50).map(|n| format!("{n:02} {}", "y".repeat(9000))).collect();
    let sends = texts.iter().cloned().map(|text| {
        let outlets = place.outlets.clone();
        tokio::spawn(async move { outlets.send("x", text).await })
    });
    for send in sends.collect::<Vec<_>>() {
        send.await.unwrap().unwrap();
    }
    let mut got = joined(reader).await;
    got.sort();
    assert!(got == texts);
}

#[tokio::test]
async fn a_missing_channel_is_answered_with_the_names_there_are() {
    let place = place();
    let error = place.send("nowhere", "x").await.unwrap_err().to_string();
    assert!(
        error.contains("no channel \"nowhere\"") && error.contains("no channel takes messages now"),
        "{error}"
    );
    place.fifo("alpha");
    place.fifo("beta");
    for wrong in ["nowhere", "../alpha", "", "alpha.bak", "a/b"] {
        let error = place.send(wrong, "x").await.unwrap_err();
        assert!(
            matches!(&error, OutletError::NoSuchChannel { there, .. } if there.ends_with("alpha, beta")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn without_a_reader_it_is_an_error_after_out_wait_also_for_those_behind() {
    let place = place();
    place.fifo("x");
    let began = std::time::Instant::now();
    let sends = (0..8).map(|n| {
        let outlets = place.outlets.clone();
        tokio::spawn(async move { outlets.send("x", n.to_string()).await })
    });
    for send in sends.collect::<Vec<_>>() {
        let error = send.await.unwrap().unwrap_err();
        assert!(matches!(error, OutletError::NobodyListens { .. }), "{error}");
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(200), "not retried: {took:?}");
    assert!(took < Duration::from_millis(800), "one waited after the other: {took:?}");
}

#[tokio::test]
async fn a_reader_that_comes_within_out_wait_gets_the_message() {
    let place = place_with(|settings| settings.wait = LIMIT);
    let path = place.fifo("x");
    let outlets = place.outlets.clone();
    let send = tokio::spawn(async move { outlets.send("x", "late".into()).await });
    tokio::task::yield_now().await;
    let reader = read_lines(path, 1);
    assert_eq!(joined(reader).await, ["late"]);
    send.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_caller_that_left_before_anybody_listened_takes_its_message_along() {
    let place = place_with(|settings| settings.wait = LIMIT);
    let path = place.fifo("x");
    let outlets = place.outlets.clone();
    let first = tokio::spawn(async move { outlets.send("x", "first".into()).await });
    tokio::task::yield_now().await;
    first.abort();
    let _ = first.await;
    let reader = read_lines(path, 1);
    place.send("x", "second").await.unwrap();
    assert_eq!(joined(reader).await, ["second"]);
}

/// `while read line < fifo`: between two lines nobody has the FIFO open but us.
#[tokio::test]
async fn a_reader_that_opens_anew_for_every_line_gets_300_of_300() {
    let place = place_with(|settings| settings.wait = LIMIT);
    let path = place.fifo("x");
    let reader = std::thread::spawn(move || {
        let line = |_| {
            let mut fifo = File::open(&path).unwrap();
            let mut line = Vec::new();
            let mut byte = [0];
            while fifo.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
                line.push(byte[0]);
            }
            String::from_utf8(line).unwrap()
        };
        (0..300).map(line).collect::<Vec<_>>()
    });
    for n in 0..300 {
        // Long ones fill the pipe, so that some are half written when the reader closes.
        place.send("x", &format!("{n} {}", "z".repeat(n * 7 % 9000))).await.unwrap();
    }
    let got = joined(reader).await;
    let numbers: Vec<&str> = got.iter().map(|line| line.split(' ').next().unwrap()).collect();
    let all: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    assert_eq!(numbers, all);
    assert!(got.iter().enumerate().all(|(n, line)| line.ends_with(&"z".repeat(n * 7 % 9000))));
}

#[tokio::test]
async fn what_nobody_has_read_yet_is_held_beyond_the_linger() {
    let place = place_with(|settings| settings.linger = Duration::from_millis(20));
    let path = place.fifo("x");
    let reader = open_reader(&path);
    place.send("x", "unread").await.unwrap();
    drop(reader);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(drain(&mut open_reader(&path)), b"unread\n");
    // ... and let go once it is read.
    let is_held = || {
        fs::read_dir("/proc/self/fd")
            .unwrap()
            .flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == path))
    };
    let let_go = async {
        while is_held() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, let_go).await.unwrap();
}

/// It was told as sent, and a pipe forgets what is in it when its last end is closed.
#[tokio::test]
async fn what_nobody_has_read_at_the_shutdown_is_held_for_a_moment() {
    let place = place();
    for name in ["x", "alone"] {
        let reader = open_reader(&place.fifo(name));
        place.send(name, "last words").await.unwrap();
        drop(reader);
    }
    place.outlets.0.shutdown.cancel();
    let late = place.send("x", "late").await;
    assert!(matches!(late, Err(OutletError::Stopping)), "{late:?}");
    assert_eq!(drain(&mut open_reader(&place.path("x"))), b"last words\n");
    // For the other one nobody comes.
    tokio::time::timeout(LIMIT, place.outlets.stopped()).await.unwrap();
    assert_eq!(drain(&mut open_reader(&place.path("alone"))), b"");
}

#[tokio::test]
async fn a_mebibyte_arrives_and_a_byte_more_is_refused() {
    let place = place_with(|settings| settings.finish = LIMIT);
    let path = place.fifo("x");
    let text = "m".repeat(MESSAGE_BYTES);
    let error = place.send("x", &format!("{text}m")).await.unwrap_err();
    assert!(matches!(error, OutletError::TooLarge { bytes } if bytes == MESSAGE_BYTES + 1), "{error}");
    let reader = read_lines(path, 1);
    place.outlets.send("x", text.clone()).await.unwrap();
    assert!(joined(reader).await == [text]);
}

#[tokio::test]
async fn a_reader_that_stops_in_the_middle_is_an_error_and_the_next_message_begins_on_a_line_of_its_own() {
    let place = place();
    let mut reader = open_reader(&place.fifo("x"));
    let error = place.send("x", &"a".repeat(500_000)).await.unwrap_err();
    let OutletError::Torn { how: "stopped reading", written, .. } = error else { panic!("{error}") };
    // As long as it doesn't read, others are told at once.
    let began = std::time::Instant::now();
    let error = place.send("x", "b").await.unwrap_err();
    assert!(matches!(error, OutletError::Full { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_millis(200));
    assert_eq!(drain(&mut reader).len(), written);
    place.send("x", "next").await.unwrap();
    place.send("x", "and next").await.unwrap();
    assert_eq!(drain(&mut reader), b"\nnext\nand next\n");
}

#[tokio::test]
async fn a_reader_that_leaves_in_the_middle_leaves_no_torn_line_for_the_next() {
    let place = place_with(|settings| settings.finish = LIMIT);
    let path = place.fifo("x");
    let mut reader = open_reader(&path);
    let outlets = place.outlets.clone();
    let send = tokio::spawn(async move { outlets.send("x", "a".repeat(500_000)).await });
    let mut some = [0; 1000];
    while reader.read(&mut some).unwrap_or_default() == 0 {
        tokio::task::yield_now().await;
    }
    drop(reader);
    let error = send.await.unwrap().unwrap_err();
    assert!(matches!(error, OutletError::Torn { how: "left", .. }), "{error}");
    let mut next = open_reader(&path);
    place.send("x", "next").await.unwrap();
    let text = String::from_utf8(drain(&mut next)).unwrap();
    assert_eq!(text.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>(), ["next"]);
}

#[tokio::test]
async fn a_reader_that_never_reads_slows_no_other_channel() {
    let place = place_with(|settings| settings.finish = LIMIT);
    let (stuck, fine) = (place.fifo("stuck"), place.fifo("fine"));
    let _stuck = open_reader(&stuck);
    let outlets = place.outlets.clone();
    let waiting = tokio::spawn(async move { outlets.send("stuck", "s".repeat(500_000)).await });
    let reader = read_lines(fine, 100);
    for n in 0..100 {
        place.send("fine", &n.to_string()).await.unwrap();
    }
    assert_eq!(joined(reader).await.len(), 100);
    assert!(!waiting.is_finished());
}

#[tokio::test]
async fn what_is_no_fifo_of_ours_is_refused_and_untouched() {
    let place = place();
    fs::write(place.path("file"), "precious").unwrap();
    std::os::unix::fs::symlink(place.fifo("real"), place.path("link")).unwrap();
    fs::create_dir(place.path("dir")).unwrap();
    fs::hard_link(place.fifo("one"), place.path("two")).unwrap();
    let mut cases =
        vec![("file", "regular file"), ("link", "symbolic link"), ("dir", "directory"), ("two", "2 names")];
    if Uid::effective().is_root() {
        let null = nix::sys::stat::stat("/dev/null").unwrap().st_rdev;
        mknod(&place.path("device"), SFlag::S_IFCHR, Mode::S_IRUSR | Mode::S_IWUSR, null).unwrap();
        chown(&place.fifo("foreign"), Some(Uid::from_raw(1)), None).unwrap();
        cases.extend([("device", "device"), ("foreign", "uid 1")]);
    }
    let _readers = [open_reader(&place.path("real")), open_reader(&place.path("one"))];
    for (name, why) in cases {
        let error = place.send(name, "x").await.unwrap_err();
        assert!(matches!(error, OutletError::Refused { .. }), "{name}: {error}");
        assert!(error.to_string().contains(why), "{name}: {error}");
    }
    assert_eq!(fs::read(place.path("file")).unwrap(), b"precious");
}

#[tokio::test]
async fn a_fifo_made_anew_is_found_while_the_old_one_is_held() {
    let place = place();
    let path = place.fifo("x");
    let mut old = open_reader(&path);
    place.send("x", "old").await.unwrap();
    fs::remove_file(&path).unwrap();
    mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    assert!(path.symlink_metadata().unwrap().file_type().is_fifo());
    let mut new = open_reader(&path);
    place.send("x", "new").await.unwrap();
    assert_eq!((drain(&mut old), drain(&mut new)), (b"old\n".to_vec(), b"new\n".to_vec()));
}
