//! Batches: every transition, the illegal ones too.

use ccmux_policy::UnixMs;
use ccmux_wire::id::PromptId;
use proptest::prelude::*;

use super::*;

const PROVED: Proved = Proved { entered_at: Some(UnixMs(250)), proved_at: UnixMs(300) };

async fn deliver(daemon: &Daemon, batch: u64, proof: Proof) -> Result<(), InboxError> {
    let prompt = Some(PromptId::new("p-1"));
    daemon.opened.inbox.delivered(BatchId(batch), proof, prompt, PROVED).await
}

#[tokio::test]
async fn a_message_goes_from_accepted_to_answered() {
    let place = Place::new();
    let daemon = place.open();
    let inbox = &daemon.opened.inbox;
    let id = daemon.accept("hi").await;
    let mark = Mark { transcript_path: Some("/t.jsonl".into()), offset: 42, agent_pid: Some(7) };
    inbox.begin_batch(BatchId(1), vec![id], "hi".into(), mark.clone(), UnixMs(100)).await.unwrap();
    inbox.pasted(BatchId(1), UnixMs(200)).await.unwrap();
    assert_eq!((daemon.state(id).await, inbox.queue().messages), (MessageState::InFlight, 1));
    deliver(&daemon, 1, Proof::Hook).await.unwrap();
    let receipt = inbox.receipt(id).await.unwrap();
    assert_eq!((receipt.state, receipt.proof), (MessageState::Delivered, Some(Proof::Hook)));
    assert_eq!((receipt.injected_at, receipt.delivered_at, receipt.turn_seq), (Some(200), Some(300), None));
    let legs = receipt.legs.unwrap();
    assert_eq!((receipt.entered_at, legs.typed_ms, legs.proved_ms), (Some(250), Some(50), Some(50)));
    assert_eq!((receipt.answered_at, legs.answered_ms), (None, None));
    assert_eq!(inbox.queue(), Default::default());
    inbox.answered(vec![id], Seq(9)).await.unwrap();
    let receipt = inbox.receipt(id).await.unwrap();
    assert_eq!((receipt.state, receipt.turn_seq), (MessageState::Answered, Some(Seq(9))));
    assert!(receipt.legs.unwrap().answered_ms.is_some_and(|ms| ms > 1_000_000), "{receipt:?}");

    let row = inbox.batch(BatchId(1)).await.unwrap().unwrap();
    assert_eq!((row.state, row.messages, row.mark), (BatchState::Delivered, vec![id], mark));
    assert_eq!((row.pasted_at, row.prompt), (Some(200), Some(PromptId::new("p-1"))));
    assert_eq!(inbox.batch(BatchId(2)).await.unwrap(), None);
}

#[tokio::test]
async fn a_receipt_that_comes_three_times_counts_once() {
    let daemon = Place::new().open();
    let id = daemon.accept("hi").await;
    daemon.begin(1, &[id]).await.unwrap();
    for proof in [Proof::Hook, Proof::Hook, Proof::Transcript] {
        deliver(&daemon, 1, proof).await.unwrap();
    }
    assert_eq!(daemon.opened.inbox.receipt(id).await.unwrap().proof, Some(Proof::Hook));
    daemon.opened.inbox.answered(vec![id], Seq(1)).await.unwrap();
    deliver(&daemon, 1, Proof::Hook).await.unwrap();
    daemon.opened.inbox.answered(vec![id], Seq(2)).await.unwrap();
    let receipt = daemon.opened.inbox.receipt(id).await.unwrap();
    assert_eq!((receipt.state, receipt.turn_seq), (MessageState::Answered, Some(Seq(1))));
}

#[tokio::test]
async fn whoever_waits_for_an_answer_is_told_that_none_comes() {
    let place = Place::new();
    let daemon = place.open();
    let inbox = daemon.opened.inbox.clone();
    let id = daemon.accept("hi").await;
    daemon.begin(1, &[id]).await.unwrap();
    let early = inbox.left_unanswered(vec![id], "no").await.unwrap_err();
    assert!(matches!(early, InboxError::Illegal { from: MessageState::InFlight, .. }), "{early}");
    deliver(&daemon, 1, Proof::Hook).await.unwrap();
    let waits = tokio::spawn({
        let inbox = inbox.clone();
        async move { inbox.wait_for(id, MessageState::Answered).await.unwrap() }
    });
    inbox.left_unanswered(vec![id], "it ended").await.unwrap();
    let receipt = tokio::time::timeout(LIMIT, waits).await.unwrap().unwrap();
    assert_eq!((receipt.state, receipt.reason.as_deref()), (MessageState::Delivered, Some("it ended")));
    let later = inbox.wait_for(id, MessageState::Answered);
    assert_eq!(
        tokio::time::timeout(LIMIT, later).await.unwrap().unwrap(),
        receipt,
        "whoever comes later, too"
    );
    inbox.answered(vec![id], Seq(3)).await.unwrap();
    inbox.left_unanswered(vec![id], "too late").await.unwrap();
    let receipt = inbox.receipt(id).await.unwrap();
    assert_eq!((receipt.state, receipt.reason), (MessageState::Answered, None));
}

#[tokio::test]
async fn a_batch_that_was_pasted_in_vain_comes_back_as_redelivered() {
    let daemon = Place::new().open();
    let inbox = &daemon.opened.inbox;
    let id = daemon.accept("hi").await;
    daemon.begin(1, &[id]).await.unwrap();
    inbox.requeued(BatchId(1), Attempt::Untyped).await.unwrap();
    assert!(!inbox.bodies(vec![id]).await.unwrap()[0].redelivered);
    assert_eq!(inbox.receipt(id).await.unwrap().injected_at, None);
    daemon.begin(2, &[id]).await.unwrap();
    inbox.pasted(BatchId(2), UnixMs(200)).await.unwrap();
    inbox.requeued(BatchId(2), Attempt::Untyped).await.unwrap();
    inbox.requeued(BatchId(2), Attempt::Untyped).await.unwrap();
    assert!(inbox.bodies(vec![id]).await.unwrap()[0].redelivered);
    daemon.begin(3, &[id]).await.unwrap();
    inbox.requeued(BatchId(3), Attempt::Untyped).await.unwrap();
    assert!(inbox.bodies(vec![id]).await.unwrap()[0].redelivered);
    assert_eq!((daemon.state(id).await, inbox.queue().messages), (MessageState::Accepted, 1));
}

#[tokio::test]
async fn a_batch_whose_paste_could_not_be_noted_comes_back_as_redelivered_all_the_same() {
    let daemon = Place::new().open();
    let inbox = &daemon.opened.inbox;
    let id = daemon.accept("hi").await;
    daemon.begin(1, &[id]).await.unwrap();
    inbox.requeued(BatchId(1), Attempt::Failed).await.unwrap();
    assert!(inbox.bodies(vec![id]).await.unwrap()[0].redelivered);
    assert_eq!(inbox.receipt(id).await.unwrap().injected_at, Some(100));
}

#[tokio::test]
async fn what_expires_is_told_and_what_became_something_else_meanwhile_does_not() {
    let daemon = Place::new().open();
    let inbox = &daemon.opened.inbox;
    let (old, sent) = (daemon.accept("old").await, daemon.accept("sent").await);
    daemon.begin(1, &[sent]).await.unwrap();
    for id in [old, old, sent] {
        inbox.expired(id).await.unwrap();
    }
    let receipt = inbox.wait_for(old, MessageState::Delivered).await.unwrap();
    assert_eq!(receipt.state, MessageState::Expired);
    assert!(receipt.reason.is_some_and(|reason| reason.contains("ttl")));
    assert_eq!((daemon.state(sent).await, inbox.queue().messages), (MessageState::InFlight, 1));
}

#[tokio::test]
async fn failures_are_counted_over_a_restart_and_what_a_dead_daemon_left_is_none() {
    let place = Place::new();
    let daemon = place.open();
    let id = daemon.accept("hi").await;
    for batch in 1..=3 {
        daemon.begin(batch, &[id]).await.unwrap();
        daemon.opened.inbox.requeued(BatchId(batch), Attempt::Failed).await.unwrap();
    }
    for (batch, attempt) in [(4, Attempt::Untyped), (5, Attempt::Interrupted)] {
        daemon.begin(batch, &[id]).await.unwrap();
        daemon.opened.inbox.requeued(BatchId(batch), attempt).await.unwrap();
    }
    daemon.opened.inbox.close().await;
    let daemon = place.open();
    assert_eq!((daemon.opened.waiting[0].failures, daemon.opened.next_batch), (3, BatchId(6)));
}

#[tokio::test]
async fn a_batch_found_in_flight_counts_as_pasted() {
    let place = Place::new();
    let daemon = place.open();
    let (a, b, c) = (daemon.accept("a").await, daemon.accept("b").await, daemon.accept("c").await);
    daemon.begin(1, &[a, c]).await.unwrap();
    std::mem::forget(daemon);
    let daemon = place.open();
    let ids = |messages: &[ccmux_policy::Message]| messages.iter().map(|m| m.id).collect::<Vec<_>>();
    assert_eq!(ids(&daemon.opened.waiting), [b]);
    assert_eq!(daemon.opened.in_flight.len(), 1);
    assert_eq!((daemon.opened.in_flight[0].0, ids(&daemon.opened.in_flight[0].1)), (BatchId(1), vec![a, c]));
    assert_eq!(daemon.opened.inbox.queue().messages, 3);
    daemon.opened.inbox.requeued(BatchId(1), Attempt::Untyped).await.unwrap();
    assert!(daemon.opened.inbox.bodies(vec![a]).await.unwrap()[0].redelivered);
}

#[tokio::test]
async fn the_pasted_text_is_kept_over_a_restart_until_the_batch_is_decided() {
    let place = Place::new();
    let daemon = place.open();
    let (a, b) = (daemon.accept("a").await, daemon.accept("b").await);
    daemon.begin(1, &[a]).await.unwrap();
    daemon.begin(2, &[b]).await.unwrap();
    std::mem::forget(daemon);
    let daemon = place.open();
    let inbox = &daemon.opened.inbox;
    let text = async |batch| inbox.batch(BatchId(batch)).await.unwrap().unwrap().text;
    assert_eq!(&*text(1).await, "[10:00 x] hi");
    inbox.requeued(BatchId(1), Attempt::Untyped).await.unwrap();
    inbox.uncertain(BatchId(2), "nobody knows").await.unwrap();
    assert_eq!((&*text(1).await, &*text(2).await), ("", "[10:00 x] hi"));
    deliver(&daemon, 2, Proof::Hook).await.unwrap();
    assert_eq!(&*text(2).await, "");
}

#[tokio::test]
async fn an_uncertain_batch_may_still_be_proved_and_is_never_sent_again() {
    let daemon = Place::new().open();
    let inbox = &daemon.opened.inbox;
    let id = daemon.accept("hi").await;
    daemon.begin(1, &[id]).await.unwrap();
    inbox.uncertain(BatchId(1), "nobody knows").await.unwrap();
    inbox.uncertain(BatchId(1), "again").await.unwrap();
    let receipt = inbox.receipt(id).await.unwrap();
    assert_eq!((receipt.state, receipt.reason.as_deref()), (MessageState::Uncertain, Some("nobody knows")));
    assert_eq!(inbox.queue().messages, 0);
    assert!(matches!(
        inbox.requeued(BatchId(1), Attempt::Untyped).await,
        Err(InboxError::IllegalBatch { .. })
    ));
    assert!(matches!(daemon.begin(2, &[id]).await, Err(InboxError::Illegal { .. })));
    deliver(&daemon, 1, Proof::Transcript).await.unwrap();
    let receipt = inbox.receipt(id).await.unwrap();
    assert_eq!((receipt.state, receipt.reason), (MessageState::Delivered, None));
    assert_eq!(inbox.queue().messages, 0);
}

#[tokio::test]
async fn a_message_given_up_in_flight_stays_failed_when_its_batch_arrives() {
    let daemon = Place::new().open();
    let (bad, good) = (daemon.accept("bad").await, daemon.accept("good").await);
    daemon.begin(1, &[bad, good]).await.unwrap();
    daemon.opened.inbox.failed(bad, "poison").await.unwrap();
    daemon.opened.inbox.failed(bad, "again").await.unwrap();
    assert_eq!(daemon.opened.inbox.queue().messages, 1);
    deliver(&daemon, 1, Proof::Hook).await.unwrap();
    let receipt = daemon.opened.inbox.receipt(bad).await.unwrap();
    assert_eq!((receipt.state, receipt.reason.as_deref()), (MessageState::Failed, Some("poison")));
    assert_eq!(daemon.state(good).await, MessageState::Delivered);
    assert_eq!(daemon.opened.inbox.queue(), Default::default());
}

#[tokio::test]
async fn a_refused_order_changes_nothing_and_harms_no_other() {
    let daemon = Place::new().open();
    let inbox = &daemon.opened.inbox;
    let (a, b) = (daemon.accept("a").await, daemon.accept("b").await);
    daemon.begin(1, &[b]).await.unwrap();
    let pair = [a, b];
    let (refused, fine) = tokio::join!(daemon.begin(2, &pair), inbox.accept(new_message("x", "c")));
    assert!(matches!(refused, Err(InboxError::Illegal { message, .. }) if message == b), "{refused:?}");
    assert_eq!(daemon.state(fine.unwrap().message).await, MessageState::Accepted);
    assert_eq!((daemon.state(a).await, inbox.queue().messages), (MessageState::Accepted, 3));
    assert_eq!(inbox.batch(BatchId(2)).await.unwrap(), None);
    daemon.begin(2, &[a]).await.unwrap();
}

#[tokio::test]
async fn batches_and_messages_that_are_not_there_are_named() {
    let daemon = Place::new().open();
    let inbox = &daemon.opened.inbox;
    let id = daemon.accept("hi").await;
    assert!(matches!(daemon.begin(1, &[]).await, Err(InboxError::EmptyBatch(BatchId(1)))));
    assert!(matches!(daemon.begin(1, &[id, id]).await, Err(InboxError::Illegal { .. })));
    assert!(matches!(daemon.begin(1, &[MessageId(9)]).await, Err(InboxError::NoMessage(MessageId(9)))));
    assert!(matches!(inbox.pasted(BatchId(1), UnixMs(1)).await, Err(InboxError::NoBatch(BatchId(1)))));
    assert!(matches!(inbox.receipt(MessageId(9)).await, Err(InboxError::NoMessage(_))));
    assert!(matches!(inbox.bodies(vec![id, MessageId(9)]).await, Err(InboxError::NoMessage(_))));
    daemon.begin(1, &[id]).await.unwrap();
    let other = daemon.accept("other").await;
    assert!(matches!(daemon.begin(1, &[other]).await, Err(InboxError::BatchExists(BatchId(1)))));
}

#[tokio::test]
async fn whoever_waits_is_told_without_asking_again() {
    let daemon = Place::new().open();
    let inbox = daemon.opened.inbox.clone();
    let id = daemon.accept("hi").await;
    let waiting = |state| {
        let inbox = inbox.clone();
        tokio::spawn(
            async move { tokio::time::timeout(LIMIT, inbox.wait_for(id, state)).await.unwrap().unwrap() },
        )
    };
    assert_eq!(waiting(MessageState::Accepted).await.unwrap().state, MessageState::Accepted);
    let (delivered, answered) = (waiting(MessageState::Delivered), waiting(MessageState::Answered));
    tokio::task::yield_now().await;
    daemon.begin(1, &[id]).await.unwrap();
    deliver(&daemon, 1, Proof::Hook).await.unwrap();
    assert!(delivered.await.unwrap().state >= MessageState::Delivered);
    inbox.answered(vec![id], Seq(3)).await.unwrap();
    assert_eq!(answered.await.unwrap().turn_seq, Some(Seq(3)));
    assert_eq!(waiting(MessageState::Delivered).await.unwrap().state, MessageState::Answered);
}

#[tokio::test]
async fn waiting_ends_when_the_state_can_not_be_reached_any_more() {
    let daemon = Place::new().open();
    let inbox = daemon.opened.inbox.clone();
    let id = daemon.accept("hi").await;
    let waiting = tokio::spawn({
        let inbox = inbox.clone();
        async move { inbox.wait_for(id, MessageState::Delivered).await.unwrap() }
    });
    inbox.failed(id, "given up").await.unwrap();
    let receipt = tokio::time::timeout(LIMIT, waiting).await.unwrap().unwrap();
    assert_eq!((receipt.state, receipt.reason.as_deref()), (MessageState::Failed, Some("given up")));
}

#[tokio::test]
async fn a_turn_names_the_messages_it_replies_to() {
    let daemon = Place::new().open();
    let inbox = &daemon.opened.inbox;
    let own =
        inbox.accept(NewMessage { id: Some("a7".into()), ..new_message("y", "hi") }).await.unwrap().message;
    let made = daemon.accept("hi").await;
    let names = inbox.reply_to(vec![made, own]).await.unwrap();
    let names: Vec<_> = names.iter().map(|to| (to.id.as_str(), to.channel.as_str())).collect();
    assert_eq!(names, [("m-2", "x"), ("a7", "y")]);
}

/// What one can ask for, on batch `n` with one message or on that message.
#[derive(Debug, Clone, Copy)]
enum Ask {
    Begin,
    Paste,
    Deliver,
    Doubt,
    Requeue,
    Fail,
    Answer,
}

const ALL_ASKS: [Ask; 7] =
    [Ask::Begin, Ask::Paste, Ask::Deliver, Ask::Doubt, Ask::Requeue, Ask::Fail, Ask::Answer];

async fn ask(daemon: &Daemon, what: Ask, id: MessageId, batch: &mut u64) -> Result<(), InboxError> {
    let inbox = &daemon.opened.inbox;
    match what {
        Ask::Begin => {
            daemon.begin(*batch + 1, &[id]).await?;
            *batch += 1;
            Ok(())
        }
        Ask::Paste => inbox.pasted(BatchId(*batch), UnixMs(200)).await,
        Ask::Deliver => deliver(daemon, *batch, Proof::Hook).await,
        Ask::Doubt => inbox.uncertain(BatchId(*batch), "doubt").await,
        Ask::Requeue => inbox.requeued(BatchId(*batch), Attempt::Untyped).await,
        Ask::Fail => inbox.failed(id, "given up").await,
        Ask::Answer => inbox.answered(vec![id], Seq(1)).await,
    }
}

#[tokio::test]
async fn every_order_in_every_state_does_what_the_diagram_says() {
    use MessageState::{Accepted, Answered, Delivered, Failed, InFlight, Uncertain};
    let paths: [(MessageState, &[Ask]); 6] = [
        (Accepted, &[]),
        (InFlight, &[Ask::Begin]),
        (Delivered, &[Ask::Begin, Ask::Deliver]),
        (Answered, &[Ask::Begin, Ask::Deliver, Ask::Answer]),
        (Uncertain, &[Ask::Begin, Ask::Doubt]),
        (Failed, &[Ask::Fail]),
    ];
    for (state, path) in paths {
        for order in ALL_ASKS {
            let daemon = Place::new().open();
            let (id, mut batch) = (daemon.accept("hi").await, 0);
            for step in path {
                ask(&daemon, *step, id, &mut batch).await.unwrap();
            }
            assert_eq!(daemon.state(id).await, state);
            // The second of an order that was done is no error and changes nothing.
            let expected = match (state, order) {
                (Accepted, Ask::Begin) => Some(InFlight),
                (InFlight, Ask::Paste) => Some(InFlight),
                (Accepted | InFlight | Uncertain | Failed, Ask::Fail) => Some(Failed),
                (InFlight | Uncertain | Delivered, Ask::Deliver) => Some(Delivered),
                (Answered, Ask::Deliver | Ask::Answer) => Some(Answered),
                (Delivered, Ask::Answer) => Some(Answered),
                (InFlight | Uncertain, Ask::Doubt) => Some(Uncertain),
                (InFlight, Ask::Requeue) => Some(Accepted),
                _ => None,
            };
            let done = ask(&daemon, order, id, &mut batch).await;
            assert_eq!(done.is_ok(), expected.is_some(), "{state:?} {order:?}: {done:?}");
            assert_eq!(daemon.state(id).await, expected.unwrap_or(state), "{state:?} {order:?}");
        }
    }
}

#[test]
fn the_diagram_allows_these_ways_and_no_other() {
    let allowed: Vec<(&str, &str)> = MessageState::ALL
        .into_iter()
        .flat_map(|from| MessageState::ALL.map(|to| (from, to)))
        .filter(|(from, to)| may_become(*from, *to))
        .map(|(from, to)| (from.word(), to.word()))
        .collect();
    let expected = [
        ("accepted", "in_flight"),
        ("accepted", "failed"),
        ("accepted", "expired"),
        ("in_flight", "accepted"),
        ("in_flight", "delivered"),
        ("in_flight", "uncertain"),
        ("in_flight", "failed"),
        ("delivered", "answered"),
        ("uncertain", "accepted"),
        ("uncertain", "delivered"),
        ("uncertain", "failed"),
        ("failed", "accepted"),
    ];
    assert_eq!(allowed, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Whatever is asked in whatever order: the queue in memory is the queue in the database, no step leaves the diagram.
    #[test]
    fn any_orders_keep_the_queue_and_the_diagram(
        orders in prop::collection::vec((prop::sample::select(&ALL_ASKS[..]), 0usize..3), 1..30),
    ) {
        let place = Place::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let daemon = place.open();
            let ids = [daemon.accept("a").await, daemon.accept("b").await, daemon.accept("c").await];
            let mut batch = 0;
            for (what, which) in orders {
                let mut before = Vec::new();
                for id in ids {
                    before.push(daemon.state(id).await);
                }
                let _ = ask(&daemon, what, ids[which], &mut batch).await;
                for (id, before) in ids.into_iter().zip(before) {
                    let after = daemon.state(id).await;
                    prop_assert!(before == after || may_become(before, after), "{:?} -> {:?}", before, after);
                }
                let counted = daemon.opened.inbox.ask(|writer| writer.count_queue()).await.unwrap();
                prop_assert_eq!(daemon.opened.inbox.queue(), counted);
            }
            Ok(())
        })?;
    }
}
