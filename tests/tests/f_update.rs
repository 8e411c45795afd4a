//! Claude Code updates itself while it runs: what runs goes on, the next start is the new one, with the hooks it knows.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::os::unix::fs::symlink;

use ccmux_tests::{House, Subscriber};

/// A program that says that it is that version.
fn program(version: &str) -> String {
    format!("#!/bin/sh\nexport CCMUX_DEMO_VERSION={version}\nexec ccmux-demo-agent \"$@\"\n")
}

/// A house in which `claude` is a link to one of several versions, as the native installer makes it.
fn house() -> House {
    let mut builder = House::builder().env("CCMUX_AGENT_COMMAND", "{dir}/claude");
    for version in ["2.0.76", "2.1.332", "9.0.1"] {
        builder = builder.file(version, &program(version), 0o755);
    }
    let house = builder.build();
    link(&house, "2.1.332");
    house.start();
    house.wait_ready();
    house
}

fn link(house: &House, version: &str) {
    let new = house.path("claude.new");
    symlink(house.path(version), &new).unwrap();
    fs::rename(new, house.path("claude")).unwrap();
}

fn version(house: &House) -> String {
    house.status().agent.version.unwrap_or_default()
}

fn knows_hook(house: &House, event: &str) -> bool {
    let settings = fs::read_to_string(house.state_dir().join("claude-settings.json")).unwrap();
    let settings: serde_json::Value = serde_json::from_str(&settings).unwrap();
    settings["hooks"].get(event).is_some()
}

/// Kills the agent and waits for the next one.
fn restart(house: &House, turns: &Subscriber) {
    let (old, before) = (house.kill_agent(), turns.alerts_of("agent_restarted").len());
    house.wait_until("another agent", || turns.alerts_of("agent_restarted").len() > before);
    house.wait_ready();
    assert_ne!(house.agent_pid(), old);
    house.send("answered", "say: it works");
}

#[test]
fn the_running_session_is_untouched_and_the_next_start_is_the_new_version_with_its_own_hooks() {
    let house = house();
    let turns = house.subscribe();
    let pid = house.agent_pid();
    assert_eq!(version(&house), "2.1.332");
    assert!(knows_hook(&house, "StopFailure"));
    link(&house, "9.0.1");
    house.send("answered", "say: still the same");
    assert_eq!((house.agent_pid(), version(&house)), (pid, "2.1.332".to_owned()));
    assert!(turns.alerts_of("new_version").is_empty());

    restart(&house, &turns);
    assert_eq!(version(&house), "9.0.1");
    assert!(
        knows_hook(&house, "Stop") && !knows_hook(&house, "StopFailure"),
        "an unknown name opens a dialog"
    );
    let told = turns.wait_for_alert("new_version");
    assert!(told["alert"]["message"].as_str().unwrap().contains("9.0.1"), "{told}");

    link(&house, "2.0.76");
    restart(&house, &turns);
    assert_eq!(version(&house), "2.0.76");
    assert!(knows_hook(&house, "PreCompact") && !knows_hook(&house, "StopFailure"));
    let changes: Vec<String> =
        house.log_events("agent.version_changed").iter().map(|line| line["now"].to_string()).collect();
    assert_eq!(changes, ["\"2.1.332\"", "\"9.0.1\"", "\"2.0.76\""]);
    assert_eq!(turns.alerts_of("new_version").len(), 1);
}

#[test]
fn a_new_version_found_by_a_new_daemon_does_not_touch_the_session_either() {
    let house = house();
    let pid = house.agent_pid();
    house.kill9();
    link(&house, "9.0.1");
    house.start();
    house.wait_ready();
    house.send("answered", "say: adopted");
    assert_eq!((house.agent_pid(), version(&house)), (pid, "2.1.332".to_owned()));
    assert!(knows_hook(&house, "StopFailure"));
}

#[test]
fn a_program_that_is_away_while_it_is_being_replaced_is_started_when_it_is_there() {
    let house = house();
    fs::remove_file(house.path("claude")).unwrap();
    house.kill_agent();
    house.wait_until("a start that failed", || {
        !house.log_events("agent.start_failed").is_empty() || house.log_events("agent.exited").len() > 1
    });
    fs::write(house.path("claude.new"), program("2.1.333")).unwrap();
    let mode = fs::metadata(house.path("9.0.1")).unwrap().permissions();
    fs::set_permissions(house.path("claude.new"), mode).unwrap();
    fs::rename(house.path("claude.new"), house.path("claude")).unwrap();
    house.wait_until("the new version", || version(&house) == "2.1.333");
    house.wait_ready();
    house.send("answered", "say: it works");
}
