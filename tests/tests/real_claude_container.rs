//! The real Claude Code CLI in a container: its hooks and its tools work from inside.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;

use ccmux_tests::{House, claude, container};
use serde_json::Value;

const ROUTE: &str = "[routes.file]\ntype = \"command\"\nargv = [\"/bin/sh\", \"-c\", \"cat >> ~/notices\"]\n\
                     [attention]\nroutes = [\"file\"]\n[attention.reply]\nafter = 0\n";

const QUIET: [&str; 3] = [
    "--engine-arg=--env=DISABLE_TELEMETRY",
    "--engine-arg=--env=DISABLE_ERROR_REPORTING",
    "--engine-arg=--env=CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
];

#[test]
fn the_real_claude_in_a_container_is_heard_and_answers_on_channels() {
    let Some(claude) = claude::or_skip().filter(|_| container::or_skip()) else { return };
    let house = House::with_claude(&claude);
    house.write_settings(ROUTE);
    house.start();
    house.wait_ready();
    let own = house.status().session.unwrap();
    let test = house.adapter("test");
    let options = [&["--image", "any"][..], &QUIET].concat();
    let prompt = "mcp: test hello from inside";
    let command = container::run_agent(&house, &options, &claude, &["-p", prompt]);
    let output = house.run_to_end(command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(house.wait_for_lines(&test, 1), ["hello from inside"]);
    let told = house.wait_for("a notice from inside", || {
        let text = fs::read_to_string(house.home().join("notices")).ok()?;
        let notices = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        notices.into_iter().find(|notice| notice["body"].as_str().is_some_and(|body| body.contains(prompt)))
    });
    assert!(told["kind"] == "reply" && told["session"].as_str().unwrap().starts_with("c-"), "{told}");
    assert_eq!(house.status().session.unwrap(), own);
    house.wait_until("its session to be over", || {
        !house.ccmux_ok(&["attention"]).contains(told["session"].as_str().unwrap_or("c-"))
    });
}
