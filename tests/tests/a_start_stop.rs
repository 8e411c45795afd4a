//! Acceptance A on the demo agent: start, stop, restart.
//!
//! Names begin with the number of the acceptance case; `f` and a number is a fault from the field.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use ccmux_tests::House;
use ccmux_tests::doors::text_of;
use ccmux_tests::house::{is_alive, one_line};
use ccmux_tests::patience::{at_once, stays_quiet};
use ccmux_wire::status::StateWord;

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// Acceptance A1.
#[test]
fn a1_a_first_start_makes_closed_doors_and_is_ready_within_ten_seconds() {
    let house = House::builder().build();
    let begun = Instant::now();
    house.start();
    house.wait_within(Duration::from_secs(10), "state ready", || {
        house.state().filter(|state| *state == StateWord::Ready)
    });
    println!("ready after {:?}", begun.elapsed());
    assert_eq!(mode(house.run_dir()), 0o700);
    for name in ["in", "output.sock", "control.sock"] {
        assert_eq!(mode(house.run_dir().join(name)), 0o600, "{name}");
    }
    assert_eq!(mode(house.state_dir()), 0o700);
    let status = house.status();
    assert_eq!(status.agent.pid, Some(house.agent_pid()));
    assert_eq!(status.daemon_pid, house.daemon_pid());
    assert_eq!(house.tmux(&["list-sessions", "-F", "#{session_name}"]), "ccmux");
    house.wait_until("the pane's output to be watched", || house.pane("#{pane_pipe}") == "1");
    house.wait_until("the session to be bound", || house.status().session.is_some());
}

/// Acceptance A1. Field fault 36.
#[test]
fn a1_f36_a_session_with_a_longer_name_is_not_taken_for_ours() {
    let house = House::builder().build();
    house.tmux(&["-f", "/dev/null", "new-session", "-d", "-s", "ccmux2", "cat"]);
    house.tmux(&["new-session", "-d", "-s", "ccm", "cat"]);
    house.start();
    house.wait_ready();
    house.write("in.t", "say: mine\n");
    house.wait_for_prompt("say: mine");
    let sessions = house.tmux(&["list-sessions", "-F", "#{session_name}"]);
    assert_eq!(sessions.lines().collect::<Vec<_>>(), ["ccm", "ccmux", "ccmux2"]);
    for other in ["=ccmux2:", "=ccm:"] {
        let screen = house.tmux(&["capture-pane", "-p", "-t", other]);
        assert_eq!(screen.trim(), "", "something was typed into {other}");
    }
}

/// Acceptance A1. Hooks of the user that split, select and fail, in the file that tmux reads by itself.
#[test]
fn a1_a_nasty_tmux_conf_keeps_the_agent_in_a_pane_of_its_own() {
    let hooks = "set-hook -g after-new-session 'split-window -h \"cat >> $HOME/theirs\"; select-pane -R; kill-pane -t %99'\n\
                 set-hook -g after-respawn-pane 'kill-pane -t %99'\nset -g base-index 1\n\
                 set -g destroy-unattached on\nset -g no-such-option on\n";
    let house = House::builder().file("home/.tmux.conf", hooks, 0o600).ready();
    let ours = house.status().agent.pid;
    assert_eq!(house.pane_pids().len(), 2, "the user's pane is missing");
    house.send("answered", "say: into the agent's pane");
    house.wait_for_prompt("into the agent's pane");
    let pane = house.tmux(&["list-panes", "-a", "-F", "#{pane_pid} #{pane_id}"]);
    let pane =
        pane.lines().find_map(|line| line.strip_prefix(&format!("{} ", ours.unwrap()))).unwrap().to_owned();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(ours.unwrap()), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
    house.wait_until("another agent", || house.status().agent.pid.is_some_and(|pid| Some(pid) != ours));
    house.wait_ready();
    house.send("answered", "say: and into the next one's");
    let now = house.tmux(&["list-panes", "-a", "-F", "#{pane_id} #{pane_pid}"]);
    assert!(now.contains(&format!("{pane} {}", house.status().agent.pid.unwrap())), "{now}");
    assert_eq!(fs::read_to_string(house.home().join("theirs")).unwrap_or_default(), "");
}

/// Acceptance A2.
#[test]
fn a2_a_second_start_names_the_pid_and_disturbs_nothing() {
    let house = House::builder().ready();
    let agent = house.agent_pid();
    let second = house.run_daemon(&[]);
    assert_eq!(second.status.code(), Some(1));
    let said = one_line(&second);
    assert!(said.contains(&house.daemon_pid().to_string()), "{said}");
    assert_eq!(house.status().daemon_pid, house.daemon_pid());
    assert_eq!(house.agent_pid(), agent);
    house.write("in.t", "say: still here\n");
    house.wait_for_prompt("still here");
    let misled = house.run_daemon(&["--set", "agent.command=no-such-agent"]);
    assert_eq!(misled.status.code(), Some(1), "what runs comes first: {}", one_line(&misled));
}

/// Acceptance A3.
#[test]
fn a3_a_killed_daemon_adopts_the_agent_and_doubles_nothing() {
    let house = House::builder().ready();
    let turns = house.subscribe();
    house.write("in.t", "say: before\n");
    turns.wait_for_text("before");
    house.wait_ready();
    let (agent, screen) = (house.agent_pid(), house.screen());
    house.kill9();
    assert_eq!(house.agent_pid(), agent);
    house.start();
    house.wait_ready();
    assert_eq!(house.agent_pid(), agent);
    assert_eq!(house.screen(), screen, "the screen was touched");
    let turns = house.subscribe_with("{\"since\":0}\n");
    house.write("in.t", "say: after\n");
    turns.wait_for_text("after");
    assert_eq!(turns.wait_for_turns(2).len(), 2, "a turn was doubled: {:?}", turns.turns());
    let seqs: Vec<_> = turns.lines().iter().map(|line| line.value["seq"].as_u64().unwrap()).collect();
    assert!(seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
    assert_eq!(house.prompts().len(), 2);
    assert_eq!(house.status().agent.restarts, 0);
}

/// Acceptance A3.
#[test]
fn a3_a_daemon_killed_while_a_batch_is_typed_neither_loses_nor_doubles_it() {
    for after_ms in [0, 20, 60, 110, 160, 250] {
        let house = House::builder().ready();
        house.write("in.t", "say: once\n");
        house.wait_until("the message to be accepted", || !house.log_events("message.accepted").is_empty());
        std::thread::sleep(Duration::from_millis(after_ms));
        house.kill9();
        house.start();
        house.wait_for_prompt("say: once");
        house.wait_until("an empty queue", || house.status().queue.messages == 0);
        house.wait_ready();
        house.gets_no_more_than(1);
    }
}

/// Acceptance A4.
#[test]
fn a4_what_happened_while_the_daemon_was_down_is_caught_up() {
    let house = House::builder().ready();
    let early = house.subscribe();
    house.write("in.t", "slow: 2\n");
    house.wait_until("the turn to run", || house.state() == Some(StateWord::Busy));
    house.wait_for_prompt("slow: 2");
    house.kill9();
    assert!(early.turns().is_empty(), "the turn was over too soon for this test");
    let path = house.run_dir().join("in.t");
    // A writer blocks until somebody reads.
    let writer = std::thread::spawn(move || {
        fs::OpenOptions::new().write(true).open(path).unwrap().write_all(b"say: written while down\n")
    });
    house.wait_until("the turn's end", || {
        house.transcript().iter().any(|line| line["subtype"] == "turn_duration")
    });
    house.start();
    let turns = house.subscribe_with("{\"since\":0}\n");
    turns.wait_for_text("word0 word1 word2 word3 ");
    turns.wait_for_text("written while down");
    writer.join().unwrap().unwrap();
    assert_eq!(turns.wait_for_turns(2).len(), 2);
    let answered: Vec<_> =
        turns.turns().iter().map(|turn| turn["in_reply_to"][0]["channel"].clone()).collect();
    assert_eq!(answered, ["t", "t"], "{:?}", turns.turns());
}

/// Acceptance A5.
#[test]
fn a5_a_dialog_that_is_open_at_a_restart_is_seen_and_left_alone() {
    let house = House::builder().ready();
    house.write("in.t", "ask: Which one?\n");
    house.wait_for_state(StateWord::Dialog);
    house.wait_for_screen("Chat about this");
    house.kill9();
    house.start();
    house.wait_for_state(StateWord::Dialog);
    let screen = house.screen();
    house.write("in.t", "say: later\n");
    house.wait_until("the message to wait", || house.status().queue.messages == 1);
    assert!(house.why().starts_with("closed: dialog: "), "{}", house.why());
    stays_quiet(Duration::from_secs(2), "the dialog was touched", || {
        Some(house.screen()).filter(|now| *now != screen)
    });
    house.send_keys(&["Enter"]);
    house.wait_for_prompt("say: later");
}

/// Acceptance A5.
#[test]
fn a5_a_dialog_at_a_restart_is_seen_from_the_screen_alone_in_both_renderers() {
    at_once(["", "classic"], |renderer| {
        let house = House::builder()
            .agent("CCMUX_DEMO_STATE_FILE", "off")
            .agent("CCMUX_DEMO_RENDERER", renderer)
            .ready();
        house.write("in.t", "perm: touch APPROVED\n");
        house.wait_for_screen("Do you want to proceed?");
        house.kill9();
        house.start();
        house.write("in.t", "say: later\n");
        house.is_left_alone("closed: dialog: ");
        assert_eq!(house.state(), Some(StateWord::Dialog));
        house.send_keys(&["Escape"]);
        house.wait_for_prompt("say: later");
        assert!(!house.proj().join("APPROVED").exists(), "the dialog was answered");
    });
}

/// Acceptance A6.
#[test]
fn a6_sigterm_ends_everything_but_the_agent() {
    let house = House::builder().ready();
    let subscriber = house.subscribe();
    let agent = house.agent_pid();
    let begun = Instant::now();
    let status = house.stop();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(status.code(), Some(0));
    for name in ["output.sock", "control.sock"] {
        assert!(!house.run_dir().join(name).exists(), "{name} is still there");
    }
    house.wait_until("the subscriber's end", || subscriber.is_closed());
    assert!(is_alive(agent));
    assert_eq!(house.ccmux(&["status"]).status.code(), Some(6));
    house.start();
    house.wait_ready();
    assert_eq!(house.agent_pid(), agent);
}

/// Acceptance A6.
#[test]
fn a6_stop_agent_on_exit_ends_the_agent_too() {
    let house = House::builder().settings("stop_agent_on_exit = true\n").ready();
    let agent = house.agent_pid();
    assert_eq!(house.stop().code(), Some(0));
    house.wait_until("the agent's end", || !is_alive(agent));
}

/// Acceptance A6.
#[test]
fn a6_a_batch_in_flight_at_sigterm_is_delivered_once() {
    for after_ms in [0, 40, 90, 130, 200] {
        let house = House::builder().ready();
        house.write("in.t", "say: in flight\n");
        house.wait_until("the message to be accepted", || !house.log_events("message.accepted").is_empty());
        std::thread::sleep(Duration::from_millis(after_ms));
        assert_eq!(house.stop().code(), Some(0));
        house.start();
        house.wait_for_prompt("in flight");
        house.wait_until("an empty queue", || house.status().queue.messages == 0);
        house.gets_no_more_than(1);
    }
}

/// A lock on a database as another program's transaction holds it: in WAL mode, on byte 120 of the `-shm` file.
fn write_lock(house: &House, database: &str) -> fs::File {
    let path = house.state_dir().join(format!("{database}-shm"));
    let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let lock = nix::libc::flock {
        l_type: nix::libc::F_WRLCK as i16,
        l_whence: nix::libc::SEEK_SET as i16,
        l_start: 120,
        l_len: 1,
        l_pid: 0,
    };
    nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_SETLKW(&lock)).unwrap();
    file
}

/// Acceptance A6.
#[test]
fn a6_a_daemon_whose_databases_are_locked_ends_within_five_seconds_and_loses_nothing() {
    at_once([&["inbox.db"][..], &["turns.db"], &["inbox.db", "turns.db"]], |databases| {
        let house = House::builder().ready();
        house.write("in.t", "slow: 1\n");
        house.wait_for_prompt("slow: 1");
        house.wait_until("the receipt", || !house.log_events("batch.delivered").is_empty());
        // Copy mode holds what comes next, so that it is not under way at the stop.
        house.tmux(&["copy-mode", "-t", "=ccmux:"]);
        let locks: Vec<fs::File> = databases.iter().map(|database| write_lock(&house, database)).collect();
        // A turn to be stored, and a message to be accepted: one or both hang now.
        house.wait_until("the turn's end", || {
            house.transcript().iter().any(|line| line["subtype"] == "turn_duration")
        });
        house.write("in.t", "say: written under the lock\n");
        stays_quiet(Duration::from_millis(500), "the lock held nobody", || {
            let both = house.log_events("message.accepted").len() > 1
                && !house.log_events("turn.published").is_empty();
            both.then(String::new)
        });
        let begun = Instant::now();
        let status = house.stop();
        println!("{databases:?}: ended after {:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(5), "{databases:?}: {:?}", begun.elapsed());
        assert_eq!(status.code(), Some(0));
        drop(locks);
        house.start();
        house.tmux(&["send-keys", "-t", "=ccmux:", "-X", "cancel"]);
        let turns = house.subscribe_with("{\"since\":0}\n");
        turns.wait_for_text("written under the lock");
        let texts: Vec<String> = turns.turns().iter().map(text_of).collect();
        assert_eq!(texts, ["word0 word1 ", "written under the lock"], "{databases:?}");
        house.arrived_once("t", &["slow: 1".into(), "say: written under the lock".into()]);
    });
}

/// Acceptance A4. Turns end, one after the other, while their database is locked; then the daemon is stopped.
#[test]
fn a4_turns_that_could_not_be_stored_answer_their_messages_after_the_restart() {
    let house = House::builder().ready();
    let lock = write_lock(&house, "turns.db");
    for text in ["say: one", "say: two", "slow: 3"] {
        house.send("delivered", text);
    }
    assert_eq!(house.stop().code(), Some(0));
    assert!(house.log_events("turn.published").is_empty(), "the lock held nobody");
    drop(lock);
    house.start();
    let subscriber = house.subscribe_with("{\"since\":0}\n");
    let turns = subscriber.wait_for_turns(3);
    let ids: Vec<String> = turns.iter().map(|turn| turn["in_reply_to"][0]["id"].to_string()).collect();
    assert_eq!(ids, ["\"m-1\"", "\"m-2\"", "\"m-3\""], "{turns:?}");
    house.wait_until("all answers", || house.inbox().iter().all(|row| row.state == "answered"));
    house.send("answered", "say: and on it goes");
    assert_eq!(subscriber.wait_for_turns(4).len(), 4);
}

/// Acceptance A6.
#[test]
fn a6_a_daemon_ends_within_five_seconds_although_tmux_hangs() {
    let house = House::builder().settings("stop_agent_on_exit = true\n").ready();
    let server: i32 = house.pane("#{pid}").parse().unwrap();
    let signal = |signal| nix::sys::signal::kill(nix::unistd::Pid::from_raw(server), signal).unwrap();
    house.write("in.t", "slow: 1\n");
    house.wait_for_prompt("slow: 1");
    signal(nix::sys::signal::Signal::SIGSTOP);
    house.write("in.t", "say: behind it\n");
    house.wait_until("it to be accepted", || house.log_events("message.accepted").len() == 2);
    let begun = Instant::now();
    let status = house.stop();
    println!("ended after {:?}", begun.elapsed());
    signal(nix::sys::signal::Signal::SIGCONT);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(status.code(), Some(0));
}
