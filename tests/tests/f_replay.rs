//! What the recorder wrote of real daemons is replayed by `cargo xtask replay`, and the policy orders the same again.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

use ccmux_tests::House;

/// The file of the house's state directory, replayed.
fn replays(house: &House, name: &str) {
    let file = house.state_dir().join(name);
    let xtask = house.bin("xtask");
    assert!(xtask.is_file(), "{} is missing: build the workspace first: cargo xtask test", xtask.display());
    let output = Command::new(xtask).args(["replay", file.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {said}");
}

#[test]
fn the_record_of_two_daemons_and_a_reload_replays_line_by_line() {
    let house = House::builder().settings("[agent]\nmax_rss = 0\n").ready();
    house.send("answered", "say: one");
    house.write("in.t", "slow: 1\n");
    house.write("in.t", "say: waits meanwhile\n");
    house.wait_for_messages(3);
    house.write_settings("idle_threshold = 0\n[backoff]\ninitial = 2\n");
    house.ccmux_ok(&["reload"]);
    house.send("answered", "say: two");
    house.stop();
    house.start();
    house.wait_ready();
    house.send("answered", "say: three");
    house.kill_agent();
    house.wait_ready();
    house.send("answered", "say: four");
    house.stop();
    replays(&house, "timeline.log.1");
    replays(&house, "timeline.log");
    let recorded = std::fs::read_to_string(house.state_dir().join("timeline.log")).unwrap();
    assert!(recorded.contains("backoff_initial_ms=2000") && recorded.contains("> deadline_passed"));
}

#[test]
fn print_config_names_the_file_of_a_channels_values() {
    let house = House::builder().settings("[channels.phone]\npriority = 3\n").build();
    let said = String::from_utf8(house.run_daemon(&["--print-config"]).stdout).unwrap();
    let line = said.lines().find(|line| line.starts_with("channels.phone.priority = 3  # ")).expect(&said);
    assert!(line.ends_with("/ccmux.toml"), "{line}");
}
