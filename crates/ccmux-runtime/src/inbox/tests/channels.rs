//! What a channel's policy does to messages that come in.

use ccmux_wire::inbound::Format;
use serde_json::json;

use super::*;

fn place(policies: &[(&str, ChannelPolicy)]) -> Place {
    let channels = policies.iter().map(|(name, policy)| (channel(name), policy.clone())).collect();
    Place::with(InboxSettings { channels, ..InboxSettings::default() })
}

async fn reasons(daemon: &Daemon, on: &str, bytes: &str) -> (u64, Vec<String>) {
    let inbox = &daemon.opened.inbox;
    let offset = inbox.received(&channel(on)).await.unwrap();
    let ingested = inbox.ingest(&channel(on), offset, bytes.as_bytes().to_vec()).await.unwrap();
    (ingested.accepted, ingested.rejected.into_iter().map(|rejected| rejected.reason).collect())
}

#[tokio::test]
async fn only_allowed_senders_are_taken_whichever_way_they_come() {
    let allowed = vec!["ann".to_owned()];
    let place = place(&[("boss", ChannelPolicy { allowed, ..ChannelPolicy::default() })]);
    let daemon = place.open();
    let lines = "{\"content\":\"yes\",\"meta\":{\"sender\":\"ann\"}}\nno\n";
    let (accepted, why) = reasons(&daemon, "boss", lines).await;
    assert!(accepted == 1 && why.len() == 1 && why[0].contains("channels.boss.allowed"), "{why:?}");
    let claimed = "{\"content\":\"forged\",\"channel\":\"boss\"}\n";
    let (accepted, why) = reasons(&daemon, "default", claimed).await;
    assert!(accepted == 0 && why.len() == 1, "{why:?}");
    let sent = |meta| NewMessage { meta, ..new_message("boss", "by socket") };
    let refused = daemon.opened.inbox.accept(sent(None)).await;
    assert!(matches!(refused, Err(AcceptError::NotAllowed { .. })), "{refused:?}");
    daemon.opened.inbox.accept(sent(Some(json!({"sender": "ann"})))).await.unwrap();
    assert_eq!(place.contents(), ["yes", "by socket"]);
}

#[tokio::test]
async fn a_channels_own_limit_counts_to_the_byte() {
    let place = place(&[("x", ChannelPolicy { max_bytes: Some(5), ..ChannelPolicy::default() })]);
    let daemon = place.open();
    let (accepted, why) = reasons(&daemon, "x", "12345\n123456\n").await;
    assert!(accepted == 1 && why[0].contains("channels.x.max_bytes"), "{why:?}");
    assert_eq!(reasons(&daemon, "y", "123456\n").await.0, 1);
    let refused = daemon.opened.inbox.accept(new_message("x", "123456")).await;
    assert!(matches!(refused, Err(AcceptError::TooLargeForChannel { limit: 5, .. })), "{refused:?}");
}

#[tokio::test]
async fn a_channel_is_read_in_its_format() {
    let of = |format| ChannelPolicy { format, ..ChannelPolicy::default() };
    let place = place(&[("text", of(Format::Text)), ("json", of(Format::Json))]);
    let daemon = place.open();
    assert_eq!(reasons(&daemon, "text", "{\"a\":1}\n").await, (1, vec![]));
    let (accepted, why) = reasons(&daemon, "json", "hello\n{\"content\":\"b\"}\n").await;
    assert!(accepted == 1 && why[0].contains("format is json"), "{why:?}");
    assert_eq!(place.contents(), ["{\"a\":1}", "b"]);
}

#[tokio::test]
async fn priority_and_ttl_reach_the_policy_now_and_after_a_restart() {
    let place =
        place(&[("x", ChannelPolicy { priority: 7, ttl_ms: Some(5_000), ..ChannelPolicy::default() })]);
    let mut daemon = place.open();
    daemon.accept("hi").await;
    daemon.opened.inbox.accept(new_message("y", "plain")).await.unwrap();
    let (urgent, plain) = (daemon.event().await, daemon.event().await);
    let accepted_at = daemon.opened.inbox.receipt(urgent.id).await.unwrap().accepted_at;
    assert_eq!((urgent.priority, urgent.expires_at), (7, Some(ccmux_policy::UnixMs(accepted_at + 5_000))));
    assert_eq!((plain.priority, plain.expires_at), (0, None));
    daemon.opened.inbox.close().await;
    assert_eq!(place.open().opened.waiting, [urgent, plain]);
}

#[tokio::test]
async fn what_was_typed_once_does_not_expire() {
    let place = place(&[("x", ChannelPolicy { ttl_ms: Some(5_000), ..ChannelPolicy::default() })]);
    let daemon = place.open();
    let id = daemon.accept("hi").await;
    daemon.begin(1, &[id]).await.unwrap();
    daemon.opened.inbox.requeued(BatchId(1), Attempt::Failed).await.unwrap();
    daemon.opened.inbox.close().await;
    assert_eq!(place.open().opened.waiting[0].expires_at, None);
}
