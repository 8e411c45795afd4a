//! Subscribers on real sockets.

use std::path::PathBuf;

use ccmux_wire::output::Alert;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::{Instant, timeout};

use super::super::store::FILE_NAME;
use super::*;

const LIMIT: usize = 8 * 1024 * 1024;

/// A running broadcaster on a real socket.
struct Served {
    dir: TempDir,
    store: Arc<Store>,
    broadcast: Broadcast,
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

type Client = BufReader<UnixStream>;

impl Served {
    fn new(limit: usize) -> Self {
        let dir = TempDir::new().unwrap();
        let store = Arc::new(Store::open(&dir.path().join(FILE_NAME), 1).unwrap().0);
        let broadcast = Broadcast::new(Arc::clone(&store), store.last_seq().unwrap(), limit);
        Self::serving(dir, store, broadcast)
    }

    /// As if the system allowed no more subscribers.
    fn with_most(limit: usize, most: usize) -> Self {
        let served = Self::new(limit);
        let shared = Shared { most, ..Shared::new(Arc::clone(&served.store), Seq(0), limit) };
        let Self { dir, store, .. } = served;
        std::fs::remove_file(dir.path().join("output.sock")).unwrap();
        Self::serving(dir, store, Broadcast(Arc::new(shared)))
    }

    fn serving(dir: TempDir, store: Arc<Store>, broadcast: Broadcast) -> Self {
        let listener = UnixListener::bind(dir.path().join("output.sock")).unwrap();
        let shutdown = CancellationToken::new();
        let task = Broadcaster { broadcast: broadcast.clone(), listener, shutdown: shutdown.clone() };
        let task = tokio::spawn(task.run());
        Self { dir, store, broadcast, shutdown, task }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("output.sock")
    }

    async fn connect(&self) -> Client {
        let before = self.broadcast.subscribers();
        let stream = UnixStream::connect(self.socket()).await.unwrap();
        until("connected", || self.broadcast.subscribers() > before).await;
        BufReader::new(stream)
    }

    /// Stores and publishes an alert whose message has that many bytes.
    fn publish(&self, bytes: usize) -> Seq {
        publish(&self.store, &self.broadcast, bytes)
    }

    /// Deletes lines, as the retention does.
    fn forget(&self, which: &str) {
        let other = rusqlite::Connection::open(self.dir.path().join(FILE_NAME)).unwrap();
        other.execute(&format!("DELETE FROM lines WHERE {which}"), []).unwrap();
    }

    async fn subscribers_become(&self, wanted: usize) {
        until("as many subscribers", || self.broadcast.subscribers() == wanted).await;
    }
}

fn publish(store: &Store, broadcast: &Broadcast, bytes: usize) -> Seq {
    let alert = Alert { kind: "stuck".into(), message: "x".repeat(bytes), ..Alert::default() };
    let line = store.append_alert(alert, None, 1).unwrap();
    broadcast.publish(&line);
    line.seq()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(10), "not {what}");
        tokio::task::yield_now().await;
    }
}

async fn next(client: &mut Client) -> Value {
    let mut line = String::new();
    timeout(Duration::from_secs(10), client.read_line(&mut line)).await.expect("a line").unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

async fn next_seq(client: &mut Client) -> u64 {
    next(client).await["seq"].as_u64().unwrap()
}

async fn wish(client: &mut Client, line: &str) {
    client.get_mut().write_all(line.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn everybody_gets_every_line_although_one_never_reads_and_one_leaves() {
    let served = Served::new(64 * 1024);
    let mut readers = [served.connect().await, served.connect().await, served.connect().await];
    let deaf = served.connect().await;
    let leaver = served.connect().await;
    served.subscribers_become(5).await;
    for n in 1..=200 {
        let published = Instant::now();
        let seq = served.publish(16 * 1024);
        for reader in &mut readers {
            assert_eq!(next_seq(reader).await, seq.0);
        }
        assert!(published.elapsed() < Duration::from_secs(1));
        if n == 10 {
            drop(UnixStream::connect(served.socket()).await.unwrap());
        }
    }
    drop(leaver);
    drop(deaf);
    served.subscribers_become(3).await;
}

#[tokio::test]
async fn a_subscriber_that_falls_behind_is_told_goodbye_after_a_whole_line() {
    let served = Served::new(64 * 1024);
    let mut slow = served.connect().await;
    let mut other = served.connect().await;
    for _ in 0..100 {
        let seq = served.publish(16 * 1024);
        assert_eq!(next_seq(&mut other).await, seq.0);
    }
    let mut expected = 0;
    let bye = loop {
        let line = next(&mut slow).await;
        if line.get("bye").is_some() {
            break line;
        }
        expected += 1;
        assert_eq!(line["seq"], expected);
    };
    assert!(expected < 100);
    assert_eq!(bye, serde_json::json!({"bye": "too slow", "last_seq": expected}));
    assert_eq!(slow.read_u8().await.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    served.subscribers_become(1).await;
}

#[tokio::test]
async fn one_that_does_not_take_its_goodbye_is_closed_after_5_seconds() {
    let served = Served::new(64 * 1024);
    let _deaf = served.connect().await;
    let mut other = served.connect().await;
    // It is dropped somewhere among these lines, which take their time on a busy machine.
    let begun = Instant::now();
    for _ in 0..100 {
        let seq = served.publish(16 * 1024);
        assert_eq!(next_seq(&mut other).await, seq.0);
    }
    let published = Instant::now();
    served.subscribers_become(1).await;
    let (at_most, at_least) = (begun.elapsed().as_millis(), published.elapsed().as_millis());
    assert!(at_most >= 5000 && at_least < 8000, "{at_least} to {at_most} ms");
}

#[tokio::test]
async fn a_line_of_20_mb_passes_to_whoever_reads() {
    let served = Served::new(LIMIT);
    let mut reader = served.connect().await;
    let mut other = served.connect().await;
    let (big, small) = (served.publish(20 * 1024 * 1024), served.publish(10));
    for client in [&mut reader, &mut other] {
        let line = next(client).await;
        assert_eq!(
            (&line["seq"], line["alert"]["message"].as_str().unwrap().len()),
            (&big.0.into(), 20 << 20)
        );
        assert_eq!(next_seq(client).await, small.0);
    }
}

#[tokio::test]
async fn a_half_close_is_no_goodbye_but_a_hang_up_is() {
    let served = Served::new(LIMIT);
    let mut client = served.connect().await;
    client.get_mut().shutdown().await.unwrap();
    for _ in 0..3 {
        let seq = served.publish(10);
        assert_eq!(next_seq(&mut client).await, seq.0);
    }
    assert_eq!(served.broadcast.subscribers(), 1);
    drop(client);
    // Nothing is written to it: the hang-up itself is noticed.
    served.subscribers_become(0).await;
}

#[tokio::test]
async fn a_hang_up_is_noticed_while_a_line_is_stuck() {
    let served = Served::new(LIMIT);
    let client = served.connect().await;
    served.publish(4 * 1024 * 1024);
    drop(client);
    served.subscribers_become(0).await;
}

#[tokio::test]
async fn an_idle_subscriber_sleeps() {
    let served = Served::new(LIMIT);
    let client = served.connect().await;
    let hang_up = hang_up::HangUp::of(client.get_ref()).unwrap();
    let waited = timeout(Duration::from_millis(50), hang_up.wait()).await;
    assert!(waited.is_err(), "a living peer has not hung up");
    served.shutdown.cancel();
    timeout(Duration::from_secs(5), hang_up.wait()).await.unwrap();
}

/// Acceptance D5.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_replay_joins_live_lines_without_gap_or_double() {
    const CLIENTS: u64 = 200;
    let served = Served::new(LIMIT);
    for _ in 0..50 {
        served.publish(100);
    }
    // Published without a pause as long as anybody joins: each goes from replay to live in the middle of it.
    let joining = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let (store, broadcast) = (Arc::clone(&served.store), served.broadcast.clone());
    let publisher = std::thread::spawn({
        let joining = Arc::clone(&joining);
        move || {
            while joining.load(Ordering::Relaxed) {
                publish(&store, &broadcast, 100);
            }
        }
    });
    let mut clients = tokio::task::JoinSet::new();
    for n in 0..CLIENTS {
        let since = (n * 7) % 50;
        let mut client = BufReader::new(UnixStream::connect(served.socket()).await.unwrap());
        wish(&mut client, &format!("{{\"since\":{since}}}\n")).await;
        clients.spawn(async move {
            let mut expected = since;
            while expected < 600 {
                expected += 1;
                assert_eq!(next_seq(&mut client).await, expected);
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    joining.store(false, Ordering::Relaxed);
    publisher.join().unwrap();
}

#[tokio::test]
async fn a_replay_that_nobody_reads_ends_once_others_got_the_limit_and_one_that_is_slow_does_not() {
    let served = Served::new(256 * 1024);
    for _ in 0..64 {
        served.publish(64 * 1024);
    }
    let mut deaf = served.connect().await;
    wish(&mut deaf, "{\"since\":0}\n").await;
    let mut slow = served.connect().await;
    wish(&mut slow, "{\"since\":0}\n").await;
    let mut other = served.connect().await;
    // A stalled replay by itself costs nobody anything.
    assert_eq!(served.broadcast.subscribers(), 3);
    for n in 1..=60 {
        assert_eq!(next_seq(&mut slow).await, n);
        let seq = served.publish(8 * 1024);
        assert_eq!(next_seq(&mut other).await, seq.0);
    }
    let mut expected = 0;
    let bye = loop {
        let line = next(&mut deaf).await;
        if line.get("bye").is_some() {
            break line;
        }
        expected += 1;
        assert_eq!(line["seq"], expected);
    };
    assert!(expected < 64);
    assert_eq!(bye["last_seq"], expected);
    for n in 61..=124 {
        assert_eq!(next_seq(&mut slow).await, n);
    }
}

#[tokio::test]
async fn one_too_many_is_told_so_and_the_others_stay() {
    let served = Served::with_most(LIMIT, 2);
    let mut first = served.connect().await;
    let second = served.connect().await;
    let mut third = BufReader::new(UnixStream::connect(served.socket()).await.unwrap());
    let bye = next(&mut third).await;
    assert_eq!(bye, serde_json::json!({"bye": "too many subscribers", "last_seq": 0}));
    assert_eq!(third.read(&mut [0]).await.unwrap(), 0);
    let seq = served.publish(10);
    assert_eq!(next_seq(&mut first).await, seq.0);
    drop(second);
    served.subscribers_become(1).await;
    let mut third = served.connect().await;
    let seq = served.publish(10);
    assert_eq!(next_seq(&mut third).await, seq.0);
}

#[tokio::test]
async fn without_a_wish_nothing_published_after_the_connect_is_missed() {
    let served = Served::new(LIMIT);
    served.publish(10);
    let mut client = served.connect().await;
    let seq = served.publish(10);
    assert_eq!(next_seq(&mut client).await, seq.0);
}

#[tokio::test]
async fn a_late_wish_is_granted_from_where_it_says() {
    let served = Served::new(LIMIT);
    served.publish(10);
    let mut client = served.connect().await;
    served.publish(10);
    assert_eq!(next_seq(&mut client).await, 2);
    wish(&mut client, "\n{\"since\":0}\n").await;
    assert_eq!((next_seq(&mut client).await, next_seq(&mut client).await), (1, 2));
    served.publish(10);
    assert_eq!(next_seq(&mut client).await, 3);
}

#[tokio::test]
async fn only_the_wished_kind_is_sent() {
    let served = Served::new(LIMIT);
    served.publish(10);
    let mut turns = served.connect().await;
    wish(&mut turns, "{\"only\":\"turns\",\"since\":0}\n").await;
    let mut alerts = served.connect().await;
    wish(&mut alerts, "{\"only\":\"alerts\",\"since\":0}").await;
    alerts.get_mut().shutdown().await.unwrap();
    assert_eq!(next_seq(&mut alerts).await, 1);
    served.publish(10);
    assert_eq!(next_seq(&mut alerts).await, 2);
    served.shutdown.cancel();
    let mut rest = String::new();
    turns.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "");
}

#[tokio::test]
async fn what_is_no_wish_is_ignored() {
    let served = Served::new(LIMIT);
    let mut kept = Vec::new();
    for nonsense in ["hello\n", "{\"since\":\"x\"}\n", "{\n", "\u{0}\n", &"x".repeat(100_000)] {
        let mut client = served.connect().await;
        // More than is read may be left over; that must not end the connection.
        let _ = timeout(Duration::from_millis(100), wish(&mut client, nonsense)).await;
        let seq = served.publish(10);
        assert_eq!(next_seq(&mut client).await, seq.0, "{:.20}", nonsense);
        kept.push(client);
    }
}

#[tokio::test]
async fn a_number_from_the_future_means_now_and_is_told() {
    let served = Served::new(LIMIT);
    served.publish(10);
    let mut client = served.connect().await;
    wish(&mut client, "{\"since\":4000000}\n").await;
    assert_eq!(next(&mut client).await, serde_json::json!({"gap": {"after": 4_000_000, "before": 2}}));
    let seq = served.publish(10);
    assert_eq!(next_seq(&mut client).await, seq.0);
}

#[tokio::test]
async fn lines_that_are_no_longer_kept_are_told_as_a_gap() {
    let served = Served::new(LIMIT);
    for _ in 0..9 {
        served.publish(10);
    }
    let gap = |after: u64, before: u64| serde_json::json!({"gap": {"after": after, "before": before}});
    served.forget("seq <= 5");
    let mut kept = Vec::new();
    for (since, told) in [(2, true), (4, true), (5, false), (0, false)] {
        let mut client = served.connect().await;
        wish(&mut client, &format!("{{\"since\":{since}}}\n")).await;
        if told {
            assert_eq!(next(&mut client).await, gap(since, 6));
        }
        assert_eq!(next_seq(&mut client).await, 6, "since {since}");
        kept.push(client);
    }
    served.forget("1");
    let mut client = served.connect().await;
    wish(&mut client, "{\"since\":7}\n").await;
    assert_eq!(next(&mut client).await, gap(7, 10));
    let mut everything = served.connect().await;
    wish(&mut everything, "{\"since\":0}\n").await;
    let seq = served.publish(10);
    assert_eq!(next_seq(&mut client).await, seq.0);
    assert_eq!(next_seq(&mut everything).await, seq.0);
}

#[tokio::test]
async fn a_control_connection_with_a_wish_gets_the_same_stream() {
    let served = Served::new(LIMIT);
    served.publish(10);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (broadcast, shutdown) = (served.broadcast.clone(), served.shutdown.clone());
    let wish = Wish { only: None, since: Some(Seq(0)) };
    tokio::spawn(async move { broadcast.subscribe(ours, Some(wish), shutdown).await });
    let mut client = BufReader::new(theirs);
    assert_eq!(next_seq(&mut client).await, 1);
}

#[tokio::test]
async fn shutdown_ends_every_connection_in_time() {
    let served = Served::new(LIMIT);
    let mut reader = served.connect().await;
    let _deaf = served.connect().await;
    served.publish(4 * 1024 * 1024);
    served.shutdown.cancel();
    let Served { task, .. } = served;
    assert_eq!(next_seq(&mut reader).await, 1);
    timeout(Duration::from_secs(2), task).await.unwrap().unwrap();
    assert_eq!(reader.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_subscriber_takes_little_memory() {
    let served = Served::new(LIMIT);
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let broadcast = served.broadcast.clone();
    let future = broadcast.subscribe(ours, None, CancellationToken::new());
    assert!(std::mem::size_of_val(&future) <= 1200, "{}", std::mem::size_of_val(&future));
}
