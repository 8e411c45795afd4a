//! What is forgotten, and what never is.

use std::fs;

use ccmux_wire::inbox::InboxMessage;

use super::*;

const DAY_MS: i64 = 86_400_000;

fn keeping(days: u64, bytes: u64) -> Place {
    Place::with(InboxSettings { retention: Retention { days, bytes }, ..InboxSettings::default() })
}

async fn make_older(daemon: &Daemon, by_ms: i64) {
    let aged = daemon.opened.inbox.ask(move |writer| {
        writer.change("test", "UPDATE messages SET accepted_at = accepted_at - ?1", [by_ms])
    });
    aged.await.unwrap();
}

async fn forget(daemon: &Daemon) -> u64 {
    let mut messages = 0;
    loop {
        let forgotten = daemon.opened.inbox.forget_some().await.unwrap();
        messages += forgotten.messages;
        if !forgotten.more {
            return messages;
        }
    }
}

async fn states(daemon: &Daemon) -> Vec<MessageState> {
    let all = Selection { state: None, channel: None, limit: 100 };
    let kept: Vec<InboxMessage> = daemon.opened.inbox.select(all).await.unwrap();
    kept.into_iter().rev().map(|message| message.receipt.state).collect()
}

#[tokio::test]
async fn what_is_over_goes_after_its_days_and_what_is_not_never() {
    let place = keeping(30, 0);
    let daemon = place.open();
    for (batch, state) in (1..).zip(MessageState::ALL) {
        daemon.message_in(batch, state).await;
    }
    make_older(&daemon, 29 * DAY_MS).await;
    assert_eq!(forget(&daemon).await, 0);
    make_older(&daemon, 2 * DAY_MS).await;
    assert_eq!(forget(&daemon).await, 4);
    // The list shows the uncertain one: now it was seen.
    let kept = [MessageState::Accepted, MessageState::InFlight, MessageState::Uncertain];
    assert_eq!(states(&daemon).await, kept);
    assert_eq!(forget(&daemon).await, 1);
    assert_eq!(states(&daemon).await, kept[..2]);
    let batches: Vec<i64> = {
        let connection = place.look();
        let mut all = connection.prepare("SELECT id FROM batches ORDER BY id").unwrap();
        all.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(batches, [2, 5], "the one in flight, and the last number");
}

#[tokio::test]
async fn an_id_is_known_as_long_as_its_message_is_kept() {
    let daemon = keeping(30, 0).open();
    let inbox = &daemon.opened.inbox;
    let again = async || {
        let new = NewMessage { id: Some("a".into()), ..new_message("x", "hi") };
        inbox.accept(new).await.unwrap()
    };
    let first = again().await.message;
    inbox.failed(first, "over").await.unwrap();
    make_older(&daemon, 29 * DAY_MS).await;
    forget(&daemon).await;
    assert!(again().await.duplicate);
    make_older(&daemon, 2 * DAY_MS).await;
    assert_eq!(forget(&daemon).await, 1);
    let second = again().await;
    assert!(!second.duplicate && second.message > first, "a number is not used twice");
}

#[tokio::test]
async fn nothing_goes_where_it_is_kept_for_ever() {
    let daemon = keeping(0, 0).open();
    daemon.message_in(1, MessageState::Answered).await;
    make_older(&daemon, 9_000 * DAY_MS).await;
    assert_eq!(forget(&daemon).await, 0);
}

#[tokio::test]
async fn over_the_limit_the_oldest_go_and_the_file_shrinks() {
    let place = keeping(30, 2_000_000);
    let daemon = place.open();
    let inbox = &daemon.opened.inbox;
    let text = "x".repeat(10_000);
    for _ in 0..700 {
        let id = daemon.accept(&text).await;
        inbox.failed(id, "over").await.unwrap();
    }
    let waiting = daemon.accept("waits").await;
    assert_eq!(forget(&daemon).await, 0, "what is younger than an hour stays");
    make_older(&daemon, 2 * 3_600_000).await;
    let size = |place: &Place| {
        place.look().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        fs::metadata(place.path()).unwrap().len()
    };
    let before = size(&place);
    let gone = forget(&daemon).await;
    assert!((500..700).contains(&gone), "{gone}");
    let after = size(&place);
    println!("{before} bytes, {after} after {gone} of 700 messages were forgotten");
    assert!(before > 7_000_000 && after < 2_500_000, "{before} -> {after}");
    assert_eq!(daemon.state(waiting).await, MessageState::Accepted);
    assert_eq!(inbox.queue().messages, 1);
}
