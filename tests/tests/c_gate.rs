//! Acceptance C4 to C7 on the demo agent: while a human types, a draft, a dialog or copy mode is there, nothing is typed.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::time::{Duration, Instant};

use ccmux_tests::agent::parted;
use ccmux_tests::patience::{WATCH, stays_quiet};
use ccmux_tests::{House, HouseBuilder, Human, binaries};
use ccmux_wire::status::StateWord;

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

#[test]
fn c4_f14_activity_without_typing_holds_for_a_bounded_time() {
    let house = House::builder().env("CCMUX_IDLE_THRESHOLD", 4).ready();
    let human = house.human();
    house.write("in.t", "say: despite the mouse\n");
    let mut named = false;
    // Focus-in, as a terminal reports it: no key, yet tmux counts it.
    house.wait_within(Duration::from_secs(20), "the message to get past a restless mouse", || {
        human.types("\u{1b}[I");
        named |= house.why().starts_with("closed: human: ");
        (house.prompts().len() == 1).then_some(())
    });
    assert!(named, "the reason was never told");
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

#[test]
fn c5_f13_a_placeholder_is_no_draft() {
    let house = House::builder().agent("CCMUX_DEMO_PLACEHOLDER", 1).ready();
    house.write("in.t", "say: over the suggestion\n");
    assert_eq!(parted(&house.wait_for_prompt("over the suggestion")), ("t", "say: over the suggestion"));
}

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

#[test]
fn c11_f18_a_watch_of_the_pane_that_was_lost_is_mounted_again() {
    let house = House::builder().ready();
    house.wait_until("the pane to be watched", || house.pane("#{pane_pipe}") == "1");
    house.tmux(&["pipe-pane", "-t", "=ccmux:"]);
    assert_eq!(house.pane("#{pane_pipe}"), "0");
    house.wait_within(Duration::from_secs(5), "the pane to be watched again", || {
        (house.pane("#{pane_pipe}") == "1").then_some(())
    });
}
