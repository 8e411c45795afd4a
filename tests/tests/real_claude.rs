//! The shortest honest path on the real Claude Code CLI: texts reach the model's API exactly, finished turns come out.
//!
//! Claude comes from npm, the model is a mock on loopback. Where npm's registry can't be reached the tests say so and do
//! nothing, unless `CI` is set.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, SystemTime};

use ccmux_tests::agent::{messages, parted};
use ccmux_tests::doors::{Line, kinds_of};
use ccmux_tests::{House, Subscriber, claude};
use ccmux_wire::receipt::Proof;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The latest that a turn may come after its Stop hook.
const WITHIN: Duration = Duration::from_secs(1);

fn ready() -> Option<House> {
    let house = House::with_claude(&claude::or_skip()?);
    // The log then tells when a hook came.
    house.write_settings("[log]\nlevel = \"debug\"\n");
    house.start();
    house.wait_within(Duration::from_secs(60), "Claude to be ready", || {
        house.state().filter(|state| *state == ccmux_wire::status::StateWord::Ready)
    });
    Some(house)
}

/// What the model's API got, once it has `count` prompts.
fn wait_for_model(house: &House, count: usize) -> Vec<String> {
    house.wait_for(&format!("{count} prompts at the API; there are {:?}", house.model_prompts()), || {
        Some(house.model_prompts()).filter(|prompts| prompts.len() >= count)
    })
}

/// Waits for the nth turn and sees that it came soon after the nth Stop hook.
fn wait_for_turn(house: &House, turns: &Subscriber, nth: usize) -> Line {
    turns.wait_for_turns(nth);
    let line =
        turns.lines().into_iter().filter(|line| line.value.get("turn").is_some()).nth(nth - 1).unwrap();
    let stop = house.wait_for("the Stop hook in the log", || {
        house.log_events("hook.received").into_iter().filter(|event| event["hook"] == "Stop").nth(nth - 1)
    });
    let stop =
        SystemTime::from(OffsetDateTime::parse(stop["timestamp"].as_str().unwrap(), &Rfc3339).unwrap());
    let late = line.wall.duration_since(stop).unwrap_or_default();
    println!("turn {nth} came {late:?} after its Stop");
    assert!(late < WITHIN, "turn {nth} came {late:?} after its Stop");
    line
}

/// Acceptance C1, D1.
#[test]
fn c1_c2_d1_texts_reach_the_model_exactly_and_turns_come_out() {
    let Some(house) = ready() else { return };
    let turns = house.subscribe();
    let cases = [
        ("telegram", "say: hello there\n", "say: hello there"),
        (
            "phone",
            "say: 你好，世界 👩‍👩‍👧 «quoted» `tick` $HOME \"x\" 'y' {z}\n",
            "say: 你好，世界 👩‍👩‍👧 «quoted» `tick` $HOME \"x\" 'y' {z}",
        ),
        (
            "mail",
            "\0first line\nsecond line; with $(id) and \\\nsay: third line\0",
            "first line\nsecond line; with $(id) and \\\nsay: third line",
        ),
    ];
    for (n, (channel, written, text)) in cases.into_iter().enumerate() {
        house.write(&format!("in.{channel}"), written);
        let prompts = wait_for_model(&house, n + 1);
        assert_eq!(prompts.len(), n + 1, "{prompts:?}");
        assert_eq!(prompts[n].lines().count(), text.lines().count(), "{prompts:?}");
        assert_eq!(messages(&prompts[n]), [(channel.to_owned(), text.to_owned())]);
        let turn = wait_for_turn(&house, &turns, n + 1).value;
        assert_eq!(turn["in_reply_to"][0]["channel"], channel, "{turn}");
        assert!(turn.get("partial").is_none(), "{turn}");
    }
    let said: Vec<_> = turns.turns().iter().map(ccmux_tests::doors::text_of).collect();
    assert_eq!(said, ["hello there", "你好，世界 👩‍👩‍👧 «quoted» `tick` $HOME \"x\" 'y' {z}", "third line"]);
    house.wait_until("receipts of all three", || house.log_events("batch.delivered").len() == 3);
    assert!(house.log_events("batch.delivered").iter().all(|event| event["proof"] == "hook"));
    let receipt = house.send("delivered", "say: with a receipt");
    assert_eq!(receipt.proof, Some(Proof::Hook));
    assert_eq!(parted(&wait_for_model(&house, 4)[3]), ("default", "say: with a receipt"));
}

/// Acceptance D2.
#[test]
fn d2_a_turn_with_a_tool_is_one_line_of_all_its_blocks() {
    let Some(house) = ready() else { return };
    std::fs::write(house.proj().join("a-file-to-list"), "").unwrap();
    let turns = house.subscribe();
    house.write("in.t", "full: ls\n");
    let turn = wait_for_turn(&house, &turns, 1).value;
    let kinds = kinds_of(&turn);
    assert_eq!(kinds[..4], ["thinking", "text", "tool_use", "tool_result"], "{turn}");
    assert_eq!(kinds.last().map(String::as_str), Some("text"), "{turn}");
    let result =
        turn["turn"].as_array().unwrap().iter().find(|block| block["type"] == "tool_result").unwrap();
    assert!(result.to_string().contains("a-file-to-list"), "{result}");
    assert_eq!(turns.turns().len(), 1);
}

/// Acceptance C1. Field fault 3.
#[test]
fn c1_five_kilobytes_are_not_wrapped() {
    let Some(house) = ready() else { return };
    let text = format!("say: {}", "x".repeat(5000));
    house.write("in.long", format!("{text}\n"));
    let prompts = wait_for_model(&house, 1);
    assert_eq!(parted(&prompts[0]), ("long", text.as_str()));
    let lines: Vec<String> =
        (0..40).map(|n| format!("line {n} {}", "words and more words ".repeat(5))).collect();
    house.write("in.long", format!("\0{}\0", lines.join("\n")));
    let prompts = wait_for_model(&house, 2);
    let expected: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    let got: Vec<String> =
        messages(&prompts[1])[0].1.lines().map(|line| line.trim_end().to_owned()).collect();
    assert_eq!(got, expected);
}
