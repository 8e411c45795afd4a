//! Notes between agents with a daemon: people hear of them, and agents with a name leave notes when they stop.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use ccmux_tests::House;
use ccmux_tests::notices::into_a_file;
use ccmux_tests::patience::{WATCH, stays_quiet};
use serde_json::{Value, json};

const SETTINGS: &str =
    "[attention.message]\nroutes = [\"file\"]\n[attention.question]\nroutes = [\"file\"]\n";

fn items(house: &House) -> Vec<(String, String)> {
    let standing: Value = serde_json::from_str(&house.ccmux_ok(&["attention", "--json"])).unwrap();
    let word = |item: &Value, key: &str| item[key].as_str().unwrap().to_owned();
    let items = standing["items"].as_array().unwrap().iter();
    items.map(|item| (word(item, "kind"), word(item, "what"))).collect()
}

fn run(house: &House, dir: &Path, arguments: &[&str]) -> String {
    let output = house.run_to_end(house.ccmux_in(dir, arguments));
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_note_waits_for_people_until_somebody_listened() {
    let house = House::builder().settings(&into_a_file(SETTINGS)).ready();
    let repository = house.repository("app");
    run(&house, &repository, &["notify", "--from", "w", "--type", "stuck", "no disk \u{1b}[2J left"]);
    let notice = house.wait_for_notices(1).remove(0);
    assert_eq!((&notice["kind"], &notice["title"]), (&"message".into(), &"ccmux - Note of w: stuck".into()));
    assert_eq!((&notice["body"], &notice["session"]), (&"no disk  [2J left".into(), &"app".into()));
    assert_eq!(items(&house), [("message".to_owned(), "no disk  [2J left".to_owned())]);
    // Another daemon knows it still.
    house.stop();
    house.start();
    assert_eq!(items(&house).len(), 1);
    run(&house, &repository, &["listen"]);
    house.wait_until("the note to be over", || items(&house).is_empty());
    assert_eq!(house.notices().len(), 1);
}

#[test]
fn a_question_waits_for_people_until_it_is_closed() {
    let house = House::builder().settings(&into_a_file(SETTINGS)).ready();
    let repository = house.repository("app");
    let id = run(&house, &repository, &["ask", "--from", "w", "Which branch?"]);
    let notice = house.wait_for_notices(1).remove(0);
    assert_eq!((&notice["kind"], &notice["title"]), (&"question".into(), &"ccmux - Question of w".into()));
    run(&house, &repository, &["listen"]);
    assert_eq!(
        items(&house),
        [("question".to_owned(), "Which branch?".to_owned())],
        "a note taken answers nothing"
    );
    run(&house, &repository, &["answer", id.trim(), "main"]);
    house.wait_until("the question to be over", || items(&house).is_empty());
}

#[test]
fn a_daemon_that_hangs_keeps_no_note_back() {
    use nix::sys::signal::Signal;
    let house = House::builder().ready();
    let repository = house.repository("app");
    house.signal(Signal::SIGSTOP);
    let begin = std::time::Instant::now();
    run(&house, &repository, &["notify", "x"]);
    assert!(begin.elapsed() < std::time::Duration::from_millis(1100), "{:?}", begin.elapsed());
    assert_eq!(house.take_notes(&repository).len(), 1);
    house.signal(Signal::SIGCONT);
}

/// A hook input of a session that others run.
fn input(event: &str, cwd: &Path, prompt: &str, further: Value) -> Value {
    let mut input = json!({
        "hook_event_name": event, "session_id": "5f2d9a10-0000-4000-8000-000000000001", "prompt_id": prompt,
        "cwd": cwd, "transcript_path": "/nowhere", "last_assistant_message": "I have done what I could.",
        "background_tasks": [],
    });
    let fields = input.as_object_mut().unwrap();
    fields.extend(further.as_object().unwrap().clone());
    input
}

#[test]
fn an_agent_with_a_name_that_stops_leaves_the_designed_note_or_none() {
    let house = House::builder().ready();
    let repository = house.repository("app");
    let worker = [("CCMUX_AGENT_ID", "worker")];
    let hook = |event: &str, prompt: &str, further: Value| {
        let said = house.agent_hook(&worker, &input(event, &repository, prompt, further));
        assert_eq!(said, "", "Claude hears nothing of it");
    };
    let note = || house.listen(&repository, &["--timeout", "20"]).notes().remove(0);
    let silence = |why: &str| {
        stays_quiet(WATCH, why, || {
            Some(house.take_notes(&repository)).filter(|all| !all.is_empty()).map(|all| format!("{all:?}"))
        });
    };
    hook("UserPromptSubmit", "p1", json!({"prompt": "do it"}));
    hook("Stop", "p1", json!({}));
    let waiting = note();
    assert_eq!((&waiting["type"], &waiting["from"]), (&"waiting".into(), &"worker".into()));
    assert_eq!(waiting["msg"], "I have done what I could.");
    hook("Stop", "p1", json!({}));
    silence("the same hook again, from another settings file");

    hook("Stop", "p2", json!({"background_tasks": [{"id": "x"}]}));
    hook("StopFailure", "p3", json!({"error": "rate_limit"}));
    hook("PreCompact", "p3", json!({}));
    silence("background tasks, a limit, a compaction");

    hook("UserPromptSubmit", "p4", json!({"prompt": "finish it"}));
    let mut complete = house.ccmux_in(&repository, &["notify", "--type", "complete", "all tests pass"]);
    complete.env("CCMUX_AGENT_ID", "worker");
    assert!(house.run_to_end(complete).status.success());
    assert_eq!(note()["msg"], "all tests pass");
    hook("UserPromptSubmit", "p5", json!({"prompt": "<task-notification>a task of its own is done"}));
    hook("Stop", "p5", json!({}));
    assert_eq!(note()["type"], "complete");
    hook("UserPromptSubmit", "p6", json!({"prompt": "and more"}));
    hook("Stop", "p6", json!({}));
    assert_eq!(note()["type"], "waiting", "it said so in a turn before this one");

    let id = run(&house, &repository, &["ask", "--from", "worker", "Which branch?"]);
    assert_eq!(note()["type"], "question");
    hook("Stop", "p7", json!({}));
    let asked = note();
    assert_eq!((&asked["type"], &asked["question_id"]), (&"question".into(), &id.trim().into()));
    run(&house, &repository, &["answer", id.trim(), "main"]);
    hook("Stop", "p8", json!({}));
    assert_eq!(note()["type"], "waiting");

    house.agent_hook(&[], &input("Stop", &repository, "p9", json!({})));
    house.agent_hook(&worker, &input("Stop", Path::new("/"), "p10", json!({})));
    silence("an agent without a name, and one outside of a repository");
}

#[test]
fn a_manager_that_ccmux_owns_gets_a_message_once() {
    let house = House::builder().agent("CCMUX_AGENT_ID", "lead").ready();
    let repository = house.repository("app");
    house.send("answered", "say: hello");
    let session = house.status().session.unwrap().to_string();
    for (manager, prompt) in [("lead", "p1"), (session.as_str(), "p2"), ("somebody else", "p3")] {
        let worker = [("CCMUX_AGENT_ID", "worker"), ("CCMUX_AGENT_MANAGER", manager)];
        house.agent_hook(&worker, &input("Stop", &repository, prompt, json!({})));
        assert_eq!(house.listen(&repository, &["--timeout", "20"]).notes().len(), 1);
    }
    let messages = || house.ccmux_ok(&["inbox", "list", "--channel", "agents", "--json"]);
    house.wait_until("two messages", || messages().lines().count() == 2);
    let message: Value = serde_json::from_str(messages().lines().next().unwrap()).unwrap();
    assert!(message["id"].as_str().unwrap().starts_with("n-"), "{message}");
    stays_quiet(WATCH, "a message too many", || Some(messages()).filter(|all| all.lines().count() > 2));
}

#[test]
fn a_primary_session_in_a_repository_is_told_to_keep_one_listener() {
    let house = House::builder().ready();
    let repository = house.repository("app");
    let start = |variables: &[(&str, &str)], cwd: &Path| {
        let mut start = input("SessionStart", cwd, "", json!({"source": "startup"}));
        start.as_object_mut().unwrap().remove("prompt_id");
        house.agent_hook(variables, &start)
    };
    let primary = [("CCMUX_AGENT_ROLE", "primary")];
    let said: Value = serde_json::from_str(&start(&primary, &repository)).unwrap();
    assert_eq!(said["hookSpecificOutput"]["hookEventName"], "SessionStart");
    let context = said["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(context.contains("exactly one `ccmux listen`"), "{context}");
    assert_eq!(start(&[], &repository), "");
    assert_eq!(start(&primary, Path::new("/")), "", "there is nothing to listen to");
    let worker = [("CCMUX_AGENT_ROLE", "primary"), ("CCMUX_AGENT_MANAGER", "lead")];
    assert_eq!(start(&worker, &repository), "", "a worker that inherits the variable");
    house.stop();
    assert_eq!(start(&primary, &repository), "", "a dead daemon harms nobody");
}
