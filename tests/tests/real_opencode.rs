//! The real OpenCode CLI with ccmux's plugin, on a mock of a model's provider: the notices are exactly these.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use ccmux_tests::notices::into_a_file;
use ccmux_tests::opencode::{Opencode, PATIENCE, or_skip};
use ccmux_tests::{House, HouseBuilder};
use serde_json::json;

const SETTINGS: &str = "[attention]\nroutes = [\"file\"]\n[attention.reply]\nafter = 2\ncooldown = 0\n";

fn house(more: &str) -> House {
    HouseBuilder::default().settings(&into_a_file(&format!("{SETTINGS}{more}"))).ready()
}

/// The next notice, as kind, title and body.
fn notice(house: &House, number: usize) -> (String, String, String) {
    let is_there = || (house.notices().len() > number).then_some(());
    house.wait_within(PATIENCE, &format!("notice {number}"), is_there);
    let text = |key: &str| house.notices()[number][key].as_str().unwrap().to_owned();
    (text("kind"), text("title"), text("body"))
}

fn waits(house: &House) -> String {
    house.ccmux_ok(&["attention"])
}

/// Acceptance G4.
#[test]
fn run_is_told_once_though_its_process_is_gone_and_what_it_rejects_is_silent() {
    let Some(program) = or_skip() else { return };
    let house = house("");
    let opencode = Opencode::of(&house, program);
    opencode.run("plain hello");
    let (kind, title, body) = notice(&house, 0);
    assert_eq!((kind.as_str(), title.as_str()), ("reply", "OpenCode - User Input Needed"));
    // `run` puts quotes around what it was given.
    assert!(body.starts_with("Task: \"plain hello\"\nStarted: 20"), "{body}");
    assert!(body.ends_with("\nWaiting for your input for 2 seconds"), "{body}");
    opencode.run("TOOL bash {\"command\":\"echo no\",\"description\":\"say no\"}");
    house.no_more_notices_than(1, Duration::from_secs(4));
    assert!(!waits(&house).contains("permission"), "{}", waits(&house));
}

/// Acceptance G4.
#[test]
fn permission_question_sub_agent_error_and_abort_of_a_server() {
    let Some(program) = or_skip() else { return };
    let house = house("[attention.subagent_reply]\nroutes = [\"file\"]\n");
    let mut opencode = Opencode::of(&house, program);
    opencode.serve();
    let session = opencode.prompted("TOOL bash {\"command\":\"echo CANARY\",\"description\":\"say hi\"}");
    let (kind, title, body) = notice(&house, 0);
    assert_eq!((kind.as_str(), title.as_str()), ("permission", "OpenCode - Permission Needed"));
    assert!(body.starts_with("Tool: bash\nSession: ") && !body.contains("CANARY"), "{body}");
    assert!(waits(&house).contains("permission"));
    let permission = opencode.asked("permission");
    opencode.ask("POST", &format!("/permission/{permission}/reply"), Some(json!({"reply": "once"})));
    assert_eq!(notice(&house, 1).0, "reply");
    assert!(!waits(&house).contains("permission"), "{}", waits(&house));
    let question = r#"TOOL question {"questions":[{"question":"Which color?","header":"Color","options":[{"label":"Red","description":"r"}]}]}"#;
    opencode.prompt(&session, question);
    let (kind, _, body) = notice(&house, 2);
    assert!(kind == "question" && body.starts_with("Which color?\n"), "{kind} {body}");
    // Esc: the question stays in OpenCode's list, and nobody is waited for.
    opencode.ask("POST", &format!("/session/{session}/abort"), None);
    let is_gone = || (waits(&house) == "nothing waits for you\n").then_some(());
    house.wait_within(PATIENCE, "the question to be forgotten", is_gone);
    house.no_more_notices_than(3, Duration::from_secs(4));
    let task = r#"TOOL task {"description":"sub job","prompt":"child says hi","subagent_type":"general"}"#;
    opencode.prompted(task);
    assert_eq!(notice(&house, 3).0, "subagent_reply");
    assert_eq!(notice(&house, 4).0, "reply");
    opencode.prompted("HTTP 400 https://CANARY.example/v1?key=CANARY is bad");
    let (kind, title, body) = notice(&house, 5);
    assert_eq!((kind.as_str(), title.as_str()), ("failure", "OpenCode - Turn Failed"));
    assert!(body.starts_with("Error: APIError") && !body.contains("CANARY"), "{body}");
    house.no_more_notices_than(6, Duration::from_secs(4));
}

/// Acceptance G4.
#[test]
fn escape_in_the_terminal_and_what_is_approved_at_once_are_silent() {
    let Some(program) = or_skip() else { return };
    let house = house("");
    let opencode = Opencode::of(&house, program);
    let pane = house.opencode_pane(&opencode, &["--auto"]);
    house.tmux(&[
        "send-keys",
        "-t",
        &pane,
        "-l",
        "TOOL bash {\"command\":\"echo hi\",\"description\":\"hi\"}",
    ]);
    house.tmux(&["send-keys", "-t", &pane, "Enter"]);
    assert_eq!(notice(&house, 0).0, "reply", "the only one: the permission granted itself");
    house.tmux(&["send-keys", "-t", &pane, "-l", "SLOW 30 go"]);
    house.tmux(&["send-keys", "-t", &pane, "Enter"]);
    let is_asked = || opencode.provider_log().contains("SLOW 30").then_some(());
    house.wait_within(PATIENCE, "the turn", is_asked);
    house.wait_within(PATIENCE, "the turn's end", || {
        house.tmux(&["send-keys", "-t", &pane, "Escape"]);
        let screen = house.tmux(&["capture-pane", "-p", "-t", &pane]).to_lowercase();
        screen.contains("interrupted").then_some(())
    });
    house.no_more_notices_than(1, Duration::from_secs(4));
    assert_eq!(waits(&house), "nothing waits for you\n");
}
