//! What the log may say of bodies: texts of every kind go through a house at trace level, and are looked for afterwards.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use ccmux_tests::House;
use serde_json::{Value, json};

/// Texts that come to the daemon whole, each by another way.
const TOLD: [&str; 12] = [
    "canary-plain",
    "canary-json",
    "canary-broken",
    "canary-rejected",
    "canary-quoted",
    "canary-strict",
    "canary-sent",
    "canary-tool",
    "canary-unsent",
    "canary-wish",
    "canary-hooked",
    "canary-permission",
];

fn house(bodies: bool) -> House {
    let settings = format!(
        "[log]\nlevel = \"trace\"\nbodies = {bodies}\n[limits]\nmessage_bytes = 5000\n\
         [channels.strict]\nformat = \"json\"\n"
    );
    House::builder().settings(&settings).ready()
}

/// Every way in and out once. What has an answer is waited for.
fn send_canaries(house: &House) {
    let lines = house.subscribe_with("\"canary-wish\"\n");
    house.fifo("out.test");
    let got = house.adapter("test");
    house.write("in.t", "{\"text\":\"canary-rejected\"}\n");
    house.write("in.strict", "\"canary-quoted\"\n");
    house.write("in.strict", "canary-strict\n");
    house.write("in.t", format!("canary-long {}\n", "x".repeat(6000)));
    house.wait_until("four rejections", || house.log_events("message.rejected").len() == 4);
    say_to_control(house, "{\"type\":\"canary-frame\"}\n");
    hook_of_a_stranger(house);
    let prompts = [
        ("in.t", "say: canary-plain\n"),
        ("in.t", "{\"content\":\"say: canary-json\",\"meta\":{\"sender\":\"canary-meta\"}}\n"),
        ("in.t", "{\"content\": say: canary-broken\n"),
        ("in.t", "mcp: canary-nowhere canary-unsent\n"),
        ("in.t", "mcp: test canary-tool\n"),
    ];
    for (n, (fifo, line)) in prompts.into_iter().enumerate() {
        house.write(fifo, line);
        lines.wait_for_turns(n + 1);
    }
    assert_eq!(house.wait_for_lines(&got, 1), ["canary-tool"]);
    house.send("answered", "say: canary-sent");
    house.write("in.t", "perm: echo canary-permission\n");
    lines.wait_for_alert("permission_request");
    house.stop();
}

fn say_to_control(house: &House, line: &str) {
    let mut stream = UnixStream::connect(house.run_dir().join("control.sock")).unwrap();
    stream.write_all(line.as_bytes()).unwrap();
}

fn hook_of_a_stranger(house: &House) {
    let payload = json!({
        "session_id": "s9", "hook_event_name": "UserPromptSubmit", "prompt": "canary-hooked",
    });
    let mut hook = house.command(house.path("hook/ccmux-hook")).stdin(Stdio::piped()).spawn().unwrap();
    hook.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
    assert!(hook.wait().unwrap().success());
}

/// The files of that folder of the house whose names begin so, as one text.
fn text_of(house: &House, folder: &str, names: &[&str]) -> String {
    let files = fs::read_dir(house.path(folder)).unwrap().flatten().map(|entry| entry.path());
    let ours = files.filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        names.iter().any(|begin| name.starts_with(begin))
    });
    ours.map(|path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()).collect()
}

fn lines_with<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.contains(word)).collect()
}

#[test]
fn no_body_is_in_any_log_and_a_hash_stands_for_it() {
    let house = house(false);
    send_canaries(&house);
    for (folder, names) in [("", &["ccmux.log", "out", "err"][..]), ("state", &["timeline.log"][..])] {
        let text = text_of(&house, folder, names);
        assert!(text.lines().count() > 20, "{folder}: that is no log: {text}");
        assert_eq!(lines_with(&text, "canary"), Vec::<&str>::new(), "in {names:?}");
    }
    let of = |event: &str| house.log_events(event);
    let has_hash = |line: &Value| line["body"].as_str().is_some_and(|hash| hash.len() == 8);
    for event in ["message.accepted", "batch.injected", "turn.published", "answer.written", "hook.received"] {
        assert!(!of(event).is_empty() && of(event).iter().all(has_hash), "{event}: {:?}", of(event));
    }
    let rejected = of("message.rejected");
    assert_eq!(rejected.iter().filter(|line| has_hash(line)).count(), 3, "but the long one: {rejected:?}");
}

#[test]
fn with_log_bodies_the_texts_stand_in_the_log_beside_their_hashes_and_nowhere_else() {
    let house = house(true);
    send_canaries(&house);
    let told = house.log_events("body");
    for word in TOLD {
        let found = told.iter().find(|line| line["text"].as_str().unwrap().contains(word));
        assert!(found.is_some(), "{word} is not in the log");
    }
    let plain = told.iter().find(|line| line["text"] == "say: canary-plain").unwrap();
    let accepted = house.log_events("message.accepted");
    assert!(accepted.iter().any(|line| line["body"] == plain["body"]), "{plain} is of no message");
    let recorded = text_of(&house, "state", &["timeline.log"]);
    assert_eq!(lines_with(&recorded, "canary"), Vec::<&str>::new());
}

#[test]
fn bodies_can_be_asked_for_while_the_daemon_runs_and_taken_back() {
    let house = House::builder().ready();
    let told = |text: &str| house.log_events("body").iter().any(|line| line["text"] == text);
    house.send("delivered", "say: before");
    house.write_settings("[log]\nbodies = true\n");
    assert!(house.ccmux_ok(&["reload"]).contains("log.bodies = true"));
    house.send("delivered", "say: meanwhile");
    house.wait_until("the text in the log", || told("say: meanwhile"));
    house.write_settings("");
    house.ccmux_ok(&["reload"]);
    house.send("delivered", "say: after");
    house.stop();
    assert!(!told("say: before") && !told("say: after"), "{:?}", house.log_events("body"));
}
