//! Turns from transcript to subscribers.

use std::fs::{self, File};
use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use super::*;

/// A state directory, a projects directory and a session in it.
struct House {
    dir: TempDir,
    session: SessionId,
}

impl House {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        fs::create_dir_all(dir.path().join("projects/p")).unwrap();
        fs::create_dir(dir.path().join("state")).unwrap();
        Self { dir, session: SessionId::new("s1") }
    }

    fn open(&self) -> Turns {
        let settings =
            TurnsSettings { projects_dir: self.dir.path().join("projects"), subscriber_bytes: 1 << 20 };
        Turns::open(&self.dir.path().join("state"), settings).unwrap().turns
    }

    fn transcript(&self) -> PathBuf {
        self.dir.path().join("projects/p/s1.jsonl")
    }

    fn append(&self, lines: &[Value]) {
        let mut file = File::options().create(true).append(true).open(self.transcript()).unwrap();
        for line in lines {
            writeln!(file, "{line}").unwrap();
        }
    }

    fn stop(&self, turns: &Turns, prompt: &str, words: Option<&str>) {
        turns.note_stop(&self.session, Some(&PromptId::new(prompt)), words, Some(&self.transcript()));
    }

    fn order(&self, prompt: Option<&str>) -> TurnOrder {
        let prompt = prompt.map(PromptId::new);
        TurnOrder {
            session: self.session.clone(),
            prompt,
            in_reply_to: Vec::new(),
            earlier: Vec::new(),
            interrupted: false,
            until: None,
        }
    }

    async fn publish(&self, turns: &Turns, prompt: &str) -> Option<u64> {
        turns.publish(self.order(Some(prompt))).await.unwrap().map(|seq| seq.0)
    }
}

fn user(prompt: &str) -> Value {
    json!({"type":"user","promptId":prompt,"uuid":prompt,"message":{"content":format!("prompt {prompt}")}})
}

fn says(text: &str) -> Value {
    let content = json!([{"type":"text","text":text}]);
    json!({"type":"assistant","uuid":format!("a-{text}"),"message":{"id":text,"content":content}})
}

/// Acceptance D3. Field fault 23.
#[tokio::test]
async fn a_stop_that_comes_three_times_is_published_once() {
    let house = House::new();
    let turns = house.open();
    house.append(&[user("P"), says("hi")]);
    house.stop(&turns, "P", Some("hi"));
    let begun = Instant::now();
    let (one, two, three) =
        tokio::join!(house.publish(&turns, "P"), house.publish(&turns, "P"), house.publish(&turns, "P"));
    assert_eq!((one, two, three), (Some(1), None, None));
    assert!(begun.elapsed() < Duration::from_secs(1), "nobody waits for what was published");
    // Nor after a restart.
    drop(turns);
    let turns = house.open();
    house.stop(&turns, "P", Some("hi"));
    assert_eq!(house.publish(&turns, "P").await, None);
    assert_eq!(turns.broadcast().last_seq(), Seq(1));
}

#[tokio::test]
async fn a_partial_turn_that_comes_three_times_is_published_once() {
    let house = House::new();
    let turns = house.open();
    house.append(&[user("P"), says("first")]);
    house.stop(&turns, "P", Some("never written"));
    assert_eq!(house.publish(&turns, "P").await, Some(1));
    let begun = Instant::now();
    assert_eq!(house.publish(&turns, "P").await, None);
    // The line that came too late is not a turn of its own.
    house.append(&[says("never written"), user("Q"), says("second")]);
    assert_eq!(house.publish(&turns, "P").await, None);
    assert!(begun.elapsed() < Duration::from_secs(1));
    house.stop(&turns, "Q", Some("second"));
    assert_eq!(house.publish(&turns, "Q").await, Some(2));
    assert_eq!(turns.answer_text(Seq(2)).await.unwrap().as_deref(), Some("second"));
}

#[tokio::test]
async fn the_turn_names_the_messages_it_answers() {
    let house = House::new();
    let turns = house.open();
    house.append(&[user("P"), says("one"), says("two")]);
    house.stop(&turns, "P", Some("two"));
    let reply = ReplyTo { id: "m1".into(), channel: "telegram".parse().unwrap() };
    let order = TurnOrder { in_reply_to: vec![reply.clone()], ..house.order(Some("P")) };
    let seq = turns.publish(order).await.unwrap().unwrap();
    let turn = turns.0.store.turn(seq).unwrap().unwrap();
    assert_eq!((turn.in_reply_to, turn.partial), (vec![reply], false));
    assert_eq!(turns.answer_text(seq).await.unwrap().as_deref(), Some("one\ntwo"));
    assert_eq!(turns.answer_text(Seq(99)).await.unwrap(), None);
    assert!((unix_seconds() - turn.ts).abs() < 60);
}

#[tokio::test]
async fn a_turn_that_ended_while_the_daemon_was_away_is_published_on_return() {
    let house = House::new();
    let turns = house.open();
    turns.set_cursor_to_end(&house.session, &house.transcript()).await.unwrap();
    house.append(&[user("P"), says("one")]);
    house.stop(&turns, "P", Some("one"));
    assert_eq!(house.publish(&turns, "P").await, Some(1));
    drop(turns);
    house.append(&[user("Q"), says("two"), json!({"type":"system","subtype":"turn_duration"})]);
    let turns = house.open();
    turns.set_cursor_to_end(&house.session, &house.transcript()).await.unwrap();
    assert_eq!(turns.publish(house.order(None)).await.unwrap(), Some(Seq(2)));
    assert_eq!(turns.answer_text(Seq(2)).await.unwrap().as_deref(), Some("two"));
    assert_eq!(turns.publish(house.order(None)).await.unwrap(), None);
}

/// Acceptance A4.
#[tokio::test]
async fn every_turn_that_ended_while_the_daemon_was_away_is_published_once_in_order() {
    let house = House::new();
    let turns = house.open();
    turns.set_cursor_to_end(&house.session, &house.transcript()).await.unwrap();
    drop(turns);
    let closed = || json!({"type":"system","subtype":"turn_duration"});
    house.append(&[user("H1"), says("a human's"), closed(), user("P"), says("the message's"), closed()]);
    house.append(&[user("H2"), says("a human's again"), closed(), user("H3"), says("runs")]);
    let turns = house.open();
    turns.set_cursor_to_end(&house.session, &house.transcript()).await.unwrap();
    turns.note_prompt(&house.session, Some(&PromptId::new("H3")));
    let reply = ReplyTo { id: "m1".into(), channel: "telegram".parse().unwrap() };
    let order = TurnOrder { in_reply_to: vec![reply.clone()], interrupted: true, ..house.order(Some("P")) };
    assert_eq!(turns.publish(order).await.unwrap(), Some(Seq(2)), "the message's own line");
    assert_eq!(turns.publish(house.order(None)).await.unwrap(), Some(Seq(3)));
    assert_eq!(turns.publish(house.order(None)).await.unwrap(), None, "what runs is left alone");
    house.append(&[says("is over")]);
    house.stop(&turns, "H3", Some("is over"));
    assert_eq!(house.publish(&turns, "H3").await, Some(4));
    let all: Vec<_> = (1..=4).map(|seq| turns.0.store.turn(Seq(seq)).unwrap().unwrap()).collect();
    let texts: Vec<_> = all.iter().map(|turn| text_of(&turn.turn)).collect();
    assert_eq!(texts, ["a human's", "the message's", "a human's again", "runs\nis over"]);
    let replies: Vec<_> = all.iter().map(|turn| turn.in_reply_to.len()).collect();
    assert_eq!(replies, [0, 1, 0, 0]);
    assert_eq!(turns.counts(), TurnsStatus { published: 4, partial: 0 });
}

/// Field fault 23.
#[tokio::test]
async fn a_late_stop_of_an_earlier_turn_takes_nothing_of_the_next() {
    let house = House::new();
    let turns = house.open();
    house.append(&[user("P"), says("one")]);
    house.stop(&turns, "P", Some("one"));
    assert_eq!(house.publish(&turns, "P").await, Some(1));
    house.append(&[user("Q"), says("two"), user("R"), says("half")]);
    house.stop(&turns, "Q", Some("two"));
    assert_eq!(house.publish(&turns, "Q").await, Some(2));
    assert_eq!(house.publish(&turns, "P").await, None);
    assert_eq!(house.publish(&turns, "Q").await, None);
    house.append(&[says("whole")]);
    house.stop(&turns, "R", Some("whole"));
    assert_eq!(house.publish(&turns, "R").await, Some(3));
    assert_eq!(turns.answer_text(Seq(3)).await.unwrap().as_deref(), Some("half\nwhole"));
}

#[tokio::test]
async fn a_turn_that_goes_on_gives_its_rest_to_the_same_messages_even_in_the_same_words() {
    let house = House::new();
    let turns = house.open();
    house.append(&[user("P"), says("done")]);
    house.stop(&turns, "P", Some("done"));
    let reply = ReplyTo { id: "m1".into(), channel: "telegram".parse().unwrap() };
    let order = TurnOrder { in_reply_to: vec![reply.clone()], ..house.order(Some("P")) };
    assert_eq!(turns.publish(order).await.unwrap(), Some(Seq(1)));
    assert_eq!(house.publish(&turns, "P").await, None);
    let mut again = says("done");
    (again["uuid"], again["message"]["id"]) = ("second".into(), "second".into());
    house.append(&[again]);
    house.stop(&turns, "P", Some("done"));
    assert_eq!(house.publish(&turns, "P").await, Some(2));
    // Esc ends the third part: no Stop, so the order names no prompt.
    house.append(&[says("cut short")]);
    let order = TurnOrder { interrupted: true, ..house.order(None) };
    assert_eq!(turns.publish(order).await.unwrap(), Some(Seq(3)));
    for seq in 1..=3 {
        let turn = turns.0.store.turn(Seq(seq)).unwrap().unwrap();
        assert_eq!((turn.in_reply_to, turn.prompt_id), (vec![reply.clone()], Some(PromptId::new("P"))));
    }
}

#[tokio::test]
async fn a_session_that_is_taken_up_again_gives_nothing_that_others_did_in_it() {
    let house = House::new();
    let turns = house.open();
    house.append(&[user("P"), says("ours")]);
    house.stop(&turns, "P", Some("ours"));
    house.publish(&turns, "P").await;
    house.append(&[user("F"), says("of another process")]);
    turns.take_up(&house.session, &house.transcript()).await.unwrap();
    house.append(&[user("Q"), says("ours again")]);
    house.stop(&turns, "Q", Some("ours again"));
    assert_eq!(house.publish(&turns, "Q").await, Some(2));
    assert_eq!(turns.answer_text(Seq(2)).await.unwrap().as_deref(), Some("ours again"));
}

#[tokio::test]
async fn a_partial_turn_is_counted() {
    let house = House::new();
    let turns = house.open();
    house.append(&[user("P"), says("first")]);
    house.stop(&turns, "P", Some("never written"));
    house.publish(&turns, "P").await;
    assert_eq!(turns.counts(), TurnsStatus { published: 1, partial: 1 });
}

fn offer(house: &House, text: &str) -> Offer {
    Offer::new(house.session.clone(), vec![json!({"type":"text","text":text})]).unwrap()
}

#[tokio::test]
async fn a_turn_that_is_shown_is_left_to_the_transcript() {
    let house = House::new();
    let turns = house.open();
    house.append(&[user("P"), says("hi there")]);
    house.stop(&turns, "P", Some("hi there"));
    // Shown before the transcript's turn, and after it.
    let early = tokio::spawn({
        let (turns, offer) = (turns.clone(), offer(&house, "hi there"));
        async move { turns.offer(offer).await.unwrap() }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(house.publish(&turns, "P").await, Some(1));
    let begun = Instant::now();
    assert_eq!(turns.offer(offer(&house, "hi  there ")).await.unwrap(), None);
    assert!(begun.elapsed() < Duration::from_secs(1), "nobody waits for what is there");
    assert_eq!(early.await.unwrap(), None);
    assert_eq!(turns.broadcast().last_seq(), Seq(1));
}

#[tokio::test]
async fn a_turn_that_only_was_shown_is_published_once_and_marked() {
    let house = House::new();
    let turns = house.open();
    let begun = Instant::now();
    let show = || turns.offer(offer(&house, "nobody else told"));
    let (one, two, three) = tokio::join!(show(), show(), show());
    assert!(begun.elapsed() >= Duration::from_secs(2));
    let published: Vec<Seq> = [one, two, three].into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(published, [Seq(1)]);
    let turn = turns.0.store.turn(Seq(1)).unwrap().unwrap();
    assert_eq!((turn.source, turn.partial), (Some(ccmux_wire::output::TurnSource::Broadcast), false));
    // The transcript has it after all: it is the same turn, and answers the order.
    house.append(&[user("P"), says("nobody else told"), user("Q"), says("next")]);
    house.stop(&turns, "P", Some("nobody else told"));
    assert_eq!(house.publish(&turns, "P").await, Some(1));
    assert_eq!(turns.broadcast().last_seq(), Seq(1));
    house.stop(&turns, "Q", Some("next"));
    assert_eq!(house.publish(&turns, "Q").await, Some(2));
}

#[test]
fn what_shows_no_turn_is_named() {
    let house = House::new();
    for (blocks, why) in [
        (vec![json!("text")], "no list of content blocks"),
        (vec![json!({"type":"tool_use"})], "no text block"),
        (vec![], "no text block"),
    ] {
        let refused = Offer::new(house.session.clone(), blocks).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}

#[tokio::test]
async fn a_session_that_was_never_seen_begins_at_its_present_end() {
    let house = House::new();
    let turns = house.open();
    house.append(&[user("P"), says("history")]);
    turns.set_cursor_to_end(&house.session, &house.transcript()).await.unwrap();
    assert_eq!(turns.publish(house.order(None)).await.unwrap(), None);
    house.append(&[user("Q"), says("news")]);
    house.stop(&turns, "Q", Some("news"));
    assert_eq!(house.publish(&turns, "Q").await, Some(1));
    assert_eq!(turns.answer_text(Seq(1)).await.unwrap().as_deref(), Some("news"));
}

#[tokio::test]
async fn the_words_of_an_earlier_stop_are_not_those_of_an_interrupted_turn() {
    let house = House::new();
    let turns = house.open();
    house.append(&[user("P"), says("one")]);
    house.stop(&turns, "P", Some("one"));
    house.publish(&turns, "P").await;
    house.append(&[user("Q"), says("half a sent")]);
    let order = TurnOrder { interrupted: true, ..house.order(Some("Q")) };
    let seq = turns.publish(order).await.unwrap().unwrap();
    let turn = turns.0.store.turn(seq).unwrap().unwrap();
    assert_eq!((text_of(&turn.turn).as_str(), turn.partial), ("half a sent", false));
}

#[tokio::test]
async fn a_refused_transcript_leaves_the_hooks_words() {
    let house = House::new();
    let turns = house.open();
    nix::unistd::mkfifo(&house.transcript(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    house.stop(&turns, "P", Some("said"));
    let begun = Instant::now();
    let seq = turns.publish(house.order(Some("P"))).await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1));
    let turn = turns.0.store.turn(seq).unwrap().unwrap();
    assert_eq!((text_of(&turn.turn).as_str(), turn.partial), ("said", true));
    assert_eq!(house.publish(&turns, "P").await, None);
    assert!(turns.mark(&house.session).await.is_err());
    house.stop(&turns, "Q", None);
    assert!(turns.publish(house.order(Some("Q"))).await.is_err());
}

#[tokio::test]
async fn a_session_nobody_spoke_of_has_no_transcript() {
    let house = House::new();
    let turns = house.open();
    assert!(matches!(turns.publish(house.order(None)).await, Err(TurnsError::NoTranscript(_))));
    assert_eq!(turns.mark(&house.session).await.unwrap(), None);
}

#[tokio::test]
async fn a_mark_is_where_the_transcript_ends_now() {
    let house = House::new();
    let turns = house.open();
    turns.note_transcript(&house.session, &house.transcript());
    let mark = |offset| Some(Mark { path: house.transcript(), offset });
    assert_eq!(turns.mark(&house.session).await.unwrap(), mark(0));
    house.append(&[user("P")]);
    let length = fs::metadata(house.transcript()).unwrap().len();
    assert_eq!(turns.mark(&house.session).await.unwrap(), mark(length));
    let same: Compare = |theirs, ours| theirs == ours;
    let find = |offset| {
        let mark = Mark { path: house.transcript(), offset };
        turns.find_batch(mark, "prompt P".to_owned(), same, same)
    };
    assert_eq!(find(0).await, (Found::Whole, Some(PromptId::new("P"))));
    assert_eq!(find(length).await, (Found::Absent, None));
}

#[tokio::test]
async fn sessions_do_not_wait_for_each_other() {
    let house = House::new();
    let turns = house.open();
    let other = SessionId::new("s2");
    let path = house.dir.path().join("projects/p/s2.jsonl");
    fs::write(&path, "").unwrap();
    let prompt = PromptId::new("P");
    turns.note_stop(&other, Some(&prompt), Some("never comes"), Some(&path));
    let slow = TurnOrder { session: other, ..house.order(Some("P")) };
    let slow = tokio::spawn({
        let turns = turns.clone();
        async move { turns.publish(slow).await }
    });
    house.append(&[user("P"), says("hi")]);
    house.stop(&turns, "P", Some("hi"));
    assert_eq!(house.publish(&turns, "P").await, Some(1));
    assert!(!slow.is_finished());
    assert_eq!(slow.await.unwrap().unwrap(), Some(Seq(2)));
}

#[tokio::test]
async fn alerts_and_turns_share_one_sequence() {
    let house = House::new();
    let turns = house.open();
    let session = Some(house.session.clone());
    let messages = vec!["m1".to_owned()];
    let alert = Alert { kind: "stuck".into(), message: "look".into(), messages, ..Alert::default() };
    assert_eq!(turns.alert(alert, session).await.unwrap(), Seq(1));
    house.append(&[user("P"), says("hi")]);
    house.stop(&turns, "P", Some("hi"));
    assert_eq!(house.publish(&turns, "P").await, Some(2));
    let line = turns.0.store.since(Seq(0), 1, 1).unwrap().remove(0);
    let alert: Value = serde_json::from_slice(line.bytes()).unwrap();
    assert_eq!(alert["alert"], json!({"kind":"stuck","message":"look","messages":["m1"]}));
    assert_eq!(alert["session"], "s1");
}
