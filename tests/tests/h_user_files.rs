//! Hooks and tools in the user's own files, beside those of the generated ones: nothing is doubled, and nothing stays.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;

use ccmux_tests::House;

const SETTINGS: &str = "{\n\t\"theme\": \"dark\",\n\t\"zeta\": [1,2 ,3]\n}";

/// The demo agent runs every hook of both files.
#[test]
fn with_both_integrations_on_every_hook_comes_twice_and_counts_once() {
    let house = House::builder().settings("[log]\nlevel = \"debug\"\n").build();
    fs::create_dir_all(house.home().join(".claude")).unwrap();
    let settings = house.home().join(".claude/settings.json");
    fs::write(&settings, SETTINGS).unwrap();
    house.ccmux_ok(&["install", "--user"]);
    house.start();
    house.wait_ready();
    let turns = house.subscribe();
    for n in 1..=3 {
        let receipt = house.send("answered", &format!("say: number {n}"));
        assert_eq!(receipt.proof, Some(ccmux_wire::receipt::Proof::Hook));
    }
    turns.wait_for_turns(3);
    let hooks = |event: &str| {
        let all = house.log_events(event).into_iter();
        all.filter(|line| line["hook"] == "Stop" || line["hook"] == "UserPromptSubmit").count()
    };
    house.wait_until("the second hook of each event", || hooks("hook.doubled") >= 6);
    assert_eq!((hooks("hook.received"), hooks("hook.doubled")), (12, 6));
    assert_eq!(house.log_events("batch.delivered").len(), 3);
    let said: Vec<_> = turns.turns().iter().map(ccmux_tests::doors::text_of).collect();
    assert_eq!(said, ["number 1", "number 2", "number 3"]);
    assert_eq!(house.prompts().len(), 3);
    house.stop();
    house.ccmux_ok(&["uninstall", "--user"]);
    assert_eq!(fs::read_to_string(&settings).unwrap(), SETTINGS);
}

/// A command that somebody made of our hook is his: it stays, and he is told.
#[test]
fn an_uninstall_says_where_the_hook_is_still_named() {
    let house = House::builder().build();
    house.ccmux_ok(&["install", "--user"]);
    let settings = house.home().join(".claude/settings.json");
    let installed = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, installed.replacen("/ccmux-hook\"", "/ccmux-hook --mine\"", 1)).unwrap();
    let output = house.ccmux(&["uninstall", "--user"]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("settings.json still names ccmux-hook"), "{said}");
    assert_eq!(fs::read_to_string(&settings).unwrap().matches("ccmux-hook").count(), 1);
    fs::remove_file(&settings).unwrap();
    let output = house.ccmux(&["uninstall", "--user"]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("still names"), "{output:?}");
}
