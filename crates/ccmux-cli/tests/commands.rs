//! `ccmux` against a daemon that says canned lines on a real socket: exit codes, output, and the frames it is asked.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Serves one client in a thread: reads one line, says its lines, then waits for the client to go, or hangs up.
struct Daemon {
    dir: TempDir,
    thread: JoinHandle<Value>,
}

#[derive(Clone, Copy, PartialEq)]
enum Then {
    Waits,
    HangsUp,
}

fn runtime_dir() -> TempDir {
    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir().unwrap()
}

fn daemon(replies: &[Value], then: Then) -> Daemon {
    let dir = runtime_dir();
    let listener = UnixListener::bind(socket_in(&dir)).unwrap();
    let lines: String = replies.iter().map(|reply| format!("{reply}\n")).collect();
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = String::new();
        BufReader::new(&stream).read_line(&mut request).unwrap();
        let _ = stream.write_all(lines.as_bytes());
        if then == Then::Waits {
            let _ = stream.read(&mut [0]);
        }
        serde_json::from_str(&request).unwrap_or(Value::Null)
    });
    Daemon { dir, thread }
}

fn socket_in(dir: &TempDir) -> PathBuf {
    dir.path().join("control.sock")
}

impl Daemon {
    /// The request it read; null if nobody asked.
    fn heard(self) -> Value {
        drop(UnixStream::connect(socket_in(&self.dir)));
        self.thread.join().unwrap()
    }
}

fn ccmux(dir: &TempDir, line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccmux"));
    command
        .env_clear()
        .env("CCMUX_RUNTIME_DIR", dir.path())
        .env("TZ", "UTC")
        .env("PATH", "/nowhere")
        .args(line);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn receipt(state: &str) -> Value {
    json!({"id": "m-17", "channel": "phone", "state": state, "accepted_at": 1, "proof": "hook"})
}

fn status() -> Value {
    json!({"ok": true, "status": {
        "state": "busy", "since": 1_740_000_000_000_i64, "reason": "a turn runs", "session": "abc123",
        "agent": {"pid": 4711, "version": "2.1.332", "restarts": 2}, "queue": {"messages": 3, "bytes": 2048},
        "channels": [{"name": "default", "direction": "in", "state": "open"},
                     {"name": "phone", "direction": "in", "state": "refused: a symlink"}],
        "subscribers": 1, "degraded": ["mcp"], "last_seq": 7, "daemon_pid": 12, "daemon_version": "0.1.0",
        "newer": "field"}})
}

#[test]
fn send_is_done_once_accepted() {
    let daemon = daemon(&[json!({"ok": true, "receipt": receipt("accepted")})], Then::Waits);
    let ended = run(&mut ccmux(&daemon.dir, &["send", "-c", "phone", "--id", "m-17", "hello", "you"]));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(ended.stdout.starts_with("accepted: m-17 on phone"), "{}", ended.stdout);
    let frame = json!({"v": 1, "type": "send", "channel": "phone", "content": "hello you", "id": "m-17",
        "wait": "accepted"});
    assert_eq!(daemon.heard(), frame);
}

#[test]
fn send_reads_stdin_for_a_dash() {
    let daemon = daemon(&[json!({"ok": true, "receipt": receipt("accepted")})], Then::Waits);
    let mut child = ccmux(&daemon.dir, &["send", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all("one\n两\n".as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(daemon.heard()["content"], "one\n两");
}

#[test]
fn send_prints_the_answer_it_waited_for() {
    let reply = json!({"ok": true, "receipt": receipt("answered"), "answer": "42\nof course"});
    let daemon = daemon(&[reply], Then::Waits);
    let ended = run(&mut ccmux(&daemon.dir, &["send", "--wait", "answered", "--timeout", "60", "x"]));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "42\nof course\n"));
    let frame = daemon.heard();
    assert_eq!((&frame["wait"], &frame["timeout_s"]), (&json!("answered"), &json!(60)));
}

#[test]
fn the_receipt_as_json_holds_the_answer_that_was_waited_for() {
    let reply = json!({"ok": true, "receipt": receipt("answered"), "answer": "42"});
    let daemon = daemon(&[reply], Then::Waits);
    let ended = run(&mut ccmux(&daemon.dir, &["send", "--wait", "answered", "--json", "x"]));
    let mut expected = receipt("answered");
    expected["answer"] = json!("42");
    assert_eq!(serde_json::from_str::<Value>(&ended.stdout).unwrap(), expected);
}

#[test]
fn send_prints_the_receipt_as_it_came() {
    let mut receipt = receipt("delivered");
    receipt["newer"] = json!("field");
    let daemon = daemon(&[json!({"ok": true, "receipt": receipt})], Then::Waits);
    let ended = run(&mut ccmux(&daemon.dir, &["send", "--wait", "delivered", "--json", "x"]));
    assert_eq!(ended.code, Some(0));
    assert_eq!(serde_json::from_str::<Value>(&ended.stdout).unwrap(), receipt);
}

#[test]
fn every_bad_end_of_a_message_has_its_exit_code() {
    let refused = |code: &str| json!({"ok": false, "code": code, "error": "because"});
    let with = |state: &str| json!({"ok": true, "receipt": receipt(state)});
    let ends = [
        (refused("internal"), 1),
        (with("failed"), 1),
        (with("expired"), 1),
        (with("accepted"), 1),
        (refused("timed_out"), 3),
        (refused("rejected"), 4),
        (refused("not_allowed"), 4),
        (refused("bad_version"), 4),
        (refused("uncertain"), 5),
        (with("uncertain"), 5),
    ];
    for (reply, code) in ends {
        let daemon = daemon(std::slice::from_ref(&reply), Then::Waits);
        let ended = run(&mut ccmux(&daemon.dir, &["send", "--wait", "delivered", "x"]));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{reply}");
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn a_receipt_is_printed_for_bad_ends_too() {
    let reply = json!({"ok": false, "code": "timed_out", "error": "because", "receipt": receipt("accepted")});
    let daemon = daemon(&[reply], Then::Waits);
    let ended = run(&mut ccmux(&daemon.dir, &["send", "--wait", "answered", "--json", "x"]));
    assert_eq!(ended.code, Some(3));
    assert_eq!(serde_json::from_str::<Value>(&ended.stdout).unwrap(), receipt("accepted"));
}

#[test]
fn a_daemon_that_hangs_is_left_when_the_time_is_up() {
    let daemon = daemon(&[], Then::Waits);
    let started = Instant::now();
    let ended = run(&mut ccmux(&daemon.dir, &["send", "--timeout", "1", "x"]));
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(started.elapsed() < Duration::from_secs(8));
}

#[test]
fn a_daemon_that_dies_before_it_answers_leaves_the_message_uncertain() {
    // Whoever knows no id must look before the message is sent a second time.
    let ways =
        [(&["send", "x"][..], "ccmux inbox list"), (&["send", "--id", "i7", "x"], "ccmux inbox show i7")];
    for (words, remedy) in ways {
        let daemon = daemon(&[], Then::HangsUp);
        let ended = run(&mut ccmux(&daemon.dir, words));
        assert_eq!(ended.code, Some(5));
        assert!(ended.stderr.contains(remedy), "{}", ended.stderr);
    }
}

#[test]
fn without_a_daemon_the_socket_and_the_remedy_are_named() {
    for line in [&["status"][..], &["why"], &["screen"], &["tail"], &["channels"], &["send", "x"]] {
        let dir = runtime_dir();
        let ended = run(&mut ccmux(&dir, line));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(6), ""), "{line:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        let socket = socket_in(&dir);
        assert!(ended.stderr.contains(socket.to_str().unwrap()), "{}", ended.stderr);
        assert!(ended.stderr.contains("start ccmuxd"), "{}", ended.stderr);
    }
}

#[test]
fn a_directory_that_others_can_enter_is_not_trusted() {
    let daemon = daemon(&[status()], Then::Waits);
    fs::set_permissions(daemon.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let ended = run(&mut ccmux(&daemon.dir, &["send", "secret"]));
    assert_eq!(ended.code, Some(6));
    assert!(ended.stderr.contains("open to other users"), "{}", ended.stderr);
    assert_eq!(daemon.heard(), Value::Null);
}

#[test]
fn wrong_usage_is_two() {
    let dir = runtime_dir();
    for line in [
        &["send"][..],
        &["explode"],
        &[],
        &["send", "--wait", "never", "x"],
        &["tail", "--alerts", "--turns"],
    ] {
        let ended = run(&mut ccmux(&dir, line));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{line:?}");
    }
}

#[test]
fn status_is_readable_and_plain() {
    let daemon = daemon(&[status()], Then::Waits);
    let ended = run(&mut ccmux(&daemon.dir, &["status"]));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for words in [
        "busy for ",
        "a turn runs",
        "abc123",
        "version 2.1.332, pid 4711",
        "3 messages, 2 KiB",
        "default, phone (refused: a symlink)",
        "mcp",
        "version 0.1.0, pid 12",
    ] {
        assert!(ended.stdout.contains(words), "{words} in {}", ended.stdout);
    }
    assert!(!ended.stdout.contains('\x1b'));
}

#[test]
fn status_json_is_what_the_daemon_said() {
    let daemon = daemon(&[status()], Then::Waits);
    let ended = run(&mut ccmux(&daemon.dir, &["status", "--json"]));
    assert_eq!(ended.stdout.lines().count(), 1);
    assert_eq!(serde_json::from_str::<Value>(&ended.stdout).unwrap(), status()["status"]);
    assert_eq!(daemon.heard(), json!({"v": 1, "type": "status"}));
}

#[test]
fn channels_are_listed() {
    let daemon_for_people = daemon(&[status()], Then::Waits);
    let ended = run(&mut ccmux(&daemon_for_people.dir, &["channels"]));
    assert_eq!(ended.stdout, "in   default  open\nin   phone    refused: a symlink\n");
    let daemon = daemon(&[status()], Then::Waits);
    let ended = run(&mut ccmux(&daemon.dir, &["channels", "--json"]));
    assert_eq!(serde_json::from_str::<Value>(&ended.stdout).unwrap(), status()["status"]["channels"]);
}

#[test]
fn files_whose_names_are_no_channels_are_listed_with_the_reason() {
    let mut reply = status();
    reply["status"]["refused_files"] = json!([{"file": "in.a b", "state": "refused: no channel"}]);
    let daemon_for_people = daemon(std::slice::from_ref(&reply), Then::Waits);
    let ended = run(&mut ccmux(&daemon_for_people.dir, &["channels"]));
    assert!(ended.stdout.ends_with("-    in.a b  refused: no channel\n"), "{}", ended.stdout);
    let daemon = daemon(&[reply], Then::Waits);
    let ended = run(&mut ccmux(&daemon.dir, &["channels", "--json"]));
    let listed: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(listed[2], json!({"file": "in.a b", "state": "refused: no channel"}));
}

fn stored(id: &str, state: &str) -> Value {
    let mut message = receipt(state);
    message["id"] = json!(id);
    message["bytes"] = json!(30);
    message["preview"] = json!("is it green?");
    message
}

#[test]
fn inbox_list_shows_a_row_a_message_and_asks_for_what_was_selected() {
    let reply = json!({"ok": true, "messages": [stored("m-2", "uncertain"), stored("m-1", "failed")]});
    let daemon_for_people = daemon(std::slice::from_ref(&reply), Then::Waits);
    let line = ["inbox", "list", "--state", "failed", "--channel", "phone", "-n", "2"];
    let ended = run(&mut ccmux(&daemon_for_people.dir, &line));
    let rows: Vec<&str> = ended.stdout.lines().collect();
    assert!(rows.len() == 2 && rows[0].starts_with("uncertain  m-2  phone"), "{}", ended.stdout);
    assert!(rows[1].ends_with("is it green?"), "{}", ended.stdout);
    let asked =
        json!({"v": 1, "type": "inbox", "verb": "list", "state": "failed", "channel": "phone", "limit": 2});
    assert_eq!(daemon_for_people.heard(), asked);
    let daemon = daemon(std::slice::from_ref(&reply), Then::Waits);
    let ended = run(&mut ccmux(&daemon.dir, &["inbox", "list", "--json"]));
    let lines: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(json!(lines), reply["messages"]);
}

#[test]
fn inbox_retry_and_drop_name_their_messages_and_a_refusal_is_four() {
    for verb in ["retry", "drop"] {
        let reply = json!({"ok": true, "messages": [stored("m-1", "accepted"), stored("m-2", "accepted")]});
        let good = daemon(&[reply], Then::Waits);
        let ended = run(&mut ccmux(&good.dir, &["inbox", verb, "m-1", "phone/m-2"]));
        assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 2), "{}", ended.stderr);
        assert_eq!(good.heard()["messages"], json!(["m-1", "phone/m-2"]));
        let refusal = json!({"ok": false, "code": "rejected", "error": "m-1 is in_flight: it is on its way"});
        let bad = daemon(&[refusal], Then::Waits);
        let ended = run(&mut ccmux(&bad.dir, &["inbox", verb, "m-1"]));
        assert!(ended.code == Some(4) && ended.stderr.contains("m-1 is in_flight"), "{}", ended.stderr);
    }
    let dir = runtime_dir();
    assert_eq!(run(&mut ccmux(&dir, &["inbox", "retry", "m-1"])).code, Some(6));
    for line in [
        &["inbox"][..],
        &["inbox", "drop"],
        &["inbox", "list", "--state", "lost"],
        &["inbox", "list", "-n", "0"],
    ] {
        assert_eq!(run(&mut ccmux(&dir, line)).code, Some(2), "{line:?}");
    }
}

#[test]
fn why_begins_with_the_answer() {
    let why = json!({"gate": "closed: draft: somebody's text is in the box", "opens_when": "the box is empty",
        "next_look_ms": 1500, "evidence": ["screen: draft", "disputed: this and that"], "recent": ["12 > pane_silent"],
        "happened": (0..9).map(|n| json!({"at": 0, "what": format!("event {n}")})).collect::<Vec<_>>()});
    let daemon_for_people = daemon(&[json!({"ok": true, "why": why})], Then::Waits);
    let ended = run(&mut ccmux(&daemon_for_people.dir, &["why"]));
    let lines: Vec<&str> = ended.stdout.lines().take(4).collect();
    assert_eq!(
        lines,
        [
            "closed: draft: somebody's text is in the box",
            "opens when  the box is empty",
            "next look   in 2 s",
            "disputed    this and that",
        ]
    );
    let told: Vec<&str> =
        ended.stdout.lines().skip(4).map(|line| line.rsplit(": ").next().unwrap()).collect();
    assert_eq!(told, ["event 4", "event 5", "event 6", "event 7", "event 8"]);
    let daemon = daemon(&[json!({"ok": true, "why": why})], Then::Waits);
    let ended = run(&mut ccmux(&daemon.dir, &["why", "--json"]));
    assert_eq!(serde_json::from_str::<Value>(&ended.stdout).unwrap(), why);
}

#[test]
fn a_reload_says_what_was_read_and_what_was_not() {
    let reload = json!({"reread": ["screen rules of claude-code: built in"], "needs_restart": ["settings"]});
    let daemon_for_people = daemon(&[json!({"ok": true, "reload": reload})], Then::Waits);
    let ended = run(&mut ccmux(&daemon_for_people.dir, &["reload"]));
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(
        lines,
        ["read again: screen rules of claude-code: built in", "not before the daemon's next start: settings"]
    );
    assert_eq!(daemon_for_people.heard(), json!({"v": 1, "type": "reload"}));
    let broken = json!({"ok": false, "code": "rejected", "error": "x.toml: broken; the rules in force stay"});
    let daemon = daemon(&[broken], Then::Waits);
    let ended = run(&mut ccmux(&daemon.dir, &["reload"]));
    assert_eq!(ended.code, Some(4));
    assert!(ended.stderr.contains("the rules in force stay"), "{}", ended.stderr);
}

#[test]
fn the_screen_keeps_its_colours_only_where_asked() {
    let daemon_for_people = daemon(&[json!({"ok": true, "screen": "a\x1b]0;t\x07\n❯\u{a0}\n"})], Then::Waits);
    let ended = run(&mut ccmux(&daemon_for_people.dir, &["screen"]));
    assert_eq!(ended.stdout, "a\u{fffd}]0;t\u{fffd}\n❯\u{a0}\n");
    let daemon = daemon(&[json!({"ok": true, "screen": "\x1b[1ma"})], Then::Waits);
    let ended = run(&mut ccmux(&daemon.dir, &["screen", "--ansi"]));
    assert_eq!(ended.stdout, "\x1b[1ma\x1b[0m\n");
    assert_eq!(daemon.heard(), json!({"v": 1, "type": "screen", "ansi": true}));
}

fn turn(seq: u64, text: &str) -> Value {
    json!({"seq": seq, "ts": 0, "session": "s", "in_reply_to": [{"id": "m-17", "channel": "phone"}],
        "turn": [{"type": "text", "text": text}]})
}

#[test]
fn tail_shows_turns_and_alerts_until_the_daemon_goes() {
    let alert = json!({"seq": 8, "ts": 0, "alert": {"kind": "stuck", "message": "look"}});
    let daemon = daemon(&[json!({"ok": true}), turn(7, "Green."), alert], Then::HangsUp);
    let ended = run(&mut ccmux(&daemon.dir, &["tail", "--since", "6"]));
    assert_eq!(
        ended.stdout,
        "00:00:00 #7 in reply to m-17 on phone\nGreen.\n\n00:00:00 #8 alert stuck: look\n\n"
    );
    assert_eq!(ended.code, Some(6));
    assert_eq!(daemon.heard(), json!({"v": 1, "type": "subscribe", "since": 6}));
}

#[test]
fn tail_json_passes_the_lines_on() {
    let daemon = daemon(&[json!({"ok": true}), turn(7, "a"), json!({"seq": 8, "new": 1})], Then::HangsUp);
    let ended = run(&mut ccmux(&daemon.dir, &["tail", "--json", "--turns"]));
    assert_eq!(ended.stdout, format!("{}\n{}\n", turn(7, "a"), json!({"seq": 8, "new": 1})));
    assert_eq!(daemon.heard()["only"], "turns");
}

#[test]
fn tail_says_where_to_go_on_when_it_was_too_slow() {
    let daemon = daemon(&[turn(7, "a"), json!({"bye": "too slow", "last_seq": 7})], Then::HangsUp);
    let ended = run(&mut ccmux(&daemon.dir, &["tail"]));
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("--since 7"), "{}", ended.stderr);
}

#[test]
fn tail_retry_goes_on_after_the_last_line_until_a_failure_that_stays() {
    let dir = runtime_dir();
    let says: [(&str, Vec<Value>); 4] = [
        ("status", vec![status()]),
        ("subscribe", vec![turn(8, "before")]),
        ("subscribe", vec![turn(9, "between"), json!({"bye": "too many subscribers", "last_seq": 99})]),
        ("subscribe", vec![turn(10, "after"), json!({"ok": false, "code": "not_allowed", "error": "no"})]),
    ];
    let path = socket_in(&dir);
    let daemon = thread::spawn(move || {
        let mut since = Vec::new();
        for (kind, lines) in says {
            // The socket is another one each time, and for a while there is none.
            let listener = UnixListener::bind(&path).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            fs::remove_file(&path).unwrap();
            let mut request = String::new();
            BufReader::new(&stream).read_line(&mut request).unwrap();
            let request: Value = serde_json::from_str(&request).unwrap();
            assert_eq!(request["type"], kind);
            since.push(request["since"].clone());
            let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
            stream.write_all(lines.as_bytes()).unwrap();
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        since
    });
    let ended = run(&mut ccmux(&dir, &["tail", "--retry", "--json"]));
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    let lines = [turn(8, "before"), turn(9, "between"), turn(10, "after")];
    assert_eq!(ended.stdout, lines.map(|line| format!("{line}\n")).concat());
    assert_eq!(daemon.join().unwrap(), [Value::Null, json!(7), json!(8), json!(9)]);
}

#[test]
fn whoever_closes_the_pipe_hears_nothing_about_it() {
    let many: Vec<Value> = (0..5000).map(|seq| turn(seq, "some text")).collect();
    let daemon = daemon(&many, Then::HangsUp);
    let mut child = ccmux(&daemon.dir, &["tail"]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn attach_becomes_tmux_with_the_names_the_daemon_told() {
    let mut reply = status();
    reply["status"]["tmux"] = json!({"socket": "s1", "session": "mine"});
    let daemon = daemon(&[reply], Then::Waits);
    let tools = runtime_dir();
    std::os::unix::fs::symlink("/bin/echo", tools.path().join("tmux")).unwrap();
    let ended = run(ccmux(&daemon.dir, &["attach", "--read-only"]).env("PATH", tools.path()));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "-L s1 attach-session -t =mine -r\n"));
}

#[test]
fn attach_without_tmux_says_what_to_install() {
    let ended = run(&mut ccmux(&runtime_dir(), &["attach"]));
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("install tmux"), "{}", ended.stderr);
}

#[test]
fn it_says_its_version_and_completes_for_shells() {
    let dir = runtime_dir();
    assert_eq!(
        run(&mut ccmux(&dir, &["--version"])).stdout,
        concat!("ccmux ", env!("CARGO_PKG_VERSION"), "\n")
    );
    assert!(run(&mut ccmux(&dir, &["completions", "bash"])).stdout.contains("_ccmux"));
}

#[test]
fn setup_becomes_the_daemon_beside_the_client_or_says_that_it_is_missing() {
    // A link, not a copy: a file that was just written can't be run while any other test's child still has it open.
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (client, daemon) = (dir.path().join("ccmux"), dir.path().join("not-yet"));
    fs::hard_link(env!("CARGO_BIN_EXE_ccmux"), &client).unwrap();
    fs::write(&daemon, "#!/bin/sh\necho \"$@\"\nexit 69\n").unwrap();
    fs::set_permissions(&daemon, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&client);
    command.args(["-i", "work", "setup", "--set", "agent.cwd=/x"]);
    let ended = run(&mut command);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("install ccmuxd beside ccmux"), "{}", ended.stderr);
    fs::rename(&daemon, dir.path().join("ccmuxd")).unwrap();
    let ended = run(&mut command);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(69), "setup -i work --set agent.cwd=/x\n"));
}
