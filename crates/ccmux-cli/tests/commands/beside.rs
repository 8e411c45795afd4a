//! The commands that become another program: `attach` (tmux) and `setup` (the daemon beside the client).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::scripted::{Then, ccmux, daemon, run, runtime_dir, status};

#[test]
fn attach_becomes_tmux_with_the_names_the_daemon_told() {
    let mut reply = status();
    reply["status"]["tmux"] = json!({"socket": "s1", "session": "mine"});
    let daemon = daemon(&[reply], Then::Waits);
    let tools = runtime_dir();
    std::os::unix::fs::symlink("/bin/echo", tools.path().join("tmux")).unwrap();
    let ended = run(ccmux(&daemon.dir, &["attach", "--read-only"]).env("PATH", tools.path()));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "-L s1 attach-session -t =mine -r\n"));
}

#[test]
fn attach_without_tmux_says_what_to_install() {
    let ended = run(&mut ccmux(&runtime_dir(), &["attach"]));
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("install tmux"), "{}", ended.stderr);
}

#[test]
fn setup_becomes_the_daemon_beside_the_client_or_says_that_it_is_missing() {
    // A link, not a copy: a file that was just written can't be run while any other test's child still has it open.
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (client, daemon) = (dir.path().join("ccmux"), dir.path().join("not-yet"));
    fs::hard_link(env!("CARGO_BIN_EXE_ccmux"), &client).unwrap();
    fs::write(&daemon, "#!/bin/sh\necho \"$@\"\nexit 69\n").unwrap();
    fs::set_permissions(&daemon, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&client);
    command.args(["-i", "work", "setup", "--set", "agent.cwd=/x"]);
    let ended = run(&mut command);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("install ccmuxd beside ccmux"), "{}", ended.stderr);
    fs::rename(&daemon, dir.path().join("ccmuxd")).unwrap();
    let ended = run(&mut command);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(69), "setup -i work --set agent.cwd=/x\n"));
}
