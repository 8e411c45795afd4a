//! Making our pane: in a new session, in a session of the user, in the dead pane of an earlier agent.

use super::*;

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_agent_is_the_panes_own_process_and_no_shell_reads_its_arguments() {
    let server = Server::new();
    let argv = [
        "tail",
        "-f",
        "/dev/null",
        "--",
        "a b",
        "$HOME",
        "~",
        "#{pane_id} %H",
        "'\"\\",
        "{",
        "end;",
        "\\;",
        ";",
    ];
    let pane = server.start(&argv).await;
    until("it runs", async || argv_of(pane.pid)[0] == "tail").await;
    assert_eq!(argv_of(pane.pid), argv);
    assert_eq!((pane.dead, pane.in_mode, pane.width, pane.height), (None, false, 160, 48));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_single_word_is_a_program_too_and_not_a_line_for_a_shell() {
    let server = Server::new();
    let pane = server.start(&["cat"]).await;
    until("it runs", async || argv_of(pane.pid) == ["cat"]).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_working_directory_may_have_any_name() {
    let server = Server::new();
    let cwd = server.path("a #{pane_id} %H ## $x; ;");
    std::fs::create_dir(&cwd).expect("made");
    let argv = vec!["tail".to_owned(), "-f".to_owned(), "/dev/null".to_owned()];
    let mut command = LaunchCommand { argv, cwd: cwd.clone() };
    let pane = server.tmux.respawn(command.clone()).await.expect("a pane");
    let place = |pane: &Pane| std::fs::read_link(format!("/proc/{}/cwd", pane.pid)).expect("a process");
    until("it is there", async || place(&pane) == cwd).await;
    kill(Pid::from_raw(pane.pid), Signal::SIGKILL).expect("killed");
    server.dead().await;
    command.cwd = server.dir.path().to_owned();
    let pane = server.tmux.respawn(command).await.expect("a pane");
    until("it is there", async || place(&pane) == server.dir.path()).await;
}

#[tokio::test]
async fn an_agent_that_exits_at_once_leaves_its_pane_and_status() {
    let server = Server::with_config("set -g destroy-unattached on\nset -g exit-empty on\n");
    server.start(&["sh", "-c", "exit 3"]).await;
    assert_eq!(server.dead().await, ExitStatus::Code(3));
    assert_eq!(server.user(&["show-options", "-gwv", "remain-on-exit"]), "off", "nothing is set for all");
    assert_eq!(server.user(&["show-options", "-gv", "destroy-unattached"]), "on");
}

#[tokio::test]
async fn a_dead_pane_is_used_again_and_a_live_one_never() {
    let server = Server::new();
    let first = server.start(&["sleep", "1000"]).await;
    let refused = server.try_start(&["sleep", "1000"]).await;
    assert!(
        matches!(&refused, Err(TerminalError::Failed { why, .. }) if why.contains("alive")),
        "{refused:?}"
    );
    assert_eq!(server.pane().await.pid, first.pid);

    kill(Pid::from_raw(first.pid), Signal::SIGKILL).expect("killed");
    assert_eq!(server.dead().await, ExitStatus::Signal(9));
    let second = server.start(&["sh", "-c", "exit 0"]).await;
    assert_eq!(second.id, first.id);
    assert_ne!(second.pid, first.pid);
    assert_eq!(server.dead().await, ExitStatus::Code(0));
    server.user(&["set-option", "-w", "-t", &first.id, "remain-on-exit", "off"]);
    server.start(&["sh", "-c", "exit 4"]).await;
    assert_eq!(server.dead().await, ExitStatus::Code(4), "remain-on-exit is put right");
}

/// Field fault 36.
#[tokio::test]
async fn a_session_with_a_longer_name_is_another_session() {
    let server = Server::new();
    assert_eq!(server.tmux.find().await, Ok(None), "no server");
    server.user(&["new-session", "-d", "-s", "ccmux2", "-x", "80", "-y", "24", "sleep 1000"]);
    assert_eq!(server.tmux.find().await, Ok(None));
    assert!(matches!(server.tmux.capture().await, Err(TerminalError::NoPane(_))));
    server.tmux.kill_session().await.expect("nothing to kill");
    let pane = server.start(&["sleep", "1000"]).await;
    assert_eq!(
        server.user(&["display-message", "-p", "-t", &pane.id, "#{session_name}:#{window_name}"]),
        "ccmux:claude"
    );
    server.tmux.kill_session().await.expect("killed");
    assert_eq!(server.tmux.find().await, Ok(None));
    assert_eq!(server.user(&["list-sessions", "-F", "#{session_name}"]), "ccmux2");
}

#[tokio::test]
async fn a_session_of_the_user_gets_a_window_and_keeps_its_panes() {
    let server = Server::new();
    server.user(&["new-session", "-d", "-s", "ccmux", "-x", "80", "-y", "24", "sleep 1000"]);
    server.user(&["new-window", "-t", "=ccmux:5", "sleep 1000"]);
    let theirs = server.user(&["list-panes", "-s", "-t", "=ccmux", "-F", "#{pane_id} #{pane_pid}"]);
    let pane = server.start(&["sh", "-c", "exit 5"]).await;
    assert_eq!(server.dead().await, ExitStatus::Code(5));
    let all = server.user(&["list-panes", "-s", "-t", "=ccmux", "-F", "#{pane_id} #{pane_pid}"]);
    assert_eq!(all.lines().filter(|line| !theirs.contains(line)).count(), 1);
    assert!(theirs.lines().all(|line| all.contains(line)), "{all}");
    let active = server.user(&["list-windows", "-t", "=ccmux", "-F", "#{window_index} #{window_active}"]);
    assert!(active.contains("5 1"), "the user's window stays the current one: {active}");
    server.tmux.kill_pane().await.expect("killed");
    assert_eq!(server.tmux.find().await, Ok(None));
    assert_ne!(pane.id, "");
    assert_eq!(server.user(&["list-panes", "-s", "-t", "=ccmux", "-F", "#{pane_id} #{pane_pid}"]), theirs);
}

#[tokio::test]
async fn our_pane_stays_ours_when_the_user_splits_and_moves_it() {
    let server = Server::new();
    let pane = server.start_listening().await;
    server.user(&["split-window", "-t", &pane.id, "-h", "sleep 1000"]);
    assert_eq!(server.pane().await.id, pane.id);
    assert!(server.capture().await.text.contains("ready"));
    server.user(&["break-pane", "-d", "-s", &pane.id]);
    server.user(&["new-session", "-d", "-s", "elsewhere", "sleep 1000"]);
    server.user(&["join-pane", "-d", "-s", &pane.id, "-t", "=elsewhere:"]);
    assert_eq!(server.pane().await.id, pane.id);
    let pieces = vec!["x".to_owned()];
    assert_eq!(server.tmux.inject(guard(&pane), pieces.clone()).await, Ok(Typed::Done));
    server.typed_is(&bracketed(&pieces)).await;
}

/// What users have in their tmux.conf, and what gets in the way of whoever makes a pane.
const NASTY_CONFIGS: [&str; 10] = [
    "set-hook -g after-new-session 'split-window -h \"sleep 1000\"'",
    "set-hook -g after-new-session 'split-window -hb \"sleep 1000\"; select-pane -L; kill-pane -t %99'",
    "set-hook -g after-new-session 'split-window -h \"sleep 1000\"; select-pane -t %99'",
    "set-hook -g after-new-session 'new-window \"sleep 1000\"; select-window -t =nobody:'",
    "set-hook -g session-created 'split-window \"sleep 1000\"; source-file /nonexistent'",
    "set-hook -g after-new-session 'rename-session theirs; kill-pane -t %99; rename-session ccmux'",
    "no-such-command",
    "set -g no-such-option on\nset -g base-index 3\nsetw -g pane-base-index 7",
    "set -g default-command 'exit 1'\nset -g default-shell /bin/false\nset -g remain-on-exit off\nset -g history-limit 0",
    "set -g destroy-unattached on\nset -g renumber-windows on\nset -g pane-border-status top\nset -g window-size smallest",
];

#[tokio::test]
async fn whatever_is_in_the_users_tmux_conf_the_mark_is_on_the_agents_pane_alone() {
    for config in NASTY_CONFIGS {
        let server = Server::with_config(&format!("{config}\n"));
        let pane = server.try_start(&["sh", "-c", "sleep 1000; exit 0"]).await;
        let pane = pane.unwrap_or_else(|error| panic!("{config}: {error}"));
        let started = server.user(&["display-message", "-p", "-t", &pane.id, "#{pane_start_command}"]);
        assert!(started.contains("exit 0"), "{config}: {started}");
        assert!(!server.pane().await.in_mode, "{config}: tmux shows its errors in the agent's pane");
        let marks = server.user(&["list-panes", "-a", "-F", "#{pane_id} #{@ccmux_pane}"]);
        let ours = format!("{} ccmux", pane.id);
        assert_eq!(
            marks.lines().filter(|line| line.contains("ccmux")).collect::<Vec<_>>(),
            [ours],
            "{config}"
        );
        let kept = server.user(&["list-panes", "-a", "-F", "#{remain-on-exit}"]);
        assert_eq!(kept.lines().filter(|kept| *kept != "off").count(), 1, "{config}: {kept}");

        kill(Pid::from_raw(pane.pid), Signal::SIGKILL).expect("killed");
        assert_eq!(server.dead().await, ExitStatus::Signal(9), "{config}");
        let next = server.try_start(&["sleep", "1000"]).await;
        let next = next.unwrap_or_else(|error| panic!("{config}: {error}"));
        assert_eq!((next.id, next.dead), (pane.id, None), "{config}");
    }
}

#[tokio::test]
async fn a_hook_that_fails_after_a_window_was_made_or_a_pane_respawned_does_no_harm() {
    let config = "set-hook -g after-new-window 'split-window -h \"sleep 1000\"; kill-pane -t %99'\n\
                  set-hook -g after-respawn-pane 'kill-pane -t %99'\n";
    let server = Server::with_config(config);
    server.user(&["new-session", "-d", "-s", "ccmux", "-x", "80", "-y", "24", "sleep 1000"]);
    let pane = server.start(&["sh", "-c", "sleep 1000; exit 0"]).await;
    kill(Pid::from_raw(pane.pid), Signal::SIGKILL).expect("killed");
    assert_eq!(server.dead().await, ExitStatus::Signal(9));
    let next = server.start(&["sleep", "1000"]).await;
    assert_eq!((next.id, next.dead), (pane.id, None));
    assert_eq!(server.pane().await.pid, next.pid);
}

#[tokio::test]
async fn a_hook_of_the_user_that_kills_dead_panes_costs_a_new_session_and_no_more() {
    let server = Server::with_config("set-hook -g pane-died kill-pane\n");
    let pane = server.start(&["sleep", "1000"]).await;
    kill(Pid::from_raw(pane.pid), Signal::SIGKILL).expect("killed");
    until("the pane is gone", async || server.tmux.find().await == Ok(None)).await;
    let next = server.start(&["sleep", "1000"]).await;
    assert_eq!(server.pane().await.pid, next.pid);
}

#[tokio::test]
async fn a_session_name_that_tmux_would_change_is_refused() {
    let server = Server::new();
    let mut settings = server.tmux.settings.clone();
    settings.session = "a.b".to_owned();
    let refused = Tmux::new(settings)
        .respawn(LaunchCommand { argv: vec!["sleep".to_owned(), "9".to_owned()], cwd: "/".into() })
        .await;
    assert!(matches!(&refused, Err(TerminalError::Failed { why, .. }) if why.contains("a.b")), "{refused:?}");
}

/// The kernel tells an end before tmux has noticed it.
#[tokio::test]
async fn an_agent_is_started_right_after_the_one_before_it_was_killed() {
    let server = Server::new();
    let mut pane = server.start(&["sleep", "1000"]).await;
    for _ in 0..5 {
        kill(Pid::from_raw(pane.pid), Signal::SIGKILL).expect("killed");
        until("it has ended", async || crate::agent::process::start_time(pane.pid).is_none()).await;
        let next = server.start(&["sleep", "1000"]).await;
        assert_eq!((next.id.as_str(), &next.dead), (pane.id.as_str(), &None));
        assert_ne!(next.pid, pane.pid);
        pane = next;
    }
}

/// A new server counts its panes from `%0` again.
#[tokio::test]
async fn a_dead_pane_of_the_user_that_has_the_number_of_ours_is_left_alone() {
    let server = Server::new();
    let ours = server.start(&["sleep", "1000"]).await;
    server.user(&["kill-server"]);
    // The old server takes a moment to go, and takes whoever comes in it along.
    let theirs = ["new-session", "-d", "-s", "theirs", "-x", "80", "-y", "24", "sleep 1000"];
    until("there is a new server", async || server.command(&theirs).status().unwrap().success()).await;
    server.user(&["set-option", "-p", "-t", "=theirs:", "remain-on-exit", "on"]);
    let facts = ["display-message", "-p", "-t", "=theirs:", "#{pane_id} #{pane_dead}"];
    let theirs = server.user(&["display-message", "-p", "-t", "=theirs:", "#{pane_pid}"]);
    kill(Pid::from_raw(theirs.parse().unwrap()), Signal::SIGKILL).expect("killed");
    until("it is dead", async || server.user(&facts) == format!("{} 1", ours.id)).await;
    let pane = server.start(&["sleep", "1000"]).await;
    assert_ne!(pane.id, ours.id);
    assert_eq!(server.user(&facts), format!("{} 1", ours.id));
}
