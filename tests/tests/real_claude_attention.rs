//! The silence reminder on the real Claude Code CLI, on a mock of the model's API.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use ccmux_tests::claude;
use ccmux_tests::notices::into_a_file;
use serde_json::Value;

const SETTINGS: &str = "[attention]\nroutes = [\"file\"]\n[attention.reply]\nafter = 4\ncooldown = 0\n";

/// Acceptance G1.
#[test]
fn g1_one_reminder_a_silence_none_before_it_and_again_after_the_next_turn() {
    // On a busy machine a restart takes seconds, and must be over before the threshold.
    let Some(house) = claude::ready(&into_a_file(&SETTINGS.replace("after = 4", "after = 12"))) else {
        return;
    };
    house.write("in.t", "say: first answer\n");
    let told = house.wait_for_notices(1);
    assert_eq!(told[0]["title"], "Claude Code - User Input Needed");
    let body: Vec<&str> = told[0]["body"].as_str().unwrap().lines().collect();
    assert!(body[0].starts_with("Task: ") && body[0].ends_with("say: first answer"), "{body:?}");
    assert!(body[1].starts_with("Started: ") && body[2].starts_with("Duration: "), "{body:?}");
    assert_eq!(body[3..], ["Waiting for your input for 12 seconds"]);
    house.no_more_notices_than(1, Duration::from_secs(6));
    // The daemon is another one in between, and the next prompt comes before the threshold.
    house.send("answered", "say: second answer");
    house.stop();
    house.start();
    house.wait_ready();
    house.send("answered", "say: third answer");
    let told = house.wait_for_notices(2);
    assert!(told[1]["body"].as_str().unwrap().contains("say: third answer"), "{told:?}");
    house.wait_until("the notice to be crossed out", || house.log_events("notice.sent").len() == 2);
    house.kill9();
    house.start();
    house.no_more_notices_than(2, Duration::from_secs(6));
}

#[test]
fn nobody_is_waited_for_while_a_background_task_runs() {
    let Some(house) = claude::ready(&into_a_file(SETTINGS)) else { return };
    house.write("in.t", "task: say: sub-agent says hi\n");
    let told = house.wait_for_notices(1);
    assert!(told[0]["body"].as_str().unwrap().contains("task: say: sub-agent says hi"), "{told:?}");
    // The log tells of it once the command has ended.
    house.wait_until("the log", || house.log_events("notice.sent").len() == 1);
    house.no_more_notices_than(1, Duration::from_secs(6));
}

#[test]
fn a_question_is_told_while_it_is_open_and_forgotten_when_it_is_answered() {
    let Some(house) = claude::ready(&into_a_file(SETTINGS)) else { return };
    house.write("in.t", "ask: Which colour?\n");
    let told = house.wait_for_notices(1);
    assert_eq!(
        (told[0]["kind"].as_str(), told[0]["title"].as_str()),
        (Some("question"), Some("Claude Code - Question"))
    );
    house.send_keys(&["Enter"]);
    house.wait_until("the question to be forgotten", || !house.ccmux_ok(&["attention"]).contains("question"));
    assert_eq!(house.notices().iter().filter(|notice| notice["kind"] == "question").count(), 1);
}

#[test]
fn a_sub_agents_end_is_told_and_then_the_turns() {
    let settings = format!("{SETTINGS}[attention.subagent_reply]\nroutes = [\"file\"]\n");
    let Some(house) = claude::ready(&into_a_file(&settings)) else { return };
    house.write("in.t", "task: say: sub-agent says hi\n");
    let told = house.wait_for_notices(2);
    let kinds: Vec<&str> = told.iter().map(|notice| notice["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["subagent_reply", "reply"], "{told:?}");
}

/// Acceptance G1.
#[test]
fn g1_three_sessions_at_once_are_told_apart() {
    let settings = SETTINGS.replace("[attention]\n", "[attention]\nsessions = \"all\"\n");
    let Some(house) = claude::ready(&into_a_file(&settings)) else { return };
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
    let told = house.wait_for_notices(3);
    for which in ["first", "second", "third"] {
        let of = |notice: &&Value| notice["body"].as_str().unwrap().contains(&format!("of the {which}"));
        assert_eq!(told.iter().filter(of).count(), 1, "{which}: {told:?}");
    }
    house.no_more_notices_than(3, Duration::from_secs(6));
    for pane in &panes {
        house.tmux(&["kill-pane", "-t", pane]);
    }
}
