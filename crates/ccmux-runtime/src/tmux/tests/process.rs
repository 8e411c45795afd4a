//! The tmux program itself: missing, too old, hanging, ended by force.

use super::*;

fn with_binary(server: &Server, script: &str) -> Tmux {
    let binary = server.path("tmux");
    let mut file = std::fs::File::create(&binary).expect("a file");
    write!(file, "#!/bin/sh\n{script}\n").expect("written");
    drop(file);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&binary, mode).expect("a mode");
    Tmux::new(TmuxSettings { binary, ..server.tmux.settings.clone() })
}

#[tokio::test]
async fn a_tmux_that_is_missing_or_too_old_is_named() {
    let server = Server::new();
    assert!(server.tmux.version().await.is_ok());
    let old = with_binary(&server, "echo tmux 3.1c").version().await.expect_err("too old").to_string();
    assert_eq!(old, "tmux 3.1c is too old: install tmux 3.2 or newer");
    let other = with_binary(&server, "echo hello").version().await.expect_err("no tmux").to_string();
    assert!(other.contains("hello"), "{other}");
    let settings = TmuxSettings { binary: "/nonexistent/tmux".into(), ..server.tmux.settings.clone() };
    let missing = Tmux::new(settings).version().await.expect_err("missing").to_string();
    assert!(missing.contains("/nonexistent/tmux") && missing.contains("install tmux"), "{missing}");
}

#[tokio::test]
async fn a_tmux_that_hangs_is_ended_and_reported_as_silent() {
    let server = Server::new();
    let file = server.path("pid");
    let tmux = with_binary(&server, &format!("echo $$ >'{}'; exec sleep 1000", file.display()));
    assert_eq!(tmux.find().await, Err(TerminalError::Silent { what: "list panes", limit_s: 5 }));
    let pid: i32 = std::fs::read_to_string(file).expect("it ran").trim().parse().expect("a pid");
    until("it is gone", async || kill(Pid::from_raw(pid), None).is_err()).await;
}

#[tokio::test]
async fn a_server_that_dies_while_we_type_leaves_a_doubt() {
    let server = Server::new();
    let tmux = with_binary(&server, "cat >/dev/null; echo 'server exited unexpectedly' >&2; exit 1");
    *tmux.pane.lock().expect("not poisoned") = Some("%0".to_owned());
    let typed = tmux.inject(Guard { pid: 1, untouched: None }, vec!["x".to_owned()]).await;
    assert!(matches!(typed, Err(TerminalError::Silent { .. })), "{typed:?}");
}
