//! What one look tells: screen, pane, people.

use super::*;

#[tokio::test]
async fn a_dead_pane_still_has_its_only_row() {
    let server = Server::new();
    server.start(&["sh", "-c", "echo 'it cannot be started'; exit 1"]).await;
    server.dead().await;
    let text = server.capture().await.text;
    assert!(text.starts_with("it cannot be started\n"), "{text}");
    assert!(text.contains("Pane is dead"), "{text}");
}

#[tokio::test]
async fn a_capture_has_all_rows_colours_and_any_title() {
    let server = Server::new();
    let script =
        "printf '\\033]2;ccmux P %%9 1 0 ✳ a | b\\033\\\\\\n\\033[31mred\\033[m \\n\\nlast'; sleep 1000";
    server.start(&["sh", "-c", script]).await;
    until("it is on the screen", async || server.capture().await.text.contains("last")).await;
    let capture = server.capture().await;
    let rows: Vec<&str> = capture.text.split('\n').collect();
    assert_eq!(rows.len(), 48, "as many as the pane has");
    assert!(rows[1].contains("\x1b[31mred"), "{rows:?}");
    assert_eq!(&rows[2..5], ["", "last", ""]);
    assert_eq!(capture.pane.title, "ccmux P %9 1 0 ✳ a | b");
    assert_eq!(capture.active_at, None, "nobody is attached");
    assert_eq!(capture.pane, server.pane().await);
}

/// Field fault 14.
#[tokio::test]
async fn only_a_client_that_can_type_into_our_session_is_a_human() {
    let server = Server::new();
    server.start(&["sleep", "1000"]).await;
    server.user(&["new-session", "-d", "-s", "other", "sleep 1000"]);
    let humans = Server::new();
    let attached = async |count: usize| {
        until("attached", async || server.user(&["list-clients"]).lines().count() == count).await;
    };
    let attach = |name: &str, how: &str| {
        let line = format!("exec env -u TMUX tmux -L {} {how}", server.name);
        humans.user(&["new-session", "-d", "-s", name, &line]);
    };
    attach("read-only", "attach -r -t =ccmux");
    attach("elsewhere", "attach -t =other");
    let mut control = server.command(&["-C", "attach", "-t", "=ccmux"]);
    let mut control = control.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("tmux");
    attached(3).await;
    assert_eq!(server.tmux.last_typed().await, Ok(None));

    attach("grouped", "new-session -t =ccmux");
    attached(4).await;
    let now = jiff::Timestamp::now().as_millisecond();
    let active = server.tmux.last_typed().await.expect("an answer").expect("a human");
    assert!((active.0 - now).abs() < 20_000, "{active:?} is not near {now}");
    assert_eq!(server.capture().await.active_at, Some(active));
    drop(control.stdin.take());
    control.wait().expect("it ends");
}

/// tmux notes who is active before it hands on the key. What ccmux types itself is nobody's activity.
#[tokio::test]
async fn a_key_that_no_screen_shows_changes_the_activity_and_our_own_typing_does_not() {
    let server = Server::new();
    let pane = server.start_listening().await;
    server.user(&["new-session", "-d", "-s", "other", "sleep 1000"]);
    let human = Server::new();
    let line = format!("exec env -u TMUX tmux -L {} attach -t =ccmux", server.name);
    human.user(&["new-session", "-d", "-s", "human", &line]);
    until("attached", async || !server.user(&["list-clients"]).is_empty()).await;

    let seen = async || server.capture().await.untouched();
    until("the second in which they came to be over", async || seen().await.activity.is_some()).await;
    let before = seen().await;
    let activity = before.activity.as_ref().expect("of an earlier second");
    assert_eq!(activity.as_str().split_whitespace().count(), 1, "{before:?}: of the other session, too");
    let second = Instant::now() + Duration::from_millis(1100);
    until("our own typing to last for a second", async || {
        server.tmux.inject(guard(&pane), vec!["ours".to_owned()]).await.expect("typed");
        server.tmux.press_enter(guard(&pane)).await.expect("typed");
        assert_eq!(seen().await.activity, before.activity, "our own typing counts");
        Instant::now() > second
    })
    .await;

    human.user(&["send-keys", "-t", "=human:", "x"]);
    until("the key to arrive", async || server.typed().contains('x')).await;
    let after = seen().await;
    assert_eq!(after.cursor, before.cursor, "the agent echoes nothing");
    assert_ne!(after.activity, before.activity);
    let stale = Guard { untouched: Some(before), ..guard(&pane) };
    let typed = server.tmux.press_enter(stale).await;
    assert!(matches!(&typed, Ok(Typed::Refused(why)) if why.contains("typed into")), "{typed:?}");
    let fresh = Guard { untouched: Some(after), ..guard(&pane) };
    assert_eq!(server.tmux.press_enter(fresh).await, Ok(Typed::Done));
}

#[tokio::test]
async fn a_new_server_that_counts_its_panes_anew_does_not_deceive() {
    let server = Server::new();
    let pane = server.start_listening().await;
    server.user(&["kill-server"]);
    until("the server is gone", async || server.tmux.find().await == Ok(None)).await;
    server.user(&["new-session", "-d", "-s", "theirs", "-x", "80", "-y", "24", "sleep 1000"]);
    *server.tmux.pane.lock().expect("not poisoned") = Some(pane.id.clone());
    assert!(matches!(server.tmux.capture().await, Err(TerminalError::NoPane(_))));
    *server.tmux.pane.lock().expect("not poisoned") = Some(pane.id.clone());
    let typed = server.tmux.inject(guard(&pane), vec!["x".to_owned()]).await;
    assert!(matches!(typed, Ok(Typed::Refused(_))), "{typed:?}");
    let again = server.start_listening().await;
    assert_eq!(server.capture().await.pane.id, again.id);
}
