//! Hooks of a real Claude Code, recorded in `tests/fixtures/hooks`, as the frames they come in. For tests only; what they
//! mean is not known here.

use std::path::PathBuf;

use ccmux_wire::hook::HookFrame;
use serde_json::Value;

/// `EVENT.VARIANT.json`, from a session that says nothing of whose it is.
pub fn hook(name: &str) -> HookFrame {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hooks").join(name);
    let payload: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let event = payload["hook_event_name"].as_str().unwrap().to_owned();
    HookFrame { event, token: None, claude_pid: None, marks: Default::default(), spot: None, payload }
}
