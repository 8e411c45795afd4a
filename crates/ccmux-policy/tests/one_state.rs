//! `ccmux status` and `ccmux why` say the same word: whatever closes the gate of an idle agent is its state, too.

#![allow(clippy::unwrap_used)]

use ccmux_policy::timeline::parse_event;
use ccmux_policy::{Mono, Now, PolicySettings, Supervisor, UnixMs};

/// An agent that was seen idle, then what happened, then what both say at that time.
fn words(happened: &[(u64, &str)], at: u64) -> (String, String) {
    let now = |at: u64| Now { mono: Mono(at), wall: UnixMs(at as i64), utc_offset_s: 0 };
    let mut policy = Supervisor::new(PolicySettings { idle_threshold_ms: 0, ..PolicySettings::default() });
    let begun = [
        (0, "daemon_started next_batch=1"),
        (0, "agent_found pid=100 session=s1"),
        (5, "state_file_read status=idle"),
        (10, "screen_seen look=1 class=ready holds=nothing"),
    ];
    for (at, line) in begun.iter().chain(happened) {
        policy.handle(parse_event(line).unwrap(), now(*at));
        while policy.next_effect().is_some() {}
    }
    let status = policy.status(now(at));
    let why = status.gate.strip_prefix("closed: ").and_then(|line| line.split_once(": "));
    let why = why.map_or(status.gate.clone(), |(word, _)| word.to_owned());
    (status.state.word().to_owned(), why)
}

#[test]
fn just_after_a_turn_both_say_ready() {
    let turn = [
        (1000, "state_file_read status=busy"),
        (2000, "state_file_read status=idle"),
        (2000, "state_asked"),
        (2010, "screen_seen look=2 class=ready holds=nothing"),
    ];
    assert_eq!(words(&turn[..1], 1500), ("busy".to_owned(), "busy".to_owned()));
    assert_eq!(words(&turn, 2100), ("ready".to_owned(), "ready".to_owned()));
    assert_eq!(words(&turn, 2400), ("ready".to_owned(), "open".to_owned()));
}

#[test]
fn what_a_look_shows_is_the_state_in_both() {
    for (line, word) in [
        ("screen_seen look=2 class=ready holds=nothing vim_normal=true", "draft"),
        ("screen_seen look=2 class=draft holds=foreign", "draft"),
        ("screen_seen look=2 class=ready holds=nothing copy_mode=true", "copy_mode"),
        ("screen_seen look=2 class=shell holds=nothing", "unknown"),
    ] {
        assert_eq!(
            words(&[(5000, "state_asked"), (5010, line)], 5010),
            (word.to_owned(), word.to_owned()),
            "{line}"
        );
    }
}
