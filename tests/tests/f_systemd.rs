//! What of acceptance F5 needs no systemd: the words that it is told, the FIFOs that it holds, the unit for tmux, and the
//! unit files. The rest is `cargo xtask systemd-test`.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use ccmux_tests::House;
use ccmux_tests::binaries::repository;
use ccmux_tests::house::HouseBuilder;
use ccmux_tests::patience::stays_quiet;
use ccmux_tests::systemd::{SOCKET, Systemd};
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;

/// A daemon that systemd, or who stands in for it, listens to.
fn supervised(builder: HouseBuilder) -> (House, Systemd) {
    let house = builder.env("NOTIFY_SOCKET", format!("{{dir}}/{SOCKET}")).build();
    let systemd = Systemd::listen(&house);
    house.start();
    house.wait_ready();
    (house, systemd)
}

/// Writes as a program does that would rather fail than wait for a reader.
fn write_now(house: &House, name: &str, text: &str) {
    let options = OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).clone();
    options
        .open(house.run_dir().join(name))
        .expect("somebody holds the FIFO")
        .write_all(text.as_bytes())
        .unwrap();
}

/// Waits until those files, in order of their names, are what is stored.
fn stored_is(house: &House, systemd: &Systemd, files: &[&str]) {
    house.wait_until(&format!("{files:?} in the store"), || {
        let names = systemd.stored();
        let mut found: Vec<&str> = names.iter().filter_map(|name| name.split('/').next()).collect();
        found.sort_unstable();
        found == files
    });
}

/// Acceptance F5.
#[test]
fn f5_systemd_is_told_what_the_daemon_is_at() {
    let (house, systemd) = supervised(House::builder());
    house.wait_until("READY and the status", || {
        systemd.count("READY=1") == 1 && systemd.count("STATUS=ready") > 0
    });
    house.signal(Signal::SIGHUP);
    house.wait_until("RELOADING, then READY", || {
        let words = systemd.words();
        let reloading = words.iter().position(|word| word == "RELOADING=1");
        reloading.is_some_and(|at| {
            words[at + 1].starts_with("MONOTONIC_USEC=") && words[at..].contains(&"READY=1".to_owned())
        })
    });
    assert_eq!(systemd.count("STOPPING=1"), 0);
    assert_eq!(systemd.count("WATCHDOG=1"), 0, "nobody asked for it");
    assert!(house.stop().success());
    house.wait_until("STOPPING", || systemd.count("STOPPING=1") > 0);
}

/// Acceptance F5.
#[test]
fn f5_a_daemon_that_hangs_does_not_feed_the_watchdog() {
    let (house, systemd) = supervised(House::builder().env("WATCHDOG_USEC", 400_000));
    let fed = || systemd.count("WATCHDOG=1");
    let begin = fed();
    house.wait_until("food, with nothing else going on", || fed() >= begin + 3);
    house.signal(Signal::SIGSTOP);
    // What was on its way when it stopped.
    let mut last = fed();
    house.wait_within(Duration::from_secs(2), "no more food", || {
        let before = std::mem::replace(&mut last, fed());
        (before == last).then_some(())
    });
    stays_quiet(Duration::from_secs(1), "fed although it hangs", || {
        (fed() > last + 1).then(|| format!("{} times", fed() - last))
    });
    house.signal(Signal::SIGCONT);
    house.wait_until("food again", || fed() >= last + 3);
}

/// Acceptance F5.
#[test]
fn f5_each_fifo_is_stored_once_and_let_go_when_it_goes() {
    let (house, systemd) = supervised(House::builder());
    stored_is(&house, &systemd, &["in"]);
    house.write("in.phone", "say: hello\n");
    house.wait_for_prompt("hello");
    stored_is(&house, &systemd, &["in", "in.phone"]);
    fs::remove_file(house.run_dir().join("in.phone")).unwrap();
    stored_is(&house, &systemd, &["in"]);
    house.stop();
    assert_eq!(systemd.stored().len(), 1, "a restart needs what is stored");
}

/// Acceptance B3, F5. Field fault 30.
#[test]
fn f5_b3_a_line_written_to_a_dead_daemon_returns_at_once_and_is_accepted() {
    let (house, systemd) = supervised(House::builder());
    house.write("in.phone", "say: first\n");
    house.wait_for_prompt("first");
    stored_is(&house, &systemd, &["in", "in.phone"]);
    let agent = house.agent_pid();
    house.kill9();
    write_now(&house, "in.phone", "say: while it was dead\n");
    systemd.start(&house);
    house.wait_for_prompt("while it was dead");
    assert_eq!(house.agent_pid(), agent);
    house.write("in.phone", "say: afterwards\n");
    house.wait_for_prompt("afterwards");
    // A restart ends well, and the next daemon finds what is stored all the same.
    assert!(house.stop().success());
    write_now(&house, "in.phone", "say: during the restart\n");
    systemd.start(&house);
    house.wait_for_prompt("during the restart");
    assert_eq!(house.agent_pid(), agent);
    assert_eq!(systemd.count("FDSTORE=1"), 2, "what is stored was stored again");
}

/// Acceptance B3. Field fault 36.
#[test]
fn b3_a_stored_fifo_whose_name_another_one_has_is_emptied_first() {
    let (house, systemd) = supervised(House::builder());
    let path = house.fifo("in.phone");
    let gone = house.fifo("in.gone");
    stored_is(&house, &systemd, &["in", "in.gone", "in.phone"]);
    let of_phone = || systemd.stored().into_iter().find(|name| name.starts_with("in.phone"));
    let before = of_phone();
    house.kill9();
    write_now(&house, "in.phone", "say: into the old one\n");
    write_now(&house, "in.gone", "say: into one that went\n");
    fs::remove_file(&path).unwrap();
    fs::remove_file(gone).unwrap();
    nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    systemd.start(&house);
    house.write("in.phone", "say: into the new one\n");
    let prompts = ["into the old one", "into one that went", "into the new one"];
    prompts.iter().for_each(|text| drop(house.wait_for_prompt(text)));
    let texts: Vec<String> = house.messages().into_iter().map(|(_, text)| text).collect();
    let place = |text: &str| texts.iter().position(|found| found.contains(text)).unwrap();
    assert!(place("into the old one") < place("into the new one"), "{texts:?}");
    stored_is(&house, &systemd, &["in", "in.phone"]);
    assert_ne!(of_phone(), before);
}

/// Acceptance F5.
#[test]
fn f5_what_is_passed_and_is_no_channels_fifo_is_let_go() {
    let (house, systemd) = supervised(House::builder());
    house.kill9();
    fs::write(house.path("file"), "say: not from a file\n").unwrap();
    systemd.slip_in("in.file/1-1", File::open(house.path("file")).unwrap());
    nix::unistd::mkfifo(&house.path("fifo"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let fifo = OpenOptions::new().read(true).write(true).open(house.path("fifo")).unwrap();
    systemd.slip_in("in.a b/1-1", fifo);
    systemd.start(&house);
    house.wait_ready();
    stored_is(&house, &systemd, &["in"]);
    assert_eq!(house.log_events("fifos.passed_refused").len(), 2);
}

/// Stands in for systemd-run: notes what it was asked for, and does it.
const SYSTEMD_RUN: &str = r#"#!/bin/sh
echo "$@" >> "${0%/*}/asked"
while [ "$1" != -- ]; do shift; done
shift
setsid "$@" < /dev/null > /dev/null 2>&1 &
"#;

fn as_unit(systemd_run: &str) -> HouseBuilder {
    let path = std::env::var("PATH").unwrap();
    House::builder()
        .file("systemd-run", systemd_run, 0o755)
        .env("PATH", format!("{{dir}}:{path}"))
        .env("INVOCATION_ID", "0123456789abcdef0123456789abcdef")
}

/// Acceptance F5. Field fault 30.
#[test]
fn f5_tmux_gets_a_unit_of_its_own_unless_a_server_answers() {
    let (house, _systemd) = supervised(as_unit(SYSTEMD_RUN));
    let asked = || fs::read_to_string(house.path("asked")).unwrap_or_default();
    let first = asked();
    assert!(first.starts_with("--user ") && first.contains("--unit ccmux-tmux-"), "{first}");
    assert!(first.contains("-D") && !first.contains("--scope"), "{first}");
    assert_eq!(house.log_events("tmux.unit_started").len(), 1);
    house.kill_agent();
    house.wait_until("a replacement", || house.status().agent.restarts == 1);
    house.wait_ready();
    house.send("answered", "say: hello");
    house.tmux(&["kill-session", "-t", "=ccmux"]);
    house.wait_until("another one", || house.status().agent.restarts == 2);
    house.wait_ready();
    assert_eq!(asked(), first, "the server was there");
    house.tmux(&["kill-server"]);
    house.wait_until("another server", || asked().lines().count() == 2);
    house.wait_ready();
    // Nobody else waits for this one to end.
    house.tmux(&["kill-server"]);
}

/// Acceptance F5.
#[test]
fn f5_where_no_unit_can_be_had_the_agent_is_started_all_the_same() {
    let (house, _systemd) = supervised(as_unit("#!/bin/sh\necho no bus >&2\nexit 1\n"));
    house.send("answered", "say: hello");
    let failed = house.log_events("tmux.unit_failed");
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["why"], "no bus");
}

fn unit(name: &str) -> String {
    fs::read_to_string(repository().join("systemd").join(name)).unwrap()
}

/// Acceptance F5.
#[test]
fn f5_the_units_say_what_the_contract_says() {
    let text = unit("ccmuxd.service");
    let (head, service) = text.split_once("[Service]").unwrap();
    assert!(head.contains("\nStartLimitBurst=") && head.contains("\nStartLimitIntervalSec="));
    for line in [
        "Type=notify",
        "RestartPreventExitStatus=2 69 73 78",
        "KillMode=process",
        "FileDescriptorStoreMax=512",
    ] {
        assert!(service.lines().any(|found| found == line), "{line}");
    }
    assert!(!service.contains("\nPrivateTmp"));
}

#[test]
fn the_unit_of_instances_is_that_of_the_plain_daemon_with_a_name() {
    let (plain, instance) = (unit("ccmuxd.service"), unit("ccmuxd@.service"));
    let instance = instance.replace("ccmuxd@NAME", "ccmuxd").replace("ccmuxd@.service", "ccmuxd.service");
    let instance = instance.replace("ccmuxd -i %i", "ccmuxd").replace("ccmux instance %i", "ccmux");
    let below = |text: &str| text.split_once("[Unit]").unwrap().1.to_owned();
    assert_eq!(below(&plain), below(&instance));
}
