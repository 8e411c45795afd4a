//! `ccmux manual`: pages of every verb, and those of the `ccmuxd` beside it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tempfile::TempDir;

#[test]
fn every_verb_has_a_page_and_the_daemon_is_asked_for_its_own() {
    // A link, not a copy: a file that was just written can't be run while any other test's child still has it open.
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (client, daemon, pages) =
        (dir.path().join("ccmux"), dir.path().join("not-yet"), dir.path().join("man/man1"));
    fs::hard_link(env!("CARGO_BIN_EXE_ccmux"), &client).unwrap();
    fs::write(&daemon, "#!/bin/sh\necho \"$@\"\n").unwrap();
    fs::set_permissions(&daemon, Permissions::from_mode(0o755)).unwrap();
    fs::rename(&daemon, dir.path().join("ccmuxd")).unwrap();
    let output = Command::new(&client).arg("manual").arg(&pages).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("manual {}\n", pages.display()));
    for (page, words) in [("ccmux.1", ".SH NAME"), ("ccmux-send.1", "channel"), ("ccmux-manual.1", "FOLDER")]
    {
        let text = fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(".TH ") && text.contains(words), "{page}: {text}");
    }
}

#[test]
fn a_folder_that_can_not_be_made_is_named() {
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_ccmux")).arg("manual").arg(file.join("man1")).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && told.contains("file/man1"), "{told}");
}
