//! Acceptance D on the demo agent: turns that end in other ways than by one Stop of their own, and turns that only
//! somebody shows.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ccmux_tests::doors::{kinds_of, text_of};
use ccmux_tests::patience::stays_quiet;
use ccmux_tests::{House, Subscriber};
use ccmux_wire::receipt::MessageState;
use serde_json::{Value, json};

fn texts(subscriber: &Subscriber) -> Vec<String> {
    subscriber.turns().iter().map(text_of).collect()
}

fn channels(turn: &Value) -> Vec<&str> {
    turn["in_reply_to"].as_array().unwrap().iter().map(|reply| reply["channel"].as_str().unwrap()).collect()
}

/// Exactly these turns and, for a while, no other.
fn exactly(subscriber: &Subscriber, expected: &[&str]) {
    subscriber.wait_for_turns(expected.len());
    stays_quiet(Duration::from_secs(3), "another turn", || {
        Some(texts(subscriber)).filter(|turns| turns.len() > expected.len()).map(|turns| format!("{turns:?}"))
    });
    assert_eq!(texts(subscriber), expected);
}

/// Somebody types a prompt, without a client.
fn types(house: &House, text: &str) {
    house.send_keys(&["-l", text]);
    house.wait_for_screen(text);
    house.send_keys(&["Enter"]);
}

fn wait_for_ends(house: &House, count: usize) {
    house.wait_until(&format!("{count} turns to end"), || {
        house.transcript().iter().filter(|line| line["subtype"] == "turn_duration").count() >= count
    });
}

/// What the demo agent says to `full: echo by hand`.
const FULL: &str = "Running it.done by hand";

/// Acceptance A4.
#[test]
fn every_turn_that_ended_while_the_daemon_was_away_is_published_whoever_began_it() {
    let house = House::builder().ready();
    house.write("in.t", "slow: 2\n");
    house.wait_for_prompt("slow: 2");
    house.kill9();
    wait_for_ends(&house, 1);
    types(&house, "say: by hand");
    wait_for_ends(&house, 2);
    types(&house, "full: echo by hand");
    wait_for_ends(&house, 3);
    house.start();
    let turns = house.subscribe_with("{\"since\":0}\n");
    house.send("answered", "say: after all that");
    exactly(&turns, &["word0 word1 word2 word3 ", "by hand", FULL, "after all that"]);
    let turns = turns.turns();
    assert_eq!(turns.iter().map(channels).collect::<Vec<_>>(), [vec!["t"], vec![], vec![], vec!["default"]]);
    assert_eq!(kinds_of(&turns[2])[..4], ["thinking", "text", "tool_use", "tool_result"]);
    let seqs: Vec<u64> = turns.iter().map(|turn| turn["seq"].as_u64().unwrap()).collect();
    assert_eq!(house.status().last_seq.unwrap().0, *seqs.last().unwrap());
}

/// Acceptance A4.
#[test]
fn turns_before_the_first_message_that_nobody_saw_are_published_on_return() {
    let house = House::builder().ready();
    house.kill9();
    types(&house, "say: one");
    wait_for_ends(&house, 1);
    types(&house, "say: two");
    wait_for_ends(&house, 2);
    house.start();
    exactly(&house.subscribe_with("{\"since\":0}\n"), &["one", "two"]);
    assert_eq!(house.status().last_seq.unwrap().0, 2, "it is known after a restart");
    house.kill9();
    house.start();
    assert_eq!(house.status().last_seq.unwrap().0, 2);
}

/// Acceptance A4.
#[test]
fn a_turn_that_runs_when_the_daemon_returns_is_published_when_it_ends_and_whole() {
    let house = House::builder().ready();
    house.send("answered", "say: before");
    house.kill9();
    types(&house, "say: missed");
    wait_for_ends(&house, 2);
    types(&house, "slow: 4");
    house.wait_for_screen("word1");
    house.start();
    let turns = house.subscribe_with("{\"since\":0,\"only\":\"turns\"}\n");
    exactly(&turns, &["before", "missed", "word0 word1 word2 word3 word4 word5 word6 word7 "]);
}

/// Field fault 21.
#[test]
fn a_line_that_comes_almost_two_seconds_late_is_waited_for() {
    let house = House::builder().agent("CCMUX_DEMO_TRANSCRIPT_DELAY_MS", 1700).ready();
    let subscriber = house.subscribe();
    for n in 0..2 {
        house.write("in.t", format!("full: echo {n}\n"));
        let turn = subscriber.wait_for_turns(n + 1).remove(n);
        assert!(turn.get("partial").is_none() && kinds_of(&turn).last().unwrap() == "text", "{turn}");
    }
    assert_eq!(house.status().turns.partial, 0);
}

#[test]
fn a_partial_turn_is_marked_logged_and_counted() {
    let house = House::builder().agent("CCMUX_DEMO_TRANSCRIPT_DELAY_MS", 6000).ready();
    let subscriber = house.subscribe();
    house.write("in.t", "say: very late\n");
    assert_eq!(subscriber.wait_for_text("very late").value["partial"], true);
    let turns = house.status().turns;
    assert_eq!((turns.published, turns.partial), (1, 1));
    assert_eq!(house.log_events("turn.partial").len(), 1);
}

/// A Stop hook of the user that says once that Claude is to go on.
fn with_blocking_hook() -> House {
    let script = "#!/bin/sh\ninput=$(cat)\ncase $input in\n*'\"stop_hook_active\":true'*) ;;\n\
                  *) echo '{\"decision\":\"block\",\"reason\":\"say: and more\"}' ;;\nesac\n";
    let house = House::builder().file("block.sh", script, 0o755).build();
    let hook = json!([{"hooks": [{"type": "command", "command": house.path("block.sh")}]}]);
    fs::create_dir_all(house.home().join(".claude")).unwrap();
    fs::write(house.home().join(".claude/settings.json"), json!({"hooks": {"Stop": hook}}).to_string())
        .unwrap();
    house.start();
    house.wait_ready();
    house
}

/// One prompt, two Stops (FINDINGS 29): every block is published once, in order, under the same prompt and message.
#[test]
fn a_turn_that_another_stop_hook_continues_is_published_in_order_and_without_doubles() {
    let house = with_blocking_hook();
    let subscriber = house.subscribe();
    house.write("in.t", "say: first\n");
    house.write("in.t", "say: second\n");
    subscriber.wait_for_turns(2);
    house.wait_ready();
    house.send("answered", "say: last");
    wait_for_ends(&house, house.prompts().len());
    stays_quiet(Duration::from_secs(3), "a block twice", || {
        let texts = texts(&subscriber);
        texts.iter().find(|text| texts.iter().filter(|other| other == text).count() > 3).cloned()
    });
    let written: Vec<Value> = house
        .transcript()
        .into_iter()
        .filter(|line| line["type"] == "assistant")
        .flat_map(|line| line["message"]["content"].as_array().unwrap().clone())
        .collect();
    let published: Vec<Value> =
        subscriber.turns().iter().flat_map(|turn| turn["turn"].as_array().unwrap().clone()).collect();
    assert_eq!(published, written);
    for turn in subscriber.turns() {
        assert!(!channels(&turn).is_empty(), "every part answers its message: {turn}");
    }
}

/// FINDINGS 45 and 46: texts that somebody types while a turn runs become one next turn, or join the running one.
#[test]
fn what_is_typed_while_a_turn_runs_makes_one_turn_more_or_none() {
    let house = House::builder().ready();
    let subscriber = house.subscribe();
    house.write("in.t", "slow: 3\n");
    house.wait_for_screen("word0");
    for text in ["say: queued one", "say: queued two"] {
        house.send_keys(&["-l", text]);
        house.wait_for_screen(text);
        house.send_keys(&["Enter"]);
    }
    exactly(&subscriber, &["word0 word1 word2 word3 word4 word5 ", "queued two"]);
    house.wait_ready();
    house.write("in.t", "bash: sleep 2\n");
    house.wait_for_prompt("bash: sleep 2");
    house.send_keys(&["-l", "say: joined"]);
    house.wait_for_screen("say: joined");
    house.send_keys(&["Enter"]);
    let turn = subscriber.wait_for_turns(3).remove(2);
    assert_eq!(channels(&turn), ["t"]);
    house.send("answered", "say: the next");
    let turns = subscriber.wait_for_turns(4);
    assert_eq!(turns.len(), 4, "{:?}", texts(&subscriber));
    assert_eq!(text_of(&turns[3]), "the next");
}

/// FINDINGS 32: the message is answered by the first turn end without a background task, and that one is printed.
#[test]
fn a_message_is_answered_when_its_background_task_is_done() {
    let house = House::builder().ready();
    let subscriber = house.subscribe();
    let waiting =
        house.send_in_background(&["--wait", "answered", "--json", "task: say: the sub-agent speaks"]);
    let output = waiting.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let receipt: Value = serde_json::from_slice(&output.stdout).unwrap();
    let turns = subscriber.wait_for_turns(2);
    assert!(kinds_of(&turns[0]).contains(&"tool_use".to_owned()), "{}", turns[0]);
    assert_eq!((channels(&turns[0]), channels(&turns[1])), (vec!["default"], vec![]));
    assert_eq!(receipt["turn_seq"], turns[1]["seq"]);
    let answer = house.ccmux_ok(&["send", "--wait", "answered", "--timeout", "30", "task: say: spoken"]);
    let last = subscriber.wait_for_turns(4).remove(3);
    assert_eq!(answer.trim_end(), text_of(&last).trim_end());
}

/// What becomes of a prompt at the terminal says nothing of a message whose sub-agent still works.
#[test]
fn a_failed_or_interrupted_prompt_beside_a_background_task_refuses_no_message() {
    for at_the_terminal in ["error: 400", "silent: 60"] {
        let house = House::builder().ready();
        let subscriber = house.subscribe();
        let waiting = house.send_in_background(&["--wait", "answered", "--json", "task: silent: 8"]);
        subscriber.wait_for_turns(1);
        types(&house, at_the_terminal);
        if at_the_terminal == "error: 400" {
            let alert = subscriber.wait_for_alert("failure");
            assert_eq!(alert["alert"]["messages"], Value::Null, "{alert}");
        } else {
            house.wait_until("the prompt to be taken", || {
                house.prompts().iter().any(|it| it == at_the_terminal)
            });
            house.send_keys(&["Escape"]);
        }
        let output = waiting.wait_with_output().unwrap();
        assert!(output.status.success(), "{at_the_terminal}: {output:?}");
        let receipt: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&receipt["state"], &receipt["reason"]), (&json!("answered"), &Value::Null), "{receipt}");
    }
}

/// Acceptance D2.
#[test]
fn a_turn_of_tools_in_which_the_api_fails_is_an_alert_and_no_turn() {
    let house = House::builder().ready();
    let subscriber = house.subscribe();
    house.write("in.t", "error: 400\n");
    subscriber.wait_for_alert("failure");
    house.send("answered", "say: on it goes");
    exactly(&subscriber, &["on it goes"]);
    let receipts = house.status();
    assert_eq!(receipts.turns.published, 1);
}

#[test]
fn another_session_of_the_agent_is_followed_and_nothing_is_lost_on_the_way() {
    let house = House::builder().ready();
    let subscriber = house.subscribe();
    house.send("answered", "say: in the first");
    let first = house.status().session;
    house.write("in.t", "slow: 30\n");
    house.wait_for_screen("word1");
    house.send_keys(&["Escape"]);
    house.wait_for_screen("Interrupted");
    types(&house, "/clear");
    house.wait_until("another session", || house.status().session != first);
    let receipt = house.send("answered", "say: in the second");
    assert_eq!(receipt.state, MessageState::Answered);
    let turns = subscriber.wait_for_turns(3);
    assert!(text_of(&turns[1]).starts_with("word0 word1"), "{turns:?}");
    assert_eq!(text_of(&turns[2]), "in the second");
    let sessions: Vec<&Value> = turns.iter().map(|turn| &turn["session"]).collect();
    assert!(sessions[0] == sessions[1] && sessions[1] != sessions[2], "{sessions:?}");
}

/// One line to control.sock, and its answer.
fn ask(house: &House, frame: &Value) -> Value {
    let mut stream = UnixStream::connect(house.run_dir().join("control.sock")).unwrap();
    writeln!(stream, "{frame}").unwrap();
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).unwrap();
    serde_json::from_str(&reply).unwrap()
}

fn shows(session: &str, text: &str) -> Value {
    json!({"type": "broadcast", "session": session, "turn": [{"type": "text", "text": text}]})
}

/// The older frame: taken for the owned session only, and only if the transcript does not have the turn.
#[test]
fn a_turn_that_an_older_hook_shows_is_published_if_nobody_else_does() {
    let house = House::builder().ready();
    let subscriber = house.subscribe();
    house.send("answered", "say: from the transcript");
    let session = house.status().session.unwrap().to_string();
    for _ in 0..3 {
        assert_eq!(ask(&house, &shows(&session, "from the transcript")), json!({"ok": true}));
        assert_eq!(ask(&house, &shows(&session, "only shown")), json!({"ok": true}));
        assert_eq!(ask(&house, &shows("of-somebody-else", "forged"))["code"], "not_allowed");
    }
    let line = subscriber.wait_for_text("only shown").value;
    assert_eq!((&line["source"], &line["in_reply_to"]), (&json!("broadcast"), &json!([])));
    exactly(&subscriber, &["from the transcript", "only shown"]);
    assert!(subscriber.turns()[0].get("source").is_none());
    house.send("answered", "say: and on it goes");
}
