//! Turns of the real Claude Code CLI: hooks that fire three times, or never; what other hooks, people and sessions do to a
//! turn; a daemon that was away. The model is a mock on loopback.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::time::{Duration, SystemTime};

use ccmux_tests::doors::{kinds_of, text_of};
use ccmux_tests::patience::stays_quiet;
use ccmux_tests::{House, Subscriber, claude};
use ccmux_wire::receipt::Proof;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A house with the real Claude and further settings of the user's.
fn ready(more: impl Fn(&House) -> Value) -> Option<House> {
    let house = House::with_claude(&claude::or_skip()?);
    let path = house.home().join(".claude/settings.json");
    let mut settings: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    settings.as_object_mut().unwrap().extend(more(&house).as_object().unwrap().clone());
    fs::write(path, settings.to_string()).unwrap();
    // The log then tells when a hook came.
    house.write_settings("[log]\nlevel = \"debug\"\n");
    house.start();
    house.wait_ready();
    Some(house)
}

fn texts(subscriber: &Subscriber) -> Vec<String> {
    subscriber.turns().iter().map(text_of).collect()
}

fn no_more_than(subscriber: &Subscriber, count: usize) {
    stays_quiet(Duration::from_secs(3), "a turn too many", || {
        Some(texts(subscriber)).filter(|turns| turns.len() > count).map(|turns| format!("{turns:?}"))
    });
}

fn types(house: &House, text: &str) {
    house.send_keys(&["-l", text]);
    house.wait_for_screen(text);
    house.send_keys(&["Enter"]);
}

/// The model is at work on it; what it says may be on the screen only later.
fn wait_for_model(house: &House, text: &str) {
    house.wait_until("the prompt at the model", || {
        house.model_prompts().iter().any(|prompt| prompt.contains(text))
    });
}

fn wait_for_ends(house: &House, count: usize) {
    house.wait_until(&format!("{count} turns to end"), || {
        house.transcript().iter().filter(|line| line["subtype"] == "turn_duration").count() >= count
    });
}

/// Hooks of the user's for each of the events.
fn hooks(events: &[&str], commands: &[String]) -> Value {
    let hooks: Vec<Value> =
        commands.iter().map(|command| json!({"type": "command", "command": command})).collect();
    let entries = events.iter().map(|event| ((*event).to_owned(), json!([{"hooks": hooks}])));
    json!({"hooks": entries.collect::<serde_json::Map<_, _>>()})
}

/// How long after the latest Stop hook before it each turn came, in milliseconds; one that Esc ended has no Stop.
fn lateness(house: &House, subscriber: &Subscriber) -> Vec<u128> {
    let stops = house.log_events("hook.received").into_iter().filter(|line| line["hook"] == "Stop");
    let stops: Vec<SystemTime> = stops
        .map(|line| OffsetDateTime::parse(line["timestamp"].as_str().unwrap(), &Rfc3339).unwrap().into())
        .collect();
    let turns = subscriber.lines().into_iter().filter(|line| line.value.get("turn").is_some());
    let late = |at: SystemTime| stops.iter().filter_map(|stop| at.duration_since(*stop).ok()).min();
    turns.filter_map(|line| late(line.wall)).map(|late| late.as_millis()).collect()
}

/// Acceptance D2 and D3. Field fault 23.
#[test]
fn turns_of_every_shape_are_published_once_although_each_hook_fires_three_times() {
    let events = ["SessionStart", "UserPromptSubmit", "Stop", "StopFailure", "SubagentStop"];
    let again = |house: &House| {
        let hook = house.path("hook/ccmux-hook").display().to_string();
        hooks(&events, &[format!("N=2 {hook}"), format!("N=3 {hook}")])
    };
    let Some(house) = ready(again) else { return };
    let subscriber = house.subscribe();
    house.send("answered", "full: echo hi");
    house.send("answered", "task: say: the sub-agent speaks");
    house.send("delivered", "slow: 20");
    house.wait_for_screen("word2");
    house.send_keys(&["Escape"]);
    subscriber.wait_for_turns(4);
    house.send("delivered", "error: 400");
    subscriber.wait_for_alert("failure");
    let answer = house.ccmux_ok(&["send", "--wait", "answered", "--timeout", "30", "say: and on it goes"]);
    assert_eq!(answer.trim_end(), "and on it goes");
    subscriber.wait_for_turns(5);
    no_more_than(&subscriber, 5);
    let stops = house.log_events("hook.received").into_iter().filter(|line| line["hook"] == "Stop").count();
    assert!(stops >= 12, "the Stop hooks fired {stops} times only: nothing was tested");
    let turns = subscriber.turns();
    assert_eq!(kinds_of(&turns[0]), ["thinking", "text", "tool_use", "tool_result", "text"]);
    assert_eq!(kinds_of(&turns[1]), ["text", "tool_use", "tool_result", "text"], "the leader");
    assert_eq!(turns[2]["in_reply_to"], json!([]), "Claude told itself that the sub-agent is done");
    assert!(text_of(&turns[3]).contains("word2"), "{}", turns[3]);
    assert!(turns.iter().all(|turn| turn.get("partial").is_none()), "{turns:?}");
    println!("turns came {:?} ms after their Stop", lateness(&house, &subscriber));
}

/// Acceptance D3. Field fault 23.
#[test]
fn without_any_hook_turns_are_published_whole_and_messages_answered() {
    let Some(house) = ready(|_| json!({"disableAllHooks": true})) else { return };
    let subscriber = house.subscribe();
    let receipt = house.send("answered", "full: echo hi");
    assert_eq!(receipt.proof, Some(Proof::Transcript), "hooks came: nothing was tested");
    types(&house, "say: by hand");
    subscriber.wait_for_text("by hand");
    house.send("answered", "say: again");
    subscriber.wait_for_turns(3);
    no_more_than(&subscriber, 3);
    let turns = subscriber.turns();
    assert_eq!(kinds_of(&turns[0]), ["thinking", "text", "tool_use", "tool_result", "text"]);
    assert_eq!(texts(&subscriber)[1..], ["by hand", "again"]);
    let replies: Vec<usize> =
        turns.iter().map(|turn| turn["in_reply_to"].as_array().unwrap().len()).collect();
    assert_eq!(replies, [1, 0, 1]);
}

/// FINDINGS 29, 45 and 46: a Stop hook that blocks, texts typed while a turn runs; `/branch`, whose file begins with a copy
/// of the other session's, and `/clear`.
#[test]
fn what_others_do_to_a_turn_neither_loses_nor_doubles_a_block() {
    let block = |house: &House| {
        let script = "#!/bin/sh\ninput=$(cat)\n[ -e \"$HOME/block\" ] || exit 0\ncase $input in\n*'\"stop_hook_active\":true'*) ;;\n\
                      *) echo '{\"decision\":\"block\",\"reason\":\"say: and more\"}' ;;\nesac\n";
        fs::write(house.path("block.sh"), script).unwrap();
        hooks(&["Stop"], &[format!("sh {}", house.path("block.sh").display())])
    };
    let Some(house) = ready(block) else { return };
    let subscriber = house.subscribe();
    fs::write(house.home().join("block"), "").unwrap();
    house.send("answered", "say: first part");
    subscriber.wait_for_turns(2);
    fs::remove_file(house.home().join("block")).unwrap();
    let turns = subscriber.turns();
    assert_eq!(turns[0]["prompt_id"], turns[1]["prompt_id"]);
    assert_eq!(turns[0]["in_reply_to"], turns[1]["in_reply_to"]);
    assert_eq!(text_of(&turns[0]), "first part");

    house.write("in.t", "slow: 4\n");
    wait_for_model(&house, "slow: 4");
    types(&house, "say: queued one");
    types(&house, "say: queued two");
    assert_eq!(text_of(&subscriber.wait_for_turns(4)[3]), "queued two");
    house.wait_ready();
    house.write("in.t", "bash: sleep 3\n");
    house.wait_for_screen("sleep 3");
    house.wait_until("the tool to run", || {
        house.transcript().iter().any(|line| line["message"]["content"][0]["input"]["command"] == "sleep 3")
    });
    types(&house, "say: joined");
    assert_eq!(kinds_of(&subscriber.wait_for_turns(5)[4]), ["tool_use", "tool_result", "text"]);
    house.wait_ready();

    for command in ["/branch", "/clear"] {
        let before = house.status().session;
        types(&house, command);
        house.wait_until("another session", || house.status().session != before);
        house.send("answered", &format!("say: after {command}"));
        house.wait_ready();
    }
    subscriber.wait_for_turns(7);
    no_more_than(&subscriber, 7);
    assert_eq!(texts(&subscriber)[5..], ["after /branch", "after /clear"]);
    assert_eq!(house.status().turns.partial, 0);
}

/// Acceptance A4.
#[test]
fn every_turn_that_ended_while_the_daemon_was_away_comes_out_on_return() {
    let Some(house) = ready(|_| json!({})) else { return };
    house.write("in.t", "slow: 3\n");
    wait_for_model(&house, "slow: 3");
    house.kill9();
    assert_eq!(house.transcript().iter().filter(|line| line["type"] == "assistant").count(), 0, "too late");
    wait_for_ends(&house, 1);
    types(&house, "full: echo by hand");
    wait_for_ends(&house, 2);
    types(&house, "slow: 5");
    wait_for_model(&house, "slow: 5");
    house.start();
    let turns = house.subscribe_with("{\"since\":0,\"only\":\"turns\"}\n");
    turns.wait_for_turns(3);
    no_more_than(&turns, 3);
    let turns = turns.turns();
    assert_eq!(turns[0]["in_reply_to"][0]["channel"], "t");
    assert_eq!(kinds_of(&turns[1]), ["thinking", "text", "tool_use", "tool_result", "text"]);
    assert_eq!(text_of(&turns[2]).trim_end(), "word0 word1 word2 word3 word4 word5 word6 word7 word8 word9");
    house.send("answered", "say: and on it goes");
}

/// Acceptance D4. Field fault 24.
#[test]
fn a_second_claude_in_another_pane_is_not_heard_even_with_our_token() {
    let Some(house) = ready(|_| json!({})) else { return };
    let subscriber = house.subscribe();
    let session = house.status().session;
    house.send("answered", "say: ours");
    let pane = house.another_agent(true);
    let foreign = |what: &str| house.tmux(&["capture-pane", "-p", "-t", &pane]).contains(what);
    house.wait_until("the other Claude's prompt box", || foreign("❯\u{a0}"));
    house.tmux(&["send-keys", "-t", &pane, "-l", "say: foreign words"]);
    house.wait_until("the words in its box", || foreign("say: foreign words"));
    house.tmux(&["send-keys", "-t", &pane, "Enter"]);
    house.wait_until("the other Claude's answer", || foreign("● foreign words"));
    house.send("answered", "say: ours again");
    no_more_than(&subscriber, 2);
    assert_eq!(texts(&subscriber), ["ours", "ours again"]);
    assert_eq!(house.status().session, session);
    let heard = house.log_events("hook.received").iter().filter(|line| line["own"] == false).count();
    assert!(heard > 0, "the other's hooks did not come: nothing was tested");
}
