//! Bytes that become messages, across crashes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde_json::json;

use super::*;

#[tokio::test]
async fn lines_become_rows_and_events_in_order() {
    let place = Place::new();
    let mut daemon = place.open();
    let bytes = b"one\n\n{\"content\":\"two\",\"channel\":\"bob\",\"meta\":{\"k\":1}}\n\0a\nb\0half".to_vec();
    let ingested = daemon.opened.inbox.ingest(&channel("x"), 0, bytes.clone()).await.unwrap();
    assert_eq!((ingested.accepted, ingested.pending), (3, true));
    assert_eq!((ingested.cursor, ingested.received), (bytes.len() as u64 - 4, bytes.len() as u64));
    let events = [daemon.event().await, daemon.event().await, daemon.event().await];
    assert_eq!(events.clone().map(|m| m.id.0), [1, 2, 3]);
    assert_eq!(events.map(|m| (m.bytes, m.rows)), [(4, 1), (8, 1), (4, 2)]);
    let bodies = daemon.opened.inbox.bodies(vec![MessageId(2), MessageId(3)]).await.unwrap();
    assert_eq!((bodies[0].shown.as_str(), bodies[0].content.as_str()), ("x/bob", "two"));
    assert_eq!((bodies[1].sender_id.as_str(), bodies[1].content.as_str()), ("m-3", "a\nb"));
    let meta: String =
        place.look().query_row("SELECT meta FROM messages WHERE id = 2", [], |r| r.get(0)).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&meta).unwrap(), json!({"k": 1}));
}

#[tokio::test]
async fn bytes_given_again_double_nothing() {
    let place = Place::new();
    let daemon = place.open();
    let inbox = &daemon.opened.inbox;
    inbox.ingest(&channel("x"), 0, b"one\ntw".to_vec()).await.unwrap();
    let again = inbox.ingest(&channel("x"), 0, b"one\ntw".to_vec()).await.unwrap();
    assert_eq!((again.accepted, again.received), (0, 6));
    let overlapping = inbox.ingest(&channel("x"), 4, b"two\nthree\n".to_vec()).await.unwrap();
    assert_eq!((overlapping.accepted, overlapping.pending), (2, false));
    assert_eq!(place.contents(), ["one", "two", "three"]);
}

#[tokio::test]
async fn channels_have_cursors_of_their_own() {
    let place = Place::new();
    let daemon = place.open();
    let inbox = &daemon.opened.inbox;
    inbox.ingest(&channel("a"), 0, b"from a\npart".to_vec()).await.unwrap();
    inbox.ingest(&channel("b"), 0, b"from b\n".to_vec()).await.unwrap();
    assert_eq!(inbox.received(&channel("a")).await.unwrap(), 11);
    assert_eq!(inbox.received(&channel("b")).await.unwrap(), 7);
    assert_eq!(inbox.received(&channel("c")).await.unwrap(), 0);
    assert!(inbox.has_partial(&channel("a")).await.unwrap());
    assert!(!inbox.has_partial(&channel("b")).await.unwrap());
}

#[tokio::test]
async fn quiet_accepts_what_is_held_once() {
    let place = Place::new();
    let daemon = place.open();
    let inbox = &daemon.opened.inbox;
    inbox.ingest(&channel("x"), 0, b"half".to_vec()).await.unwrap();
    assert!(place.contents().is_empty());
    let flushed = inbox.flush_quiet(&channel("x")).await.unwrap();
    assert_eq!((flushed.accepted, flushed.pending, flushed.cursor), (1, false, 4));
    assert_eq!(inbox.flush_quiet(&channel("x")).await.unwrap().accepted, 0);
    inbox.ingest(&channel("x"), 4, b"\nrest\n".to_vec()).await.unwrap();
    assert_eq!(place.contents(), ["half", "rest"]);
}

#[tokio::test]
async fn after_a_crash_cursor_messages_and_beginnings_agree() {
    let place = Place::new();
    let daemon = place.open();
    daemon.opened.inbox.ingest(&channel("x"), 0, b"one\ntw".to_vec()).await.unwrap();
    std::mem::forget(daemon);
    let daemon = place.open();
    assert_eq!(daemon.opened.waiting.iter().map(|m| m.id.0).collect::<Vec<_>>(), [1]);
    assert_eq!(daemon.opened.partials, [channel("x")]);
    assert_eq!(daemon.opened.inbox.queue().messages, 1);
    assert_eq!(daemon.opened.inbox.received(&channel("x")).await.unwrap(), 6);
    daemon.opened.inbox.ingest(&channel("x"), 6, b"o\n".to_vec()).await.unwrap();
    assert_eq!(place.contents(), ["one", "two"]);
}

#[tokio::test]
async fn a_crash_amid_an_over_long_line_does_not_make_a_message_of_its_rest() {
    let place = Place::limited(8, 100);
    let daemon = place.open();
    daemon.opened.inbox.ingest(&channel("x"), 0, b"far too long, and".to_vec()).await.unwrap();
    std::mem::forget(daemon);
    let daemon = place.open();
    assert_eq!(daemon.opened.partials, [channel("x")]);
    let ingested = daemon.opened.inbox.ingest(&channel("x"), 17, b" on\nok\n".to_vec()).await.unwrap();
    assert_eq!((ingested.accepted, ingested.rejected.len(), ingested.rejected[0].bytes), (1, 1, 20));
    assert_eq!(place.contents(), ["ok"]);
}

#[tokio::test]
async fn a_gap_ends_what_is_held_and_goes_on() {
    let place = Place::new();
    let daemon = place.open();
    daemon.opened.inbox.ingest(&channel("x"), 0, b"half".to_vec()).await.unwrap();
    let ingested = daemon.opened.inbox.ingest(&channel("x"), 100, b"new\n".to_vec()).await.unwrap();
    assert_eq!((ingested.accepted, ingested.cursor), (2, 104));
    assert_eq!(place.contents(), ["half", "new"]);
}

#[tokio::test]
async fn what_can_not_be_a_message_is_told_and_the_rest_is_unharmed() {
    let place = Place::limited(16, 100);
    let daemon = place.open();
    let bytes = b"{\"text\":1}\nok\nthis line is too long\n\x1b\x1b\nalso ok\n".to_vec();
    let ingested = daemon.opened.inbox.ingest(&channel("x"), 0, bytes).await.unwrap();
    let rejected: Vec<u64> = ingested.rejected.iter().map(|rejected| rejected.bytes).collect();
    assert_eq!((ingested.accepted, rejected), (2, vec![10, 21, 2]));
    assert!(ingested.rejected.iter().all(|rejected| rejected.channel == channel("x")));
    assert_eq!(place.contents(), ["ok", "also ok"]);
}

#[tokio::test]
async fn the_same_id_on_the_same_channel_is_accepted_once() {
    let place = Place::new();
    let mut daemon = place.open();
    let inbox = daemon.opened.inbox.clone();
    let lines = b"{\"content\":\"first\",\"id\":\"a\"}\n{\"content\":\"again\",\"id\":\"a\"}\n".to_vec();
    let ingested = inbox.ingest(&channel("x"), 0, lines).await.unwrap();
    assert_eq!((ingested.accepted, ingested.duplicates), (1, 1));
    let with_id = |on| NewMessage { id: Some("a".into()), ..new_message(on, "by socket") };
    let same = inbox.accept(with_id("x")).await.unwrap();
    assert_eq!((same.message, same.duplicate, same.receipt.id.as_str()), (MessageId(1), true, "a"));
    let other = inbox.accept(with_id("y")).await.unwrap();
    assert_eq!((other.duplicate, other.receipt.state), (false, MessageState::Accepted));
    assert_eq!(place.contents(), ["first", "by socket"]);
    assert_eq!([daemon.event().await.id, daemon.event().await.id], [MessageId(1), other.message]);
    assert_eq!(inbox.queue().messages, 2);
}

#[tokio::test]
async fn what_is_told_of_a_new_message_is_its_receipt() {
    let place = Place::new();
    let inbox = place.open().opened.inbox;
    let mut changes = inbox.subscribe();
    let lines = b"plain\n{\"content\":\"with an id\",\"id\":\"a7\",\"channel\":\"y\"}\n";
    inbox.ingest(&channel("x"), 0, lines.to_vec()).await.unwrap();
    for id in [MessageId(1), MessageId(2)] {
        let told = changes.recv().await.unwrap();
        assert_eq!(*told, (id, inbox.receipt(id).await.unwrap()));
    }
}

#[tokio::test]
async fn a_message_that_can_not_be_taken_is_refused_with_the_reason() {
    let daemon = Place::limited(8, 100).open();
    let inbox = &daemon.opened.inbox;
    for blank in ["", " \n", "\u{1b}"] {
        assert!(matches!(inbox.accept(new_message("x", blank)).await, Err(AcceptError::Empty)), "{blank:?}");
    }
    let large = inbox.accept(new_message("x", "123456789")).await;
    assert!(matches!(large, Err(AcceptError::TooLarge { bytes: 9, limit: 8 })), "{large:?}");
    for id in [String::new(), "i".repeat(257)] {
        let refused = inbox.accept(NewMessage { id: Some(id), ..new_message("x", "hi") }).await;
        assert!(matches!(refused, Err(AcceptError::BadId { .. })), "{refused:?}");
    }
    assert_eq!(inbox.queue().messages, 0);
}

#[tokio::test]
async fn a_full_queue_refuses_a_sender_and_lets_a_fifo_wait_for_room() {
    let place = Place::limited(100, 2);
    let mut daemon = place.open();
    let inbox = daemon.opened.inbox.clone();
    let first = NewMessage { id: Some("a".into()), ..new_message("x", "first") };
    let id = inbox.accept(first.clone()).await.unwrap().message;
    let writer = tokio::spawn({
        let inbox = inbox.clone();
        async move { inbox.ingest(&channel("x"), 0, b"two\nthree\nfo".to_vec()).await }
    });
    assert_eq!([daemon.event().await.id, daemon.event().await.id], [MessageId(1), MessageId(2)]);
    let refused = inbox.accept(new_message("x", "no")).await;
    assert!(matches!(refused, Err(AcceptError::QueueFull { messages: 2, .. })), "{refused:?}");
    assert!(inbox.accept(first).await.unwrap().duplicate);
    assert!(!writer.is_finished());
    assert_eq!(place.contents(), ["first", "two"]);

    inbox.failed(id, "makes room").await.unwrap();
    let ingested = tokio::time::timeout(LIMIT, writer).await.unwrap().unwrap().unwrap();
    assert_eq!((ingested.accepted, ingested.received, ingested.pending), (2, 12, true));
    assert_eq!(place.contents(), ["first", "two", "three"]);
}

#[tokio::test]
async fn frames_for_which_there_was_no_room_survive_a_crash() {
    let place = Place::limited(100, 1);
    let daemon = place.open();
    let inbox = daemon.opened.inbox.clone();
    let writer =
        tokio::spawn(async move { inbox.ingest(&channel("x"), 0, b"one\ntwo\nthree".to_vec()).await });
    let mut daemon = daemon;
    assert_eq!(daemon.event().await.id, MessageId(1));
    writer.abort();
    std::mem::forget(daemon);
    let place = Place { settings: InboxSettings::default(), ..place };
    let daemon = place.open();
    assert_eq!(daemon.opened.partials, [channel("x")]);
    assert_eq!(daemon.opened.inbox.flush_quiet(&channel("x")).await.unwrap().accepted, 2);
    assert_eq!(place.contents(), ["one", "two", "three"]);
}

#[tokio::test]
async fn a_full_disk_takes_nothing_and_is_recovered_from() {
    let place = Place::new();
    let mut daemon = place.open();
    let inbox = &daemon.opened.inbox.clone();
    inbox.ingest(&channel("x"), 0, b"before\n".to_vec()).await.unwrap();
    set_max_pages(inbox, 1).await;
    let big = format!("small\n{}\nafter\n", "big".repeat(20_000)).into_bytes();
    let error = inbox.ingest(&channel("x"), 7, big.clone()).await.unwrap_err();
    assert!(error.is_storage(), "{error}");
    assert_eq!(inbox.queue().messages, 1);
    assert_eq!(inbox.received(&channel("x")).await.unwrap(), 7);
    set_max_pages(inbox, 1_000_000).await;
    assert_eq!(inbox.ingest(&channel("x"), 7, big).await.unwrap().accepted, 3);
    assert_eq!((place.contents().len(), inbox.queue().messages), (4, 4));
    for id in 1..=4 {
        assert_eq!(daemon.event().await.id, MessageId(id));
    }
}

/// Holds the writer in an order until the sender is dropped, so that what is ordered meanwhile makes one group.
async fn hold_writer(inbox: &Inbox) -> std::sync::mpsc::Sender<()> {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (begun, holds) = tokio::sync::oneshot::channel();
    let inbox = inbox.clone();
    tokio::spawn(async move {
        let held = inbox.ask(move |_| {
            let _ = begun.send(());
            let _ = released.recv();
            Ok(())
        });
        held.await.unwrap();
    });
    holds.await.unwrap();
    release
}

#[tokio::test]
async fn a_lost_transaction_takes_its_whole_group_with_it_from_memory_too() {
    let place = Place::new();
    let mut daemon = place.open();
    let inbox = daemon.opened.inbox.clone();
    let x = channel("x");
    inbox.ingest(&x, 0, b"one\ntw".to_vec()).await.unwrap();
    let held = hold_writer(&inbox).await;
    let end_of_transaction = inbox.ask(|writer| {
        let rollback = writer.connection.execute_batch("ROLLBACK; SELECT no_such_column");
        rollback.map_err(InboxError::during("test"))
    });
    let (before, lost, after, ()) = tokio::join!(
        biased;
        inbox.ingest(&x, 6, b"o\nthree\n".to_vec()),
        end_of_transaction,
        inbox.accept(new_message("y", "four")),
        async { drop(held) },
    );
    assert!(before.unwrap_err().is_storage());
    assert!(lost.unwrap_err().is_storage());
    assert!(matches!(after, Err(AcceptError::Inbox(error)) if error.is_storage()));
    assert_eq!((inbox.queue().messages, inbox.received(&x).await.unwrap()), (1, 6));
    assert_eq!(inbox.ingest(&x, 6, b"o\nthree\n".to_vec()).await.unwrap().accepted, 2);
    inbox.accept(new_message("y", "four")).await.unwrap();
    assert_eq!(place.contents(), ["one", "two", "three", "four"]);
    for id in 1..=4 {
        assert_eq!(daemon.event().await.id, MessageId(id));
    }
}

#[tokio::test]
async fn an_order_that_fails_after_it_stored_a_message_tells_nobody_of_it() {
    let place = Place::new();
    let mut daemon = place.open();
    let inbox = daemon.opened.inbox.clone();
    let failed: Result<(), _> = inbox
        .ask(|writer| {
            let _ = writer.accept(&new_message("x", "undone"))?;
            Err(InboxError::NoMessage(MessageId(0)))
        })
        .await;
    assert!(matches!(failed, Err(InboxError::NoMessage(_))));
    assert_eq!(inbox.queue().messages, 0);
    daemon.accept("first").await;
    daemon.accept("second").await;
    assert_eq!([daemon.event().await.id, daemon.event().await.id], [MessageId(1), MessageId(2)]);
}

async fn set_max_pages(inbox: &Inbox, pages: u32) {
    let pragma = format!("PRAGMA max_page_count = {pages}");
    inbox
        .ask(move |writer| writer.connection.execute_batch(&pragma).map_err(InboxError::during("test")))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_receiver_that_sleeps_delays_no_commit_and_gets_every_event_in_order() {
    let place = Place::new();
    let mut daemon = place.open();
    let lines: String = (0..1_000).map(|n| format!("{n}\n")).collect();
    daemon.opened.inbox.ingest(&channel("x"), 0, lines.into_bytes()).await.unwrap();
    daemon.opened.inbox.accept(new_message("x", "last")).await.unwrap();
    for n in 1..=1_001 {
        assert_eq!(daemon.event().await.id, MessageId(n));
    }
}

#[tokio::test]
async fn ten_thousand_messages_on_fifty_channels_are_all_accepted_in_order() {
    let place = Place::new();
    let daemon = place.open();
    let (inbox, mut events) = (daemon.opened.inbox, daemon.events);
    let draining = tokio::spawn(async move { while events.recv().await.is_some() {} });
    let readers: Vec<_> = (0..50)
        .map(|reader| {
            let inbox = inbox.clone();
            tokio::spawn(async move {
                let name = channel(&format!("c{reader}"));
                for n in 0..200 {
                    let line = format!("{reader:02} {n:04}\n").into_bytes();
                    inbox.ingest(&name, n * 8, line).await.unwrap();
                }
            })
        })
        .collect();
    for reader in readers {
        reader.await.unwrap();
    }
    let mut contents = place.contents();
    // Stable: what is left is the order within a channel.
    contents.sort_by_key(|content| content[..2].to_owned());
    let all = (0..50).flat_map(|reader| (0..200).map(move |n| format!("{reader:02} {n:04}")));
    assert_eq!(contents, all.collect::<Vec<_>>());
    inbox.close().await;
    drop(inbox);
    draining.await.unwrap();
}

#[tokio::test]
async fn closing_commits_what_was_ordered_and_refuses_the_rest() {
    let place = Place::new();
    let daemon = place.open();
    let inbox = daemon.opened.inbox.clone();
    let x = channel("x");
    let (ingested, ()) = tokio::join!(biased; inbox.ingest(&x, 0, b"one\n".to_vec()), inbox.close());
    assert_eq!(ingested.unwrap().accepted, 1);
    assert!(matches!(inbox.received(&channel("x")).await, Err(InboxError::Closed)));
    assert!(!place.dir.path().join("inbox.db-wal").exists());
    assert_eq!(place.contents(), ["one"]);
}

const CHILD_DIR: &str = "CCMUX_TEST_INBOX_DIR";

/// Run by the next test in a process of its own, which it kills.
#[tokio::test]
async fn a_child_ingests_until_it_is_killed() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else {
        return;
    };
    let (sender, _events) = mpsc::channel(1);
    let opened =
        Inbox::open(&PathBuf::from(dir).join("inbox.db"), InboxSettings::default(), texts(), sender).unwrap();
    let mut offset = opened.inbox.received(&channel("x")).await.unwrap();
    loop {
        // Seven bytes a line in chunks of ten: most chunks end within a line.
        let chunk: Vec<u8> = (offset..offset + 10).map(stream_byte).collect();
        offset = opened.inbox.ingest(&channel("x"), offset, chunk).await.unwrap().received;
        writeln!(std::io::stdout(), "received {offset}").unwrap();
    }
}

/// The endless stream `000000\n000001\n...`.
fn stream_byte(at: u64) -> u8 {
    format!("{:06}\n", at / 7).as_bytes()[(at % 7) as usize]
}

#[test]
fn kill_9_at_any_moment_neither_loses_nor_doubles_a_line() {
    let place = Place::new();
    let mut received = 0;
    for round in 0..8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "inbox::tests::intake::a_child_ingests_until_it_is_killed", "--nocapture"])
            .env(CHILD_DIR, place.dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let told = lines.filter_map(|line| line.rsplit_once("received ")?.1.parse::<u64>().ok());
        received = told.take(5 + round * 7).last().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let contents = place.contents();
    assert!(contents.len() as u64 >= received / 7, "{} lines of {received} bytes", contents.len());
    for (n, content) in contents.iter().enumerate() {
        assert_eq!(*content, format!("{n:06}"));
    }
}
