//! Acceptance E on the real Claude Code CLI: it answers on channels by each of the three entries, and by the default one
//! whatever becomes of the daemon.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::thread::sleep;
use std::time::{Duration, Instant};

use ccmux_tests::adapter::results;
use ccmux_tests::claude;
use ccmux_tests::house::House;

/// As long as Claude takes to give up a server that it has lost, and some seconds more (F 57).
const AWAY: Duration = Duration::from_secs(60);

/// Waits for a daemon that is away, and then for Claude.
const LATE: Duration = Duration::from_secs(60);

fn entry(word: &str) -> String {
    format!("[mcp]\nentry = \"{word}\"\n")
}

/// One call, and an error.
fn answers(house: &House) {
    let got = house.adapter("test");
    let turns = house.subscribe();
    house.write("in.t", "mcp: test hello from claude\n");
    assert_eq!(house.wait_for_lines(&got, 1), ["hello from claude"]);
    turns.wait_for_turns(1);
    house.write("in.t", "mcp: nowhere x\n");
    let found = turns.wait_for_turns(2);
    let results: Vec<(bool, String)> = found.iter().flat_map(results).collect();
    let errors: Vec<bool> = results.iter().map(|(is_error, _)| *is_error).collect();
    assert_eq!(errors, [false, true], "{results:?}");
    assert!(results[1].1.contains("these take messages: test"), "{results:?}");
}

/// Acceptance E1.
#[test]
fn e1_the_real_claude_answers_over_stdio() {
    let Some(house) = claude::ready(&(entry("stdio") + "[log]\nlevel = \"debug\"\n")) else { return };
    answers(&house);
    house.wait_until("calls of the own session", || {
        let calls = house.log_events("tool.called");
        calls.len() == 2 && calls.iter().all(|call| call["own"] == true)
    });
}

/// Acceptance E1.
#[test]
fn e1_the_real_claude_answers_over_streamable_http() {
    if let Some(house) = claude::ready(&entry("http")) {
        answers(&house);
    }
}

/// Acceptance E1.
#[test]
fn e1_the_real_claude_answers_over_server_sent_events() {
    if let Some(house) = claude::ready(&entry("sse")) {
        answers(&house);
    }
}

/// Acceptance E1.
#[test]
fn e1_the_real_claude_is_not_asked_for_permission_in_its_default_mode() {
    let Some(claude) = claude::or_skip() else { return };
    let mut house = House::with_claude(&claude);
    house.env_remove("CCMUX_AGENT_COMMAND");
    house.write_settings(&format!("[agent]\ncommand = \"{}\"\n", claude.display()));
    house.start();
    house.wait_ready();
    answers(&house);
}

/// Keys of somebody at the terminal: there is no daemon to type.
fn type_line(house: &House, pane: &str, line: &str) {
    house.tmux(&["send-keys", "-t", pane, "-l", line]);
    house
        .wait_until("the line in the box", || house.tmux(&["capture-pane", "-p", "-t", pane]).contains(line));
    house.tmux(&["send-keys", "-t", pane, "Enter"]);
}

/// Acceptance E5. Field fault 34.
#[test]
fn e5_f34_the_tool_is_there_after_a_restart_and_after_a_minute_without_a_daemon() {
    outlives_the_daemon("");
}

/// Claude holds no stream that it could lose: docs/adr/0018.
///
/// Acceptance E5. Field fault 34.
#[test]
fn e5_f34_over_streamable_http_it_is_there_too() {
    outlives_the_daemon(&entry("http"));
}

fn outlives_the_daemon(settings: &str) {
    let Some(house) = claude::ready(settings) else { return };
    let got = house.adapter("test");
    house.write("in.t", "mcp: test one\n");
    house.wait_for_lines(&got, 1);
    house.kill9();
    house.start();
    house.write("in.t", "mcp: test two\n");
    house.wait_for_lines(&got, 2);
    house.kill9();
    sleep(AWAY);
    house.start();
    house.write("in.t", "mcp: test three\n");
    assert_eq!(house.wait_long_for_lines(&got, 3, LATE), ["one", "two", "three"]);
}

/// Acceptance E5. Field fault 34.
#[test]
fn e5_f34_a_call_while_the_daemon_is_away_waits_for_it() {
    let Some(house) = claude::ready("") else { return };
    let got = house.adapter("test");
    let turns = house.subscribe();
    house.write("in.t", "mcp: test one\n");
    turns.wait_for_turns(1);
    let pane = house.pane("#{pane_id}");
    house.kill9();
    type_line(&house, &pane, "mcp: test two");
    house.wait_until("the call to run", || house.screen().contains("esc to interrupt"));
    let began = Instant::now();
    sleep(Duration::from_secs(10)); // longer than any retry of Claude itself
    house.start();
    assert_eq!(house.wait_for_lines(&got, 2), ["one", "two"]);
    assert!(began.elapsed() >= Duration::from_secs(10));
}

/// Acceptance E5. Field fault 34.
#[test]
fn e5_f34_claude_may_be_there_before_the_daemon() {
    let Some(house) = claude::ready("") else { return };
    let got = house.adapter("test");
    house.kill9();
    let pane = house.another_agent(true);
    let screen = || house.tmux(&["capture-pane", "-p", "-t", &pane]);
    house.wait_until("a second Claude", || screen().contains("\u{276f}\u{a0}"));
    sleep(Duration::from_secs(15)); // longer than Claude tries a server that is not there (F 57)
    house.start();
    type_line(&house, &pane, "mcp: test from the second");
    assert_eq!(house.wait_for_lines(&got, 1), ["from the second"]);
}
