//! What is counted, and that no name makes it grow.

use ccmux_policy::UnixMs;
use ccmux_policy::event::SessionFact;
use ccmux_wire::id::{MessageId, Seq, SessionId};
use tokio_util::sync::CancellationToken;

use super::follower::Follower;
use super::*;

fn receipt(channel: &str, state: MessageState) -> Receipt {
    let json = serde_json::json!({
        "id": "a", "channel": channel, "state": state.word(), "accepted_at": 10, "injected_at": 20,
        "entered_at": 320, "delivered_at": 350,
    });
    serde_json::from_value::<Receipt>(json).unwrap().with_legs()
}

#[test]
fn a_delivered_message_counts_with_its_legs() {
    let metrics = Metrics::default();
    metrics.reached(&receipt("phone", MessageState::Accepted));
    metrics.reached(&receipt("phone", MessageState::Delivered));
    let counts = metrics.counts();
    assert_eq!(counts.messages["delivered"].0["phone"], 1);
    assert_eq!(counts.messages["accepted"].0["phone"], 1);
    let sums: Vec<f64> = ["queued", "typed", "proved"].iter().map(|leg| counts.legs[leg].sum_s()).collect();
    assert_eq!(sums, [0.01, 0.3, 0.03]);
}

#[tokio::test]
async fn a_message_that_nothing_answers_is_delivered_once() {
    let metrics = Metrics::default();
    let (tell, receipts) = tokio::sync::broadcast::channel(8);
    let delivered = receipt("phone", MessageState::Delivered);
    let unanswered = Receipt { reason: Some("it ended".to_owned()), ..delivered.clone() };
    for receipt in [delivered, unanswered] {
        tell.send(Arc::new((MessageId(1), receipt))).unwrap();
    }
    drop(tell);
    Follower { metrics: metrics.clone(), receipts, shutdown: CancellationToken::new() }.run().await;
    assert_eq!(metrics.counts().messages["delivered"].0["phone"], 1);
}

#[test]
fn made_up_names_are_counted_together() {
    let metrics = Metrics::default();
    for n in 0..NAMES + 50 {
        metrics.rejected(&format!("c{n}").parse().unwrap());
        metrics.hooked(&format!("Event{n}"));
    }
    metrics.hooked("no\nevent\"");
    let counts = metrics.counts();
    for names in [&counts.messages["rejected"], &counts.hooks] {
        assert_eq!(names.0.len(), NAMES + 1);
        assert!(names.0[FURTHER] >= 50);
    }
}

#[test]
fn a_turn_is_timed_from_its_first_stop_to_its_publication() {
    let metrics = Metrics::default();
    let at = |ms| Now { mono: Mono(ms), wall: UnixMs(0), ..Now::default() };
    let session = SessionId::new("s");
    let ended = |origin| Event::Session {
        session: session.clone(),
        origin,
        fact: SessionFact::TurnEnded { prompt: None, background: 0 },
    };
    metrics.happened(&ended(Origin::Foreign), at(1));
    metrics.happened(&ended(Origin::Own), at(100));
    metrics.happened(&ended(Origin::Own), at(110));
    let published = Event::TurnPublished { session: session.clone(), seq: Seq(1) };
    metrics.happened(&published, at(150));
    metrics.happened(&published, at(999));
    // A Stop that published nothing, and the next turn.
    metrics.happened(&ended(Origin::Own), at(2_000));
    let prompt = SessionFact::PromptSubmitted { prompt: None, batch: None };
    metrics.happened(
        &Event::Session { session: session.clone(), origin: Origin::Own, fact: prompt },
        at(60_000),
    );
    metrics.happened(&published, at(90_000));
    let counts = metrics.counts();
    assert_eq!((counts.stop_to_published.count(), counts.stop_to_published.sum_s()), (1, 0.05));
}

#[test]
fn the_operations_describe_every_metric() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/OPERATIONS.md");
    let text = std::fs::read_to_string(path).unwrap();
    let missing = |(name, ..): &&(&str, &str, &str)| {
        !text.contains(&format!("`{name}`")) && !text.contains(&format!("`{name}{{"))
    };
    assert_eq!(page::FAMILIES.iter().filter(missing).count(), 0);
}
