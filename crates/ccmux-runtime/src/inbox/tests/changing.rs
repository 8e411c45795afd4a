//! Settings that change while messages come.

use super::*;
use crate::inbox::{AcceptError, ChannelPolicy};

#[tokio::test]
async fn other_limits_and_policies_count_from_the_next_message() {
    let daemon = Place::new().open();
    daemon.accept("by anybody").await;
    let policy = ChannelPolicy { allowed: vec!["ann".into()], ..ChannelPolicy::default() };
    let settings = InboxSettings {
        message_bytes: 20,
        channels: [(channel("x"), policy)].into_iter().collect(),
        ..InboxSettings::default()
    };
    daemon.opened.inbox.change(settings).await.unwrap();
    let refused = daemon.opened.inbox.accept(new_message("x", "by anybody")).await.unwrap_err();
    assert!(matches!(refused, AcceptError::NotAllowed { .. }), "{refused}");
    let refused = daemon.opened.inbox.accept(new_message("y", &"long".repeat(10))).await.unwrap_err();
    assert!(matches!(refused, AcceptError::TooLarge { .. }), "{refused}");
}

#[tokio::test]
async fn a_writer_that_waits_for_room_goes_on_when_there_may_be_more() {
    let place = Place::limited(1000, 1);
    let daemon = place.open();
    daemon.accept("first").await;
    let inbox = daemon.opened.inbox.clone();
    let mut waiting = tokio::spawn(async move { inbox.ingest(&channel("x"), 0, b"second\n".to_vec()).await });
    let waits = tokio::time::timeout(Duration::from_millis(100), &mut waiting).await;
    assert!(waits.is_err(), "there was room");
    daemon.opened.inbox.change(InboxSettings::default()).await.unwrap();
    let ingested = tokio::time::timeout(LIMIT, waiting).await.expect("it still waits").unwrap().unwrap();
    assert_eq!(ingested.accepted, 1);
}
