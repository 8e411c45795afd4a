//! The silence reminder on the real Claude Code CLI, on a mock of the model's API.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::time::Duration;

use ccmux_tests::patience::stays_quiet;
use ccmux_tests::{House, claude};
use serde_json::Value;

const SETTINGS: &str = "[routes.file]\ntype = \"command\"\nargv = [\"/bin/sh\", \"-c\", \"cat >> ~/notices\"]\n\
                        [attention]\nroutes = [\"file\"]\n[attention.reply]\nafter = 4\ncooldown = 0\n";

fn notices(house: &House) -> Vec<Value> {
    let text = fs::read_to_string(house.home().join("notices")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn no_more_than(house: &House, count: usize, seconds: u64) {
    stays_quiet(Duration::from_secs(seconds), "a notice too many", || {
        Some(notices(house)).filter(|told| told.len() > count).map(|told| format!("{told:?}"))
    });
}

fn wait_for(house: &House, count: usize) -> Vec<Value> {
    house.wait_until(&format!("{count} notices"), || notices(house).len() >= count);
    notices(house)
}

/// Acceptance G1.
#[test]
fn g1_one_reminder_a_silence_none_before_it_and_again_after_the_next_turn() {
    // On a busy machine a restart takes seconds, and must be over before the threshold.
    let Some(house) = claude::ready(&SETTINGS.replace("after = 4", "after = 12")) else { return };
    house.write("in.t", "say: first answer\n");
    let told = wait_for(&house, 1);
    assert_eq!(told[0]["title"], "Claude Code - User Input Needed");
    let body: Vec<&str> = told[0]["body"].as_str().unwrap().lines().collect();
    assert!(body[0].starts_with("Task: ") && body[0].ends_with("say: first answer"), "{body:?}");
    assert!(body[1].starts_with("Started: ") && body[2].starts_with("Duration: "), "{body:?}");
    assert_eq!(body[3..], ["Waiting for your input for 12 seconds"]);
    no_more_than(&house, 1, 6);
    // The daemon is another one in between, and the next prompt comes before the threshold.
    house.send("answered", "say: second answer");
    house.stop();
    house.start();
    house.wait_ready();
    house.send("answered", "say: third answer");
    let told = wait_for(&house, 2);
    assert!(told[1]["body"].as_str().unwrap().contains("say: third answer"), "{told:?}");
    house.wait_until("the notice to be crossed out", || house.log_events("notice.sent").len() == 2);
    house.kill9();
    house.start();
    no_more_than(&house, 2, 6);
}

#[test]
fn nobody_is_waited_for_while_a_background_task_runs() {
    let Some(house) = claude::ready(SETTINGS) else { return };
    house.write("in.t", "task: say: sub-agent says hi\n");
    let told = wait_for(&house, 1);
    assert!(told[0]["body"].as_str().unwrap().contains("task: say: sub-agent says hi"), "{told:?}");
    // The log tells of it once the command has ended.
    house.wait_until("the log", || house.log_events("notice.sent").len() == 1);
    no_more_than(&house, 1, 6);
}

#[test]
fn a_question_is_told_while_it_is_open_and_forgotten_when_it_is_answered() {
    let Some(house) = claude::ready(SETTINGS) else { return };
    house.write("in.t", "ask: Which colour?\n");
    let told = wait_for(&house, 1);
    assert_eq!(
        (told[0]["kind"].as_str(), told[0]["title"].as_str()),
        (Some("question"), Some("Claude Code - Question"))
    );
    house.send_keys(&["Enter"]);
    house.wait_until("the question to be forgotten", || !house.ccmux_ok(&["attention"]).contains("question"));
    assert_eq!(notices(&house).iter().filter(|notice| notice["kind"] == "question").count(), 1);
}

#[test]
fn a_sub_agents_end_is_told_and_then_the_turns() {
    let settings = format!("{SETTINGS}[attention.subagent_reply]\nroutes = [\"file\"]\n");
    let Some(house) = claude::ready(&settings) else { return };
    house.write("in.t", "task: say: sub-agent says hi\n");
    let told = wait_for(&house, 2);
    let kinds: Vec<&str> = told.iter().map(|notice| notice["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["subagent_reply", "reply"], "{told:?}");
}

/// Acceptance G1.
#[test]
fn g1_three_sessions_at_once_are_told_apart() {
    let settings = SETTINGS.replace("[attention]\n", "[attention]\nsessions = \"all\"\n");
    let Some(house) = claude::ready(&settings) else { return };
    let panes = [house.another_agent(false), house.another_agent(false)];
    for pane in &panes {
        house.wait_within(Duration::from_secs(60), "the other Claude's prompt box", || {
            house.tmux(&["capture-pane", "-p", "-t", pane]).contains("bypass").then_some(())
        });
    }
    house.write("in.t", "say: of the first\n");
    for (pane, which) in panes.iter().zip(["second", "third"]) {
        house.tmux(&["send-keys", "-t", pane, "-l", &format!("say: of the {which}")]);
        house.wait_until("the text in the box", || {
            house.tmux(&["capture-pane", "-p", "-t", pane]).contains(which)
        });
        house.tmux(&["send-keys", "-t", pane, "Enter"]);
    }
    let told = wait_for(&house, 3);
    for which in ["first", "second", "third"] {
        let of = |notice: &&Value| notice["body"].as_str().unwrap().contains(&format!("of the {which}"));
        assert_eq!(told.iter().filter(of).count(), 1, "{which}: {told:?}");
    }
    no_more_than(&house, 3, 6);
    for pane in &panes {
        house.tmux(&["kill-pane", "-t", pane]);
    }
}
