//! `ccmux` against a daemon that says canned lines on a real socket: exit codes, output, and the frames it is asked.
//!
//! What the daemon would really do is not known here: the end-to-end tests in `tests/` know it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod beside;
mod inbox;
mod scripted;
mod send;
mod state;
mod tail;

use scripted::{ccmux, run, runtime_dir, socket_in};

#[test]
fn without_a_daemon_the_socket_and_the_remedy_are_named() {
    for line in [&["status"][..], &["why"], &["screen"], &["tail"], &["channels"], &["send", "x"]] {
        let dir = runtime_dir();
        let ended = run(&mut ccmux(&dir, line));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(6), ""), "{line:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        let socket = socket_in(&dir);
        assert!(ended.stderr.contains(socket.to_str().unwrap()), "{}", ended.stderr);
        assert!(ended.stderr.contains("start ccmuxd"), "{}", ended.stderr);
    }
}

#[test]
fn wrong_usage_is_two() {
    let dir = runtime_dir();
    for line in [
        &["send"][..],
        &["explode"],
        &[],
        &["send", "--wait", "never", "x"],
        &["tail", "--alerts", "--turns"],
    ] {
        let ended = run(&mut ccmux(&dir, line));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{line:?}");
    }
}

#[test]
fn it_says_its_version_and_completes_for_shells() {
    let dir = runtime_dir();
    assert_eq!(
        run(&mut ccmux(&dir, &["--version"])).stdout,
        concat!("ccmux ", env!("CARGO_PKG_VERSION"), "\n")
    );
    assert!(run(&mut ccmux(&dir, &["completions", "bash"])).stdout.contains("_ccmux"));
}
