//! Acceptance C6 and C7 on the demo agent: the screen changes between paste and Enter. A dialog opens, the pane is resized,
//! copy mode or vim's normal mode is entered, the batch is taller than the pane.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use ccmux_tests::House;
use ccmux_tests::agent::{framed, messages};
use ccmux_tests::patience::at_once;

/// The house right after the message was accepted, which is when a batch begins to be typed.
fn accepted(house: &House, count: usize) {
    house.wait_until("the message to be accepted", || house.log_events("message.accepted").len() >= count);
}

fn lines(count: usize) -> String {
    let lines: Vec<String> = (0..count).map(|line| format!("line {line} of {count}")).collect();
    lines.join("\n")
}

/// A dialog that opens by itself so long after the paste; the look that settles takes 100 ms and more. Until it is closed
/// nothing is pressed; then Enter follows, once. (An Enter that is on its way in the millisecond in which the dialog is
/// drawn, no terminal can call back: the demo agent takes that one for the box.)
fn a_dialog_opens(after_ms: u64, renderer: &str, state_file: &str) {
    let house = House::builder()
        .agent("CCMUX_DEMO_DIALOG_AFTER_PASTE_MS", after_ms)
        .agent("CCMUX_DEMO_RENDERER", renderer)
        .agent("CCMUX_DEMO_STATE_FILE", state_file)
        .ready();
    house.write("in.t", "say: beside the dialog\n");
    house.wait_for_screen("touch APPROVED");
    house.write("in.t", "say: behind it\n");
    accepted(&house, 2);
    // A turn that began before the dialog opened ends beneath it.
    house.gets_no_more_than(1);
    let screen = house.screen();
    assert!(screen.contains("touch APPROVED"), "{after_ms} ms: the dialog was answered\n{screen}");
    assert!(!house.proj().join("APPROVED").exists(), "{after_ms} ms: Enter went into the dialog");
    house.send_keys(&["Escape"]);
    house.arrived_once("t", &["say: beside the dialog".into(), "say: behind it".into()]);
    house.claims_are_true();
    assert!(!house.proj().join("APPROVED").exists());
}

/// Field faults 15 and 27. Acceptance C6.
#[test]
fn no_enter_goes_into_a_dialog_that_opens_between_look_and_enter() {
    for some in [[0, 40, 80], [100, 110, 120], [130, 145, 160], [180, 220, 400]] {
        at_once(some, |after_ms| a_dialog_opens(after_ms, "", ""));
    }
}

/// Field faults 15 and 27. Acceptance C6.
#[test]
fn no_enter_goes_into_it_in_the_classic_renderer_or_where_no_state_file_tells_of_it() {
    for some in [[0, 80, 105], [115, 125, 200]] {
        at_once(some, |after_ms| a_dialog_opens(after_ms, "classic", ""));
        at_once(some, |after_ms| a_dialog_opens(after_ms, "", "off"));
    }
}

/// Sizes that people have, from a phone's to a wall's.
const SIZES: [(&str, &str); 5] = [("80", "24"), ("200", "60"), ("60", "16"), ("120", "40"), ("160", "48")];

/// Acceptance C7.
#[test]
fn a_pane_that_is_resized_at_any_moment_of_a_batch_loses_and_doubles_nothing() {
    at_once(["", "classic"], |renderer| {
        let house = House::builder().agent("CCMUX_DEMO_RENDERER", renderer).ready();
        let mut texts = Vec::new();
        for (n, after_ms) in [0, 30, 60, 90, 110, 125, 140, 170, 220, 300].into_iter().enumerate() {
            // Some fit into one row at any size, some are wrapped, some are taller than the box.
            texts.push(format!("n{n} {}", [1, 40, 400][n % 3].to_string().repeat([1, 60, 900][n % 3])));
            house.write("in.t", format!("{}\n", texts[n]));
            accepted(&house, n + 1);
            std::thread::sleep(Duration::from_millis(after_ms));
            let (columns, rows) = SIZES[n % SIZES.len()];
            house.tmux(&["resize-window", "-t", "=ccmux:", "-x", columns, "-y", rows]);
            house.wait_for_messages(n + 1);
        }
        house.arrived_once("t", &texts);
        house.claims_are_true();
    });
}

/// Acceptance C7.
#[test]
fn a_pane_that_is_resized_all_the_time_while_a_big_batch_is_pasted_gets_it_whole_once() {
    let house = House::builder().ready();
    let text: String = (0..60_000).map(|at| char::from(b'a' + (at % 26) as u8)).collect();
    house.write("in.t", format!("{text}\n"));
    for (columns, rows) in SIZES.into_iter().cycle().take(40) {
        house.tmux(&["resize-window", "-t", "=ccmux:", "-x", columns, "-y", rows]);
        std::thread::sleep(Duration::from_millis(40));
    }
    house.arrived_once("t", &[text]);
    house.claims_are_true();
}

/// Field fault 11. Acceptance C7.
#[test]
fn batches_of_any_height_are_submitted_in_a_pane_of_any_size() {
    at_once(SIZES, |(columns, rows)| {
        let house = House::builder().ready();
        house.tmux(&["resize-window", "-t", "=ccmux:", "-x", columns, "-y", rows]);
        for (n, count) in [1, 2, 3, 4, 5, 7, 9, 14, 23, 24, 25, 60, 500, 2000].into_iter().enumerate() {
            house.write("in.t", framed(&lines(count)));
            let prompts = house.wait_for_prompts(n + 1);
            assert_eq!(
                messages(&prompts[n]),
                [("t".to_owned(), lines(count))],
                "{columns}x{rows}, {count} lines"
            );
        }
        house.claims_are_true();
    });
}

/// Field fault 9. Acceptance C7.
#[test]
fn copy_mode_between_paste_and_enter_waits_and_then_enter_follows() {
    let house = House::builder().ready();
    let mut seen_in_flight = 0;
    for (n, after_ms) in [60, 80, 95, 105, 115, 125, 135, 150].into_iter().enumerate() {
        house.wait_ready();
        house.write("in.t", format!("say: n{n}\n"));
        accepted(&house, n + 1);
        std::thread::sleep(Duration::from_millis(after_ms));
        house.tmux(&["copy-mode", "-t", "=ccmux:"]);
        let before = house.prompts().len();
        house.gets_no_more_than((n + 1).min(before + 1));
        seen_in_flight +=
            usize::from(house.prompts().len() == n && house.screen().contains(&format!("say: n{n}")));
        if house.pane("#{pane_in_mode}") == "1" {
            house.tmux(&["send-keys", "-t", "=ccmux:", "-X", "cancel"]);
        }
        house.wait_for_messages(n + 1);
    }
    println!("{seen_in_flight} batches stood in the box in copy mode");
    house.arrived_once("t", &(0..8).map(|n| format!("say: n{n}")).collect::<Vec<_>>());
    house.claims_are_true();
}

/// Field fault 11.
#[test]
fn vims_normal_mode_between_paste_and_enter_waits_for_insert_mode() {
    let house = House::builder().agent("CCMUX_DEMO_VIM", 1).agent("CCMUX_DEMO_ENTER_DEAF_MS", 3000).build();
    house.start();
    house.wait_for_screen("-- NORMAL --");
    house.send_keys(&["i"]);
    house.wait_ready();
    house.write("in.t", "say: in insert mode\n");
    house.wait_for_screen("say: in insert mode");
    house.send_keys(&["Escape"]);
    house.wait_for_screen("-- NORMAL --");
    let entered = house.log_events("batch.entered").len();
    house.write("in.t", "say: behind it\n");
    accepted(&house, 2);
    std::thread::sleep(Duration::from_secs(7));
    assert_eq!(house.log_events("batch.entered").len(), entered, "Enter was pressed in normal mode");
    assert!(house.prompts().is_empty());
    house.send_keys(&["i"]);
    house.arrived_once("t", &["say: in insert mode".into(), "say: behind it".into()]);
    house.claims_are_true();
}
