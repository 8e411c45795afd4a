//! What an upgrade meets: the agent, hooks and files of another version of ccmux.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use ccmux_tests::House;
use serde_json::{Value, json};

fn says(house: &House, frame: &Value) -> Value {
    let mut stream = UnixStream::connect(house.run_dir().join("control.sock")).unwrap();
    writeln!(stream, "{frame}").unwrap();
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).unwrap();
    serde_json::from_str(&reply).unwrap()
}

/// A hook of an older version knows less, one of a newer version says more: both are heard. Another version of the wire is
/// refused in words, and a hook ends silently at that.
#[test]
fn frames_of_older_and_newer_hooks_are_understood() {
    let house = House::builder().ready();
    let payload = json!({"hook_event_name": "Stop", "session_id": "another", "from_the_future": [1, 2]});
    for frame in [
        json!({"type": "hook", "event": "Stop", "payload": payload}),
        json!({"v": 1, "type": "hook", "event": "Stop", "token": null, "claude_pid": 1, "payload": payload, "more": {"a": 1}}),
        json!({"v": 1, "type": "hook", "event": "AnEventOfTomorrow", "payload": payload}),
    ] {
        assert_eq!(says(&house, &frame)["ok"], true, "{frame}");
    }
    let reply = says(&house, &json!({"v": 99, "type": "hook", "event": "Stop", "payload": payload}));
    assert!(reply["ok"] == false && reply["error"].to_string().contains("99"), "{reply}");
    house.send("answered", "say: undisturbed");
}

/// An agent that an older ccmux started is adopted: its token stays, its hook is replaced by the new one, its record lacks
/// what is new, and what an older ccmux did not know is generated.
#[test]
fn an_agent_of_an_older_daemon_is_adopted_with_a_new_hook() {
    let house = House::builder().ready();
    house.send("answered", "say: before the upgrade");
    let (agent, session) = (house.agent_pid(), house.status().session);
    let token = fs::read(house.state_dir().join("session.token")).unwrap();
    house.stop();
    let (hook, record) = (house.path("hook/ccmux-hook"), house.state_dir().join("agent.json"));
    let old_hook = house.path("hook/old");
    fs::write(&old_hook, "#!/bin/sh\nexit 0\n").unwrap();
    fs::set_permissions(&old_hook, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&old_hook, &hook).unwrap();
    let mut kept: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    kept.as_object_mut()
        .unwrap()
        .retain(|key, _| ["pid", "start_time", "session", "transcript"].contains(&key.as_str()));
    kept["of_a_later_version"] = true.into();
    fs::write(&record, kept.to_string()).unwrap();
    house.start();
    house.wait_ready();
    assert_eq!((house.agent_pid(), house.status().session), (agent, session));
    assert_eq!(fs::read(house.state_dir().join("session.token")).unwrap(), token);
    assert_eq!(fs::read(&hook).unwrap(), fs::read(house.bin("ccmux-hook")).unwrap());
    let receipt = house.send("answered", "say: after the upgrade");
    assert_eq!(receipt.proof.map(|proof| proof.word()), Some("hook"));
    house.kill_agent();
    house.wait_until("another agent", || house.status().agent.restarts == 1);
    house.wait_ready();
    house.wait_for_screen("after the upgrade");
}

/// Whoever changes `agent.command` and restarts the daemon is told that the agent goes on with the old one.
#[test]
fn an_agent_that_was_started_by_another_command_is_adopted_with_a_warning() {
    let house = House::builder().ready();
    let agent = house.agent_pid();
    house.stop();
    let command = format!("{} --verbose", house.bin("ccmux-demo-agent").display());
    house.start_with(&[("CCMUX_AGENT_COMMAND", &command)]);
    house.wait_ready();
    assert_eq!(house.agent_pid(), agent);
    assert_eq!(house.log_events("agent.command_changed").len(), 1);
    house.stop();
    house.start();
    house.wait_ready();
    assert_eq!(house.log_events("agent.command_changed").len(), 1, "it runs what is configured");
}
