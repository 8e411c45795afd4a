//! Delivery on the real Claude Code CLI: a thousand messages in bursts, messages before there is a prompt box, a queue
//! while Claude is busy, a human at the keyboard, a daemon that is killed; and how long a message takes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ccmux_tests::agent::messages;
use ccmux_tests::inbox::Row;
use ccmux_tests::{House, claude};
use ccmux_wire::status::StateWord;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// What the model got, message by message, once it is `count`: a receipt comes before Claude asks its model.
fn model_messages(house: &House, count: usize) -> Vec<(String, String)> {
    house.wait_for(&format!("{count} messages at the model"), || {
        let prompts = house.model_prompts();
        let found: Vec<_> = prompts.iter().flat_map(|prompt| messages(prompt)).collect();
        (found.len() >= count).then_some(found)
    })
}

/// Every message is delivered, and Claude's hook or transcript says so.
fn assert_proved(rows: &[Row]) {
    for row in rows {
        assert!(row.proof.is_some() && row.delivered_at.is_some(), "{row:?}");
    }
}

/// Acceptance C9. Field fault 8. 1,000 messages from 8 writers, each on a channel of its own in 5 bursts of 25.
#[test]
fn a_thousand_messages_in_bursts_arrive_once_and_in_order_all_with_receipts() {
    const WRITERS: usize = 8;
    const BURSTS: usize = 5;
    const EACH: usize = 25;
    let Some(house) = claude::ready("") else { return };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let mut fifo = house.open_fifo(&format!("in.w{writer}"));
            scope.spawn(move || {
                for n in 0..BURSTS * EACH {
                    fifo.write_all(format!("say: n{n}\n").as_bytes()).unwrap();
                    if n % EACH == EACH - 1 {
                        // Bursts of one writer meet a batch of another at any moment.
                        std::thread::sleep(Duration::from_millis(300 + 170 * writer as u64));
                    }
                }
            });
        }
    });
    let rows = house.wait_for_receipts(WRITERS * BURSTS * EACH);
    assert_proved(&rows);
    let mut by_channel: BTreeMap<String, Vec<String>> = BTreeMap::new();
    model_messages(&house, rows.len())
        .into_iter()
        .for_each(|(channel, text)| by_channel.entry(channel).or_default().push(text));
    let expected: Vec<String> = (0..BURSTS * EACH).map(|n| format!("say: n{n}")).collect();
    assert_eq!(by_channel.len(), WRITERS);
    assert!(by_channel.values().all(|texts| *texts == expected), "{by_channel:?}");
    let prompts = house.model_prompts().len();
    println!("{} messages in {prompts} prompts, {:.1} s", rows.len(), begun.elapsed().as_secs_f64());
}

/// Field fault 10. 40 messages from the start on, one each 250 ms, the first of them before there is a prompt box.
#[test]
fn messages_written_from_0_to_10_s_after_the_start_all_arrive() {
    let Some(claude) = claude::or_skip() else { return };
    let house = House::with_claude(&claude);
    house.start();
    let mut fifo = house.open_fifo("in.t");
    let early = house.state() == Some(StateWord::Starting);
    for n in 0..40 {
        fifo.write_all(format!("say: n{n}\n").as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(250));
    }
    assert!(early, "the first message came after the prompt box");
    assert_proved(&house.wait_for_receipts(40));
    let expected: Vec<_> = (0..40).map(|n| ("t".to_owned(), format!("say: n{n}"))).collect();
    assert_eq!(model_messages(&house, 40), expected);
}

/// Acceptance C2.
#[test]
fn messages_of_three_channels_that_wait_become_one_prompt_in_order() {
    let Some(house) = claude::ready("") else { return };
    house.write("in.first", "slow: 6\n");
    house.wait_for_screen("word2");
    let waiting = [("c", "say: one"), ("a", "two"), ("b", "say: three")];
    for (n, (channel, text)) in waiting.into_iter().enumerate() {
        house.write(&format!("in.{channel}"), format!("{text}\n"));
        house.wait_until("the message to wait", || house.status().queue.messages == n as u64 + 1);
    }
    house.wait_for_receipts(4);
    model_messages(&house, 4);
    let prompts = house.model_prompts();
    assert_eq!(prompts.len(), 2, "{prompts:?}");
    assert_eq!(messages(&prompts[1]), waiting.map(|(c, t)| (c.to_owned(), t.to_owned())));
}

/// Acceptance C4.
#[test]
fn nothing_is_typed_while_a_human_types_and_an_injection_is_no_typing() {
    const THRESHOLD: Duration = Duration::from_secs(5);
    let Some(claude) = claude::or_skip() else { return };
    let house = House::with_claude(&claude);
    house.start_with(&[("CCMUX_IDLE_THRESHOLD", "5")]);
    house.wait_ready();
    let human = house.human();
    human.types("x");
    house.wait_for_screen("❯\u{a0}x");
    human.presses("BSpace");
    let last_key = Instant::now();
    house.write("in.t", "say: wait for me\n");
    house.wait_until("the gate to name the human", || house.why().starts_with("closed: human: "));
    assert_proved(&house.wait_for_receipts(1));
    // tmux tells activity in whole seconds.
    assert!(last_key.elapsed() >= THRESHOLD - Duration::from_secs(1), "after {:?}", last_key.elapsed());
    let begun = Instant::now();
    house.send("delivered", "say: nobody typed this");
    assert!(begun.elapsed() < THRESHOLD - Duration::from_secs(1), "after {:?}", begun.elapsed());
}

/// Prompts, answers and what is in the box. The rest of Claude's screen moves by itself.
fn conversation(house: &House) -> Vec<String> {
    house.screen().lines().filter(|line| line.starts_with(['❯', '●'])).map(str::to_owned).collect()
}

/// Acceptance A3. Killed while Claude is idle, and at moments of a batch.
#[test]
fn a_killed_daemon_adopts_claude_and_neither_loses_nor_doubles_a_message() {
    let Some(house) = claude::ready("") else { return };
    let agent = house.agent_pid();
    house.send("answered", "say: before");
    house.wait_ready();
    let conversation = conversation(&house);
    house.kill9();
    house.start();
    house.wait_ready();
    assert_eq!(
        (house.agent_pid(), self::conversation(&house)),
        (agent, conversation),
        "the screen was touched"
    );
    for (n, after_ms) in [0, 40, 120, 200, 300, 500].into_iter().enumerate() {
        house.write("in.t", format!("say: n{n}\n"));
        house.wait_until("the message to be accepted", || house.inbox().len() == n + 2);
        std::thread::sleep(Duration::from_millis(after_ms));
        house.kill9();
        house.start();
        assert_proved(&house.wait_for_receipts(n + 2));
        house.wait_ready();
    }
    let texts: Vec<String> = model_messages(&house, 7).into_iter().map(|(_, text)| text).collect();
    let said: Vec<&str> = texts.iter().map(|text| text.trim_start_matches("(redelivered) ")).collect();
    assert_eq!(said, ["say: before", "say: n0", "say: n1", "say: n2", "say: n3", "say: n4", "say: n5"]);
    assert_eq!(house.agent_pid(), agent);
    let turns = house.subscribe_with("{\"since\":0}\n");
    assert_eq!(turns.wait_for_turns(7).len(), 7, "one turn a message: {:?}", turns.turns());
}

/// How long the legs of one message took, in milliseconds.
struct Legs {
    written_to_accepted: f64,
    accepted_to_pasted: f64,
    pasted_to_entered: f64,
    written_to_entered: f64,
    entered_to_receipt: f64,
}

/// How many messages are measured; more for figures that are to be quoted.
fn count() -> usize {
    std::env::var("CCMUX_TEST_MESSAGES").ok().and_then(|count| count.parse().ok()).unwrap_or(20)
}

/// Single messages to an idle Claude, one after the other. Prints the figures of docs/OPERATIONS.md.
#[test]
fn a_message_to_an_idle_claude_gets_its_receipt_within_a_moment() {
    let Some(house) = claude::ready("") else { return };
    let mut fifo = house.open_fifo("in.t");
    let written: Vec<SystemTime> = (0..count())
        .map(|n| {
            house.wait_ready();
            let at = SystemTime::now();
            fifo.write_all(format!("say: n{n}\n").as_bytes()).unwrap();
            house.wait_until("its receipt", || house.log_events("batch.delivered").len() == n + 1);
            at
        })
        .collect();
    let rows = house.wait_for_receipts(count());
    assert_proved(&rows);
    let entered = at_ms(&house.log_events("batch.entered"));
    let delivered = at_ms(&house.log_events("batch.delivered"));
    assert_eq!((entered.len(), delivered.len()), (count(), count()), "one Enter and one receipt a message");
    let legs: Vec<Legs> =
        (0..count()).map(|n| legs(written[n], &rows[n], entered[n], delivered[n])).collect();
    println!("{} messages, one at a time    p50      p99      max (ms)", count());
    let p50 = show("line written → accepted", &legs, |legs| legs.written_to_accepted)
        + show("accepted → pasted", &legs, |legs| legs.accepted_to_pasted)
        + show("pasted → Enter (100 ms still)", &legs, |legs| legs.pasted_to_entered);
    show("line written → Enter", &legs, |legs| legs.written_to_entered);
    show("Enter → receipt", &legs, |legs| legs.entered_to_receipt);
    assert!(p50 < 2_000.0, "a message waited for {p50} ms before its Enter");
}

fn legs(written: SystemTime, row: &Row, entered: f64, delivered: f64) -> Legs {
    let written = written.duration_since(UNIX_EPOCH).unwrap().as_secs_f64() * 1000.0;
    let (accepted, pasted) = (row.accepted_at as f64, row.injected_at.unwrap() as f64);
    Legs {
        written_to_accepted: accepted - written,
        accepted_to_pasted: pasted - accepted,
        pasted_to_entered: entered - pasted,
        written_to_entered: entered - written,
        entered_to_receipt: delivered - entered,
    }
}

/// When these events were logged, Unix milliseconds.
fn at_ms(events: &[Value]) -> Vec<f64> {
    let at = |event: &Value| OffsetDateTime::parse(event["timestamp"].as_str().unwrap(), &Rfc3339).unwrap();
    events.iter().map(|event| at(event).unix_timestamp_nanos() as f64 / 1e6).collect()
}

/// Prints a row of figures; its median.
fn show(leg: &str, legs: &[Legs], of: impl Fn(&Legs) -> f64) -> f64 {
    let mut all: Vec<f64> = legs.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    let at = |share: f64| all[((all.len() - 1) as f64 * share).round() as usize];
    println!("{leg:<30} {:>8.1} {:>8.1} {:>8.1}", at(0.5), at(0.99), at(1.0));
    at(0.5)
}
