//! Pastes and keys on a real pane: exact, guarded, and never the end of the server.

use super::*;
use crate::terminal::{Activity, Untouched};

fn nasty() -> Vec<String> {
    let ascii: String = (' '..='~').collect();
    let own = [
        "~/x",
        "-x",
        "--",
        "-",
        "end;",
        ";",
        "\\;",
        "\\",
        "a\\",
        "'",
        "\"",
        "#{pid}",
        "##",
        "#",
        "%H",
        "%1",
        "$HOME",
        "${HOME}",
        "{",
        "}",
        "} {",
        "`id`",
        "a\nb\n\nc\n",
        "\n",
        "  lead",
        "trail  ",
        "\t",
        "é e\u{301} 漢字 👩‍👩‍👧 \u{a0}",
        "[12:00 telegram] hi",
        "\\u00e9 \\101 \\n",
        "\r",
        "\u{7f}",
    ];
    std::iter::once(ascii).chain(own.map(str::to_owned)).collect()
}

/// Field fault 3.
#[tokio::test]
async fn every_text_arrives_as_it_is_and_no_buffer_stays() {
    let server = Server::new();
    let pane = server.start_listening().await;
    server.user(&["set-buffer", "-b", "theirs", "kept"]);
    let pieces = nasty();
    assert_eq!(server.tmux.inject(guard(&pane), pieces.clone()).await, Ok(Typed::Done));
    server.typed_is(&bracketed(&pieces)).await;
    assert_eq!(server.user(&["list-buffers", "-F", "#{buffer_name}"]), "theirs");
}

#[tokio::test]
async fn an_empty_piece_is_nothing_and_a_nul_is_refused_as_a_whole() {
    let server = Server::new();
    let pane = server.start_listening().await;
    let pieces = vec!["a".to_owned(), "b\0".to_owned()];
    assert!(matches!(server.tmux.inject(guard(&pane), pieces).await, Err(TerminalError::Failed { .. })));
    let pieces = vec![String::new(), "c".to_owned()];
    assert_eq!(server.tmux.inject(guard(&pane), pieces).await, Ok(Typed::Done));
    server.typed_is(&bracketed(&["c".to_owned()])).await;
}

#[tokio::test]
async fn enter_is_pressed_after_the_text() {
    let server = Server::new();
    let pane = server.start_listening().await;
    let pieces = vec!["hi".to_owned()];
    server.tmux.inject(guard(&pane), pieces.clone()).await.expect("typed");
    assert_eq!(server.tmux.press_enter(guard(&pane)).await, Ok(Typed::Done));
    server.typed_is(&format!("{}\r", bracketed(&pieces))).await;
}

#[tokio::test]
async fn a_big_batch_arrives_whole_and_soon() {
    let server = Server::new();
    let pane = server.start_listening().await;
    let piece =
        |length: usize| (0..).map(|i| char::from(b' ' + (i * 7 % 95) as u8)).take(length).collect::<String>();
    let small: Vec<String> = (0..450).map(|_| piece(62)).collect();
    let big: Vec<String> = (0..337).map(|_| piece(778)).collect();
    let mut expected = String::new();
    for pieces in [small, big] {
        expected += &bracketed(&pieces);
        let begun = Instant::now();
        assert_eq!(server.tmux.inject(guard(&pane), pieces.clone()).await, Ok(Typed::Done));
        let taken = begun.elapsed();
        server.typed_is(&expected).await;
        let bytes: usize = pieces.iter().map(String::len).sum();
        eprintln!("{bytes} bytes in {} pieces: {taken:?}, there after {:?}", pieces.len(), begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}

/// Field faults 9, 29.
#[tokio::test]
async fn what_the_guard_forbids_is_refused_with_a_reason_and_nothing_is_typed() {
    let server = Server::new();
    let pane = server.start_listening().await;
    let id = pane.id.as_str();
    server.user(&["split-window", "-d", "-t", id, "sleep 1000"]);
    let wrong = Guard { pid: pane.pid + 1, untouched: None };
    refuses(&server, wrong, &format!("process {} is not {}", pane.pid, pane.pid + 1)).await;
    let untouched = server.capture().await.untouched();
    let moved = Untouched { cursor: (pane.cursor.0 + 7, pane.cursor.1), ..untouched.clone() };
    refuses(&server, Guard { untouched: Some(moved), ..guard(&pane) }, "typed into since the last look")
        .await;
    let long_ago = Activity::new("1000000000 ").expect("numbers and blanks");
    let typed = Untouched { activity: Some(long_ago), ..untouched };
    refuses(&server, Guard { untouched: Some(typed), ..guard(&pane) }, "typed into since the last look")
        .await;
    for (begin, end, why) in [
        (vec!["copy-mode", "-t", id], vec!["send-keys", "-t", id, "-X", "cancel"], "in a mode"),
        (vec!["select-pane", "-d", "-t", id], vec!["select-pane", "-e", "-t", id], "input off"),
        (
            vec!["set-option", "-w", "-t", id, "synchronize-panes", "on"],
            vec!["set-option", "-w", "-t", id, "synchronize-panes", "off"],
            "synchronised",
        ),
    ] {
        server.user(&begin);
        refuses(&server, guard(&pane), why).await;
        server.user(&end);
    }
    let pieces = vec!["at last".to_owned()];
    assert_eq!(server.tmux.inject(guard(&pane), pieces.clone()).await, Ok(Typed::Done));
    server.typed_is(&bracketed(&pieces)).await;
    kill(Pid::from_raw(pane.pid), Signal::SIGKILL).expect("killed");
    server.dead().await;
    refuses(&server, guard(&pane), "is dead").await;
    assert_eq!(server.user(&["list-buffers"]), "");
}

/// Whatever id tmux gives it, in whatever window: twelve of them, of which all but the first are not the current one.
#[tokio::test]
async fn every_pane_is_typed_into_while_nobody_touches_it_and_not_after() {
    let server = Server::new();
    let mut pane = server.start(&["cat"]).await;
    server.user(&["new-window", "-t", "=ccmux:", "sleep 1000"]);
    until("a second to be over", async || server.capture().await.activity.is_some()).await;
    for _ in 0..12 {
        let untouched = server.capture().await.untouched();
        let activity = untouched.activity.clone().expect("nobody is attached");
        let guard = Guard { untouched: Some(untouched.clone()), ..guard(&pane) };
        assert_eq!(server.tmux.press_enter(guard).await, Ok(Typed::Done), "{activity:?} in {}", pane.id);
        let other = Activity::new(&format!("1{}", activity.as_str()));
        let cursor = server.capture().await.pane.cursor;
        let touched = Guard { untouched: Some(Untouched { cursor, activity: other }), ..self::guard(&pane) };
        refuses(&server, touched, "typed into since the last look").await;
        server.user(&["kill-pane", "-t", &pane.id]);
        pane = server.start(&["cat"]).await;
    }
}

async fn refuses(server: &Server, guard: Guard, reason: &str) {
    let paste = server.tmux.inject(guard.clone(), vec!["never".to_owned()]).await;
    for typed in [paste, server.tmux.press_enter(guard).await] {
        assert!(matches!(&typed, Ok(Typed::Refused(why)) if why.contains(reason)), "{typed:?}, not {reason}");
    }
}

#[tokio::test]
async fn without_a_server_there_is_no_pane_to_type_into() {
    let server = Server::new();
    let pane = server.start_listening().await;
    server.user(&["kill-server"]);
    until("the server is gone", async || server.tmux.find().await == Ok(None)).await;
    *server.tmux.pane.lock().expect("not poisoned") = Some(pane.id.clone());
    let typed = server.tmux.inject(guard(&pane), vec!["x".to_owned()]).await;
    assert!(matches!(typed, Err(TerminalError::NoPane(_))), "{typed:?}");
}

/// Acceptance C7: 150 kills racing with pastes, and with the Enter behind them.
#[tokio::test]
async fn a_pane_that_dies_while_we_type_never_takes_the_server_with_it() {
    const ROUNDS: u64 = 150;
    let server = Server::new();
    server.user(&["new-session", "-d", "-s", "other", "sleep 1000"]);
    let (mut pastes_refused, mut enters_refused) = (0, 0);
    for round in 0..ROUNDS {
        let pane = server.start(&["cat"]).await;
        let typing = tokio::spawn(paste_and_enter(Arc::clone(&server.tmux), guard(&pane)));
        // Between nothing and the time that both take.
        tokio::time::sleep(Duration::from_micros(round * round * 3)).await;
        kill(Pid::from_raw(pane.pid), Signal::SIGKILL).expect("killed");
        let (paste, enter) = typing.await.expect("no panic");
        pastes_refused += u32::from(refused(round, paste));
        enters_refused += u32::from(refused(round, enter));
        assert_eq!(server.dead().await, ExitStatus::Signal(9));
    }
    eprintln!("{ROUNDS} rounds, {pastes_refused} pastes and {enters_refused} Enters refused");
    assert!(server.user(&["list-sessions", "-F", "#{session_name}"]).contains("other"));
    assert_eq!(server.user(&["list-buffers"]), "", "a text stayed in the server");
    assert!(
        pastes_refused > 0 && u64::from(enters_refused) < ROUNDS,
        "the kills were all too late or too early"
    );
}

type Answer = Result<Typed, TerminalError>;

async fn paste_and_enter(tmux: Arc<Tmux>, guard: Guard) -> (Answer, Answer) {
    let paste = tmux.inject(guard.clone(), vec!["text".to_owned(); 20]).await;
    (paste, tmux.press_enter(guard).await)
}

fn refused(round: u64, answer: Answer) -> bool {
    match answer {
        Ok(typed) => typed != Typed::Done,
        Err(error) => panic!("round {round}: {error}"),
    }
}
