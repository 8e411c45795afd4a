//! The whole way from a notice to a raised application, with programs that stand in for those of macOS.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ccmux_wire::id::SessionId;

use super::*;
use crate::notify::Notice;
use crate::notify::desktop::focus::Focus;
use crate::spots::{Spot, Spots};

fn program(dir: &Path, name: &str, script: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, format!("#!/bin/sh\ncd '{}'\n{script}\n", dir.display())).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path
}

async fn wait_for<T>(what: &str, mut fact: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = fact() {
            return found;
        }
        assert!(Instant::now() < until, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A tmux server, and one around it whose only window is a client of the first.
struct Nested(tempfile::TempDir);

impl Nested {
    fn new() -> Self {
        let nested = Self(tempfile::tempdir().unwrap());
        nested.tmux("inner", &["new-session", "-d", "-x", "80", "-y", "24", "sleep 600"]);
        nested.tmux("inner", &["new-window", "sleep 600"]);
        let attach = format!("exec env -u TMUX tmux -S {} attach", nested.socket("inner").display());
        nested.tmux("outer", &["new-session", "-d", "-x", "80", "-y", "24", &attach]);
        nested
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn tmux(&self, server: &str, arguments: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.env_remove("TMUX")
            .env("TERM", "tmux-256color")
            .arg("-S")
            .arg(self.socket(server))
            .args(["-f", "/dev/null"]);
        String::from_utf8(tmux.args(arguments).output().unwrap().stdout).unwrap()
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        self.tmux("outer", &["kill-server"]);
        self.tmux("inner", &["kill-server"]);
    }
}

/// Whoever clicks: says what it was called with, and runs what a click shall do.
const CLICKED: &str = r#"printf '%s\n' "$@" > notifier.argv; cat > notifier.stdin; /bin/sh -c "$4""#;
/// The outer tmux is the application.
const PS: &str = r#"ps "$@" | sed 's|tmux: server|/Applications/My Term.app/Contents/MacOS/my term|'"#;

#[tokio::test]
async fn a_click_selects_the_window_in_tmux_and_raises_the_application() {
    let nested = Nested::new();
    wait_for("the client", || Some(nested.tmux("inner", &["list-clients"])).filter(|list| !list.is_empty()))
        .await;
    let pane = nested.tmux("inner", &["display-message", "-p", "-t", ":0", "#{pane_id}"]).trim().to_owned();
    assert_ne!(
        nested.tmux("inner", &["display-message", "-p", "#{pane_id}"]).trim(),
        pane,
        "another one is shown"
    );
    let dir = nested.0.path();
    let tools = MacTools {
        notifier: Some(program(dir, "terminal-notifier", CLICKED)),
        osascript: program(dir, "osascript", "exit 1"),
        ps: program(dir, "ps-of-mac", PS),
        open: program(dir, "open", r#"printf '%s\n' "$@" > open.argv"#),
    };
    let spots = Spots::default();
    spots
        .put(&SessionId::new("s"), Spot { pane: Some((nested.socket("inner"), pane.clone())), window: None });
    let focus = Focus { own: None, spots, mac: Some(tools) };
    let notice = Notice {
        session: "s".into(),
        title: "[a] title".into(),
        body: "a body".into(),
        ..crate::notify::tests::notice()
    };
    crate::notify::desktop::tell(&notice, &focus).await.unwrap();
    let raised = wait_for("the application", || {
        std::fs::read_to_string(dir.join("open.argv")).ok().filter(|argv| argv.lines().count() == 2)
    });
    assert_eq!(raised.await, "-a\n/Applications/My Term.app\n");
    assert_eq!(nested.tmux("inner", &["display-message", "-p", "#{pane_id}"]).trim(), pane);
    let argv = std::fs::read_to_string(dir.join("notifier.argv")).unwrap();
    assert!(argv.starts_with("-title\n\\[a] title\n-execute\n/usr/bin/touch '"), "{argv}");
    assert_eq!(std::fs::read_to_string(dir.join("notifier.stdin")).unwrap(), "a body");
}

#[tokio::test]
async fn a_notifier_that_fails_is_replaced_by_osascript() {
    let dir = tempfile::tempdir().unwrap();
    let tools = MacTools {
        notifier: Some(program(dir.path(), "terminal-notifier", "exit 1")),
        osascript: program(dir.path(), "osascript", r#"printf '%s\n' "$8" "$9" > shown"#),
        ps: "/nowhere".into(),
        open: "/nowhere".into(),
    };
    let focus = Focus { mac: Some(tools), ..Focus::default() };
    let notice = Notice { title: "a title".into(), body: "a body".into(), ..crate::notify::tests::notice() };
    crate::notify::desktop::tell(&notice, &focus).await.unwrap();
    assert_eq!(std::fs::read_to_string(dir.path().join("shown")).unwrap(), "a title\na body\n");
}

#[test]
fn the_notifier_is_looked_for_where_the_path_says() {
    let dir = tempfile::tempdir().unwrap();
    let path = format!("relative:{}", dir.path().display());
    let before = notifier_in(&path);
    let there = program(dir.path(), "terminal-notifier", "");
    assert_ne!(before, Some(there.clone()));
    assert_eq!(notifier_in(&path), Some(there));
}
