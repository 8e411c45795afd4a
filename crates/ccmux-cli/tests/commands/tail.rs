//! `ccmux tail`: what people and programs see of the stream, and where it goes on after an end.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::thread;

use serde_json::{Value, json};

use crate::scripted::{Then, ccmux, daemon, run, runtime_dir, socket_in, status};

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
