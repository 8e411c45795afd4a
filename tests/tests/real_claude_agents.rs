//! Agents that wake another Claude, on the real Claude Code CLI: `ccmux listen` in the background of one session ends when
//! another session stops, and its end begins a turn.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;

use ccmux_tests::claude;
use ccmux_tests::house::House;
use serde_json::Value;

/// All transcripts of the house, as text.
fn transcripts(house: &House) -> String {
    fn read(dir: &Path) -> String {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        entries
            .map(
                |path| {
                    if path.is_dir() { read(&path) } else { fs::read_to_string(&path).unwrap_or_default() }
                },
            )
            .collect()
    }
    read(&house.home().join(".claude/projects"))
}

/// Where Claude Code lets a background command write.
fn output_file(transcripts: &str) -> &str {
    let end = transcripts.find(".output").unwrap() + ".output".len();
    let begin = transcripts[..end].rfind("written to: ").unwrap() + "written to: ".len();
    &transcripts[begin..end]
}

/// Acceptance G5.
#[test]
fn g5_a_background_listen_in_one_session_is_woken_by_another_sessions_stop() {
    let Some(claude) = claude::or_skip() else { return };
    let house = House::with_claude(&claude);
    house.git(&house.proj(), &["init", "-q"]);
    house.write_settings("[agent.env]\nCCMUX_AGENT_ROLE = \"primary\"\nCCMUX_AGENT_ID = \"lead\"\n");
    house.start();
    house.wait_ready();
    let call = r#"tool: Bash {"command":"ccmux listen","run_in_background":true,"description":"listen"}"#;
    house.send("delivered", call);
    let status = || house.run_to_end(house.ccmux_in(&house.proj(), &["listen", "--status"]));
    house.wait_until("a listener", || status().status.success());
    house.wait_until("the instruction", || transcripts(&house).contains("exactly one `ccmux listen`"));
    house.wait_ready();

    let mut worker = house.command(&claude);
    worker.args(["-p", "--settings"]).arg(house.state_dir().join("claude-settings.json"));
    worker.arg("say: the worker has finished").current_dir(house.proj());
    worker.env("CCMUX_AGENT_ID", "worker-1").env("CCMUX_AGENT_MANAGER", "lead");
    let output = worker.output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("the worker has finished"), "{output:?}");

    house.wait_for_screen("Background command \"listen\" completed");
    house.wait_until("the turn that the listener's end began", || {
        transcripts(&house).contains("<task-notification>")
    });
    assert!(!status().status.success(), "it took the note and ended");
    let printed = fs::read_to_string(output_file(&transcripts(&house))).unwrap();
    // Claude Code writes a line of its own behind it.
    let note: Value = serde_json::from_str(printed.lines().next().unwrap()).unwrap();
    assert_eq!((&note["from"], &note["type"]), (&"worker-1".into(), &"waiting".into()));
    assert_eq!(note["msg"], "the worker has finished");
    let told = || {
        house.model_prompts().iter().any(|prompt| prompt.contains("agents] worker-1 (waiting): the worker"))
    };
    house.wait_until("the message to the manager", told);
}
