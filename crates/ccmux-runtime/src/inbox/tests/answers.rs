//! Lines that answer an ask.

use ccmux_policy::UnixMs;
use ccmux_wire::afar::Code;

use super::*;

fn code(text: &str) -> Code {
    Code::of(text).unwrap()
}

async fn watched(daemon: &Daemon) -> mpsc::UnboundedReceiver<AnswerLine> {
    let (taken, lines) = mpsc::unbounded_channel();
    let is_answer = |channel: &ChannelName, text: &str| channel.as_str() == "phone" && text.contains("bcdfg");
    daemon.opened.inbox.watch_answers(Arc::new(is_answer), taken).await.unwrap();
    lines
}

#[tokio::test]
async fn an_answer_is_no_message_and_is_kept_until_it_was_seen_to() {
    let place = Place::new();
    let daemon = place.open();
    let mut lines = watched(&daemon).await;
    let inbox = &daemon.opened.inbox;
    let bytes = "before\n{\"content\":\"y \\u001bbcdfg\",\"meta\":{\"sender\":\"anna\"}}\nafter\n";
    let ingested = inbox.ingest(&channel("phone"), 0, bytes.as_bytes().to_vec()).await.unwrap();
    inbox.ingest(&channel("other"), 0, b"y bcdfg\n".to_vec()).await.unwrap();
    assert_eq!(ingested.accepted, 2);
    assert_eq!(place.contents(), ["before", "after", "y bcdfg"]);
    let line = lines.recv().await.unwrap();
    let expected = AnswerLine {
        row: line.row,
        channel: channel("phone"),
        sender: Some("anna".into()),
        line: "y bcdfg".into(),
    };
    assert_eq!(line, expected);
    drop(daemon);
    // A daemon that died before anybody saw to it.
    let daemon = place.open();
    let inbox = &daemon.opened.inbox;
    assert_eq!(inbox.answers_left().await.unwrap().lines, [expected]);
    assert_eq!(inbox.received(&channel("phone")).await.unwrap(), bytes.len() as u64, "it is not read again");
    inbox.answer_seen_to(line.row).await.unwrap();
    assert_eq!(inbox.answers_left().await.unwrap().lines, []);
}

#[tokio::test]
async fn codes_outlive_the_daemon_until_they_are_forgotten() {
    let place = Place::new();
    let daemon = place.open();
    let inbox = &daemon.opened.inbox;
    for name in ["bbbbb", "ccccc", "ddddd"] {
        inbox.keep_code(code(name), UnixMs(1)).await.unwrap();
    }
    inbox.close_codes(vec![code("ccccc"), code("ddddd")], UnixMs(2)).await.unwrap();
    inbox.close_codes(vec![code("ccccc")], UnixMs(3)).await.unwrap();
    inbox.forget_codes(vec![code("ddddd")]).await.unwrap();
    drop(daemon);
    let left = place.open().opened.inbox.answers_left().await.unwrap();
    assert_eq!(left.codes, [(code("bbbbb"), None), (code("ccccc"), Some(UnixMs(2)))]);
}
