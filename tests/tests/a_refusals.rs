//! Acceptance A on the demo agent: starts that are refused, with their exit codes and words.
//!
//! Names begin with the number of the acceptance case; `f` and a number is a fault from the field.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use ccmux_tests::House;
use ccmux_tests::house::one_line;

fn refused(house: &House, code: i32, words: &[&str]) {
    let output = house.run_daemon(&[]);
    let said = one_line(&output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not named: {said}");
    }
    assert!(house.pane_pids().is_empty(), "an agent was started all the same");
}

/// Acceptance A7.
#[test]
fn a7_without_tmux_the_start_is_refused_with_69() {
    let house = House::builder().env("PATH", "{dir}/home").build();
    refused(&house, 69, &["tmux", "install"]);
}

/// Acceptance A7.
#[test]
fn a7_a_tmux_that_is_too_old_is_refused_with_69() {
    let house = House::builder().env("PATH", "{dir}/home:/usr/bin:/bin").build();
    let fake = house.home().join("tmux");
    fs::write(&fake, "#!/bin/sh\necho tmux 2.6\n").unwrap();
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
    refused(&house, 69, &["tmux 2.6", "too old", "install"]);
}

/// Acceptance A7.
#[test]
fn a7_an_agent_that_is_not_there_is_refused_with_69() {
    let house = House::builder().env("CCMUX_AGENT_COMMAND", "no-such-agent --flag").build();
    refused(&house, 69, &["no-such-agent", "agent.command"]);
}

/// Acceptance A7.
#[test]
fn a7_a_runtime_directory_that_is_a_symlink_is_refused_with_73() {
    let house = House::builder().build();
    fs::create_dir(house.path("elsewhere")).unwrap();
    symlink(house.path("elsewhere"), house.run_dir()).unwrap();
    refused(&house, 73, &["symbolic link", "CCMUX_RUNTIME_DIR"]);
    assert_eq!(
        fs::read_dir(house.path("elsewhere")).unwrap().count(),
        0,
        "something was written through the link"
    );
}

/// Acceptance A7.
#[test]
fn a7_a_runtime_directory_that_is_open_to_others_is_refused_with_73() {
    let house = House::builder().build();
    fs::create_dir(house.run_dir()).unwrap();
    fs::set_permissions(house.run_dir(), fs::Permissions::from_mode(0o777)).unwrap();
    refused(&house, 73, &[&house.run_dir().display().to_string()]);
    assert_eq!(
        fs::metadata(house.run_dir()).unwrap().permissions().mode() & 0o7777,
        0o777,
        "it was changed silently"
    );
}

/// Acceptance A7.
#[test]
fn a7_a_runtime_directory_that_is_a_file_is_refused_with_73() {
    let house = House::builder().build();
    fs::write(house.run_dir(), "").unwrap();
    refused(&house, 73, &["not a directory"]);
}

/// Acceptance A7.
#[test]
fn a7_a_runtime_directory_of_somebody_else_is_refused_with_73() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root can make a directory of another user");
        return;
    }
    let house = House::builder().build();
    fs::create_dir(house.run_dir()).unwrap();
    fs::set_permissions(house.run_dir(), fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(house.run_dir(), Some(12_345), None).unwrap();
    refused(&house, 73, &["12345", "CCMUX_RUNTIME_DIR"]);
}

/// Acceptance A7.
#[test]
fn a7_the_home_folder_as_working_directory_is_refused_with_78() {
    let house = House::builder().in_home().build();
    refused(&house, 78, &["agent.cwd", "agent.allow_home"]);
}

/// Acceptance A7.
#[test]
fn a7_the_home_folder_is_taken_where_it_is_allowed() {
    let house = House::builder().in_home().settings("[agent]\nallow_home = true\n").ready();
    assert_eq!(house.pane("#{pane_current_path}"), house.home().display().to_string());
}

/// Acceptance A7.
#[test]
fn a7_an_unknown_key_is_refused_with_78_and_names_the_nearest() {
    let house = House::builder().settings("idle_treshold = 3\n").build();
    refused(&house, 78, &["idle_treshold", "idle_threshold", "ccmux.toml"]);
}

/// Acceptance A7.
#[test]
fn a7_a_bad_value_is_refused_with_78() {
    for (text, key) in [
        ("idle_threshold = -4\n", "idle_threshold"),
        ("idle_threshold = \"soon\"\n", "idle_threshold"),
        ("[log]\nlevel = \"loud\"\n", "log.level"),
        ("[agent]\nprofile = \"nobody\"\n", "agent.profile"),
    ] {
        let house = House::builder().env_remove("CCMUX_IDLE_THRESHOLD").settings(text).build();
        refused(&house, 78, &[key]);
    }
}

/// Acceptance A7.
#[test]
fn a7_a_settings_file_that_is_no_toml_is_refused_with_78() {
    let house = House::builder().settings("idle_threshold = = 3\n").build();
    refused(&house, 78, &["ccmux.toml"]);
}

/// Acceptance A7.
#[test]
fn a7_a_bad_variable_is_refused_with_78_and_a_near_miss_is_warned_of() {
    let house = House::builder().env("CCMUX_SILENCE_TIMEOUT", "long").build();
    refused(&house, 78, &["CCMUX_SILENCE_TIMEOUT"]);
    let house = House::builder().env("CCMUX_SILENCE_TIMOUT", "4").build();
    let output = house.run_daemon(&["--check-config"]);
    assert_eq!(output.status.code(), Some(0));
    let said = one_line(&output);
    assert!(said.contains("CCMUX_SILENCE_TIMOUT") && said.contains("CCMUX_SILENCE_TIMEOUT"), "{said}");
}

/// Acceptance A7.
#[test]
fn a7_a_token_that_a_start_would_refuse_is_refused_by_the_check_too() {
    let text = "[tcp]\nlisten = \"127.0.0.1:9\"\ntoken_file = \"~/token\"\n";
    let house = House::builder().settings(text).build();
    let token = house.home().join("token");
    for (content, mode, good) in
        [("short", 0o600, false), (&*"x".repeat(16), 0o644, false), (&*"x".repeat(16), 0o600, true)]
    {
        fs::write(&token, content).unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(mode)).unwrap();
        let output = house.run_daemon(&["--check-config"]);
        assert_eq!(output.status.code(), Some(if good { 0 } else { 78 }), "{content} {mode:o}");
        assert!(good || one_line(&output).contains("token"), "{output:?}");
    }
}

/// Acceptance A7.
#[test]
fn a7_usage_is_refused_with_2() {
    let house = House::builder().build();
    for (arguments, word) in [
        (&["--no-such-flag"][..], "--no-such-flag"),
        (&["--set", "idle_threshold"], "give KEY=VALUE"),
        (&["-i", "a/b"], "instance `a/b`"),
    ] {
        let output = house.run_daemon(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(word), "{arguments:?}: {output:?}");
    }
}

/// Acceptance A8.
#[test]
fn a8_another_proxy_than_the_expected_one_is_warned_of_and_the_daemon_goes_on() {
    let other = "http://127.0.0.1:9";
    for (proxy, warned) in [(None, true), (Some(other), true), (Some("http://127.0.0.1:8118"), false)] {
        let mut house = House::builder();
        for name in proxy.iter().flat_map(|_| ["HTTP_PROXY", "HTTPS_PROXY"]) {
            house = house.env(name, proxy.unwrap());
        }
        let house = house.ready();
        let said = fs::read_to_string(house.path("err")).unwrap();
        assert_eq!(
            said.matches("ccmuxd: warning: HTTP_PROXY").count(),
            usize::from(warned),
            "{proxy:?}: {said}"
        );
        assert_eq!(house.log_events("proxy.unexpected").len(), usize::from(warned));
        house.send("answered", "say: it goes on");
    }
}
