//! `ccmux send`: the frame it asks with, what it prints, and the exit code of every end of a message.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::scripted::{Then, ccmux, daemon, receipt, run, status};

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
fn a_directory_that_others_can_enter_is_not_trusted() {
    let daemon = daemon(&[status()], Then::Waits);
    fs::set_permissions(daemon.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let ended = run(&mut ccmux(&daemon.dir, &["send", "secret"]));
    assert_eq!(ended.code, Some(6));
    assert!(ended.stderr.contains("open to other users"), "{}", ended.stderr);
    assert_eq!(daemon.heard(), Value::Null);
}
