//! `ccmux adapter cron` beside a real daemon: each occurrence once, whatever is restarted.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::process::Stdio;

use ccmux_tests::{AdapterProgram, House};
use nix::sys::signal::Signal;
use time::OffsetDateTime;

/// The present minute of this year: it comes once, and an adapter that starts now finds it due.
fn this_minute() -> String {
    let now = OffsetDateTime::now_utc();
    format!("{} {} {} {} *", now.minute(), now.hour(), now.day(), u8::from(now.month()))
}

fn house() -> House {
    House::builder().env("TZ", "UTC").build()
}

fn crontab(house: &House, lines: &str) -> String {
    let path = house.path("crontab");
    fs::write(&path, lines).unwrap();
    path.display().to_string()
}

#[test]
fn a_message_waits_for_the_daemon_and_comes_once_however_often_the_adapter_starts() {
    let house = house();
    let minute = this_minute();
    let file =
        crontab(&house, &format!("# mornings\n{minute} say: rise\nCHANNEL=tasks\n{minute} say: work\n"));
    let cron = ["cron", "--file", &file, "--catch-up", "1h"];
    let mut first = AdapterProgram::built_in(&house, &cron);
    first.wait_for("trying on");
    house.start();
    house.wait_until("both messages", || house.stored().len() == 2);
    assert!(first.end().success(), "{}", first.said());

    // Everything again, and one line more: once that one has arrived the others were sent again, too.
    crontab(&house, &format!("{minute} say: rise\nCHANNEL=tasks\n{minute} say: work\n{minute} say: last\n"));
    let mut second = AdapterProgram::built_in(&house, &cron);
    house.wait_until("the last message", || house.stored_on("tasks").len() == 2);
    assert_eq!(house.stored_on("cron"), ["say: rise"]);
    assert_eq!(house.stored_on("tasks"), ["say: work", "say: last"]);
    assert!(second.end().success());
    assert_eq!(second.said(), "", "a known id is no news");
}

#[test]
fn the_daemon_may_be_killed_between_two_messages() {
    let house = house();
    house.start();
    let file = crontab(&house, &format!("{} say: before\n", this_minute()));
    let cron = AdapterProgram::built_in(&house, &["cron", "--file", &file]);
    house.wait_until("the first message", || house.stored_on("cron").len() == 1);
    house.kill9();
    crontab(&house, &format!("{} say: after\n", this_minute()));
    cron.signal(Signal::SIGHUP);
    cron.wait_for("trying on");
    house.start();
    house.wait_until("the second message", || house.stored_on("cron") == ["say: before", "say: after"]);
    house.wait_for_messages(2);
}

#[test]
fn a_broken_file_is_told_by_line_and_changes_nothing() {
    let house = house();
    house.start();
    let minute = this_minute();
    let file = crontab(&house, &format!("{minute} say: kept\n"));
    let cron = AdapterProgram::built_in(&house, &["cron", "--file", &file]);
    house.wait_until("the message", || house.stored_on("cron").len() == 1);
    crontab(&house, &format!("{minute} say: new\n99 * * * * say: never\n"));
    cron.signal(Signal::SIGHUP);
    let said = cron.wait_for("the old lines stay");
    assert!(said.contains("crontab, line 2: the time \"99 * * * *\""), "{said}");
    crontab(&house, &format!("{minute} say: new\n"));
    cron.signal(Signal::SIGHUP);
    house.wait_until("the new message", || house.stored_on("cron") == ["say: kept", "say: new"]);
}

#[test]
fn what_can_not_be_kept_ends_with_the_code_of_the_contract() {
    let house = house();
    let bad = crontab(&house, "* * * *\n\n@fortnightly tea\n");
    for (arguments, code, words) in [
        (&["--file", &bad][..], 4, "line 1: "),
        (&["--file", &bad], 4, "line 3: "),
        (&["--file", "/nowhere/crontab"], 1, "/nowhere/crontab"),
        (&["--at", "0 0 31 2 *", "x"], 4, "never comes"),
        (&["--at", "* * * * *"], 2, "2 values"),
        (&[], 2, "--file"),
        (&["--file", &bad, "--catch-up", "soon"], 2, "90s"),
        (&["--file", &bad, "--catch-up", "3650d"], 2, "31d"),
    ] {
        let mut command = house.command(house.bin("ccmux"));
        command.args(["adapter", "cron"]).args(arguments).stdin(Stdio::null());
        let output = house.run_to_end(command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
fn what_is_too_much_to_wait_is_dropped_in_one_word() {
    let house = house();
    let mut cron =
        AdapterProgram::built_in(&house, &["cron", "--at", "* * * * *", "say: tick", "--catch-up", "31d"]);
    cron.wait_for("trying on");
    let said = cron.said();
    assert!(said.contains("too many wait for the daemon"), "{said}");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(cron.end().success());
    assert!(cron.said().contains("10000 wait"), "{}", cron.said());
}

#[test]
fn the_agent_is_shown_the_time_at_which_it_was_due() {
    let house = house();
    let now = OffsetDateTime::now_utc();
    let minute = format!("{:02}:{:02}", now.hour(), now.minute());
    let cron = AdapterProgram::built_in(
        &house,
        &["cron", "--at", &this_minute(), "say: on time", "--catch-up", "1h"],
    );
    cron.wait_for("trying on");
    house.start();
    let prompt = house.wait_for_prompt("say: on time");
    assert_eq!(prompt, format!("[{minute} cron] say: on time"));
}
