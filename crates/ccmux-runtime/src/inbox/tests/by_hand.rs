//! `ccmux inbox`: list, show, retry, drop.

use super::*;

fn selection(state: Option<MessageState>, on: Option<&str>, limit: u32) -> Selection {
    Selection { state, channel: on.map(channel), limit }
}

async fn with_id(daemon: &Daemon, on: &str, id: &str) -> MessageId {
    let new = NewMessage { id: Some(id.into()), ..new_message(on, "hi") };
    daemon.opened.inbox.accept(new).await.unwrap().message
}

fn names(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

#[tokio::test]
async fn a_list_shows_the_newest_first_and_what_was_selected() {
    let daemon = Place::new().open();
    let inbox = &daemon.opened.inbox;
    daemon.message_in(1, MessageState::Failed).await;
    daemon.message_in(2, MessageState::Accepted).await;
    with_id(&daemon, "y", "own").await;
    let listed = async |state, on, limit| -> Vec<String> {
        let found = inbox.select(selection(state, on, limit)).await.unwrap();
        found.into_iter().map(|message| message.receipt.id).collect()
    };
    assert_eq!(listed(None, None, 50).await, ["own", "m-2", "m-1"]);
    assert_eq!(listed(None, None, 2).await, ["own", "m-2"]);
    assert_eq!(listed(Some(MessageState::Failed), None, 50).await, ["m-1"]);
    assert_eq!(listed(None, Some("y"), 50).await, ["own"]);
    let failed = &inbox.select(selection(Some(MessageState::Failed), None, 1)).await.unwrap()[0];
    assert_eq!((failed.preview.as_str(), failed.content.as_deref()), ("text of 1", None));
    assert_eq!(failed.receipt.reason.as_deref(), Some("poison"));
}

#[tokio::test]
async fn a_message_is_shown_with_its_text_and_what_came_with_it() {
    let daemon = Place::new().open();
    let meta = Some(serde_json::json!({"sender": "ann"}));
    let long = "long ".repeat(100);
    let new = NewMessage { meta: meta.clone(), shown: "x/bob".into(), ..new_message("x", &long) };
    daemon.opened.inbox.accept(new).await.unwrap();
    let shown = daemon.opened.inbox.show("m-1".into()).await.unwrap();
    assert_eq!((shown.content.as_deref(), shown.preview.len()), (Some(long.as_str()), 200));
    assert_eq!((shown.meta, shown.sent_at, shown.shown.as_deref()), (meta, Some(7), Some("x/bob")));
}

#[tokio::test]
async fn a_name_that_is_known_on_several_channels_is_told_with_its_candidates() {
    let daemon = Place::new().open();
    let inbox = &daemon.opened.inbox;
    for on in ["mail", "phone"] {
        with_id(&daemon, on, "job/1").await;
    }
    let ambiguous = inbox.show("job/1".into()).await.unwrap_err().to_string();
    assert!(ambiguous.contains("mail/job/1, phone/job/1"), "{ambiguous}");
    let one = inbox.show("phone/job/1".into()).await.unwrap();
    assert_eq!(one.receipt.channel, channel("phone"));
    let unknown = inbox.show("mail/job/2".into()).await.unwrap_err().to_string();
    assert!(unknown.contains("mail/job/2"), "{unknown}");
    // The id that we make of a row is no name for a message with an id of its own.
    assert!(inbox.show("m-1".into()).await.is_err());
}

/// A drop of a thousand names among a hundred thousand messages would take a minute and more, and hold up the intake.
#[tokio::test]
async fn no_name_is_looked_for_in_all_messages() {
    let place = Place::new();
    let _daemon = place.open();
    let connection = place.look();
    let mut plan =
        connection.prepare(&format!("EXPLAIN QUERY PLAN {}", crate::inbox::by_hand::NAMED)).unwrap();
    let steps = plan.query_map(rusqlite::params!["a7", 7, "x"], |row| row.get::<_, String>(3)).unwrap();
    let steps: Vec<String> = steps.map(Result::unwrap).collect();
    assert!(steps.iter().any(|step| step.starts_with("SEARCH it ")), "{steps:?}");
    assert!(steps.iter().all(|step| !step.starts_with("SCAN") || step == "SCAN named"), "{steps:?}");
}

#[tokio::test]
async fn an_uncertain_message_is_tried_again_as_redelivered() {
    let mut daemon = Place::new().open();
    let inbox = daemon.opened.inbox.clone();
    let id = daemon.message_in(1, MessageState::Uncertain).await;
    assert_eq!(daemon.event().await.id, id);
    let again = inbox.retry(names(&["m-1"]), None).await.unwrap();
    assert_eq!((again[0].receipt.state, again[0].redelivered), (MessageState::Accepted, true));
    assert_eq!((daemon.event().await.id, inbox.queue().messages), (id, 1));
    assert!(inbox.bodies(vec![id]).await.unwrap()[0].redelivered);
    // Its old batch proved late changes nothing: it may be on its way a second time.
    let at = Proved { entered_at: None, proved_at: ccmux_policy::UnixMs(300) };
    inbox.delivered(BatchId(1), Proof::Transcript, None, at).await.unwrap();
    assert_eq!(daemon.state(id).await, MessageState::Accepted);
    daemon.begin(2, &[id]).await.unwrap();
}

#[tokio::test]
async fn a_message_that_was_never_typed_is_tried_again_for_the_first_time() {
    let daemon = Place::new().open();
    let id = daemon.message_in(1, MessageState::Failed).await;
    let again = daemon.opened.inbox.retry(names(&["x/m-1"]), None).await.unwrap();
    assert!(!again[0].redelivered && again[0].receipt.reason.is_none(), "{again:?}");
    assert_eq!(daemon.state(id).await, MessageState::Accepted);
}

#[tokio::test]
async fn what_may_still_stand_in_the_box_is_not_tried_again() {
    let daemon = Place::new().open();
    let id = daemon.message_in(7, MessageState::Uncertain).await;
    let refused = daemon.opened.inbox.retry(names(&["m-1"]), Some(BatchId(7))).await.unwrap_err();
    assert!(refused.to_string().contains("prompt box"), "{refused}");
    assert_eq!(daemon.state(id).await, MessageState::Uncertain);
    daemon.opened.inbox.retry(names(&["m-1"]), Some(BatchId(8))).await.unwrap();
}

#[tokio::test]
async fn a_dropped_message_is_failed_and_the_policy_hears_of_it() {
    let mut daemon = Place::new().open();
    let inbox = daemon.opened.inbox.clone();
    let waiting = daemon.message_in(1, MessageState::Accepted).await;
    let uncertain = daemon.message_in(2, MessageState::Uncertain).await;
    let failed = daemon.message_in(3, MessageState::Failed).await;
    let dropped = inbox.drop_messages(names(&["m-1", "m-2", "m-3"])).await.unwrap();
    for message in dropped {
        assert_eq!(message.receipt.state, MessageState::Failed);
        assert_eq!(message.receipt.reason.as_deref(), Some("dropped by the user"));
    }
    assert_eq!(inbox.queue(), Default::default());
    for id in [waiting, uncertain, failed] {
        assert_eq!(daemon.event().await.id, id);
    }
    assert_eq!(daemon.any_event().await, Event::MessageDropped { message: waiting });
}

/// Every order in every state: what is done, and that a refusal names message, state and reason.
#[tokio::test]
async fn only_what_the_diagram_allows_is_done_by_hand() {
    use MessageState::{Accepted, Answered, Delivered, Expired, Failed, InFlight, Uncertain};
    for state in [Accepted, InFlight, Delivered, Answered, Uncertain, Failed, Expired] {
        for drops in [true, false] {
            let daemon = Place::new().open();
            let inbox = &daemon.opened.inbox;
            let id = daemon.message_in(1, state).await;
            let done = match drops {
                true => inbox.drop_messages(names(&["m-1"])).await,
                false => inbox.retry(names(&["m-1"]), None).await,
            };
            let expected = match (state, drops) {
                (Accepted | Uncertain | Failed, true) => Some(Failed),
                (Uncertain | Failed, false) => Some(Accepted),
                _ => None,
            };
            assert_eq!(done.is_ok(), expected.is_some(), "{state:?} {drops}: {done:?}");
            assert_eq!(daemon.state(id).await, expected.unwrap_or(state), "{state:?} {drops}");
            if let Err(error) = done {
                assert!(error.to_string().starts_with(&format!("m-1 is {}", state.word())), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn an_order_with_one_bad_name_does_nothing() {
    let mut daemon = Place::new().open();
    let inbox = daemon.opened.inbox.clone();
    let id = daemon.message_in(1, MessageState::Failed).await;
    for bad in ["m-9", "m-1/x"] {
        let refused = inbox.retry(names(&["m-1", bad]), None).await.unwrap_err();
        assert!(refused.to_string().contains(bad), "{refused}");
    }
    assert_eq!((daemon.state(id).await, inbox.queue()), (MessageState::Failed, Default::default()));
    assert_eq!(daemon.event().await.id, id);
    let next = daemon.accept("next").await;
    assert_eq!(daemon.event().await.id, next, "nobody was told of what was undone");
}
