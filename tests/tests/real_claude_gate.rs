//! The gate on the real Claude Code CLI, on a mock of the model's API.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;

use ccmux_tests::agent::parted;
use ccmux_tests::claude;
use ccmux_tests::house::House;
use serde_json::{Value, json};

/// Measured on 2.1.332: NORMAL mode shows nothing at all, and takes a paste and Enter as INSERT mode does.
///
/// Field fault 11.
#[test]
fn c5_f11_a_message_gets_through_in_both_modes_of_vim() {
    let Some(claude) = claude::or_skip() else { return };
    let house = House::with_claude(&claude);
    let file = house.home().join(".claude.json");
    let mut state: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    state["editorMode"] = json!("vim");
    fs::write(&file, state.to_string()).unwrap();
    house.start();
    house.wait_ready();
    house.wait_for_screen("-- INSERT --");
    house.send("delivered", "say: in insert mode");
    house.wait_ready();
    house.send_keys(&["Escape"]);
    house.wait_until("NORMAL mode", || !house.screen().contains("-- INSERT --"));
    house.send("delivered", "say: in normal mode");
    let prompts = house.wait_for("both prompts at the model", || {
        Some(house.model_prompts()).filter(|prompts| prompts.len() == 2)
    });
    let bodies: Vec<&str> = prompts.iter().map(|prompt| parted(prompt).1).collect();
    assert_eq!(bodies, ["say: in insert mode", "say: in normal mode"]);
}
