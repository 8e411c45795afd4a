//! Routes against real receivers: programs, a listener, FIFOs, an inbox.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::inbox::{Inbox, Selection};
use crate::settings::RouteSettings;
use crate::settings::routes::WebhookSettings;

struct Room {
    dir: TempDir,
    notifier: Notifier,
    inbox: Inbox,
}

fn room(routes: &[(&str, RouteSettings)]) -> Room {
    let dir = TempDir::new().unwrap();
    let ways = Ways::in_folder(dir.path(), CancellationToken::new());
    let routes = routes.iter().map(|(name, route)| ((*name).to_owned(), route.clone())).collect();
    let inbox = ways.inbox.clone();
    Room { notifier: Notifier::new(Route::all(&routes, Path::new("/")), ways), inbox, dir }
}

pub(crate) fn notice() -> Notice {
    let [kind, session] = ["reply", "s1"].map(str::to_owned);
    Notice {
        kind,
        session,
        title: "a <b>title</b>".into(),
        body: "one\ntwo \"$(x)\"".into(),
        ts: 7,
        code: None,
    }
}

fn command(line: &str) -> RouteSettings {
    RouteSettings::Command { argv: ["/bin/sh", "-c", line].map(str::to_owned).to_vec() }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn is_there(path: &PathBuf) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| !text.is_empty())
}

/// Answers one request with a status line, and gives back what came.
fn receiver(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let came = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let request = request(&mut reader);
        let answer = format!(
            "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nLocation: /elsewhere\r\nConnection: close\r\n\r\n"
        );
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
        request
    });
    (url, came)
}

/// Head and body.
fn request(reader: &mut BufReader<TcpStream>) -> String {
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {
        let last = head.lines().last().unwrap_or_default().to_ascii_lowercase();
        length = last.strip_prefix("content-length: ").map_or(length, |n| n.parse().unwrap());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

#[tokio::test]
async fn a_command_gets_one_json_line_that_no_shell_reads() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("came");
    let room = room(&[("a", command(&format!("cat > {}", path.display())))]);
    assert_eq!(room.notifier.deliver(&notice(), &names(&["a"])).await.as_deref(), Some("a"));
    let came = std::fs::read_to_string(path).unwrap();
    let expected =
        r#"{"kind":"reply","session":"s1","title":"a <b>title</b>","body":"one\ntwo \"$(x)\"","ts":7}"#;
    assert_eq!(came, format!("{expected}\n"));
}

#[tokio::test]
async fn a_route_that_fails_is_tried_again_and_then_the_next_one_is_used() {
    let dir = TempDir::new().unwrap();
    let (tries, came) = (dir.path().join("tries"), dir.path().join("came"));
    let fails = command(&format!("echo >> {}; exit 1", tries.display()));
    let room = room(&[("fails", fails), ("works", command(&format!("cat > {}", came.display())))]);
    let taken = room.notifier.deliver(&notice(), &names(&["nobody", "fails", "works"])).await;
    assert_eq!(taken.as_deref(), Some("works"));
    assert_eq!(std::fs::read_to_string(tries).unwrap().lines().count(), 3);
    assert!(is_there(&came));
}

/// Field fault 42.
#[tokio::test]
async fn a_route_that_hangs_delays_nothing_and_ends_with_what_it_started() {
    let dir = TempDir::new().unwrap();
    let (pids, came) = (dir.path().join("pids"), dir.path().join("came"));
    let hangs = command(&format!("sleep 600 & echo $! >> {}; wait", pids.display()));
    let room = room(&[("hangs", hangs), ("works", command(&format!("cat >> {}", came.display())))]);
    let hanging = room.notifier.clone();
    let hanging = tokio::spawn(async move { hanging.deliver(&notice(), &names(&["hangs", "works"])).await });
    let begin = Instant::now();
    assert_eq!(room.notifier.deliver(&notice(), &names(&["works"])).await.as_deref(), Some("works"));
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    assert_eq!(hanging.await.unwrap().as_deref(), Some("works"));
    assert_eq!(std::fs::read_to_string(&came).unwrap().lines().count(), 2);
    let pids = std::fs::read_to_string(pids).unwrap();
    assert_eq!(pids.lines().count(), 3);
    let lives = |pid: &str| {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !(state.is_empty() || state.contains(") Z "))
    };
    // A kill is an order: the kernel may carry it out a little later.
    let begin = Instant::now();
    while pids.lines().any(lives) {
        assert!(begin.elapsed() < Duration::from_secs(10), "{pids}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_webhook_gets_the_notice_in_its_own_form_with_a_token_from_a_file() {
    let (url, came) = receiver("204 No Content");
    let dir = TempDir::new().unwrap();
    let (url_file, token_file) = (dir.path().join("url"), dir.path().join("token"));
    std::fs::write(&url_file, format!("{url}\n")).unwrap();
    std::fs::write(&token_file, "canary-token\n").unwrap();
    let hook = WebhookSettings {
        url_file: Some(url_file.display().to_string()),
        token_file: Some(token_file.display().to_string()),
        template: Some(r#"{"text":"{title}: {body}"}"#.into()),
        ..WebhookSettings::default()
    };
    let room = room(&[("a", RouteSettings::Webhook(hook))]);
    room.notifier.try_once("a", &notice()).await.unwrap();
    let came = came.join().unwrap();
    assert!(came.starts_with("POST /hook HTTP/1.1\r\n"), "{came}");
    assert!(came.to_ascii_lowercase().contains("authorization: bearer canary-token\r\n"), "{came}");
    assert!(came.ends_with(r#"{"text":"a <b>title</b>: one\ntwo \"$(x)\""}"#), "{came}");
}

/// Field fault 41.
#[tokio::test]
async fn a_redirect_is_not_followed_and_no_error_holds_the_secret() {
    let (url, came) = receiver("302 Found");
    let hook = |url: &str| {
        let settings = WebhookSettings { url: Some(url.to_owned()), ..WebhookSettings::default() };
        RouteSettings::Webhook(settings)
    };
    let dead = "http://127.0.0.1:9/canary";
    let room =
        room(&[("moved", hook(&url)), ("dead", hook(dead)), ("far", hook("http://canary.example.org/"))]);
    let moved = room.notifier.try_once("moved", &notice()).await.unwrap_err();
    assert!(
        matches!(&moved, RouteError::Post(error) if matches!(**error, PostError::Status(302)))
            && !moved.may_pass(),
        "{moved}"
    );
    came.join().unwrap();
    for route in ["dead", "far"] {
        let error = room.notifier.try_once(route, &notice()).await.unwrap_err();
        assert!(!format!("{error} {error:?} {:?}", room.notifier).contains("canary"), "{error:?}");
    }
}

/// Refuses every request for an hour, and counts them.
fn refuses() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            request(&mut reader);
            counts.fetch_add(1, Ordering::SeqCst);
            let answer =
                "HTTP/1.1 429 Later\r\nRetry-After: 3600\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = reader.get_mut().write_all(answer.as_bytes());
        }
    });
    (url, count)
}

/// What a service said is not kept: it is asked again, and tells the same, whatever waits.
#[tokio::test]
async fn a_daemon_that_starts_in_a_services_pause_asks_it_once_and_no_more() {
    let (url, count) = refuses();
    for daemons in 1..=2 {
        let hook = WebhookSettings { url: Some(url.clone()), ..WebhookSettings::default() };
        let room = room(&[("a", RouteSettings::Webhook(hook))]);
        let letters: Vec<_> = (0..5)
            .map(|_| {
                let notifier = room.notifier.clone();
                tokio::spawn(async move { notifier.deliver(&notice(), &names(&["a"])).await })
            })
            .collect();
        for letter in letters {
            assert_eq!(timeout(Duration::from_secs(60), letter).await.unwrap().unwrap(), None);
        }
        assert_eq!(count.load(Ordering::SeqCst), daemons);
    }
}

#[tokio::test]
async fn a_notice_goes_into_a_fifo_and_into_claudes_inbox() {
    let routes = [
        ("fifo", RouteSettings::Channel { channel: "phone".into() }),
        ("claude", RouteSettings::Claude { channel: "attention".into() }),
    ];
    let room = room(&routes);
    let error = room.notifier.try_once("fifo", &notice()).await.unwrap_err();
    assert!(error.to_string().contains("phone"), "{error}");
    let path = room.dir.path().join("out.phone");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    let reading = tokio::task::spawn_blocking(move || std::fs::read_to_string(path).unwrap());
    room.notifier.deliver(&notice(), &names(&["fifo"])).await.unwrap();
    assert_eq!(reading.await.unwrap(), "a <b>title</b>\none\ntwo \"$(x)\"\n");
    room.notifier.try_once("claude", &notice()).await.unwrap();
    let selection = Selection { state: None, channel: None, limit: 10 };
    let messages = room.inbox.select(selection).await.unwrap();
    assert_eq!((messages.len(), messages[0].receipt.channel.as_str()), (1, "attention"));
}
