//! What the daemon says of itself: `status`, `channels`, `why`, `reload`, `screen`.

use serde_json::{Value, json};

use crate::scripted::{Then, ccmux, daemon, run, status};

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
