//! Acceptance D on the demo agent: every finished turn reaches every subscriber once, and nothing else does.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use ccmux_tests::doors::{kinds_of, text_of};
use ccmux_tests::patience::stays_quiet;
use ccmux_tests::{House, Subscriber};
use ccmux_wire::receipt::Proof;
use ccmux_wire::status::StateWord;

/// The latest that a turn may come after its Stop hook.
const WITHIN: Duration = Duration::from_secs(1);

/// When the agent has written the last line of its turn, which it does after its Stop hooks.
fn wait_for_stop(house: &House, count: usize) -> Instant {
    house.wait_until(&format!("{count} turns to end"), || {
        house.transcript().iter().filter(|line| line["subtype"] == "turn_duration").count() >= count
    });
    Instant::now()
}

fn texts(subscriber: &Subscriber) -> Vec<String> {
    subscriber.turns().iter().map(text_of).collect()
}

/// `count` turns and, for a while, no more.
fn exactly(subscriber: &Subscriber, count: usize) {
    subscriber.wait_for_turns(count);
    stays_quiet(Duration::from_secs(2), "a turn too many", || {
        Some(texts(subscriber)).filter(|turns| turns.len() > count).map(|turns| format!("{turns:?}"))
    });
}

/// Acceptance D1.
#[test]
fn d1_one_subscriber_gets_the_turn_within_a_second_of_its_end() {
    let house = House::builder().ready();
    let subscriber = house.subscribe();
    house.write("in.phone", "say: hello\n");
    let ended = wait_for_stop(&house, 1);
    let line = subscriber.wait_for_text("hello");
    assert!(line.at < ended + WITHIN, "{:?} late", line.at.duration_since(ended));
    let turn = line.value;
    assert_eq!(turn["turn"], serde_json::json!([{"type": "text", "text": "hello"}]));
    assert_eq!(turn["session"].as_str().unwrap(), house.status().session.unwrap().to_string());
    assert_eq!(turn["in_reply_to"][0]["channel"], "phone");
    assert!(turn["prompt_id"].is_string() && turn.get("partial").is_none(), "{turn}");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!(turn["ts"].as_u64().unwrap().abs_diff(now) < 60, "{turn}");
}

/// Acceptance D1.
#[test]
fn d1_three_subscribers_get_the_same_lines() {
    let house = House::builder().ready();
    let three = [house.subscribe(), house.subscribe(), house.subscribe()];
    assert_eq!(house.status().subscribers, 3);
    for n in 0..3 {
        house.send("answered", &format!("say: turn {n}"));
    }
    let lines = three.each_ref().map(|subscriber| subscriber.wait_for_turns(3));
    assert_eq!(lines[0], lines[1]);
    assert_eq!(lines[0], lines[2]);
    assert_eq!(lines[0].iter().map(text_of).collect::<Vec<_>>(), ["turn 0", "turn 1", "turn 2"]);
}

/// Acceptance D1.
#[test]
fn d1_without_a_subscriber_turns_go_on_and_are_kept() {
    let house = House::builder().ready();
    for n in 0..3 {
        house.send("answered", &format!("say: turn {n}"));
    }
    let late = house.subscribe_with("{\"only\":\"turns\",\"since\":0}\n");
    assert_eq!(
        late.wait_for_turns(3).iter().map(text_of).collect::<Vec<_>>(),
        ["turn 0", "turn 1", "turn 2"]
    );
}

/// Acceptance D1.
#[test]
fn d1_one_that_leaves_costs_the_others_nothing() {
    let house = House::builder().ready();
    let (stays, leaves) = (house.subscribe(), house.subscribe());
    house.send("answered", "say: both");
    leaves.wait_for_text("both");
    leaves.leave();
    house.wait_until("it to be gone", || house.status().subscribers == 1);
    house.send("answered", "say: one");
    stays.wait_for_text("one");
}

/// Acceptance D1.
#[test]
fn d1_one_that_never_reads_is_let_go_and_the_others_get_every_turn_in_time() {
    let house = House::builder().ready();
    let reads = house.subscribe();
    let mut never_reads = UnixStream::connect(house.run_dir().join("output.sock")).unwrap();
    house.wait_until("both to be counted", || house.status().subscribers == 2);
    const TURNS: usize = 12;
    for n in 0..TURNS {
        house.write("in.t", "big: 1000000\n");
        let ended = wait_for_stop(&house, n + 1);
        reads.wait_for_turns(n + 1);
        let came =
            reads.lines().into_iter().filter(|line| line.value.get("turn").is_some()).nth(n).unwrap().at;
        let late = came.saturating_duration_since(ended);
        assert!(late < WITHIN, "turn {n} was {late:?} late");
    }
    house.wait_until("it to be let go", || house.status().subscribers == 1);
    never_reads.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut got = Vec::new();
    never_reads.read_to_end(&mut got).unwrap();
    assert!(reads.turns().iter().all(|turn| text_of(turn).len() == 1_000_000));
    assert!(got.len() < 1_000_000 * TURNS, "it got everything, so nothing was tested");
    for line in got.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        serde_json::from_slice::<serde_json::Value>(line).expect("a whole line");
    }
}

/// Acceptance D1.
#[test]
fn d1_a_half_closed_connection_still_gets_turns() {
    let house = House::builder().ready();
    let subscriber = house.subscribe();
    subscriber.half_close();
    house.send("answered", "say: after the half close");
    subscriber.wait_for_text("after the half close");
    assert!(!subscriber.is_closed());
}

/// Acceptance D1.
#[test]
fn d1_a_wish_is_heard_and_nonsense_is_survived() {
    let house = House::builder().ready();
    let (turns, alerts, nonsense) = (
        house.subscribe_with("{\"only\":\"turns\"}\n"),
        house.subscribe_with("{\"only\":\"alerts\"}\n"),
        house.subscribe_with("nonsense\n"),
    );
    house.write("in.t", "{}\n");
    alerts.wait_for_alert("rejected");
    house.send("answered", "say: words");
    turns.wait_for_text("words");
    nonsense.wait_for_text("words");
    assert!(turns.alerts().is_empty() && alerts.turns().is_empty());
    assert!(!nonsense.is_closed() && nonsense.alerts_of("rejected").len() == 1);
}

/// Acceptance D2.
#[test]
fn d2_a_turn_of_all_kinds_of_blocks_is_one_line_in_order() {
    let house = House::builder().ready();
    let subscriber = house.subscribe();
    house.write("in.t", "full: echo from-the-tool\n");
    let turn = subscriber.wait_for_turns(1).remove(0);
    let kinds = kinds_of(&turn);
    assert_eq!(kinds[..4], ["thinking", "text", "tool_use", "tool_result"], "{turn}");
    assert_eq!(kinds.last().map(String::as_str), Some("text"), "{turn}");
    let result =
        turn["turn"].as_array().unwrap().iter().find(|block| block["type"] == "tool_result").unwrap();
    assert!(result.to_string().contains("from-the-tool"), "{result}");
    exactly(&subscriber, 1);
}

/// Acceptance D2. Field fault 20.
#[test]
fn d2_f20_esc_in_mid_turn_ends_it_and_the_queue_goes_on() {
    let house = House::builder().ready();
    let subscriber = house.subscribe();
    house.write("in.t", "slow: 60\n");
    house.wait_for_screen("word1");
    house.write("in.t", "say: after esc\n");
    house.wait_until("it to wait", || house.status().queue.messages == 1);
    house.send_keys(&["Escape"]);
    house.wait_for_prompt("after esc");
    subscriber.wait_for_text("after esc");
    let turns = subscriber.turns();
    assert!(turns.len() <= 2, "{turns:?}");
    assert_eq!(turns.iter().filter(|turn| text_of(turn) == "after esc").count(), 1);
    house.wait_ready();
}

/// Acceptance D2. Field fault 20.
#[test]
fn d2_f20_an_api_error_is_an_alert_and_the_queue_goes_on() {
    let house = House::builder().ready();
    let subscriber = house.subscribe();
    house.write("in.t", "error: 529\n");
    subscriber.wait_for_alert("failure");
    house.send("answered", "say: after the error");
    subscriber.wait_for_text("after the error");
    assert_eq!(subscriber.turns().len(), 1, "the error was published as a turn: {:?}", texts(&subscriber));
    house.wait_ready();
}

/// Acceptance D2.
#[test]
fn d2_a_stream_that_breaks_ends_the_turn() {
    let house = House::builder().ready();
    house.write("in.t", "cut: broken\n");
    house.wait_for_prompt("cut: broken");
    house.send("answered", "say: after the cut");
}

/// Acceptance D3. Field fault 23.
#[test]
fn d3_f23_hooks_that_fire_three_times_make_one_turn() {
    let house = House::builder().agent("CCMUX_DEMO_HOOKS", 3).ready();
    let subscriber = house.subscribe();
    for n in 0..3 {
        let receipt = house.send("answered", &format!("say: turn {n}"));
        assert_eq!(receipt.proof, Some(Proof::Hook));
    }
    exactly(&subscriber, 3);
    assert_eq!(texts(&subscriber), ["turn 0", "turn 1", "turn 2"]);
    let replies: Vec<_> =
        subscriber.turns().iter().map(|turn| turn["in_reply_to"].as_array().unwrap().len()).collect();
    assert_eq!(replies, [1, 1, 1]);
}

/// Acceptance D3. Field fault 23.
#[test]
fn d3_f23_without_any_hook_the_transcript_proves_and_publishes() {
    let house = House::builder().agent("CCMUX_DEMO_HOOKS", "off").ready();
    let subscriber = house.subscribe();
    let receipt = house.send("delivered", "say: no hook told");
    assert_eq!(receipt.proof, Some(Proof::Transcript));
    subscriber.wait_for_text("no hook told");
    house.send("answered", "say: again");
    exactly(&subscriber, 2);
    assert_eq!(texts(&subscriber), ["no hook told", "again"]);
}

/// Acceptance D3. Field fault 23.
#[test]
fn d3_f23_a_stop_that_never_comes_is_replaced_by_looking() {
    let house = House::builder().agent("CCMUX_DEMO_HOOKS_DROP", "Stop").ready();
    let subscriber = house.subscribe();
    for n in 0..2 {
        house.send("answered", &format!("full: echo turn {n}"));
    }
    exactly(&subscriber, 2);
    for turn in subscriber.turns() {
        assert_eq!(kinds_of(&turn).len(), 5, "{turn}");
        assert_eq!(turn["in_reply_to"].as_array().unwrap().len(), 1);
    }
}

/// Acceptance D3. Field fault 23.
#[test]
fn d3_f23_a_prompt_hook_that_never_comes_is_replaced_by_the_transcript() {
    let house = House::builder().agent("CCMUX_DEMO_HOOKS_DROP", "UserPromptSubmit").ready();
    let subscriber = house.subscribe();
    let receipt = house.send("answered", "say: proved otherwise");
    assert_eq!(receipt.proof, Some(Proof::Transcript));
    exactly(&subscriber, 1);
    assert_eq!(house.prompts().len(), 1);
}

/// Acceptance D3. Field fault 21.
#[test]
fn d3_f21_a_late_last_line_is_waited_for_and_the_answer_is_the_right_one() {
    for delay_ms in [0, 50, 200, 1000] {
        let house = House::builder().agent("CCMUX_DEMO_TRANSCRIPT_DELAY_MS", delay_ms).ready();
        let subscriber = house.subscribe();
        for n in 0..3 {
            house.write("in.t", format!("say: answer {n}\n"));
            let line = subscriber.wait_for_text(&format!("answer {n}"));
            assert!(line.value.get("partial").is_none(), "{delay_ms} ms: {}", line.value);
        }
        exactly(&subscriber, 3);
        assert_eq!(texts(&subscriber), ["answer 0", "answer 1", "answer 2"], "{delay_ms} ms");
    }
}

/// Acceptance D3.
#[test]
fn d3_a_last_line_that_never_comes_is_replaced_by_the_hooks_words() {
    let house = House::builder().agent("CCMUX_DEMO_TRANSCRIPT_DELAY_MS", 6000).ready();
    let subscriber = house.subscribe();
    house.write("in.t", "say: very late\n");
    let line = subscriber.wait_for_text("very late");
    assert_eq!(line.value["partial"], true, "{}", line.value);
    stays_quiet(Duration::from_secs(6), "published twice", || {
        Some(texts(&subscriber)).filter(|turns| turns.len() > 1).map(|turns| format!("{turns:?}"))
    });
}

/// Acceptance D3.
#[test]
fn d3_without_a_state_file_turns_are_published_all_the_same() {
    let house = House::builder().agent("CCMUX_DEMO_STATE_FILE", "off").ready();
    let subscriber = house.subscribe();
    for n in 0..2 {
        house.send("answered", &format!("say: turn {n}"));
    }
    exactly(&subscriber, 2);
}

/// Acceptance D3.
#[test]
fn d3_a_human_prompt_is_a_turn_in_reply_to_nobody() {
    let house = House::builder().ready();
    let subscriber = house.subscribe();
    let human = house.human();
    human.types("say: typed by hand");
    house.wait_for_screen("typed by hand");
    human.presses("Enter");
    let turn = subscriber.wait_for_text("typed by hand").value;
    assert_eq!(turn["in_reply_to"], serde_json::json!([]));
}

/// Acceptance D4. Field fault 24.
#[test]
fn d4_f24_another_agent_of_the_same_user_is_never_published() {
    for with_token in [false, true] {
        let house = House::builder().ready();
        let subscriber = house.subscribe();
        let (own, session) = (house.agent_pid(), house.status().session);
        let pane = house.another_agent(with_token);
        let foreign = |what: &str| house.tmux(&["capture-pane", "-p", "-t", &pane]).contains(what);
        house.wait_until("the other agent's prompt box", || foreign("❯\u{a0}"));
        house.tmux(&["send-keys", "-t", &pane, "-l", "say: foreign words"]);
        house.wait_until("the words in its box", || foreign("say: foreign words"));
        house.tmux(&["send-keys", "-t", &pane, "Enter"]);
        house.wait_until("the other agent's answer", || foreign("● foreign words"));
        house.send("answered", "say: own words");
        subscriber.wait_for_text("own words");
        stays_quiet(Duration::from_secs(2), "the other session leaked", || {
            subscriber
                .lines()
                .iter()
                .find(|line| line.value.to_string().contains("foreign"))
                .map(|line| line.value.to_string())
        });
        assert_eq!(subscriber.turns().len(), 1, "{:?}", texts(&subscriber));
        assert_eq!(
            house.status().session,
            session,
            "the other session was taken for ours (token: {with_token})"
        );
        assert_eq!(house.status().agent.pid, Some(own));
        house.wait_ready();
    }
}

/// Acceptance D4. Field fault 24.
#[test]
fn d4_f24_a_broadcast_of_another_session_is_refused() {
    let house = House::builder().ready();
    let subscriber = house.subscribe();
    let mut stream = UnixStream::connect(house.run_dir().join("control.sock")).unwrap();
    stream.write_all(b"{\"type\":\"broadcast\",\"session\":\"somebody-else\",\"turn\":[{\"type\":\"text\",\"text\":\"forged\"}]}\n").unwrap();
    let hook = "{\"v\":1,\"type\":\"hook\",\"event\":\"Stop\",\"token\":\"wrong\",\"claude_pid\":1,\"payload\":{\"session_id\":\"x\",\"hook_event_name\":\"Stop\",\"last_assistant_message\":\"forged\"}}\n";
    stream.write_all(hook.as_bytes()).unwrap();
    house.send("answered", "say: genuine");
    exactly(&subscriber, 1);
    assert_eq!(texts(&subscriber), ["genuine"]);
}

/// Acceptance D5.
#[test]
fn d5_tail_since_has_no_gap_and_no_double() {
    let house = House::builder().ready();
    for n in 0..3 {
        house.send("answered", &format!("say: turn {n}"));
    }
    let first = house.subscribe_with("{\"since\":0}\n").wait_for_turns(3)[0]["seq"].as_u64().unwrap();
    house.kill9();
    house.start();
    let mut command = house.command(house.bin("ccmux"));
    command
        .args(["tail", "--json", "--turns", "--since", &first.to_string()])
        .stdout(std::process::Stdio::piped());
    let mut tail = command.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(tail.stdout.take().unwrap()));
    let mut next = || {
        loop {
            let line: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            if line.get("turn").is_some() {
                return (line["seq"].as_u64().unwrap(), text_of(&line));
            }
        }
    };
    let replayed = [next(), next()];
    house.wait_ready();
    house.send("answered", "say: live");
    let live = next();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(tail.id().cast_signed()),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    tail.wait().unwrap();
    assert_eq!([&replayed[0].1, &replayed[1].1, &live.1], ["turn 1", "turn 2", "live"]);
    assert!(first < replayed[0].0 && replayed[0].0 < replayed[1].0 && replayed[1].0 < live.0);
}

/// Field fault 17.
#[test]
fn d6_f17_a_long_silent_tool_call_is_busy_and_an_idle_agent_is_ready() {
    let house = House::builder().env("CCMUX_SILENCE_TIMEOUT", "0.3").ready();
    house.write("in.t", "silent: 4\n");
    house.wait_for_state(StateWord::Busy);
    house.write("in.t", "say: not yet\n");
    stays_quiet(Duration::from_millis(2500), "taken for ready", || {
        Some(house.prompts()).filter(|prompts| prompts.len() > 1).map(|prompts| format!("{prompts:?}"))
    });
    house.wait_for_prompt("not yet");
    house.wait_ready();
}
