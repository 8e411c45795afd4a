//! Claude Code's own files while the real Claude Code uses them: what ccmux puts in comes out again, and neither loses what
//! the other writes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ccmux_tests::{House, claude};
use ccmux_wire::status::StateWord;
use serde_json::Value;

/// How often Claude's own command line changes the file meanwhile.
const OTHERS: usize = 5;
/// The house's own port is known only after a start; here nobody listens.
const INSTALL: [&str; 5] = ["install", "--user", "--", "--set", "mcp.port=9"];

fn house() -> Option<(House, std::path::PathBuf)> {
    let claude = claude::or_skip()?;
    let house = House::with_claude(&claude);
    house.write_settings("[log]\nlevel = \"debug\"\n");
    Some((house, claude))
}

fn start(house: &House) {
    house.start();
    house.wait_within(Duration::from_secs(60), "Claude to be ready", || {
        house.state().filter(|state| *state == StateWord::Ready)
    });
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Odd indentation, comments where Claude is not asked to read them, a link, a mode: all of it is the same afterwards.
/// Acceptance H1. Field fault 25.
#[test]
fn h1_two_installs_and_an_uninstall_leave_the_files_as_they_were() {
    let Some((house, _)) = house() else { return };
    let (settings, state) = (house.home().join(".claude/settings.json"), house.home().join(".claude.json"));
    let text = "{\n\t // mine\n\t\"skipDangerousModePermissionPrompt\":true,\n\t  \"hooks\": { \"Stop\" : [ ] } }\n\n";
    fs::create_dir(house.home().join("dotfiles")).unwrap();
    fs::remove_file(&settings).unwrap();
    fs::write(house.home().join("dotfiles/claude"), text).unwrap();
    fs::set_permissions(house.home().join("dotfiles/claude"), Permissions::from_mode(0o600)).unwrap();
    symlink("../dotfiles/claude", &settings).unwrap();
    let before = (fs::read(&settings).unwrap(), fs::read(&state).unwrap());
    house.ccmux_ok(&INSTALL);
    let once = (fs::read(&settings).unwrap(), fs::read(&state).unwrap());
    assert!(once.0 != before.0 && once.1 != before.1);
    house.ccmux_ok(&INSTALL);
    assert_eq!((fs::read(&settings).unwrap(), fs::read(&state).unwrap()), once);
    house.ccmux_ok(&["uninstall", "--user"]);
    assert_eq!((fs::read(&settings).unwrap(), fs::read(&state).unwrap()), before);
    assert_eq!(fs::read_link(&settings).unwrap(), Path::new("../dotfiles/claude"));
    assert_eq!(settings.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

/// A session that works, and Claude's command line that adds servers, while ours comes and goes.
/// Acceptance H1. Field fault 25.
#[test]
fn h1_a_running_claude_loses_nothing_and_takes_nothing() {
    let Some((house, claude)) = house() else { return };
    let (settings, state) = (house.home().join(".claude/settings.json"), house.home().join(".claude.json"));
    let before = fs::read(&settings).unwrap();
    start(&house);
    let done = AtomicBool::new(false);
    let rounds = thread::scope(|scope| {
        let installer = scope.spawn(|| {
            let mut rounds = 0;
            while !done.load(Ordering::Relaxed) || rounds < 5 {
                house.ccmux_ok(&["install", "--user"]);
                assert!(json(&state)["mcpServers"]["ccmux"].is_object(), "Claude wrote over ours");
                house.ccmux_ok(&["uninstall", "--user"]);
                assert_eq!(json(&state)["mcpServers"].get("ccmux"), None, "Claude brought ours back");
                rounds += 1;
            }
            rounds
        });
        let session = scope.spawn(|| {
            for n in 0..OTHERS {
                house.send("answered", &format!("say: {n}"));
            }
        });
        for n in 0..OTHERS {
            let mut add = house.command(&claude);
            add.args(["mcp", "add", "--scope", "user", &format!("other{n}"), "--", "/bin/true"]);
            let status = add.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
            assert!(status.success());
        }
        session.join().unwrap();
        done.store(true, Ordering::Relaxed);
        installer.join().unwrap()
    });
    println!("{rounds} times in and out while Claude wrote");
    let left = json(&state);
    let servers: Vec<&String> = left["mcpServers"].as_object().unwrap().keys().collect();
    let expected: Vec<String> = (0..OTHERS).map(|n| format!("other{n}")).collect();
    assert_eq!(servers, expected.iter().collect::<Vec<_>>());
    assert_eq!(left["hasCompletedOnboarding"], true);
    assert_eq!(fs::read(&settings).unwrap(), before);
    assert!(!house.home().join(".claude.json.lock").exists());
}

/// Claude runs a command that stands in both settings once, and of two servers of one name it takes the one of the command
/// line; whatever comes twice all the same counts once.
#[test]
fn with_both_integrations_on_there_is_one_turn_one_receipt_one_tool() {
    let Some((house, _)) = house() else { return };
    house.ccmux_ok(&INSTALL);
    assert!(json(&house.home().join(".claude.json"))["mcpServers"]["ccmux"].is_object());
    start(&house);
    let turns = house.subscribe();
    let receipt = house.send("answered", "say: only once");
    assert_eq!(receipt.proof, Some(ccmux_wire::receipt::Proof::Hook));
    let fifo = house.fifo("out.test");
    let reader = thread::spawn(move || fs::read_to_string(fifo).unwrap());
    house.send("answered", "mcp: test hello");
    assert_eq!(reader.join().unwrap(), "hello\n", "through one tool, once");
    turns.wait_for_turns(2);
    assert_eq!(house.log_events("batch.delivered").len(), 2);
    let stops = |event: &str| house.log_events(event).iter().filter(|line| line["hook"] == "Stop").count();
    println!("Stop hooks that came: {}, doubled: {}", stops("hook.received"), stops("hook.doubled"));
    assert_eq!(stops("hook.received") - stops("hook.doubled"), 2);
    assert_eq!(turns.turns().len(), 2);
    let log = fs::read_to_string(house.path("mock.log")).unwrap();
    let requests = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let tools: Vec<Value> =
        requests.filter(|line| line["kind"] == "prompt").map(|line| line["tools"].clone()).collect();
    assert!(!tools.is_empty());
    for tools in tools {
        let ours = tools.as_array().unwrap().iter().filter(|tool| *tool == "mcp__ccmux__send_to_channel");
        assert_eq!(ours.count(), 1, "{tools}");
    }
    house.stop();
    house.ccmux_ok(&["uninstall", "--user"]);
}
