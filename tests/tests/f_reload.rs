//! `ccmux reload` and SIGHUP: settings that count at once, settings that wait, and a file that is broken.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;

use ccmux_tests::House;
use nix::sys::signal::Signal;

#[test]
fn settings_that_can_change_live_do_and_the_others_are_named() {
    let house = House::builder().settings("[out]\nwait = 1\n").ready();
    assert!(house.ccmux(&["send", "a message of more than ten bytes"]).status.success());
    assert!(house.log_events("hook.received").is_empty(), "debug is off");
    house.write_settings(
        "silence_timeout = 2\n[out]\nwait = 1\n[limits]\nmessage_bytes = 10\n[log]\nlevel = \"debug\"\n\
         [mcp]\nauth = \"none\"\n[draft]\nmax_hold = 7\n[channels.phone]\nallowed = [\"ann\"]\n",
    );
    let said = house.ccmux_ok(&["reload"]);
    for line in [
        "read again: screen rules of claude-code: built in",
        "read again: silence_timeout = 2.0 (",
        "read again: limits.message_bytes = 10 (",
        "read again: log.level = \"debug\" (",
        "read again: draft.max_hold = 7.0 (",
        "read again: channels.phone = {",
        "not before the daemon's next start: mcp.auth = \"none\" (",
    ] {
        assert!(said.lines().any(|told| told.starts_with(line)), "{line}\n{said}");
    }
    assert!(said.contains("ccmux.toml), was 262144"), "{said}");
    assert!(!said.contains("out.wait"), "unchanged: {said}");
    let refused = house.ccmux(&["send", "a message of more than ten bytes"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("limit"), "{refused:?}");
    let refused = house.ccmux(&["send", "-c", "phone", "hi"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("channels.phone.allowed"), "{refused:?}");
    house.send("delivered", "say: hi");
    house.wait_until("the level of the log", || !house.log_events("hook.received").is_empty());
    let recorded = || fs::read_to_string(house.state_dir().join("timeline.log")).unwrap();
    house.wait_until("the policy to hear of it", || recorded().contains("\"draft_max_hold_ms\":7000"));
    let again = house.ccmux_ok(&["reload"]);
    assert!(again.contains("settings: nothing changed") && again.contains("next start: mcp.auth"), "{again}");
}

#[test]
fn a_broken_file_is_refused_with_its_line_and_all_stays_as_it_was() {
    let house = House::builder().settings("[limits]\nmessage_bytes = 10\n").ready();
    house.write_settings("[limits]\nmessage_bites = 1000\n");
    let refused = house.ccmux(&["reload"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(4));
    for words in ["ccmux.toml", "limits.message_bites", "did you mean", "the settings in force stay"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    house.write_settings("[limits]\nmessage_bytes = \"many\"\n");
    house.signal(Signal::SIGHUP);
    house.wait_until("the refusal in the log", || house.log_events("settings.refused").len() == 2);
    assert!(!house.ccmux(&["send", "a message of more than ten bytes"]).status.success());
    house.write_settings("[limits]\nmessage_bytes = 1000\n");
    house.signal(Signal::SIGHUP);
    house.wait_until("the settings", || !house.log_events("settings.reread").is_empty());
    assert!(house.ccmux(&["send", "a message of more than ten bytes"]).status.success());
}
