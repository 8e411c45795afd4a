//! Field faults 12 and 15 on the demo agent: a human types before, during and after an injection, through a client of their
//! own. Their bytes are never submitted by ccmux and never cleared; afterwards all goes on.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use ccmux_tests::patience::at_once;
use ccmux_tests::{House, HouseBuilder, Human};

/// What the human types: found nowhere else.
const TYPED: &str = "zqx";

/// The part of our message that nobody types into.
const OURS: &str = "say: from the";

/// What stands in the prompt box: the rows between the two rules at the bottom, without the sign.
fn in_the_box(house: &House) -> String {
    let screen = house.screen();
    let rows: Vec<&str> = screen.lines().collect();
    let is_rule = |row: &&str| row.starts_with("──");
    let bottom = rows.iter().rposition(is_rule).unwrap_or(rows.len());
    let top = rows[..bottom].iter().rposition(is_rule).map_or(bottom, |top| top + 1);
    rows[top..bottom].join("\n").replace("❯\u{a0}", "").trim_end().to_owned()
}

/// The human empties the box, row by row, as Ctrl-U does it.
fn empties(human: &Human<'_>, house: &House) {
    house.wait_until("the human to have emptied the box", || {
        human.presses("End");
        human.presses("C-u");
        in_the_box(house).is_empty()
    });
}

/// A human who types so long after a message was accepted; `from` is where in the box they type.
fn types_in_the_middle(house: HouseBuilder, after_ms: u64, from: &[&str], then_sends: bool) {
    let house = house.ready();
    let human = house.human();
    house.write("in.t", "say: from the channel\n");
    house.wait_until("it to be accepted", || !house.log_events("message.accepted").is_empty());
    std::thread::sleep(Duration::from_millis(after_ms));
    from.iter().for_each(|key| human.presses(key));
    human.types(TYPED);
    house.wait_for_screen(TYPED);
    let case = format!("{after_ms} ms, {from:?}");
    // Whatever was in the box then, the human's bytes stay in it.
    house.gets_no_more_than(1);
    assert!(in_the_box(&house).contains(TYPED), "{case}: cleared\n{}", house.screen());
    assert!(house.prompts().iter().all(|prompt| !prompt.contains(TYPED)), "{case}: {:?}", house.prompts());
    let ours_taken = house.prompts().len() == 1;
    let mixed = in_the_box(&house).contains(OURS);
    assert!(!(ours_taken && mixed), "{case}: submitted, and still in the box");
    println!("{case}: taken {ours_taken}, in one box {mixed}");
    house.write("in.t", "say: behind it\n");
    house.wait_until("it to be accepted", || house.log_events("message.accepted").len() == 2);
    if then_sends {
        human.presses("Enter");
        let prompt = house.wait_for_prompt(TYPED);
        assert_eq!(prompt.contains(OURS), mixed, "{case}: {prompt}");
    } else {
        empties(&human, &house);
    }
    house.wait_for_prompt("say: behind it");
    house.wait_until("an empty queue", || house.status().queue.messages == 0);
    // Sent with the human's words it was delivered in their prompt; out of an emptied box it goes in again, alone.
    house.wait_for_prompt(OURS);
    let times = house.prompts().iter().filter(|prompt| prompt.contains(OURS)).count();
    assert_eq!(times, 1, "{case}: {:?}", house.prompts());
    assert!(
        house.log_events("batch.uncertain").is_empty(),
        "{case}: {:?}",
        house.log_events("batch.uncertain")
    );
}

/// Field faults 12 and 15. Acceptance C4.
#[test]
fn what_a_human_types_at_any_moment_of_an_injection_is_neither_submitted_nor_cleared() {
    for some in [[0, 40, 80], [100, 120, 140], [160, 180, 200], [230, 270, 400]] {
        at_once(some, |after_ms| types_in_the_middle(House::builder(), after_ms, &[], false));
    }
}

/// Field faults 12 and 15. The agent is slow: their key is on its way, and no screen shows it.
#[test]
fn what_a_human_typed_that_the_agent_has_not_drawn_yet_is_neither_submitted_nor_cleared() {
    for some in [[0, 60, 90], [120, 150, 180], [210, 240, 270]] {
        at_once(some, |after_ms| {
            let slow = House::builder().agent("CCMUX_DEMO_KEYS_LATE_MS", 400);
            types_in_the_middle(slow, after_ms, &[], false);
        });
    }
}

/// Field faults 12 and 15. Acceptance C4.
#[test]
fn what_a_human_types_into_the_middle_and_sends_goes_in_as_they_sent_it() {
    for some in [[40, 100], [130, 160], [200, 300]] {
        at_once(some, |after_ms| types_in_the_middle(House::builder(), after_ms, &["Home"], true));
        at_once(some, |after_ms| types_in_the_middle(House::builder(), after_ms, &["Left", "Left"], false));
    }
}

/// Field faults 12 and 15. The agent hears no Enter for a while, so that the human surely types between paste and Enter.
#[test]
fn a_human_who_types_into_our_text_stops_every_further_enter_until_they_have_emptied_the_box() {
    at_once([&[][..], &["Home"], &["Left", "Left", "Left"]], |from| {
        let house = House::builder().agent("CCMUX_DEMO_SWALLOW_ENTER", 1).ready();
        let human = house.human();
        house.write("in.t", "say: from the channel\n");
        house.wait_until("Enter to be pressed", || !house.log_events("batch.entered").is_empty());
        from.iter().for_each(|key| human.presses(key));
        human.types(TYPED);
        house.wait_for_screen(TYPED);
        // The second Enter would come after 5 s.
        house.wait_until("a look that sees something else", || {
            house.why().contains("something else than its text is on the screen")
        });
        let before = in_the_box(&house);
        house.gets_no_more_than(0);
        assert_eq!(house.log_events("batch.entered").len(), 1);
        assert_eq!(in_the_box(&house), before);
        empties(&human, &house);
        // The text stood there after Enter and was not submitted: it goes in again, once.
        house.write("in.t", "say: behind it\n");
        house.wait_for_prompt("say: behind it");
        house.wait_for_prompt(OURS);
        house.wait_until("an empty queue", || house.status().queue.messages == 0);
        let times = house.prompts().iter().filter(|prompt| prompt.contains(OURS)).count();
        assert_eq!(times, 1, "{:?}", house.prompts());
    });
}

/// Field fault 12. Acceptance C5.
#[test]
fn a_draft_is_the_same_byte_for_byte_wherever_its_cursor_stands() {
    const DRAFT: &str = "say: half an idea, e\u{301} 漢字 👩‍👩‍👧 ;";
    at_once([0, 1, 5, 17, 23, 40], |left| {
        let house = House::builder().ready();
        let human = house.human();
        human.types(DRAFT);
        house.wait_for_screen("half an idea");
        (0..left).for_each(|_| human.presses("Left"));
        house.write("in.t", "say: behind the draft\n");
        house.is_left_alone("closed: draft: ");
        human.presses("Enter");
        let prompts = house.wait_for_prompts(1);
        // The agent composes characters, as Claude does.
        assert_eq!(prompts[0], DRAFT.replace("e\u{301}", "\u{e9}"), "{left} columns to the left");
        house.wait_for_prompt("say: behind the draft");
    });
}

/// Field fault 12. Acceptance C5.
#[test]
fn drafts_of_several_lines_and_pasted_ones_are_held_whole() {
    let long = "a sentence of the human. ".repeat(30);
    let many: String = (0..9).map(|n| format!("row {n}\n")).collect();
    let drafts =
        ["one\ntwo\n\nfour".to_owned(), "a\tb".to_owned(), long.trim().to_owned(), many.trim().to_owned()];
    at_once(drafts, |draft| {
        let house = House::builder().ready();
        let human = house.human();
        human.pastes(&draft);
        house.wait_until("the paste to be in the box", || !in_the_box(&house).is_empty());
        house.write("in.t", "say: behind the draft\n");
        house.is_left_alone("closed: draft: ");
        human.presses("Enter");
        let sent = house.wait_for_prompts(1).swap_remove(0);
        assert!(sent.contains(&draft.replace('\t', "    ")), "{draft:?} became {sent:?}");
        assert!(!sent.contains("behind the draft"));
        house.wait_for_prompt("say: behind the draft");
        house.claims_are_true();
    });
}

/// Field fault 15.
#[test]
fn a_running_turn_is_never_disturbed_by_messages_that_wait() {
    let house = House::builder().ready();
    house.write("in.t", "slow: 4\n");
    house.wait_for_prompt("slow: 4");
    for n in 0..5 {
        house.write("in.t", format!("say: n{n}\n"));
    }
    house.wait_for_prompt("say: n0");
    let words = "word0 word1 word2 word3 word4 word5 word6 word7 ";
    let whole = |line: &serde_json::Value| line["message"]["content"][0]["text"] == words;
    assert!(house.transcript().iter().any(whole), "the turn was cut short: {}", house.screen());
    assert!(!house.transcript().iter().any(|line| line.to_string().contains("interrupted by user")));
}
