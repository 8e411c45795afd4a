//! The routes, the tools, both transports, a stop with open streams: a raw client against a real server.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::time::Duration;

use ccmux_wire::status::{ChannelStatus, Direction};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::connections;
use super::guard::Guard;
use super::server::router;
use super::{Door, Tools};
use crate::metrics::Page;
use crate::outlet::{OutletSettings, Outlets};
use crate::turns::{Turns, TurnsSettings};

pub(super) const LIMIT: Duration = Duration::from_secs(20);

// ---- the port and the token ----

#[tokio::test]
async fn a_port_that_nobody_chose_and_the_token_are_the_same_after_a_restart() {
    let state = tempfile::tempdir().unwrap();
    let first = Door::new(state.path(), 0, true).unwrap();
    assert_eq!((first.port(), first.address()), (None, None));
    let listener = first.bind().await.unwrap();
    let port = first.port().unwrap();
    assert_eq!(port, listener.local_addr().unwrap().port());
    assert!(listener.local_addr().unwrap().ip().is_loopback());
    drop(listener);
    let second = Door::new(state.path(), 0, true).unwrap();
    let held = second.bind().await.unwrap();
    assert_eq!(second.port(), Some(port));
    assert_eq!(first.token().unwrap().value, second.token().unwrap().value);
    let mode = second.token().unwrap().file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Taken by another program meanwhile: another one, rather than none.
    let third = Door::new(state.path(), 0, true).unwrap();
    let _other = third.bind().await.unwrap();
    assert_ne!(third.port(), Some(port));
    drop(held);
}

#[tokio::test]
async fn a_chosen_port_that_is_taken_stays_the_address() {
    let state = tempfile::tempdir().unwrap();
    let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = other.local_addr().unwrap().port();
    let door = Door::new(state.path(), taken, false).unwrap();
    assert!(door.bind().await.is_err());
    assert_eq!((door.port(), door.address()), (None, Some(taken)));
    drop(other);
    let _listener = door.bind().await.unwrap();
    assert_eq!(door.port(), Some(taken));
    door.close();
    assert_eq!(door.port(), None);
}

// ---- over the wire ----

/// The server with a channel `test`, over whose FIFO a reader stands.
pub(super) struct Served {
    dir: tempfile::TempDir,
    port: u16,
    token: String,
    pub(super) turns: Turns,
    pub(super) shutdown: CancellationToken,
    pub(super) server: JoinHandle<()>,
    list: watch::Sender<Vec<ChannelStatus>>,
}

pub(super) async fn served() -> Served {
    let dir = tempfile::tempdir().unwrap();
    mkfifo(&dir.path().join("out.test"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let channel = |name: &str, direction| ChannelStatus {
        name: name.parse().unwrap(),
        direction,
        state: "open".into(),
    };
    let list = vec![channel("default", Direction::In), channel("test", Direction::Out)];
    let (list, channels) = watch::channel(list);
    let ms = Duration::from_millis;
    let settings = OutletSettings { wait: ms(100), linger: ms(2000), finish: ms(2000) };
    let shutdown = CancellationToken::new();
    let outlets = Outlets::new(dir.path().to_owned(), settings, channels, shutdown.clone());
    let door = Door::new(dir.path(), 0, true).unwrap();
    let listener = door.bind().await.unwrap();
    let port = door.port().unwrap();
    let guard = Guard { port, token: door.token().cloned() };
    let token = door.token().unwrap().value.to_string();
    let settings = TurnsSettings { projects_dir: dir.path().join("projects"), subscriber_bytes: 1 << 20 };
    let turns = Turns::open(dir.path(), settings).unwrap().turns;
    let router = router(
        guard,
        Tools { outlets, tells_news: false },
        turns.broadcast().clone(),
        Page::default(),
        shutdown.clone(),
    );
    let stop = shutdown.clone();
    let server = tokio::spawn(async move {
        connections::serve(listener, router, &stop).await.unwrap();
    });
    Served { dir, port, token, turns, shutdown, server, list }
}

/// Status and body.
pub(super) type Answer = (u16, String);

impl Served {
    pub(super) fn head(&self, method: &str, path: &str, body: Option<&str>) -> String {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\
             Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n",
            self.port, self.token
        );
        if let Some(body) = body {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head
    }

    pub(super) async fn ask_raw(&self, head: &str, body: &str) -> Answer {
        let asking = async {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
            let request = format!("{head}Connection: close\r\n\r\n{body}");
            // A server that refuses by the head alone doesn't read the rest.
            let _ = stream.write_all(request.as_bytes()).await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            String::from_utf8(answer).unwrap()
        };
        let answer = timeout(LIMIT, asking).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        (head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0), body.to_owned())
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.ask_raw(&self.head("GET", path, None), "").await
    }

    async fn post(&self, path: &str, body: &str) -> Answer {
        self.ask_raw(&self.head("POST", path, Some(body)), body).await
    }

    /// A connection on which that was asked.
    pub(super) async fn ask_and_stay(&self, head: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
        stream
    }

    /// A JSON-RPC request over `/mcp`.
    async fn rpc(&self, request: Value) -> Value {
        let (status, body) = self.post("/mcp", &request.to_string()).await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    fn reader(&self) -> fs::File {
        let fifo = self.dir.path().join("out.test");
        OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(fifo).unwrap()
    }
}

fn call(id: u32, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
}

fn text_of(reply: &Value) -> (bool, &str) {
    let result = &reply["result"];
    (
        result["isError"] == json!(true),
        result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{reply}")),
    )
}

fn drain(mut reader: fs::File) -> String {
    let mut text = Vec::new();
    let _ = reader.read_to_end(&mut text);
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn every_route_but_healthz_is_guarded() {
    let served = served().await;
    assert_eq!(served.ask_raw("GET /healthz HTTP/1.1\r\nHost: x\r\n", "").await, (200, "ok\n".to_owned()));
    for path in [
        "/mcp",
        "/sse",
        "/events",
        "/messages?session_id=x",
        "/",
        "/nowhere",
        "/healthz/",
        "//healthz",
        "/mcp/../healthz",
    ] {
        for method in ["GET", "POST", "DELETE", "OPTIONS"] {
            let ok_host = format!(
                "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: 0\r\n",
                served.port
            );
            let (status, body) = served.ask_raw(&ok_host, "").await;
            assert_eq!(status, 401, "{method} {path}: {body}");
            assert!(method == "HEAD" || body.contains("mcp.token"), "{body}");
        }
        let head = served.head("GET", path, None);
        let foreign_host = head.replace(&format!("127.0.0.1:{}", served.port), "evil.example");
        assert_eq!(served.ask_raw(&foreign_host, "").await.0, 403, "{path}");
        for origin in ["http://evil.example", "null"] {
            assert_eq!(
                served.ask_raw(&format!("{head}Origin: {origin}\r\n"), "").await.0,
                403,
                "{path} {origin}"
            );
        }
    }
}

#[tokio::test]
async fn streamable_http_initializes_lists_and_calls() {
    let served = served().await;
    let hello = served.rpc(initialize()).await;
    assert_eq!(hello["result"]["serverInfo"]["name"], "ccmux");
    let instructions = hello["result"]["instructions"].as_str().unwrap();
    assert!(
        instructions.contains("[HH:MM name]") && instructions.contains("took messages: test;"),
        "{instructions}"
    );
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(served.post("/mcp", &initialized.to_string()).await.0, 202);
    let tools = served.rpc(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["send_to_channel", "list_channels"]);
    let reader = served.reader();
    let sent =
        served.rpc(call(2, "send_to_channel", json!({"channel": "test", "message": "hello\nyou"}))).await;
    assert_eq!(text_of(&sent), (false, "sent to test"));
    assert_eq!(drain(reader), "hello\nyou\n");
}

#[tokio::test]
async fn what_goes_wrong_with_a_call_is_a_tool_error_that_says_so() {
    let served = served().await;
    for (arguments, says) in [
        (json!({"channel": "nowhere", "message": "x"}), "these take messages: test"),
        (json!({"channel": "test", "message": "x"}), "nobody is listening on test"),
        (json!({"channel": "test"}), "`message` is missing"),
        (json!({"channel": 7, "message": "x"}), "`channel` must be a string"),
        (json!({"channel": "test", "message": "m".repeat(1024 * 1024 + 1)}), "too large"),
    ] {
        let reply = served.rpc(call(1, "send_to_channel", arguments)).await;
        let (is_error, text) = text_of(&reply);
        assert!(is_error && text.contains(says), "{says}: {text}");
    }
    let reply = served.rpc(call(1, "rm_rf", json!({}))).await;
    assert!(text_of(&reply).0);
    let reply = served.rpc(call(1, "list_channels", json!({}))).await;
    let (is_error, text) = text_of(&reply);
    assert!(
        !is_error && text.contains("(send_to_channel):\n- test\n") && text.ends_with("- default\n"),
        "{text}"
    );
}

#[tokio::test]
async fn a_mebibyte_message_passes_and_a_body_over_8_mib_does_not() {
    let served = served().await;
    let fifo = served.dir.path().join("out.test");
    let reader = tokio::task::spawn_blocking(move || fs::read(fifo).unwrap());
    let message = "m".repeat(1024 * 1024);
    let sent = served.rpc(call(1, "send_to_channel", json!({"channel": "test", "message": message}))).await;
    assert_eq!(text_of(&sent), (false, "sent to test"));
    served.shutdown.cancel();
    assert_eq!(timeout(LIMIT, reader).await.unwrap().unwrap().len(), 1024 * 1024 + 1);

    let served = super::tests::served().await;
    for path in ["/mcp", "/messages?session_id=x"] {
        let (status, _) = served.post(path, &format!("\"{}\"", "x".repeat(8 * 1024 * 1024))).await;
        assert_ne!(status, 200, "{path}");
    }
    assert_eq!(served.get("/healthz").await.0, 200);
}

/// A client's end of `/sse`.
struct SseClient {
    lines: tokio::io::Lines<BufReader<TcpStream>>,
    messages: String,
}

impl SseClient {
    async fn open(served: &Served) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).await.unwrap();
        let head = served.head("GET", "/sse", None) + "\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut client = Self { lines: BufReader::new(stream).lines(), messages: String::new() };
        client.messages = client.event("endpoint").await;
        client
    }

    async fn line(&mut self) -> Option<String> {
        timeout(LIMIT, self.lines.next_line()).await.unwrap().unwrap_or_default()
    }

    /// The data of the next event, which must be of that name.
    async fn event(&mut self, name: &str) -> String {
        loop {
            let line = self.line().await.expect("the stream goes on");
            if let Some(found) = line.strip_prefix("event: ") {
                assert_eq!(found, name);
                let data = self.line().await.unwrap();
                return data.strip_prefix("data: ").unwrap().to_owned();
            }
        }
    }

    async fn rpc(&mut self, served: &Served, request: Value) -> Value {
        assert_eq!(served.post(&self.messages, &request.to_string()).await.0, 202);
        serde_json::from_str(&self.event("message").await).unwrap()
    }
}

#[tokio::test]
async fn server_sent_events_initialize_list_and_call() {
    let served = served().await;
    let mut client = SseClient::open(&served).await;
    let hello = client.rpc(&served, initialize()).await;
    assert_eq!(hello["result"]["serverInfo"]["name"], "ccmux");
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(served.post(&client.messages, &initialized.to_string()).await.0, 202);
    let tools = client.rpc(&served, json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 2);
    let reader = served.reader();
    let sent =
        client.rpc(&served, call(2, "send_to_channel", json!({"channel": "test", "message": "hello"}))).await;
    assert_eq!(text_of(&sent), (false, "sent to test"));
    assert_eq!(drain(reader), "hello\n");
}

fn out(name: &str) -> ChannelStatus {
    ChannelStatus { name: name.parse().unwrap(), direction: Direction::Out, state: "open".into() }
}

#[tokio::test]
async fn a_client_with_a_stream_is_told_when_channels_come_and_go_for_good() {
    let served = served().await;
    let mut client = SseClient::open(&served).await;
    let hello = client.rpc(&served, initialize()).await;
    assert_eq!(hello["result"]["capabilities"]["tools"]["listChanged"], true);
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    served.post(&client.messages, &initialized.to_string()).await;
    client.rpc(&served, json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    // Gone and there again: the next event is not about that.
    served.list.send_modify(|list| list.push(out("brief")));
    served.list.send_modify(|list| drop(list.pop()));
    let answer = client.rpc(&served, json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
    assert_eq!(answer["id"], 2);
    served.list.send_modify(|list| list.push(out("new")));
    let news: Value = serde_json::from_str(&client.event("message").await).unwrap();
    assert_eq!(news["method"], "notifications/tools/list_changed");
    served.list.send_modify(|list| drop(list.pop()));
    let news: Value = serde_json::from_str(&client.event("message").await).unwrap();
    assert_eq!(news["method"], "notifications/tools/list_changed");
}

/// Claude gives a server up whose stream it lost, so there must be none.
#[tokio::test]
async fn streamable_http_offers_no_stream_that_could_be_lost() {
    let served = served().await;
    let hello = served.rpc(initialize()).await;
    assert_eq!(hello["result"]["capabilities"]["tools"]["listChanged"], false);
    assert_eq!(served.get("/mcp").await.0, 405);
}

#[tokio::test]
async fn a_session_ends_with_its_stream_and_strangers_have_none() {
    let served = served().await;
    assert_eq!(served.post("/messages?session_id=guess", "{}").await.0, 404);
    assert_eq!(served.post("/messages", "{}").await.0, 404);
    let client = SseClient::open(&served).await;
    let messages = client.messages.clone();
    assert_eq!(served.post(&messages, "no json").await.0, 400);
    drop(client);
    let ended = async {
        while served.post(&messages, &initialize().to_string()).await.0 != 404 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, ended).await.unwrap();
}

#[tokio::test]
async fn open_streams_end_when_the_daemon_stops() {
    let served = served().await;
    let mut client = SseClient::open(&served).await;
    client.rpc(&served, initialize()).await;
    // A connection that is kept alive, with nothing asked.
    let _idle = TcpStream::connect(("127.0.0.1", served.port)).await.unwrap();
    served.shutdown.cancel();
    timeout(Duration::from_secs(5), served.server).await.expect("the server ends").unwrap();
    while client.line().await.is_some() {}
}
