//! What part of acceptance F a message in flight depends on: the agent ends, and nothing is lost or run by a shell.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::time::{Duration, Instant};

use ccmux_tests::House;
use ccmux_tests::agent::messages;
use ccmux_tests::house::is_alive;
use ccmux_tests::patience::stays_quiet;
use ccmux_wire::status::StateWord;

fn arguments(pid: i32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}

/// The agent that took the place of another.
fn replacement(house: &House, of: i32) -> i32 {
    house.wait_for("another agent", || {
        Some(house.agent_pid()).filter(|pid| *pid > 1 && *pid != of && is_alive(*pid))
    })
}

/// Acceptance F1.
#[test]
fn f1_a_killed_agent_is_back_in_its_pane_with_its_conversation() {
    let house = House::builder().ready();
    house.send("answered", "say: remember me");
    let human = house.human();
    let (pane, session) = (house.pane("#{pane_id}"), house.status().session.unwrap());
    let begun = Instant::now();
    let old = house.kill_agent();
    let new = replacement(&house, old);
    println!("replaced after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(house.pane("#{pane_id}"), pane);
    assert_eq!(house.clients().len(), 1, "the human's client was thrown out");
    house.wait_until("--resume with the own session", || {
        arguments(new).windows(2).any(|pair| pair == ["--resume".to_owned(), session.to_string()])
    });
    house.wait_ready();
    assert_eq!(house.status().agent.last_exit.as_deref(), Some("by signal 9"));
    drop(human);
    assert_eq!(house.status().agent.restarts, 1);
    house.send("answered", "say: after the crash");
    house.wait_for_screen("remember me");
}

/// Acceptance F1. Field fault 28.
#[test]
fn f1_f28_the_own_conversation_is_resumed_although_a_newer_one_is_there() {
    let house = House::builder().ready();
    house.send("answered", "say: mine");
    let own = house.status().session.unwrap().to_string();
    let transcript = house.transcript_files().pop().unwrap();
    let text = fs::read_to_string(&transcript).unwrap().replace(&own, "11111111-2222-3333-4444-555555555555");
    fs::write(transcript.with_file_name("11111111-2222-3333-4444-555555555555.jsonl"), text).unwrap();
    let old = house.kill_agent();
    let new = replacement(&house, old);
    house.wait_until("--resume", || arguments(new).contains(&"--resume".to_owned()));
    assert!(arguments(new).contains(&own), "{:?}", arguments(new));
    house.wait_ready();
    assert_eq!(house.status().session.unwrap().to_string(), own);
}

/// Acceptance F1. Field fault 28.
#[test]
fn f1_f28_without_a_conversation_a_killed_agent_starts_afresh() {
    let house = House::builder().ready();
    let old = house.kill_agent();
    replacement(&house, old);
    house.wait_ready();
    house.send("answered", "say: fresh");
}

/// Acceptance F1. Field fault 29.
#[test]
fn f1_f29_messages_that_waited_when_the_agent_was_killed_reach_the_next_one_only() {
    let house = House::builder().ready();
    house.write("in.t", "slow: 60\n");
    house.wait_for_prompt("slow: 60");
    let marker = house.proj().join("RAN");
    for (n, line) in ["touch RAN", "say: second"].into_iter().enumerate() {
        house.write("in.t", format!("{line}\n"));
        house.wait_until("it to wait", || house.status().queue.messages == n as u64 + 1);
    }
    let old = house.kill_agent();
    replacement(&house, old);
    let prompt = house.wait_for_prompt("touch RAN");
    assert_eq!(
        messages(&prompt),
        [("t".to_owned(), "touch RAN".to_owned()), ("t".to_owned(), "say: second".to_owned())]
    );
    assert!(!marker.exists(), "a shell ran a message");
    house.wait_until("an empty queue", || house.status().queue.messages == 0);
    assert_eq!(house.prompts().len(), 2, "{:?}", house.prompts());
}

/// Acceptance F1, C7.
#[test]
fn f1_c7_agents_killed_at_any_moment_of_a_batch_harm_neither_tmux_nor_messages() {
    let house = House::builder().env("CCMUX_BACKOFF_INITIAL", "0.1").env("CCMUX_BACKOFF_CAP", "0.2").ready();
    let server = house.pane("#{pid}");
    let moments = [0, 10, 20, 40, 80, 110, 125, 140, 200, 300];
    for (n, after_ms) in moments.into_iter().enumerate() {
        house.wait_ready();
        house.write("in.t", format!("say: moment {n}\n"));
        house.wait_until("the message to be accepted", || house.log_events("message.accepted").len() > n);
        std::thread::sleep(Duration::from_millis(after_ms));
        let old = house.kill_agent();
        replacement(&house, old);
        house.wait_until("the message to be settled", || house.status().queue.messages == 0);
    }
    assert_eq!(house.pane("#{pid}"), server, "the tmux server died");
    house.wait_ready();
    house.send("answered", "say: last");
    for n in 0..moments.len() {
        let times = house.prompts().iter().filter(|prompt| prompt.contains(&format!("moment {n}"))).count();
        // Killed between its hook and its transcript line, the agent proved what it then forgot.
        assert!(times <= 1, "moment {n} came {times} times: {:?}", house.prompts());
    }
}

/// Acceptance F2.
#[test]
fn f2_an_agent_that_exits_at_once_is_started_at_growing_intervals() {
    let house = House::builder().agent("CCMUX_DEMO_EXIT", 7).build();
    house.start();
    house.wait_until("four starts", || house.log_events("agent.started").len() >= 4);
    let at = |line: &serde_json::Value| {
        let text = line["timestamp"].as_str().unwrap().to_owned();
        let part = |range: std::ops::Range<usize>| text[range].parse::<f64>().unwrap();
        part(11..13) * 3600.0 + part(14..16) * 60.0 + part(17..26)
    };
    let starts: Vec<f64> = house.log_events("agent.started").iter().map(at).collect();
    let pauses: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (pause, expected) in pauses.iter().zip([1.0, 2.0, 4.0]) {
        assert!((expected - 0.05..expected + 1.5).contains(pause), "{pauses:?}");
    }
    let exits = house.log_events("agent.exited");
    assert!(exits[0].to_string().contains('7'), "the exit code is not told: {}", exits[0]);
}

/// Acceptance F3.
#[test]
fn f3_a_tmux_server_that_was_killed_is_replaced_within_ten_seconds() {
    let house = House::builder().ready();
    house.send("answered", "say: before");
    house.tmux(&["kill-server"]);
    let begun = Instant::now();
    house.wait_within(Duration::from_secs(10), "session and agent", || {
        (house.agent_pid() > 1 && is_alive(house.agent_pid())).then_some(())
    });
    println!("back after {:?}", begun.elapsed());
    house.wait_ready();
    house.send("answered", "say: after");
}

/// Acceptance F4.
#[test]
fn f4_a_clear_is_no_end_and_its_session_is_followed() {
    let house = House::builder().ready();
    let subscriber = house.subscribe();
    let (agent, before) = (house.agent_pid(), house.status().session);
    house.send("answered", "say: before");
    house.send_keys(&["-l", "/clear"]);
    house.wait_for_screen("/clear");
    house.send_keys(&["Enter"]);
    house.wait_until("another session", || house.status().session != before);
    house.wait_ready();
    house.send("answered", "say: after");
    subscriber.wait_for_text("after");
    assert_eq!((house.agent_pid(), house.status().agent.restarts), (agent, 0));
}

/// Acceptance F4.
#[test]
fn f4_an_exit_of_the_human_is_followed_by_a_start_unless_told_otherwise() {
    for restart in [true, false] {
        let house = House::builder().settings(&format!("[agent]\nrestart_on_exit = {restart}\n")).ready();
        let old = house.agent_pid();
        house.send_keys(&["-l", "/exit"]);
        house.wait_for_screen("/exit");
        house.send_keys(&["Enter"]);
        if restart {
            replacement(&house, old);
            house.wait_ready();
        } else {
            house.wait_for_state(StateWord::Down);
            stays_quiet(Duration::from_secs(2), "it was started again", || {
                house.status().agent.pid.map(|pid| pid.to_string())
            });
            house.write("in.t", "say: at last\n");
            house.wait_until("the reason", || {
                let why = house.why();
                why.contains("not started again (agent.restart_on_exit = false)")
                    && why.contains("ccmux reload")
            });
            house.write_settings("");
            house.ccmux_ok(&["reload"]);
            house.wait_for_prompt("say: at last");
        }
    }
}

fn types(house: &House, text: &str) {
    house.send_keys(&["-l", text]);
    house.wait_for_screen(text);
    house.send_keys(&["Enter"]);
}

/// Acceptance F4, A4. A turn that ended without a daemon, in a session that was left without one, too.
#[test]
fn f4_a4_a_session_that_was_left_while_the_daemon_was_away_has_its_turns_published() {
    let house = House::builder().ready();
    house.send("answered", "say: before");
    let (agent, before) = (house.agent_pid(), house.status().session);
    house.kill9();
    let ends = |count: usize| {
        house.wait_until("the turn's end", || {
            house.transcript().iter().filter(|line| line["subtype"] == "turn_duration").count() >= count
        });
    };
    types(&house, "say: nobody heard this");
    ends(2);
    types(&house, "/clear");
    house.wait_until("an empty conversation", || !house.screen().contains("nobody heard this"));
    house.start();
    house.wait_ready();
    let subscriber = house.subscribe_with("{\"since\":0}\n");
    subscriber.wait_for_text("nobody heard this");
    house.send("answered", "say: after");
    subscriber.wait_for_text("after");
    assert_eq!(subscriber.turns().len(), 3, "{:?}", subscriber.turns());
    assert_ne!(house.status().session, before);
    assert_eq!((house.agent_pid(), house.status().agent.restarts), (agent, 0));
}

/// An agent that has grown is started anew between two turns, with its conversation, and not as if it had crashed.
#[test]
fn an_agent_that_takes_too_much_memory_is_started_anew_at_a_turns_end() {
    let house = House::builder().settings("[agent]\nmax_rss = 1000000\n").ready();
    let (subscriber, old, session) = (house.subscribe(), house.agent_pid(), house.status().session);
    house.write("in.t", "say: one\n");
    let new = replacement(&house, old);
    let said = subscriber.wait_for_alert("agent_exited")["alert"]["message"].to_string();
    assert!(said.contains(&format!("(pid {old}) takes ")) && said.contains("agent.max_rss"), "{said}");
    house.wait_until("--resume", || arguments(new).contains(&"--resume".to_owned()));
    subscriber.wait_for_text("one");
    house.wait_until("the state of a new agent", || house.status().agent.pid == Some(new));
    assert_eq!(house.status().session, session);
    assert!(subscriber.alerts_of("degraded").is_empty());
}
