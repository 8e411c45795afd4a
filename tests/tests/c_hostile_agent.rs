//! Field faults 7, 17, 18, 20 and 29 on the demo agent: a poisoned message, an agent that is silent, restless, interrupted or
//! killed, a shell where the agent was.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::time::Duration;

use ccmux_tests::agent::messages;
use ccmux_tests::patience::{at_once, stays_quiet};
use ccmux_tests::{House, HouseBuilder};
use ccmux_wire::status::StateWord;

/// Field fault 7.
#[test]
fn a_poisoned_message_among_a_hundred_is_given_up_and_the_hundred_arrive() {
    let house = House::builder().agent("CCMUX_DEMO_POISON", "arsenic").ready();
    let alerts = house.subscribe();
    house.write("in.t", "slow: 2\n");
    house.wait_for_prompt("slow: 2");
    let texts: Vec<String> = (0..100).map(|n| format!("say: n{n}")).collect();
    let mut lines: Vec<String> = texts.clone();
    lines.insert(40, "say: arsenic".to_owned());
    house.write("in.t", format!("{}\n", lines.join("\n")));
    house.wait_within(Duration::from_secs(240), "all of them", || {
        (house.messages().len() == 101 && house.status().queue.messages == 0).then_some(())
    });
    let failed = alerts.wait_for_alert("failed");
    assert_eq!(failed["alert"]["messages"].as_array().map(Vec::len), Some(1), "{failed}");
    assert_eq!(alerts.alerts_of("failed").len(), 1);
    let mut expected = vec!["slow: 2".to_owned()];
    expected.extend(texts);
    house.arrived_once("t", &expected);
    house.claims_are_true();
}

/// Field fault 17.
#[test]
fn a_long_silent_tool_call_is_not_ready_whatever_witnesses_there_are() {
    at_once([("", ""), ("off", ""), ("", "off"), ("off", "off")], |(state_file, hooks)| {
        let house = House::builder()
            .env("CCMUX_SILENCE_TIMEOUT", "0.3")
            .agent("CCMUX_DEMO_STATE_FILE", state_file)
            .agent("CCMUX_DEMO_HOOKS", hooks)
            .ready();
        house.write("in.t", "bash: sleep 6\n");
        house.wait_for_screen("sleep 6");
        house.wait_for_state(StateWord::Busy);
        house.write("in.t", "say: not into the tool call\n");
        stays_quiet(Duration::from_secs(4), "it was taken for ready", || {
            Some(house.screen()).filter(|screen| screen.contains("not into the tool call"))
        });
        house.wait_for_prompt("not into the tool call");
    });
}

/// Field fault 17.
#[test]
fn an_agent_that_redraws_at_rest_is_ready_all_the_same() {
    let cases = [("5", ""), ("50", ""), ("1000", ""), ("50", "off")];
    at_once(cases, |(every_ms, state_file)| {
        let house = House::builder()
            .env("CCMUX_SILENCE_TIMEOUT", "0.3")
            .agent("CCMUX_DEMO_IDLE_REDRAW_MS", every_ms)
            .agent("CCMUX_DEMO_STATE_FILE", state_file)
            .ready();
        let texts: Vec<String> = (0..3).map(|n| format!("say: n{n}")).collect();
        for text in &texts {
            house.send("delivered", text);
        }
        house.wait_ready();
        house.arrived_once("default", &texts);
        house.claims_are_true();
    });
}

/// Field fault 18.
#[test]
fn a_pipe_that_is_broken_again_and_again_is_mounted_within_five_seconds_each_time() {
    let house = House::builder().settings("[log]\nlevel = \"debug\"\n").ready();
    let piped = || house.pane("#{pane_pipe}") == "1";
    let mounted = || house.log_events("pane.watched").len();
    for time in 0..8 {
        house.wait_until("the pane to be watched", piped);
        let before = mounted();
        house.tmux(&["pipe-pane", "-t", "=ccmux:"]);
        house.wait_within(Duration::from_secs(5), &format!("the watch, time {time}"), || {
            (mounted() > before && piped()).then_some(())
        });
    }
    // Another program took the pipe, and ended.
    house.tmux(&["pipe-pane", "-t", "=ccmux:", "exec sleep 0.5"]);
    house.send("delivered", "say: while somebody else had the pipe");
    house.wait_within(Duration::from_secs(5), "the watch", || piped().then_some(()));
}

/// Field fault 20.
#[test]
fn esc_in_mid_turn_and_an_api_error_return_to_ready_and_to_the_queue() {
    let words = [
        "slow: 60",
        "silent: 60",
        "bash: sleep 60",
        "ask: Which one?",
        "error: 500",
        "error: 529",
        "cut: half",
    ];
    let cases = words.into_iter().flat_map(|word| [(word, ""), (word, "off")]).collect::<Vec<_>>();
    for some in cases.chunks(4) {
        at_once(some, |(word, state_file)| {
            let house = House::builder().agent("CCMUX_DEMO_STATE_FILE", state_file).ready();
            house.write("in.t", format!("{word}\n"));
            house.wait_for_prompt(word);
            house.write("in.t", "say: next in the queue\n");
            house.wait_until("it to be accepted", || house.log_events("message.accepted").len() == 2);
            if word.contains("60") || word.starts_with("ask") {
                house.wait_until("it to wait", || house.status().queue.messages == 1);
                std::thread::sleep(Duration::from_millis(300));
                house.send_keys(&["Escape"]);
            }
            if word.starts_with("silent") {
                // Nothing was answered yet: the prompt comes back into the box, where it is the human's.
                house.wait_for_screen("❯\u{a0}[");
                house.gets_no_more_than(1);
                house.send_keys(&["C-u"]);
            }
            house.wait_for_prompt("next in the queue");
            house.wait_ready();
            house.arrived_once("t", &[(*word).to_owned(), "say: next in the queue".into()]);
        });
    }
}

/// An `agent.command` that is a shell script: it runs the agent as a child, and goes on afterwards.
fn wrapped(behind: &str, renderer: &str) -> HouseBuilder {
    let agent = ccmux_tests::binaries::folder().join("ccmux-demo-agent");
    let script = format!("#!/bin/sh\n{} \"$@\"\n{behind}\n", agent.display());
    House::builder()
        .env("CCMUX_AGENT_COMMAND", "{dir}/home/agent")
        .agent("CCMUX_DEMO_RENDERER", renderer)
        .file("home/agent", &script, 0o755)
}

/// Field fault 29.
#[test]
fn a_shell_around_the_agent_never_gets_a_byte_and_the_reason_is_told() {
    let behinds =
        ["exec sh -i", "while read -r line; do echo \"$line\" >> \"$HOME/heard\"; eval \"$line\"; done"];
    let cases = behinds.into_iter().flat_map(|behind| [(behind, ""), (behind, "classic")]);
    at_once(cases, |(behind, renderer)| {
        let house = wrapped(behind, renderer).build();
        house.start();
        house.wait_for_screen("❯\u{a0}");
        house.write("in.t", "touch RAN\n");
        house.wait_until("the reason", || house.why().contains("a script must exec it"));
        let shell = house.agent_pid();
        let agent = house.wait_for("the agent in the shell", || {
            fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"))
                .ok()?
                .trim()
                .parse::<i32>()
                .ok()
        });
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(agent), nix::sys::signal::Signal::SIGKILL).unwrap();
        house.write("in.t", "touch RAN\n");
        stays_quiet(Duration::from_secs(4), "the shell got something", || {
            let heard = fs::read_to_string(house.home().join("heard")).unwrap_or_default();
            let ran = house.proj().join("RAN").exists() || house.screen().contains("RAN");
            (ran || !heard.is_empty()).then(|| format!("{heard}\n{}", house.screen()))
        });
        assert_eq!(house.agent_pid(), shell);
        assert_eq!(house.status().queue.messages, 2);
    });
}

/// Field fault 29.
#[test]
fn an_agent_that_execs_itself_out_of_a_script_is_served() {
    let agent = ccmux_tests::binaries::folder().join("ccmux-demo-agent");
    let script = format!("#!/bin/sh\nexec {} \"$@\"\n", agent.display());
    let house =
        House::builder().env("CCMUX_AGENT_COMMAND", "{dir}/home/agent").file("home/agent", &script, 0o755);
    let house = house.ready();
    house.send("delivered", "say: through a script");
}

/// Field fault 29.
#[test]
fn a_shell_that_the_user_put_into_the_dead_pane_never_gets_a_byte() {
    let house = House::builder().env("CCMUX_BACKOFF_INITIAL", "3").env("CCMUX_BACKOFF_CAP", "3").ready();
    house.write("in.t", "slow: 60\n");
    house.wait_for_prompt("slow: 60");
    house.write("in.t", "touch RAN\n");
    house.wait_until("it to wait", || house.status().queue.messages == 1);
    house.kill_agent();
    house.wait_until("the dead pane", || house.pane("#{pane_dead}") == "1");
    house.tmux(&["respawn-pane", "-t", "=ccmux:", "-c", &house.proj().display().to_string(), "sh", "-i"]);
    stays_quiet(Duration::from_secs(8), "the shell got something", || {
        let screen = house.screen();
        (house.proj().join("RAN").exists() || screen.contains("RAN")).then_some(screen)
    });
    assert_eq!(house.pane("#{pane_dead}"), "0");
    // The user leaves it: the agent comes back into the pane, and the message goes in.
    house.send_keys(&["-l", "exit"]);
    house.send_keys(&["Enter"]);
    let prompt = house.wait_for_prompt("touch RAN");
    assert_eq!(messages(&prompt), [("t".to_owned(), "touch RAN".to_owned())]);
    assert!(!house.proj().join("RAN").exists());
}

/// Field fault 29. Acceptance C7.
#[test]
fn agents_killed_at_any_moment_of_an_injection_lose_and_double_nothing() {
    const ROUNDS: usize = 16;
    at_once(0..3_usize, |offset| {
        let house = House::builder()
            .env("CCMUX_BACKOFF_INITIAL", "0.1")
            .env("CCMUX_BACKOFF_CAP", "0.2")
            .agent("CCMUX_DEMO_START_MS", 150)
            .ready();
        let server = house.pane("#{pid}");
        for round in 0..ROUNDS {
            house.wait_ready();
            house.write("in.t", format!("say: round {round} of it\n"));
            house.wait_until("it to be accepted", || house.log_events("message.accepted").len() > round);
            std::thread::sleep(Duration::from_millis((round * 3 + offset) as u64 * 8));
            house.kill_agent();
            house.wait_until("it to be settled", || house.status().queue.messages == 0);
        }
        assert_eq!(house.pane("#{pid}"), server, "the tmux server died");
        let claimed = house.log_events("batch.delivered").len();
        assert_eq!(claimed, ROUNDS, "{:?}", house.log_events("batch.uncertain"));
        let times = |round| {
            house.prompts().iter().filter(|prompt| prompt.contains(&format!("round {round} "))).count()
        };
        let times: Vec<usize> = (0..ROUNDS).map(times).collect();
        // An agent that is killed between its hook and its transcript's line forgets what it proved.
        println!("{} of {ROUNDS} forgotten by the agent", times.iter().filter(|times| **times == 0).count());
        assert!(times.iter().all(|times| *times <= 1), "{times:?}");
    });
}
