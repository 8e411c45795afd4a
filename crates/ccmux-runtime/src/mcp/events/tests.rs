//! A raw HTTP client against the real server.

use std::collections::VecDeque;

use ccmux_wire::output::Alert;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::super::tests::{LIMIT, Served, served};
use super::*;

/// A client that reads events.
struct Client {
    stream: BufReader<TcpStream>,
    /// What has come of the body and was not read yet.
    body: VecDeque<u8>,
}

/// `id`, `event`, `data`.
type Event = (Option<u64>, String, Value);

impl Client {
    async fn open(served: &Served, path: &str, header: &str) -> Self {
        let head = served.head("GET", path, None) + header;
        let mut stream = BufReader::new(served.ask_and_stay(&head).await);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut head).await.unwrap(), 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        Self { stream, body: VecDeque::new() }
    }

    /// A line of the body; `None` at its end.
    async fn line(&mut self) -> Option<String> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.body.iter().skip(searched).position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.body.drain(..=searched + end).collect();
                return Some(String::from_utf8(line).unwrap().trim_end().to_owned());
            }
            searched = self.body.len();
            timeout(LIMIT, self.chunk()).await.expect("a line in time")?;
        }
    }

    /// Reads `LENGTH CRLF bytes CRLF`.
    async fn chunk(&mut self) -> Option<()> {
        let mut length = String::new();
        self.stream.read_line(&mut length).await.ok()?;
        let length = usize::from_str_radix(length.trim_end(), 16).ok().filter(|length| *length > 0)?;
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk).await.ok()?;
        self.body.extend(&chunk[..length]);
        Some(())
    }

    async fn event(&mut self) -> Event {
        let (mut id, mut name) = (None, String::new());
        loop {
            let line = self.line().await.expect("an event");
            if let Some(found) = line.strip_prefix("id: ") {
                id = Some(found.parse().unwrap());
            } else if let Some(found) = line.strip_prefix("event: ") {
                found.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return (id, name, serde_json::from_str(data).unwrap());
            }
        }
    }

    /// The number of the next event, which must be a line.
    async fn seq(&mut self) -> u64 {
        let (id, name, data) = self.event().await;
        assert_eq!((data["seq"].as_u64(), name.as_str()), (id, ""), "{data}");
        id.unwrap()
    }
}

async fn publish(served: &Served, bytes: usize) -> u64 {
    let alert = Alert { kind: "stuck".into(), message: "x".repeat(bytes), ..Alert::default() };
    served.turns.alert(alert, None).await.unwrap().0
}

async fn subscribers_become(served: &Served, wanted: usize) {
    let reached = async {
        while served.turns.broadcast().subscribers() != wanted {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, reached).await.unwrap_or_else(|_| {
        panic!("{} subscribers, wanted {wanted}", served.turns.broadcast().subscribers())
    });
}

#[tokio::test]
async fn lines_come_with_their_numbers_and_a_client_goes_on_where_it_was() {
    let served = served().await;
    for _ in 0..3 {
        publish(&served, 10).await;
    }
    let mut everything = Client::open(&served, "/events?since=0", "").await;
    assert_eq!((everything.seq().await, everything.seq().await, everything.seq().await), (1, 2, 3));
    let mut live = Client::open(&served, "/events", "").await;
    let mut returned = Client::open(&served, "/events?since=0", "Last-Event-ID: 2\r\n").await;
    assert_eq!(publish(&served, 10).await, 4);
    assert_eq!(live.seq().await, 4);
    assert_eq!((returned.seq().await, returned.seq().await), (3, 4));
    assert_eq!(everything.seq().await, 4);
}

#[tokio::test]
async fn only_the_wished_kind_comes() {
    let served = served().await;
    publish(&served, 10).await;
    let mut alerts = Client::open(&served, "/events?only=alerts&since=0", "").await;
    assert_eq!(alerts.seq().await, 1);
    let mut turns = Client::open(&served, "/events?only=turns&since=0", "").await;
    served.shutdown.cancel();
    while let Some(line) = turns.line().await {
        assert!(!line.contains("seq"), "{line}");
    }
}

#[tokio::test]
async fn what_is_asked_wrongly_is_refused_with_a_reason() {
    let served = served().await;
    for query in ["since=x", "since=", "since=-1", "only=both", "sinc=1", "since=1&x"] {
        let (status, body) = served.get(&format!("/events?{query}")).await;
        assert_eq!(status, 400, "{query}");
        assert!(body.contains("since") || body.contains("only"), "{body}");
    }
    let (status, _) =
        served.ask_raw(&(served.head("GET", "/events", None) + "Last-Event-ID: x\r\n"), "").await;
    assert_eq!(status, 400);
    assert_eq!(served.ask_raw(&served.head("POST", "/events", Some("")), "").await.0, 405);
    assert_eq!(served.turns.broadcast().subscribers(), 0);
}

#[tokio::test]
async fn a_client_that_comes_back_too_late_is_told_what_it_missed() {
    let served = served().await;
    publish(&served, 10).await;
    let mut client = Client::open(&served, "/events?since=9", "").await;
    assert_eq!(client.event().await, (None, "gap".to_owned(), json!({"gap": {"after": 9, "before": 2}})));
    publish(&served, 10).await;
    assert_eq!(client.seq().await, 2);
}

#[tokio::test]
async fn a_line_of_20_mb_passes() {
    let served = served().await;
    let mut client = Client::open(&served, "/events", "").await;
    let reader = tokio::spawn(async move {
        let (_, _, data) = client.event().await;
        (data["alert"]["message"].as_str().unwrap().len(), client.seq().await)
    });
    publish(&served, 20 << 20).await;
    publish(&served, 10).await;
    assert_eq!(reader.await.unwrap(), (20 << 20, 2));
}

#[tokio::test]
async fn a_client_that_leaves_is_forgotten() {
    let served = served().await;
    let client = Client::open(&served, "/events", "").await;
    subscribers_become(&served, 1).await;
    drop(client);
    subscribers_become(&served, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_is_hung_up_on_and_the_others_get_every_line() {
    let served = served().await;
    let mut deaf = Client::open(&served, "/events", "").await;
    let mut reads = Client::open(&served, "/events", "").await;
    let mut unix = {
        let (ours, theirs) = tokio::net::UnixStream::pair().unwrap();
        let (broadcast, shutdown) = (served.turns.broadcast().clone(), served.shutdown.clone());
        tokio::spawn(async move { broadcast.subscribe(ours, Some(Wish::default()), shutdown).await });
        BufReader::new(theirs).lines()
    };
    subscribers_become(&served, 3).await;
    for _ in 0..300 {
        let seq = publish(&served, 64 * 1024).await;
        assert_eq!(reads.seq().await, seq);
        let line: Value = serde_json::from_str(&unix.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!(line["seq"], seq);
    }
    subscribers_become(&served, 2).await;
    // The connection is gone, not only forgotten.
    let begin = Instant::now();
    let ended = timeout(LIMIT, async {
        loop {
            match deaf
                .stream
                .get_mut()
                .ready(tokio::io::Interest::READABLE | tokio::io::Interest::ERROR)
                .await
            {
                Ok(ready) if ready.is_error() || ready.is_read_closed() => return,
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    });
    ended.await.expect("hung up on");
    assert!(begin.elapsed() < BYE_WAIT + Duration::from_secs(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_late_gets_whole_lines_and_a_goodbye() {
    let served = served().await;
    let mut late = Client::open(&served, "/events", "").await;
    subscribers_become(&served, 1).await;
    let mut published = 0;
    while served.turns.broadcast().subscribers() > 0 && published < 1000 {
        published = publish(&served, 64 * 1024).await;
        if published % 100 == 0 {
            sleep(Duration::from_millis(20)).await;
        }
        if late_is_cut(&served) {
            break;
        }
    }
    let mut expected = 0;
    loop {
        let (id, name, data) = late.event().await;
        if name == "bye" {
            assert_eq!((&data["bye"], &data["last_seq"]), (&json!("too slow"), &json!(expected)));
            break;
        }
        expected += 1;
        assert_eq!(id, Some(expected), "{data:.80}");
    }
    assert!(expected < published, "it got everything, so nothing was tested");
    while late.line().await.is_some() {}
}

/// Its mailbox overflowed: nothing more is pushed into it.
fn late_is_cut(served: &Served) -> bool {
    served.turns.broadcast().mailboxes() == 0
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_with_the_daemon_though_a_client_never_reads() {
    let served = served().await;
    let _deaf = Client::open(&served, "/events", "").await;
    let mut reads = Client::open(&served, "/events", "").await;
    subscribers_become(&served, 2).await;
    publish(&served, 8 << 20).await;
    let reader = tokio::spawn(async move {
        let seq = reads.seq().await;
        while reads.line().await.is_some() {}
        seq
    });
    served.shutdown.cancel();
    timeout(Duration::from_secs(3), served.server).await.expect("the server ends").unwrap();
    assert_eq!(reader.await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_carries_comments() {
    let dir = tempfile::tempdir().unwrap();
    let settings =
        crate::turns::TurnsSettings { projects_dir: dir.path().to_owned(), subscriber_bytes: 1 << 20 };
    let turns = crate::turns::Turns::open(dir.path(), settings).unwrap().turns;
    let (body, mut pieces) = mpsc::channel(1);
    let courier = Courier {
        feed: turns.broadcast().feed().unwrap(),
        body,
        shutdown: CancellationToken::new(),
        deadline: None,
        too_slow: false,
    };
    let courier = tokio::spawn(courier.run(Weak::new()));
    assert_eq!(pieces.recv().await.unwrap(), HELLO);
    for _ in 0..3 {
        let begin = Instant::now();
        assert_eq!(pieces.recv().await.unwrap(), ":\n\n");
        assert!((15..=30).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    }
    drop(pieces);
    courier.await.unwrap();
}
