//! Acceptance C4 to C7 on the demo agent: while a human types, a draft, a dialog or copy mode is there, nothing is typed.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::time::{Duration, Instant};

use ccmux_tests::agent::{framed, parted};
use ccmux_tests::patience::{WATCH, stays_quiet};
use ccmux_tests::{House, HouseBuilder, Human, binaries};
use ccmux_wire::status::StateWord;

/// Acceptance C4.
#[test]
fn c4_nothing_is_injected_until_a_human_has_been_idle() {
    const THRESHOLD: Duration = Duration::from_secs(4);
    let house = House::builder().env("CCMUX_IDLE_THRESHOLD", THRESHOLD.as_secs()).ready();
    let human = house.human();
    human.types("x");
    house.wait_for_screen("❯\u{a0}x");
    human.presses("BSpace");
    let last_key = Instant::now();
    house.write("in.t", "say: wait for me\n");
    house.wait_until("the gate to name the human", || house.why().starts_with("closed: human: "));
    house.wait_for_prompt("wait for me");
    // tmux tells activity in whole seconds.
    assert!(last_key.elapsed() >= THRESHOLD - Duration::from_secs(1), "after {:?}", last_key.elapsed());
    let begun = Instant::now();
    house.send("delivered", "say: nobody typed this");
    assert!(
        begun.elapsed() < THRESHOLD - Duration::from_secs(1),
        "an injection counted as typing: {:?}",
        begun.elapsed()
    );
}

/// Acceptance C4.
#[test]
fn c4_monitors_and_onlookers_do_not_count() {
    let house = House::builder().env("CCMUX_IDLE_THRESHOLD", 25).ready();
    let _monitor = house.control_client();
    let onlooker = house.onlooker();
    onlooker.types("x");
    let begun = Instant::now();
    house.send("delivered", "say: they only look");
    assert!(begun.elapsed() < Duration::from_secs(15), "held back for {:?}", begun.elapsed());
}

/// Acceptance C4. Field fault 14.
#[test]
fn c4_f14_focus_events_every_two_seconds_hold_for_a_bounded_time_with_a_reason() {
    let house = House::builder().env("CCMUX_IDLE_THRESHOLD", 5).ready();
    let human = house.human();
    let mut moved = Instant::now();
    // Focus-in, as a terminal reports it: no key, yet tmux counts it.
    human.types("\u{1b}[I");
    house.write("in.t", "say: despite the mouse\n");
    house.wait_until("the gate to name the human", || house.why().starts_with("closed: human: "));
    assert!(house.why().contains("a mouse types nothing"), "{}", house.why());
    house.wait_within(Duration::from_secs(20), "the message to get past a restless terminal", || {
        if moved.elapsed() >= Duration::from_secs(2) {
            moved = Instant::now();
            human.types("\u{1b}[I");
        }
        (house.prompts().len() == 1).then_some(())
    });
    assert_eq!(house.log_events("human.only_mouse").len(), 1);
}

fn type_draft(human: &Human<'_>, house: &House, lines: &[&str], keys: &[&str]) {
    for (n, line) in lines.iter().enumerate() {
        if n > 0 {
            human.presses("M-Enter");
        }
        human.types(line);
        house.wait_for_screen(line);
    }
    for key in keys {
        human.presses(key);
    }
}

/// Acceptance C5. Field fault 12.
#[test]
fn c5_f12_a_draft_is_held_and_its_bytes_stay_the_same() {
    let cases: [(&[&str], &[&str]); 4] = [
        (&["my half typed draft"], &[]),
        (&["the cursor is at its start"], &["Home"]),
        (&["and in its middle"], &["Left", "Left", "Left"]),
        (&["first line", "second line"], &["Up"]),
    ];
    for (lines, keys) in cases {
        let house = House::builder().ready();
        let human = house.human();
        type_draft(&human, &house, lines, keys);
        house.write("in.t", "say: behind the draft\n");
        house.is_left_alone("closed: draft: ");
        for line in lines {
            assert!(house.screen().contains(line), "{line} is gone");
        }
        human.presses("End");
        for _ in 0..2 * lines.len() {
            human.presses("C-e");
            human.presses("Down");
            human.presses("C-u");
            human.presses("C-u");
        }
        house.wait_for_prompt("behind the draft");
        assert_eq!(house.prompts().len(), 1, "{:?}", house.prompts());
        assert_eq!(parted(&house.prompts()[0]), ("t", "say: behind the draft"));
    }
}

/// Acceptance C5.
#[test]
fn c5_a_draft_that_the_human_sends_lets_the_queue_go_in_behind_it() {
    let house = House::builder().ready();
    let human = house.human();
    type_draft(&human, &house, &["say: the human first"], &[]);
    house.write("in.t", "say: then the channel\n");
    house.is_left_alone("closed: draft: ");
    human.presses("Enter");
    house.wait_for_prompt("then the channel");
    let prompts = house.prompts();
    assert_eq!(prompts.len(), 2, "{prompts:?}");
    assert_eq!(prompts[0], "say: the human first");
}

/// Acceptance C5. Field fault 13.
#[test]
fn c5_f13_a_placeholder_is_no_draft() {
    let house = House::builder().agent("CCMUX_DEMO_PLACEHOLDER", 1).ready();
    house.write("in.t", "say: over the suggestion\n");
    assert_eq!(parted(&house.wait_for_prompt("over the suggestion")), ("t", "say: over the suggestion"));
}

/// Acceptance C5. Field fault 11.
#[test]
fn c5_f11_vims_normal_mode_holds_with_a_reason() {
    let house = House::builder().agent("CCMUX_DEMO_VIM", 1).build();
    house.start();
    house.write("in.t", "say: in insert mode\n");
    house.wait_until("the message to wait", || house.status().queue.messages == 1);
    house.is_left_alone("closed: draft: ");
    assert!(house.why().contains("normal mode"), "{}", house.why());
    house.send_keys(&["i"]);
    assert_eq!(parted(&house.wait_for_prompt("in insert mode")), ("t", "say: in insert mode"));
}

/// Acceptance C6. Field fault 27.
#[test]
fn c6_f27_a_dialog_of_a_turn_is_never_answered() {
    for (prompt, shown, permissions, alert) in [
        ("ask: Which one?", "Which one?", "", Some("question")),
        ("perm: echo hi", "echo hi", "", Some("permission_request")),
        ("bash: echo asked", "echo asked", "ask", Some("permission_request")),
        ("plan: do it", "do it", "", None),
    ] {
        let house = House::builder().agent("CCMUX_DEMO_PERMISSIONS", permissions).ready();
        let alerts = house.subscribe();
        house.write("in.t", format!("{prompt}\n"));
        house.wait_for_state(StateWord::Dialog);
        house.wait_for_screen(shown);
        house.write("in.t", "say: not into the dialog\n");
        house.wait_until("the message to wait", || house.status().queue.messages == 1);
        house.is_left_alone("closed: dialog: ");
        if let Some(alert) = alert {
            alerts.wait_for_alert(alert);
        }
        house.send_keys(&["Enter"]);
        house.wait_for_prompt("not into the dialog");
    }
}

/// Acceptance C6. Field fault 27.
#[test]
fn c6_f27_an_overlay_that_the_human_opened_is_left_alone() {
    let house = House::builder().ready();
    let human = house.human();
    human.types("/status");
    house.wait_for_screen("/status");
    human.presses("Enter");
    house.wait_for_state(StateWord::Dialog);
    house.write("in.t", "say: after the overlay\n");
    house.is_left_alone("closed: dialog: ");
    human.presses("Escape");
    house.wait_for_prompt("after the overlay");
}

/// An agent that shows a picture and records every byte that it gets.
fn picture_agent(picture: &str) -> HouseBuilder {
    let screens = binaries::repository().join("crates/ccmux-runtime/tests/fixtures/screens");
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in --version) echo '2.1.332 (Claude Code)'; exit;; esac\nstty raw -echo\nprintf '\\033[2J\\033[H'\n\
         sed 's/$/\\r/' '{}' | head -c -2\nexec cat > \"$HOME/keys\"\n",
        screens.join(picture).display()
    );
    House::builder().env("CCMUX_AGENT_COMMAND", "{dir}/home/agent").file("home/agent", &script, 0o755)
}

/// Acceptance C6. Field fault 27.
#[test]
fn c6_f27_no_key_reaches_a_dialog_of_the_start() {
    let screens = binaries::repository().join("crates/ccmux-runtime/tests/fixtures/screens");
    let mut pictures: Vec<String> = fs::read_dir(screens)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    pictures.retain(|name| {
        ["trust", "bypass", "api-key", "settings", "fullscreen"].iter().any(|word| name.contains(word))
            && name.contains("dialog-")
            && name.ends_with(".ansi")
    });
    pictures.sort();
    assert!(pictures.len() >= 4, "too few pictures of start dialogs: {pictures:?}");
    for picture in pictures {
        let house = picture_agent(&picture).build();
        house.start();
        house.write("in.t", "say: not into this\n");
        house.wait_until(&format!("{picture} to be seen as a dialog"), || {
            house.why().starts_with("closed: dialog")
        });
        stays_quiet(WATCH, &format!("keys reached {picture}"), || {
            Some(fs::read_to_string(house.home().join("keys")).unwrap_or_default())
                .filter(|keys| !keys.is_empty())
        });
        assert_eq!(house.status().queue.messages, 1);
    }
}

/// Acceptance C7. Field fault 9.
#[test]
fn c7_f9_copy_mode_waits_and_leaves_no_message_behind() {
    let house = House::builder().ready();
    house.tmux(&["copy-mode", "-t", "=ccmux:"]);
    house.write("in.t", "say: after copy mode\n");
    house.is_left_alone("closed: copy_mode: ");
    house.write("in.t", "say: me too\n");
    house.tmux(&["send-keys", "-t", "=ccmux:", "-X", "cancel"]);
    house.wait_for_prompt("me too");
    assert_eq!(house.messages().len(), 2, "{:?}", house.prompts());
}

/// Acceptance C7. Field fault 9.
#[test]
fn c7_f9_copy_mode_entered_at_any_moment_of_a_batch_loses_and_doubles_nothing() {
    let house = House::builder().ready();
    let moments = [0, 30, 60, 90, 110, 130, 160, 200];
    for (n, after_ms) in moments.into_iter().enumerate() {
        house.wait_ready();
        house.write("in.t", format!("say: moment {n}\n"));
        house.wait_until("the message to be accepted", || house.log_events("message.accepted").len() > n);
        std::thread::sleep(Duration::from_millis(after_ms));
        house.tmux(&["copy-mode", "-t", "=ccmux:"]);
        std::thread::sleep(Duration::from_millis(700));
        if house.pane("#{pane_in_mode}") == "1" {
            house.tmux(&["send-keys", "-t", "=ccmux:", "-X", "cancel"]);
        }
        house.wait_for_prompt(&format!("moment {n}"));
    }
    let expected: Vec<_> = (0..moments.len()).map(|n| ("t".to_owned(), format!("say: moment {n}"))).collect();
    assert_eq!(house.messages(), expected);
}

/// Field fault 18.
#[test]
fn c11_f18_a_watch_of_the_pane_that_was_lost_is_mounted_again() {
    let house = House::builder().settings("[log]\nlevel = \"debug\"\n").ready();
    let watched = || house.log_events("pane.watched").len();
    house.wait_until("the pane to be watched", || watched() > 0 && house.pane("#{pane_pipe}") == "1");
    let before = watched();
    house.tmux(&["pipe-pane", "-t", "=ccmux:"]);
    house.wait_within(Duration::from_secs(5), "the pane to be watched again", || {
        (watched() > before && house.pane("#{pane_pipe}") == "1").then_some(())
    });
}

/// A process that is stopped is woken by tmux; one whose event loop is blocked is not.
///
/// Acceptance C8.
#[test]
fn c8_a_frozen_agent_is_not_given_the_text_again() {
    let house = House::builder().agent("CCMUX_DEMO_FREEZE_MS", 12_000).ready();
    house.write("in.t", "say: after the thaw\n");
    house.wait_until("the reason to be told", || house.why().contains("has written nothing since"));
    house.wait_for_prompt("after the thaw");
    house.wait_ready();
    house.gets_no_more_than(1);
    assert_eq!(parted(&house.prompts()[0]), ("t", "say: after the thaw"));
    assert!(house.log_events("batch.requeued").is_empty());
}

#[test]
fn c7_a_window_that_is_resized_in_the_middle_of_a_batch_changes_no_text() {
    let house = House::builder().ready();
    let text: Vec<String> = (0..60).map(|n| format!("line {n} {}", "word ".repeat(n % 40))).collect();
    let text = text.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n");
    for (n, width) in [100, 60, 200, 80, 160, 120].into_iter().enumerate() {
        house.wait_ready();
        house.write("in.t", framed(&format!("{n}\n{text}")));
        house.wait_until("the batch to be typed", || house.log_events("batch.injected").len() > n);
        for columns in [width, width + 7, width] {
            house.tmux(&["resize-window", "-t", "=ccmux:", "-x", &columns.to_string()]);
        }
        house.wait_for_prompts(n + 1);
    }
    let expected: Vec<_> = (0..6).map(|n| ("t".to_owned(), format!("{n}\n{text}"))).collect();
    assert_eq!(house.messages(), expected);
}

fn own_rules(house: &House, text: &str) {
    let folder = house.home().join(".config/ccmux/agents");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("claude-code.toml"), text).unwrap();
}

fn built_in_rules() -> String {
    fs::read_to_string(binaries::repository().join("config/agents/claude-code.toml")).unwrap()
}

/// Field fault 16.
#[test]
fn f16_screen_rules_are_read_again_and_broken_ones_are_refused() {
    let house = House::builder().ready();
    own_rules(&house, &built_in_rules().replace("signs = [\"❯", "signs = [\"➤"));
    assert!(house.ccmux_ok(&["reload"]).contains(".config/ccmux/agents/claude-code.toml"));
    house.write("in.t", "say: when the rules fit again\n");
    house.wait_until("the box to be unknown", || house.why().starts_with("closed: unknown: "));
    own_rules(&house, "profile = [");
    let refused = house.ccmux(&["reload"]);
    assert_eq!(refused.status.code(), Some(4));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("claude-code.toml") && said.contains("the rules in force stay"), "{said}");
    house.is_left_alone("closed: unknown: ");
    house.signal(nix::sys::signal::Signal::SIGHUP);
    house.wait_until("the refusal in the log", || house.log_events("rules.refused").len() == 2);
    fs::remove_file(house.home().join(".config/ccmux/agents/claude-code.toml")).unwrap();
    house.signal(nix::sys::signal::Signal::SIGHUP);
    assert_eq!(parted(&house.wait_for_prompt("when the rules fit again")).0, "t");
    assert!(house.exit_status().is_none(), "the signal ended the daemon");
}

/// `ccmux doctor --screen` with its exit code and its first line.
fn doctor(house: &House) -> (Option<i32>, String) {
    let output = house.ccmux(&["doctor", "--screen"]);
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code(), said.lines().next().unwrap_or_default().to_owned())
}

/// Field fault 16.
#[test]
fn f16_the_doctor_says_what_is_on_the_pane_with_and_without_a_daemon() {
    let house = House::builder().agent("CCMUX_DEMO_PERMISSIONS", "ask").ready();
    assert_eq!(doctor(&house), (Some(0), "ready: the prompt box is empty".to_owned()));
    house.write("in.t", "bash: echo asked\n");
    house.wait_for_state(StateWord::Dialog);
    house.kill9();
    assert_eq!(doctor(&house), (Some(0), "dialog: permission".to_owned()));
    let json = house.ccmux_ok(&["doctor", "--screen", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&report["class"], &report["decided_by"]["rule"]),
        (&"dialog".into(), &"dialog permission".into())
    );
    own_rules(&house, "profile = [");
    assert_eq!(doctor(&house).0, Some(78));
    own_rules(&house, built_in_rules().split("[[dialog]]").next().unwrap());
    let (code, said) = doctor(&house);
    assert!(code == Some(1) && said.starts_with("unknown: "), "{code:?} {said}");
    house.tmux(&["kill-server"]);
    assert_eq!(doctor(&house).0, Some(1));
}

#[test]
fn c6_a_screen_that_no_rule_fits_is_told_after_a_minute_with_what_it_shows() {
    let house = picture_agent("exit-onboarding-no-network.ansi").build();
    house.start();
    let alerts = house.subscribe();
    house.wait_until("the gate to say so", || house.why().starts_with("closed: starting: "));
    let told = || alerts.alerts_of("unknown_screen").first().cloned();
    let alert = house.wait_within(Duration::from_secs(75), "the alert", told);
    let screen = alert["alert"]["screen"].as_str().unwrap();
    assert!(screen.contains("Unable to connect"), "{screen}");
    assert_eq!(doctor(&house).0, Some(1));
}

#[test]
fn what_happened_is_told_in_few_words_and_whole_as_json() {
    let house = House::builder().ready();
    (0..3).for_each(|n| drop(house.send("answered", &format!("say: {n}"))));
    let why = house.why();
    let happened: Vec<&str> = why.lines().filter(|line| line.starts_with("happened ")).collect();
    assert_eq!(happened.len(), 5, "{why}");
    assert!(happened.iter().any(|line| line.contains("the turn ended")), "{why}");
    let whole: serde_json::Value = serde_json::from_str(&house.ccmux_ok(&["why", "--json"])).unwrap();
    assert!(whole["recent"].as_array().is_some_and(|lines| lines.len() > 5), "{whole}");
    assert_eq!(whole["evidence"].as_array().map(Vec::len), Some(4), "{whole}");
}

/// Lets a stopped process go on, also when the test fails: else nothing could end it.
struct Stopped(nix::unistd::Pid);

impl Stopped {
    fn new(pid: &str) -> Self {
        let pid = nix::unistd::Pid::from_raw(pid.parse().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(self.0, nix::sys::signal::Signal::SIGCONT);
    }
}

#[test]
fn a_terminal_that_does_not_answer_is_a_reason_and_no_loss() {
    let house = House::builder().ready();
    let tmux = Stopped::new(&house.pane("#{pid}"));
    house.write("in.t", "say: when tmux is back\n");
    house.wait_until("the reason", || {
        house.why().starts_with("closed: unknown: the screen can't be looked at (")
    });
    drop(tmux);
    house.wait_for_prompt("when tmux is back");
    house.gets_no_more_than(1);
}

#[test]
fn an_agent_that_is_gone_or_never_stays_is_a_reason() {
    let gone = "closed: down: the agent ended and is not started again (agent.restart_on_exit = false)\n\
                opens when  the daemon is restarted, or agent.restart_on_exit is set and `ccmux reload` run\n";
    let degraded =
        "closed: degraded: the agent keeps ending at once\nopens when  the agent is started again\n";
    let quick = "[backoff]\ninitial = 0.1\ncap = 0.2\n[agent]\nrestart_on_exit = false\n";
    for (code, why) in [(0, gone), (1, degraded)] {
        let house = House::builder().settings(quick).agent("CCMUX_DEMO_EXIT", code).build();
        house.start();
        house.write("in.t", "say: to nobody\n");
        // One that never stays is in between seen as it starts.
        house.wait_until(why, || house.why().starts_with(why));
        assert_eq!(house.status().queue.messages, 1);
    }
}

/// Field fault 29.
#[test]
fn c6_f29_a_shell_on_the_screen_is_a_reason_and_gets_no_byte() {
    for picture in ["exit-prompt.ansi", "exit-prompt-with-host.ansi"] {
        let house = picture_agent(picture).build();
        house.start();
        house.write("in.t", "say: not to a shell\n");
        house.wait_until("the reason", || {
            house.why().starts_with("closed: unknown: the agent's screen is gone")
        });
        stays_quiet(WATCH, &format!("keys reached {picture}"), || {
            Some(fs::read_to_string(house.home().join("keys")).unwrap_or_default())
                .filter(|keys| !keys.is_empty())
        });
    }
}

#[test]
fn a_running_turn_is_a_reason_and_what_opens_the_gate_is_its_end() {
    let house = House::builder().ready();
    house.write("in.t", "slow: 4\n");
    house.wait_for_prompt("slow: 4");
    house.write("in.t", "say: afterwards\n");
    house.wait_until("the reason", || {
        let why = house.why();
        why.starts_with("closed: busy: a turn runs\nopens when  the turn ends\nnext look   in ")
    });
    house.wait_for_prompt("afterwards");
}
