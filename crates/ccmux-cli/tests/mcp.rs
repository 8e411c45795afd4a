//! `ccmux mcp` against a daemon that is not there, comes, goes, and says canned lines on a real socket.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(20);
/// Longer than the bridge rests between two tries: for seeing that nothing happens.
const WATCH: Duration = Duration::from_millis(1500);

/// `ccmux mcp`, and the lines that it says.
struct Bridge {
    child: Child,
    input: Option<ChildStdin>,
    said: Receiver<Value>,
}

fn runtime_dir() -> TempDir {
    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir().unwrap()
}

fn bridge(dir: &Path) -> Bridge {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccmux"));
    command.env_clear().env("CCMUX_RUNTIME_DIR", dir).env("CCMUX_SESSION_TOKEN", "t0").arg("mcp");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (say, said) = channel();
    thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let _ = say.send(serde_json::from_str(&line).unwrap());
        }
    });
    Bridge { input: child.stdin.take(), child, said }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Bridge {
    fn write(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn ask(&mut self, id: u32, method: &str, params: Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
    }

    fn notify(&mut self, method: &str, params: Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    fn hello(&mut self) -> Value {
        self.ask(0, "initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}}));
        let hello = self.next();
        self.notify("notifications/initialized", json!({}));
        hello["result"].clone()
    }

    fn send(&mut self, id: u32, message: &str) {
        let arguments = json!({"channel": "phone", "message": message});
        self.ask(id, "tools/call", json!({"name": "send_to_channel", "arguments": arguments}));
    }

    fn next(&mut self) -> Value {
        self.said.recv_timeout(LIMIT).expect("the bridge says something")
    }

    /// The text of the call's result, and whether it is an error. News of channels may come before it at any time.
    fn result(&mut self, id: u32) -> (String, bool) {
        let mut answer = self.next();
        while answer["method"] == "notifications/tools/list_changed" {
            answer = self.next();
        }
        assert_eq!(answer["id"], id, "{answer}");
        let result = &answer["result"];
        (result["content"][0]["text"].as_str().unwrap().to_owned(), result["isError"] == true)
    }

    fn says_nothing(&self) {
        assert_eq!(self.said.recv_timeout(WATCH), Err(RecvTimeoutError::Timeout));
    }

    fn ends(&mut self) -> ExitStatus {
        let until = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "it does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What the daemon does with a call.
#[derive(Clone, Copy)]
enum Does {
    Says(&'static str),
    HangsUpAfterReading,
    HangsUpBeforeReading,
}

const SENT: &str = r#"{"ok":true,"tool":{"text":"sent to phone"}}"#;
const STOPPING: &str = r#"{"ok":false,"code":"stopping","error":"ccmux is being stopped"}"#;

/// A daemon: does the next thing of a list with each call, and tells of each frame that it heard.
struct Daemon {
    heard: Receiver<Value>,
    channels: Sender<&'static [&'static str]>,
}

fn daemon(dir: &Path, calls: &'static [Does]) -> Daemon {
    let listener = UnixListener::bind(dir.join("control.sock")).unwrap();
    let (hear, heard) = channel();
    let (channels, lists) = channel::<&'static [&'static str]>();
    thread::spawn(move || {
        let (mut calls, mut lists) = (calls.iter(), Some(lists));
        for stream in listener.incoming().map_while(Result::ok) {
            // Its first bytes tell the frame's type, unread.
            match (is_call(&stream), &mut lists) {
                (false, lists) => drop(lists.take().map(|lists| thread::spawn(|| tell(stream, lists)))),
                (true, _) => serve(stream, *calls.next().expect("no more calls"), &hear),
            }
        }
    });
    channels.send(&["phone"]).unwrap();
    Daemon { heard, channels }
}

fn is_call(stream: &UnixStream) -> bool {
    use std::os::fd::AsFd;
    let mut head = [0; 64];
    let flags = nix::sys::socket::MsgFlags::MSG_PEEK;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&stream.as_fd());
    let n = nix::sys::socket::recv(fd, &mut head, flags).unwrap();
    String::from_utf8_lossy(&head[..n]).contains(r#""type":"tool""#)
}

fn serve(mut stream: UnixStream, does: Does, hear: &Sender<Value>) {
    if let Does::HangsUpBeforeReading = does {
        let _ = hear.send(Value::Null);
        return;
    }
    let mut frame = String::new();
    BufReader::new(&stream).read_line(&mut frame).unwrap();
    let _ = hear.send(serde_json::from_str(&frame).unwrap());
    if let Does::Says(line) = does {
        writeln!(stream, "{line}").unwrap();
    }
}

fn tell(mut stream: UnixStream, lists: Receiver<&'static [&'static str]>) {
    for list in lists {
        let channels: Vec<Value> =
            list.iter().map(|name| json!({"name": name, "direction": "out", "state": "open"})).collect();
        writeln!(stream, "{}", json!({"channels": channels})).unwrap();
    }
}

impl Daemon {
    fn heard(&self) -> Value {
        self.heard.recv_timeout(LIMIT).expect("a call")
    }

    fn hears_nothing_more(&self) {
        assert_eq!(self.heard.recv_timeout(WATCH), Err(RecvTimeoutError::Timeout));
    }
}

#[test]
fn without_a_daemon_everything_but_a_call_is_answered_and_the_end_of_the_input_is_the_end() {
    let dir = runtime_dir();
    let mut bridge = bridge(dir.path());
    let hello = bridge.hello();
    assert_eq!(hello["protocolVersion"], "2025-06-18");
    assert_eq!(hello["capabilities"]["tools"]["listChanged"], true);
    assert!(hello["instructions"].as_str().unwrap().contains("did not run yet"));
    bridge.ask(1, "tools/list", Value::Null);
    assert_eq!(bridge.next()["result"]["tools"][0]["name"], "send_to_channel");
    bridge.ask(2, "ping", Value::Null);
    assert_eq!(bridge.next(), json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
    bridge.ask(3, "server/discover", json!({}));
    assert_eq!(bridge.next()["error"]["code"], -32601);
    bridge.write("no json");
    assert_eq!(bridge.next()["error"]["code"], -32700);
    bridge.send(4, "waits");
    bridge.input = None;
    assert_eq!(bridge.ends().code(), Some(0));
}

#[test]
fn a_version_that_nobody_knows_gets_the_newest() {
    let dir = runtime_dir();
    let mut bridge = bridge(dir.path());
    bridge.ask(0, "initialize", json!({"protocolVersion": "1999-01-01"}));
    assert_eq!(bridge.next()["result"]["protocolVersion"], "2025-11-25");
}

#[test]
fn sigterm_ends_it_with_0() {
    let dir = runtime_dir();
    let mut bridge = bridge(dir.path());
    bridge.hello();
    bridge.send(1, "waits");
    let pid = nix::unistd::Pid::from_raw(bridge.child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(bridge.ends().code(), Some(0));
}

#[test]
fn a_call_goes_to_the_daemon_with_the_sessions_token_and_the_instructions_name_the_channels() {
    let dir = runtime_dir();
    let daemon = daemon(dir.path(), &[Does::Says(SENT)]);
    let mut bridge = bridge(dir.path());
    assert!(bridge.hello()["instructions"].as_str().unwrap().contains("took messages: phone;"));
    bridge.send(7, "hello");
    assert_eq!(bridge.result(7), ("sent to phone".to_owned(), false));
    let arguments = json!({"channel": "phone", "message": "hello"});
    let frame =
        json!({"v": 1, "type": "tool", "name": "send_to_channel", "arguments": arguments, "token": "t0"});
    assert_eq!(daemon.heard(), frame);
}

/// Field fault 34.
#[test]
fn a_call_waits_for_a_daemon_that_is_away_and_other_requests_do_not() {
    let dir = runtime_dir();
    let mut bridge = bridge(dir.path());
    bridge.hello();
    bridge.send(1, "hello");
    bridge.ask(2, "ping", Value::Null);
    assert_eq!(bridge.next()["id"], 2);
    bridge.says_nothing();
    let daemon = daemon(dir.path(), &[Does::Says(SENT)]);
    assert_eq!(daemon.heard()["arguments"]["message"], "hello");
    // The channels are news, too: which line comes first is open.
    let (first, second) = (bridge.next(), bridge.next());
    let answer = if first["id"] == 1 { first } else { second };
    assert_eq!(answer["result"]["isError"], false, "{answer}");
}

#[test]
fn a_call_that_the_daemon_read_is_never_made_twice() {
    let dir = runtime_dir();
    let daemon = daemon(dir.path(), &[Does::HangsUpAfterReading]);
    let mut bridge = bridge(dir.path());
    bridge.hello();
    bridge.send(1, "once");
    let (text, is_error) = bridge.result(1);
    assert!(is_error && text.contains("may have been written, or not"), "{text}");
    assert_eq!(daemon.heard()["arguments"]["message"], "once");
    daemon.hears_nothing_more();
}

#[test]
fn a_call_that_the_daemon_did_not_read_or_do_is_made_again() {
    let dir = runtime_dir();
    let does: &[Does] = &[Does::HangsUpBeforeReading, Does::Says(STOPPING), Does::Says(SENT)];
    let daemon = daemon(dir.path(), does);
    let mut bridge = bridge(dir.path());
    bridge.hello();
    bridge.send(1, "at last");
    assert_eq!(bridge.result(1), ("sent to phone".to_owned(), false));
    let heard = [daemon.heard(), daemon.heard(), daemon.heard()];
    assert_eq!(heard[0], Value::Null);
    assert_eq!(heard[1], heard[2]);
}

#[test]
fn a_question_may_be_asked_again() {
    let dir = runtime_dir();
    let _daemon = daemon(dir.path(), &[Does::HangsUpAfterReading, Does::Says(SENT)]);
    let mut bridge = bridge(dir.path());
    bridge.hello();
    bridge.ask(1, "tools/call", json!({"name": "list_channels"}));
    assert_eq!(bridge.result(1), ("sent to phone".to_owned(), false));
}

#[test]
fn a_daemon_of_another_version_is_named() {
    let dir = runtime_dir();
    let refused = r#"{"ok":false,"code":"bad_frame","error":"unknown variant `tool`"}"#;
    let does: &'static [Does] = Box::leak(Box::new([Does::Says(refused)]));
    let _daemon = daemon(dir.path(), does);
    let mut bridge = bridge(dir.path());
    bridge.hello();
    bridge.send(1, "hello");
    let (text, is_error) = bridge.result(1);
    assert!(is_error && text.contains("another version") && text.contains("unknown variant"), "{text}");
}

#[test]
fn a_call_that_is_cancelled_while_it_waits_is_never_made() {
    let dir = runtime_dir();
    let mut bridge = bridge(dir.path());
    bridge.hello();
    bridge.send(1, "no longer wanted");
    bridge.notify("notifications/cancelled", json!({"requestId": 1}));
    bridge.ask(2, "ping", Value::Null);
    assert_eq!(bridge.next()["id"], 2);
    let daemon = daemon(dir.path(), &[Does::Says(SENT)]);
    daemon.hears_nothing_more();
}

#[test]
fn news_of_channels_are_told_once_claude_listens() {
    let dir = runtime_dir();
    let daemon = daemon(dir.path(), &[]);
    let mut bridge = bridge(dir.path());
    bridge.hello();
    bridge.says_nothing();
    daemon.channels.send(&["phone", "mail"]).unwrap();
    assert_eq!(bridge.next()["method"], "notifications/tools/list_changed");
    daemon.channels.send(&["phone", "mail"]).unwrap();
    bridge.says_nothing();
}

/// Nothing waits, so nothing runs: not one switch of any of its threads.
#[cfg(target_os = "linux")]
#[test]
fn an_idle_bridge_sleeps() {
    let dir = runtime_dir();
    let _daemon = daemon(dir.path(), &[]);
    let mut bridge = bridge(dir.path());
    bridge.hello();
    bridge.says_nothing();
    let switches = || -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", bridge.child.id())).unwrap().flatten();
        let statuses = tasks.map(|task| fs::read_to_string(task.path().join("status")).unwrap());
        let counts = |status: String| -> u64 {
            let lines = status.lines().filter_map(|line| line.split_once("_ctxt_switches:"));
            lines.map(|(_, count)| count.trim().parse::<u64>().unwrap()).sum()
        };
        statuses.map(counts).sum()
    };
    // A busy machine may be late with what came before.
    let until = Instant::now() + LIMIT;
    let mut before = switches();
    bridge.says_nothing();
    while switches() != before {
        assert!(Instant::now() < until, "it never sleeps");
        before = switches();
        bridge.says_nothing();
    }
}
