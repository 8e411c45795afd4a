//! A server of ntfy's kind that breaks off, repeats itself, and talks nonsense.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::settings::services::NtfySettings;

/// Takes one request, and gives back its head and the stream.
fn take(listener: &TcpListener) -> (String, TcpStream) {
    let (stream, _) = listener.accept().unwrap();
    let (mut reader, mut head) = (BufReader::new(stream), String::new());
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
    (head, reader.into_inner())
}

fn streams(stream: &mut TcpStream, lines: &[&str]) {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n";
    let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    stream.write_all(format!("{head}{text}").as_bytes()).unwrap();
}

fn message(id: &str, time: i64, text: &str) -> String {
    serde_json::json!({"id": id, "time": time, "event": "message", "topic": "r", "message": text}).to_string()
}

fn ntfy(dir: &TempDir, port: u16) -> Ntfy {
    let file = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).unwrap();
        Some(dir.path().join(name).display().to_string())
    };
    let settings = NtfySettings {
        url: Some(format!("http://127.0.0.1:{port}")),
        topic: Some("t".into()),
        reply_topic_file: file("topic", "my-replies\n"),
        token_file: file("token", "tk_canary"),
        ..NtfySettings::default()
    };
    Ntfy::new(settings, Path::new("/"))
}

/// Acceptance G3.
#[tokio::test]
async fn nothing_is_lost_or_taken_twice_when_the_stream_breaks() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (dir, shutdown) = (TempDir::new().unwrap(), CancellationToken::new());
    let routes = vec![("phone".to_owned(), ntfy(&dir, listener.local_addr().unwrap().port()))];
    let server = std::thread::spawn(move || {
        let (head, mut stream) = take(&listener);
        let long = message("long", 100, &"x".repeat(20_000));
        let lines = [
            r#"{"id":"open","time":100,"event":"open","topic":"r"}"#.to_owned(),
            message("a1", 99, "y stale"),
            message("a2", 100, "y bcdfg"),
            "nonsense".to_owned(),
            message("../x", 100, "y evil"),
            long,
        ];
        streams(&mut stream, &lines.each_ref().map(String::as_str));
        drop(stream);
        let (again, mut stream) = take(&listener);
        streams(&mut stream, &[&message("a2", 100, "y bcdfg"), &message("a3", 101, "n bcdfg\u{1b}[2J no")]);
        (head, again, stream)
    });
    let mut replies = Replies::follow(routes, 100, &shutdown).unwrap();
    let reply = |text: &str| Some(Reply { route: "phone".into(), text: text.to_owned() });
    assert_eq!(replies.next().await, reply("y bcdfg"));
    assert_eq!(replies.next().await, reply("n bcdfg[2J no"));
    let (head, again, stream) = tokio::task::spawn_blocking(|| server.join().unwrap()).await.unwrap();
    assert!(head.starts_with("GET /my-replies/json?since=100 HTTP/1.1\r\n"), "{head}");
    assert!(head.to_ascii_lowercase().contains("authorization: bearer tk_canary\r\n"), "{head}");
    assert!(again.starts_with("GET /my-replies/json?since=a2 HTTP/1.1\r\n"), "{again}");
    shutdown.cancel();
    drop(stream);
    assert_eq!(replies.next().await, None);
    assert_eq!(replies.replies.recv().await, None, "the thread ends");
}

#[test]
fn who_guesses_is_not_heard_for_long() {
    let (said, mut replies) = mpsc::channel(QUEUE);
    let dir = TempDir::new().unwrap();
    let mut follower = Follower::new("phone".into(), ntfy(&dir, 9), 0, said, channel().1);
    let lines: Vec<String> = (0..40).map(|n| message(&format!("a{n}"), 1, "y bcdfg") + "\n").collect();
    assert!(follower.read(lines.concat().as_bytes()));
    let heard = std::iter::from_fn(|| replies.try_recv().ok()).count();
    assert_eq!(heard, MAX_A_MINUTE);
}

#[test]
fn a_dead_server_is_said_without_its_topic() {
    let dir = TempDir::new().unwrap();
    let mut follower = Follower::new("phone".into(), ntfy(&dir, 9), 0, mpsc::channel(1).0, channel().1);
    let error = follower.listen().unwrap_err();
    let said = format!("{error} {error:?} {:?}", follower.ntfy);
    assert!(!said.contains("my-replies") && !said.contains("canary"), "{said}");
}

#[test]
fn a_line_that_is_too_long_hides_none_behind_it_and_what_came_before_is_nothing_new() {
    let (said, mut replies) = mpsc::channel(QUEUE);
    let dir = TempDir::new().unwrap();
    let mut follower = Follower::new("phone".into(), ntfy(&dir, 9), 0, said, channel().1);
    let long = message("long", 1, &"\u{1}".repeat(4_000)) + "\n";
    assert!(long.len() as u64 > MAX_LINE_BYTES);
    assert!(!follower.read(long.as_bytes()));
    let text = format!("{long}{}\n", message("a1", 1, "y bcdfg"));
    assert!(follower.read(text.as_bytes()));
    assert_eq!(replies.try_recv().unwrap().text, "y bcdfg");
    let open = r#"{"id":"open","time":1,"event":"open","topic":"r"}"#;
    assert!(!follower.read(format!("{open}\n{text}").as_bytes()), "the pause must go on growing");
    assert!(replies.try_recv().is_err());
}
