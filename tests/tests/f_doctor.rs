//! `ccmux doctor` on whole houses: what it measures, that it disturbs nobody, and what it says of what is broken.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ccmux_tests::house::is_alive;
use ccmux_tests::{House, claude};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// What one run said: the exit code, and each check's state and detail.
struct Report {
    code: Option<i32>,
    found: BTreeMap<String, (String, String)>,
}

impl Report {
    fn of(house: &House, arguments: &[&str]) -> Self {
        let output = house.ccmux(&[&["doctor", "--json"], arguments].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let list: Vec<Value> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let word = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
        for one in &list {
            assert_eq!(one["remedy"].is_null(), one["state"] == "ok", "what is not ok has a remedy: {one}");
        }
        let found = list.iter().map(|one| (word(one, "check"), (word(one, "state"), word(one, "detail"))));
        Self { code: output.status.code(), found: found.collect() }
    }

    fn of_state(&self, state: &str) -> Vec<(&str, &str)> {
        let those = self.found.iter().filter(|(_, (word, _))| word == state);
        those.map(|(check, (_, detail))| (check.as_str(), detail.as_str())).collect()
    }

    /// That check has that state, and its detail those words.
    fn says(&self, check: &str, state: &str, words: &str) {
        let (found, detail) = &self.found[check];
        assert!(found == state && detail.contains(words), "{check}: {found}: {detail}");
    }
}

#[test]
fn a_house_in_order_has_no_failure_and_nobody_is_disturbed() {
    let house = House::builder().settings("[proxy]\nexpect = \"\"\n").build();
    let before = Report::of(&house, &[]);
    assert_eq!((before.code, before.of_state("failure")), (Some(0), vec![]));
    before.says("daemon", "warning", "no daemon runs");
    before.says("paste", "ok", "came through whole");
    before.says("hooks", "ok", "SessionStart came");
    before.says("state_file", "ok", "publishes its state");
    assert!(!house.home().join(".claude").exists(), "the probe wrote into the user's folder");
    assert!(
        !house.run_dir().exists() && !house.state_dir().exists(),
        "the doctor made the daemon's directories"
    );
    house.start();
    house.wait_ready();
    let (pid, screen) = (house.agent_pid(), house.screen());
    let with = Report::of(&house, &[]);
    assert_eq!((with.code, with.of_state("failure")), (Some(0), vec![]));
    with.says("daemon", "ok", "ready");
    with.says("port", "ok", "the daemon answers");
    with.says("token", "ok", "nobody without it");
    with.says("inbox", "ok", "can be written");
    assert_eq!((house.agent_pid(), house.screen(), house.prompts().len()), (pid, screen, 0));
    let clients = house.tmux(&["list-sessions", "-F", "#{session_name}"]);
    assert_eq!(clients.trim(), "ccmux", "the probe has a server of its own");
}

/// As from a terminal that knows nothing of the variables that the daemon was started with.
#[test]
#[cfg(target_os = "linux")]
fn a_shell_without_the_daemons_variables_is_told_so() {
    let house = House::builder().ready();
    Report::of(&house, &["--no-probe"]).says("settings", "ok", "this shell has the daemon's");
    let mut command = house.command(house.bin("ccmux"));
    command.env_remove("CCMUX_AGENT_COMMAND").args(["doctor", "--no-probe"]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let row = said.lines().find(|line| line.contains(" settings ")).unwrap();
    assert!(row.starts_with("warning") && row.contains("agent.command (there CCMUX_AGENT_COMMAND"), "{said}");
    assert!(!row.contains("ccmux-demo-agent"), "a value is told: {row}");
}

/// A wrapper that forgets ccmux's arguments, one that ends at once, and an agent without a state file.
#[test]
fn an_agent_whose_hooks_never_come_is_a_failure() {
    let wrapper = |script: &str| {
        let house = House::builder().file("agent", &format!("#!/bin/sh\n{script}\n"), 0o755);
        let house = house.env("CCMUX_AGENT_COMMAND", "{dir}/agent").build();
        Report::of(&house, &[])
    };
    let ended =
        wrapper("[ \"$1\" = --version ] && echo '2.1.332 (Claude Code)' && exit; echo no such luck; exit 3");
    ended.says("hooks", "failure", "no such luck");
    assert_eq!(ended.code, Some(1));
    let stripped = wrapper(
        "[ \"$1\" = --version ] && exec ccmux-demo-agent --version\nunset CCMUX_SESSION_TOKEN\nexec ccmux-demo-agent \"$@\"",
    );
    stripped.says("hooks", "failure", "without the session's token");
    let forgets = wrapper("[ \"$1\" = --version ] && exec ccmux-demo-agent --version\nexec ccmux-demo-agent");
    forgets.says("hooks", "failure", "no hook came");
    forgets.says("state_file", "ok", "publishes");
    let house = House::builder().agent("CCMUX_DEMO_STATE_FILE", "off").build();
    let silent = Report::of(&house, &[]);
    silent.says("state_file", "warning", "publishes no state");
    silent.says("hooks", "ok", "SessionStart");
}

#[test]
fn a_tmux_that_is_missing_old_or_wrong_is_a_failure() {
    let with = |script: Option<&str>| {
        let house = House::builder().env("PATH", "{dir}/bin").build();
        fs::create_dir_all(house.path("bin")).unwrap();
        for program in ["sh", "cat", "stty", "printf"] {
            let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
                .map(|folder| folder.join(program))
                .find(|path| path.is_file());
            std::os::unix::fs::symlink(found.unwrap(), house.path("bin").join(program)).unwrap();
        }
        if let Some(script) = script {
            let tmux = ccmux_tests::binaries::tmux();
            let script = script.replace("TMUX", &tmux.display().to_string());
            fs::write(house.path("bin/tmux"), format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(house.path("bin/tmux"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
                .unwrap();
        }
        Report::of(&house, &["--no-probe"])
    };
    let missing = with(None);
    missing.says("tmux", "failure", "tmux is missing");
    assert_eq!(missing.code, Some(1));
    with(Some("echo tmux 3.1c")).says("tmux", "failure", "too old");
    let amiss = with(Some("case \"$*\" in *source-file*) cat >/dev/null; exit 0;; esac; exec TMUX \"$@\""));
    amiss.says("tmux", "ok", "tmux");
    assert_eq!(amiss.found["paste"].0, "failure", "{:?}", amiss.found["paste"]);
}

/// `timeout 5 ccmux doctor`, or a terminal that is closed.
#[test]
fn a_doctor_that_is_told_to_end_takes_its_agent_and_its_folder_along() {
    let agent =
        "[ \"$1\" = --version ] && exec ccmux-demo-agent --version\necho $$ >{dir}/pid; exec sleep 600";
    let house = House::builder().env("CCMUX_AGENT_COMMAND", "{dir}/agent").build();
    let agent = agent.replace("{dir}", house.path("").to_str().unwrap());
    fs::write(house.path("agent"), format!("#!/bin/sh\n{agent}\n")).unwrap();
    fs::set_permissions(house.path("agent"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        let _ = fs::remove_file(house.path("pid"));
        let mut command = house.command(house.bin("ccmux"));
        let mut doctor = command.arg("doctor").stdout(Stdio::null()).spawn().unwrap();
        let agent: i32 = house.wait_for("the probe's agent", || {
            fs::read_to_string(house.path("pid")).ok()?.trim().parse().ok()
        });
        let folder = fs::read_link(format!("/proc/{agent}/cwd")).unwrap();
        kill(Pid::from_raw(doctor.id().cast_signed()), signal).unwrap();
        let end = house.wait_for("the doctor's end", || doctor.try_wait().unwrap());
        assert_eq!(end.code(), Some(1), "{signal}");
        assert!(!is_alive(agent) && !folder.exists(), "{signal} left {agent} in {folder:?}");
    }
}

#[test]
fn a_daemon_that_hangs_is_a_failure_and_holds_the_doctor_up_for_seconds_only() {
    let house = House::builder().ready();
    house.signal(Signal::SIGSTOP);
    let stat = format!("/proc/{}/stat", house.daemon_pid());
    house.wait_until("the daemon to stand still", || fs::read_to_string(&stat).unwrap().contains(") T "));
    let begin = Instant::now();
    let report = Report::of(&house, &["--no-probe"]);
    let took = begin.elapsed();
    house.signal(Signal::SIGCONT);
    report.says("daemon", "failure", "no answer");
    assert!(report.code == Some(1) && took < Duration::from_secs(25), "{took:?}");
    report.says("hooks", "ok", "skipped");
}

/// The real CLI, without its login: nothing goes to its API.
#[test]
fn the_real_claude_is_probed_without_a_call() {
    let Some(claude) = claude::or_skip() else { return };
    let house = House::with_claude(&claude);
    let before = fs::read(house.home().join(".claude.json")).unwrap();
    let report = Report::of(&house, &[]);
    report.says("agent", "ok", claude::VERSION);
    report.says("hooks", "ok", "SessionStart came with the session's token");
    report.says("state_file", "ok", claude::VERSION);
    assert_eq!(report.code, Some(0), "{:?}", report.of_state("failure"));
    assert_eq!(house.model_prompts(), [""; 0]);
    assert_eq!(fs::read(house.home().join(".claude.json")).unwrap(), before, "the user's file");
    let names = fs::read_dir(house.home().join(".claude")).unwrap().count();
    assert_eq!(names, 1, "settings.json alone, as before");
}
