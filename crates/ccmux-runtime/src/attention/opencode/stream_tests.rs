//! The stream of a server that these tests are: what is asked of it, and what is made of its answers.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc as std_mpsc;

use super::*;

/// Answers requests as OpenCode does; each line sent in goes out on the streams that are open.
fn server(asks: Value) -> (u16, std_mpsc::Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (streams, opened) = std_mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = BufReader::new(stream.try_clone().unwrap());
            let mut lines = Vec::new();
            loop {
                let mut line = String::new();
                if head.read_line(&mut line).unwrap_or(0) < 3 {
                    break;
                }
                lines.push(line.trim().to_lowercase());
            }
            let path = lines[0].split(' ').nth(1).unwrap().to_owned();
            let is_known = lines.iter().any(|line| line == "authorization: basic b3blbmnvzgu6c2vjcmv0");
            let body = match path.as_str() {
                _ if !is_known => "",
                "/global/event" => {
                    let head =
                        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
                    stream.write_all(head.as_bytes()).unwrap();
                    if streams.send(stream).is_err() {
                        return;
                    }
                    continue;
                }
                "/session/status" => r#"{"ses_1":{"type":"busy"},"ses_2":{"type":"idle"}}"#,
                "/permission" => &asks.to_string(),
                "/session/ses_1" => r#"{"id":"ses_1","parentID":"ses_0","title":"t"}"#,
                _ => "[]",
            };
            let status = if is_known { "200 OK" } else { "401 Unauthorized" };
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        }
    });
    (port, opened)
}

fn stream(port: u16, home: &std::path::Path, ears: Ears) -> Stream {
    let url = format!("http://127.0.0.1:{port}");
    let server =
        OpencodeServer { url, username: "opencode".into(), password_file: Some("~/password".into()) };
    let (origin, shutdown) = (Origin::Stream(0), CancellationToken::new());
    Stream { name: "work".into(), origin, server, home: home.to_owned(), ears, shutdown }
}

#[test]
fn a_server_is_known_by_its_name() {
    // As it was written into attention.db: another number would be another server.
    assert_eq!(origin_of("work"), Origin::Stream(14_761_687));
    assert_ne!(origin_of("home"), origin_of("work"));
}

async fn next(heard: &mut mpsc::Receiver<Heard>) -> String {
    let heard =
        timeout(Duration::from_secs(30), heard.recv()).await.expect("in time").expect("an attendant's ear");
    format!("{heard:?}")
}

#[tokio::test]
async fn a_stream_is_reconciled_followed_and_taken_up_again() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("password"), "secret\n").unwrap();
    let ask = json!([{"id": "per_1", "sessionID": "ses_1", "permission": "bash", "metadata": {"command": "CANARY"}}]);
    let (port, opened) = server(ask);
    let (ears, mut heard) = Ears::new();
    let stream = stream(port, home.path(), ears);
    let shutdown = stream.shutdown.clone();
    let running = tokio::spawn(stream.run());
    assert!(next(&mut heard).await.contains("Opened"));
    for round in 0..2 {
        let info = next(&mut heard).await;
        assert!(
            info.contains("ses_1") && info.contains("Info { parent: Some(SessionId(\"ses_0\"))"),
            "{info}"
        );
        let reconciled = next(&mut heard).await;
        assert!(reconciled.contains("Reconciled") && reconciled.contains("per_1"), "{reconciled}");
        assert!(!reconciled.contains("ses_2") && !reconciled.contains("CANARY"), "{reconciled}");
        let mut out = opened.recv().unwrap();
        let event = r#"{"payload":{"id":"evt_1","type":"session.idle","properties":{"sessionID":"ses_1"}}}"#;
        write!(
            out,
            "data: {{\"payload\":{{\"type\":\"server.heartbeat\",\"properties\":{{}}}}}}\n\ndata: {event}\n\n"
        )
        .unwrap();
        let said = next(&mut heard).await;
        assert!(said.contains("Idle") && said.contains("evt_1"), "round {round}: {said}");
        // The stream breaks, the server is there: nothing is said of an end.
    }
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_server_that_ends_each_stream_at_once_is_asked_after_longer_and_longer_pauses() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("password"), "secret\n").unwrap();
    let (port, opened) = server(json!([]));
    let (ears, mut heard) = Ears::new();
    let stream = stream(port, home.path(), ears);
    let shutdown = stream.shutdown.clone();
    let began = Instant::now();
    let running = tokio::spawn(stream.run());
    for _ in 0..3 {
        while !next(&mut heard).await.contains("Reconciled") {}
        drop(opened.recv().unwrap());
    }
    assert!(began.elapsed() >= FIRST_PAUSE * 3, "{:?}", began.elapsed());
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn without_the_password_nothing_is_followed() {
    let home = tempfile::tempdir().unwrap();
    let (port, _opened) = server(json!([]));
    let (ears, _heard) = Ears::new();
    let stream = stream(port, home.path(), ears);
    let (news, _) = mpsc::channel(8);
    let follow = move || {
        let missing = stream.follow(&news).unwrap_err();
        std::fs::write(stream.home.join("password"), "wrong").unwrap();
        (missing, stream.follow(&news).unwrap_err())
    };
    let (missing, wrong) = tokio::task::spawn_blocking(follow).await.unwrap();
    assert!(matches!(missing, StreamError::Password { .. }) && matches!(wrong, StreamError::Status(401)));
}

#[test]
fn basic_is_base64() {
    for (bytes, text) in [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("opencode:secret", "b3BlbmNvZGU6c2VjcmV0"),
    ] {
        assert_eq!(base64(bytes.as_bytes()), text);
    }
}
