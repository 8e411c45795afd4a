//! The agent in a real tmux: what ccmux would see of it.

mod harness;

use harness::{Demo, without_terminal};
use serde_json::{Value, json};

/// A line of the screen that is the empty box.
const EMPTY_BOX: &str = "\n❯\u{a0}";

fn types(lines: &[Value]) -> Vec<String> {
    lines.iter().map(|line| line["type"].as_str().unwrap_or_default().to_owned()).collect()
}

fn texts(lines: &[Value]) -> Vec<String> {
    let blocks =
        lines.iter().filter(|line| line["type"] == "assistant").map(|line| &line["message"]["content"][0]);
    blocks.filter_map(|block| block["text"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_fresh_agent_shows_its_box_between_rules_and_has_no_transcript() {
    let demo = Demo::ready();
    demo.wait_for_screen("bypass permissions on (shift+tab to cycle)");
    let rows: Vec<String> = demo.screen().lines().map(str::to_owned).collect();
    let at = rows.iter().position(|row| row.trim_end() == "❯").expect("the box");
    assert!(rows[at].starts_with("❯\u{a0}"));
    assert!(rows[at - 1].starts_with("───") && rows[at + 1].starts_with("───"));
    assert_eq!(demo.title(), "✳ Demo");
    assert_eq!(demo.wait_for_event("SessionStart", 1)["source"], "startup");
    assert!(demo.transcript().is_empty());
    let state = demo.state().unwrap();
    assert_eq!((&state["kind"], &state["entrypoint"]), (&json!("interactive"), &json!("cli")));
}

#[test]
fn a_turn_fires_its_hooks_and_writes_its_lines() {
    let demo = Demo::ready();
    demo.say("[10:00 telegram] full: echo from-the-tool");
    let submitted = demo.wait_for_event("UserPromptSubmit", 1);
    assert_eq!(submitted["prompt"], "[10:00 telegram] full: echo from-the-tool");
    let stop = demo.wait_for_event("Stop", 1);
    assert_eq!(stop["last_assistant_message"], "done from-the-tool");
    assert_eq!(stop["prompt_id"], submitted["prompt_id"]);
    assert_eq!(demo.events("PreToolUse").len(), 1);
    assert_eq!(demo.events("PostToolUse")[0]["tool_response"]["stdout"], "from-the-tool");
    demo.wait_for_status("idle");
    let lines = demo.transcript();
    let expected = [
        "mode",
        "permission-mode",
        "file-history-snapshot",
        "user",
        "assistant",
        "assistant",
        "assistant",
        "user",
        "assistant",
        "system",
        "system",
    ];
    assert_eq!(types(&lines), expected);
    assert_eq!(lines[3]["promptId"], stop["prompt_id"]);
    assert_eq!(lines[9]["subtype"], "stop_hook_summary");
    assert!(
        stop["transcript_path"]
            .as_str()
            .unwrap()
            .ends_with(&format!("{}.jsonl", stop["session_id"].as_str().unwrap()))
    );
    demo.wait_for_screen("● done from-the-tool");
}

#[test]
fn a_running_turn_is_seen_as_busy_by_every_sign() {
    let demo = Demo::ready();
    demo.say("slow: 30");
    demo.wait_for_status("busy");
    demo.wait_for_screen("esc to interrupt");
    demo.wait_for_screen("tokens)");
    demo.wait("a moving title", || demo.title().starts_with('◐'));
    demo.wait("a moving title", || demo.title().starts_with('◑'));
    demo.press("Escape");
    demo.wait_for_status("idle");
    demo.wait_for_screen("Interrupted · What should Claude do instead?");
    assert!(demo.events("Stop").is_empty());
    demo.wait("a title at rest", || demo.title() == "✳ Demo");
}

#[test]
fn prompts_queued_while_busy_become_one_next_turn() {
    let demo = Demo::ready();
    demo.say("slow: 2");
    demo.wait_for_status("busy");
    demo.say("say: queued one");
    demo.say("say: queued two");
    demo.wait_for_screen("⎿  Queued");
    demo.wait_for_screen("Press up to edit queued messages");
    let running = demo.wait_for_event("UserPromptSubmit", 1)["prompt_id"].clone();
    assert_eq!(demo.wait_for_event("UserPromptSubmit", 3)["prompt_id"], running);
    assert_eq!(demo.wait_for_event("Stop", 1)["prompt_id"], running);
    let second = demo.wait_for_event("Stop", 2);
    assert_eq!(second["last_assistant_message"], "queued two");
    assert_ne!(second["prompt_id"], running);
    demo.wait_for_status("idle");
    assert_eq!((demo.events("UserPromptSubmit").len(), demo.events("Stop").len()), (3, 2));
    let lines = demo.transcript();
    assert!(lines.iter().any(|line| line["message"]["content"] == "say: queued one\nsay: queued two"));
}

#[test]
fn a_prompt_queued_during_a_tool_joins_the_running_turn() {
    let demo = Demo::ready();
    demo.say("bash: until test -e go; do sleep 0.05; done");
    demo.wait_for_event("PreToolUse", 1);
    demo.say("say: steered");
    demo.wait_for_event("UserPromptSubmit", 2);
    std::fs::write(demo.cwd().join("go"), "").unwrap();
    assert_eq!(demo.wait_for_event("Stop", 1)["last_assistant_message"], "steered");
    demo.wait_for_status("idle");
    assert_eq!(demo.events("Stop").len(), 1);
}

#[test]
fn a_permission_dialog_takes_the_place_of_the_box_until_it_is_answered() {
    let demo = Demo::ready();
    demo.say("perm: echo permitted");
    demo.wait_for_status("waiting");
    assert_eq!(demo.state().unwrap()["waitingFor"], "permission prompt");
    demo.wait_for_screen("Do you want to proceed?");
    let screen = demo.screen();
    assert!(screen.contains("❯ 1. Yes") && screen.contains("Esc to cancel") && !screen.contains(EMPTY_BOX));
    assert_eq!(demo.wait_for_event("PermissionRequest", 1)["tool_input"]["command"], "echo permitted");
    demo.paste("a message that must not be lost here");
    demo.press("Enter");
    assert_eq!(demo.wait_for_event("Stop", 1)["last_assistant_message"], "done permitted");
    assert_eq!(demo.events("UserPromptSubmit").len(), 1);
}

#[test]
fn a_hook_may_answer_the_permission_before_the_human() {
    let demo = Demo::new();
    let allow =
        r#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}"#;
    demo.user_hook("PermissionRequest", &format!("until test -e go; do sleep 0.05; done; echo '{allow}'"));
    demo.start(&[], &[("CCMUX_DEMO_PERMISSIONS", "ask")]);
    demo.wait_for_status("idle");
    demo.say("edit: new.txt");
    demo.wait_for_screen("Do you want to create new.txt?");
    assert_eq!(demo.wait_for_event("PermissionRequest", 1)["permission_mode"], "default");
    std::fs::write(demo.cwd().join("go"), "").unwrap();
    demo.wait_for_event("Stop", 1);
    assert_eq!(std::fs::read_to_string(demo.cwd().join("new.txt")).unwrap(), "hello\nworld\n");
}

#[test]
fn a_permission_refused_ends_the_turn_without_a_stop() {
    let demo = Demo::ready();
    demo.say("perm: touch never");
    demo.wait_for_status("waiting");
    demo.press("Escape");
    demo.wait_for_status("idle");
    demo.wait_for_screen("Did not run 1 call");
    assert!(demo.events("Stop").is_empty() && !demo.cwd().join("never").exists());
}

#[test]
fn a_question_is_answered_by_a_digit_or_by_a_hook() {
    let demo = Demo::ready();
    demo.say("ask: Which colour?");
    demo.wait_for_status("waiting");
    assert_eq!(demo.state().unwrap()["waitingFor"], "input needed");
    demo.wait_for_screen("Enter to select · ↑/↓ to navigate · Esc to cancel");
    demo.press("2");
    let stop = demo.wait_for_event("Stop", 1);
    assert!(stop["last_assistant_message"].as_str().unwrap().contains("\"Which colour?\"=\"Beta\""));
    demo.press("/exit");
    demo.press("Enter");
    demo.wait_for_exit();
    let answer = r#"{"hookSpecificOutput":{"decision":{"behavior":"allow","updatedInput":{"answers":{"Which?":"Alpha"}}}}}"#;
    demo.user_hook("PermissionRequest", &format!("echo '{answer}'"));
    demo.start(&[], &[]);
    demo.wait_for_status("idle");
    demo.say("ask: Which?");
    let stop = demo.wait_for_event("Stop", 2);
    assert!(stop["last_assistant_message"].as_str().unwrap().contains("\"Which?\"=\"Alpha\""));
}

#[test]
fn a_stop_hook_that_blocks_makes_the_turn_go_on() {
    let demo = Demo::new();
    let block = r#"{"decision":"block","reason":"say: one more"}"#;
    let body = format!("case \"$(cat)\" in *'\"stop_hook_active\":true'*) ;; *) echo '{block}';; esac");
    demo.user_hook("Stop", &body);
    demo.start(&[], &[]);
    demo.wait_for_status("idle");
    demo.say("say: first");
    assert_eq!(demo.wait_for_event("Stop", 1)["stop_hook_active"], false);
    let second = demo.wait_for_event("Stop", 2);
    assert_eq!(
        (&second["stop_hook_active"], &second["last_assistant_message"]),
        (&json!(true), &json!("one more"))
    );
}

#[test]
fn a_background_task_stops_the_leader_first_and_prompts_again() {
    let demo = Demo::ready();
    demo.say("task: say: sub done");
    assert_eq!(demo.wait_for_event("Stop", 1)["background_tasks"].as_array().unwrap().len(), 1);
    assert_eq!(demo.wait_for_event("SubagentStop", 1)["last_assistant_message"], "sub done");
    let prompt = demo.wait_for_event("UserPromptSubmit", 2)["prompt"].clone();
    assert!(prompt.as_str().unwrap().starts_with("<task-notification>"));
    assert!(demo.wait_for_event("Stop", 2)["background_tasks"].as_array().unwrap().is_empty());
}

#[test]
fn a_resumed_conversation_keeps_its_id_and_its_transcript() {
    let demo = Demo::ready();
    demo.say("say: remembered");
    demo.wait_for_event("Stop", 1);
    demo.wait_for_status("idle");
    let session = demo.state().unwrap()["sessionId"].as_str().unwrap().to_owned();
    demo.say("/exit");
    assert_eq!(demo.wait_for_exit(), 0);
    assert_eq!(demo.wait_for_event("SessionEnd", 1)["reason"], "prompt_input_exit");
    assert!(demo.state().is_none());
    for (nth, arguments) in [(2, vec!["--resume", &session]), (3, vec!["--continue"])] {
        demo.start(&arguments, &[]);
        demo.wait_for_screen("● remembered");
        let start = demo.wait_for_event("SessionStart", nth);
        assert_eq!((&start["source"], &start["session_id"]), (&json!("resume"), &json!(session)));
        demo.wait_for_status("idle");
        demo.say(&format!("say: turn {nth}"));
        demo.wait_for_event("Stop", nth);
        demo.wait_for_status("idle");
        demo.say("/exit");
        demo.wait_for_exit();
    }
    assert_eq!(texts(&demo.transcript()), ["remembered", "turn 2", "turn 3"]);
}

#[test]
fn clear_begins_another_session_in_the_same_process() {
    let demo = Demo::ready();
    let before = demo.state().unwrap();
    demo.say("/clear");
    assert_eq!(demo.wait_for_event("SessionEnd", 1)["reason"], "clear");
    let start = demo.wait_for_event("SessionStart", 2);
    assert_eq!(start["source"], "clear");
    demo.wait("the new id", || demo.state().is_some_and(|state| state["sessionId"] == start["session_id"]));
    assert_eq!(demo.state().unwrap()["pid"], before["pid"]);
    assert_ne!(start["session_id"], before["sessionId"]);
}

#[test]
fn a_draft_survives_a_resize_and_a_long_one_scrolls() {
    let demo = Demo::ready();
    demo.paste("my draft");
    demo.wait_for_screen("❯\u{a0}my draft");
    demo.resize(50, 20);
    demo.wait("the box in its new place", || {
        demo.screen().lines().rev().nth(2).is_some_and(|row| row.starts_with("❯\u{a0}my draft"))
    });
    for line in 1..=40 {
        demo.paste(&format!("\nline {line}"));
    }
    demo.wait_for_screen("↑ 36 more");
    assert!(!demo.screen().contains("❯\u{a0}"));
    demo.press("Enter");
    let prompt = demo.wait_for_event("UserPromptSubmit", 1)["prompt"].as_str().unwrap().to_owned();
    assert!(prompt.starts_with("my draft\nline 1\n") && prompt.ends_with("\nline 40"));
}

#[test]
fn escape_before_any_output_gives_the_prompt_back() {
    let demo = Demo::ready();
    demo.say("silent: 60");
    demo.wait_for_status("busy");
    demo.wait_for_event("UserPromptSubmit", 1);
    demo.press("Escape");
    demo.wait_for_screen("❯\u{a0}silent: 60");
    demo.wait_for_status("idle");
    assert!(demo.events("Stop").is_empty());
}

#[test]
fn a_stashed_draft_comes_back_after_the_next_prompt() {
    let demo = Demo::ready();
    demo.paste("half a thought");
    demo.wait_for_screen("half a thought");
    demo.press("C-s");
    demo.wait_for_screen("draft stashed");
    demo.say("say: between");
    demo.wait_for_event("Stop", 1);
    demo.wait_for_screen("❯\u{a0}half a thought");
}

#[test]
fn an_api_error_fires_stop_failure() {
    let demo = Demo::ready();
    demo.say("error: 529");
    let failure = demo.wait_for_event("StopFailure", 1);
    assert_eq!(failure["last_assistant_message"], "API Error: 529 mock error 529");
    demo.wait_for_status("idle");
    assert!(demo.events("Stop").is_empty());
}

#[test]
fn text_typed_before_the_box_is_up_is_a_draft_and_its_enter_is_lost() {
    let demo = Demo::new();
    demo.start(&[], &[("CCMUX_DEMO_START_MS", "1500")]);
    // The terminal is ours once SessionStart has fired.
    demo.wait_for_event("SessionStart", 1);
    assert!(demo.state().is_none());
    demo.say("early");
    demo.wait_for_screen("❯\u{a0}early");
    assert!(demo.events("UserPromptSubmit").is_empty());
}

#[test]
fn a_signal_ends_it_with_the_usual_code_and_takes_the_state_away() {
    for (signal, code) in [("-TERM", 143), ("-HUP", 129), ("-INT", 0)] {
        let demo = Demo::ready();
        let pid = demo.state().unwrap()["pid"].to_string();
        std::process::Command::new("kill").args([signal, &pid]).status().unwrap();
        assert_eq!(demo.wait_for_exit(), code);
        assert_eq!(demo.wait_for_event("SessionEnd", 1)["reason"], "other");
        assert!(demo.state().is_none());
    }
}

#[test]
fn ctrl_c_twice_leaves() {
    let demo = Demo::ready();
    demo.press("C-c");
    demo.press("C-c");
    assert_eq!(demo.wait_for_exit(), 0);
}

#[test]
fn fault_switches_break_what_they_say() {
    let demo = Demo::new();
    demo.start(
        &[],
        &[("CCMUX_DEMO_SWALLOW_ENTER", "1"), ("CCMUX_DEMO_HOOKS", "2"), ("CCMUX_DEMO_HOOKS_DROP", "Stop")],
    );
    demo.wait_for_status("idle");
    demo.say("say: twice");
    demo.wait_for_screen("❯\u{a0}say: twice");
    demo.press("Enter");
    demo.wait_for_event("UserPromptSubmit", 2);
    demo.wait_for_screen("● twice");
    demo.wait_for_status("idle");
    assert_eq!((demo.events("UserPromptSubmit").len(), demo.events("Stop").len()), (2, 0));
}

#[test]
fn without_a_terminal_or_a_conversation_it_says_so() {
    for (arguments, expected) in [
        (&[][..], "must be a terminal"),
        (&["--resume", "none"], "No conversation found with session ID: none"),
        (&["--continue"], "No conversation found to continue"),
        (&["--bogus"], "unknown option '--bogus'"),
    ] {
        let output = without_terminal(arguments);
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(
        String::from_utf8_lossy(&without_terminal(&["--version"]).stdout),
        "0.1.0 (ccmux-demo-agent)\n"
    );
}
