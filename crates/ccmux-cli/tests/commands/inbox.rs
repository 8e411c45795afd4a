//! `ccmux inbox`: rows for people, lines for programs, and the verbs' refusals.

use serde_json::{Value, json};

use crate::scripted::{Then, ccmux, daemon, receipt, run, runtime_dir};

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
