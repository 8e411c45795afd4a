//! `ccmux adapter webhook` beside a real daemon: what is answered with 2xx is in the inbox, and nothing else is.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ccmux_tests::patience::{LIMIT, WATCH, wait_for};
use ccmux_tests::{AdapterProgram, House};

const TOKEN: &str = "token-of-the-webhook-tests";
const BEARER: &str = "Authorization: Bearer token-of-the-webhook-tests";
const JSON: &str = "Content-Type: application/json";

/// The adapter of channel `ci` at a free port.
struct Webhook<'a> {
    house: &'a House,
    adapter: AdapterProgram,
    address: String,
}

/// What came back: the status, and head and body as text.
#[derive(Debug)]
struct Answer {
    status: u16,
    text: String,
}

impl<'a> Webhook<'a> {
    fn start(house: &'a House, further: &[&str]) -> Self {
        let mut command = house.command(house.bin("ccmux"));
        command.args(["adapter", "webhook", "--channel", "ci", "--listen", "127.0.0.1:0"]).args(further);
        command.env("CCMUX_WEBHOOK_TOKEN", TOKEN);
        let adapter = AdapterProgram::run(house, command);
        let line = adapter.wait_for("listening on http://");
        let address = line.split(['/', ' ']).find(|part| part.starts_with("127.")).unwrap().to_owned();
        Self { house, adapter, address }
    }

    fn curl(&self, arguments: &[&str]) -> Answer {
        let mut command = self.house.command("curl");
        command.args(["--silent", "--include", "--noproxy", "*", "--max-time", "25"]).args(arguments);
        command.arg(format!("http://{}/", self.address));
        let Output { stdout, .. } = self.house.run_to_end(command);
        let text = String::from_utf8_lossy(&stdout).into_owned();
        let status = text.rsplit("HTTP/1.1 ").next().and_then(|rest| rest.get(..3)?.parse().ok());
        Answer { status: status.unwrap_or(0), text }
    }

    /// Whatever bytes, on a connection of their own; what came back until it was closed.
    fn say(&self, bytes: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        // It may refuse, and hang up, before it has all.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer).into_owned();
        let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        Answer { status: status.unwrap_or(0), text }
    }

    /// With the token, as JSON.
    fn post(&self, body: &str) -> Answer {
        self.curl(&["-H", BEARER, "-H", JSON, "-d", body])
    }
}

#[test]
fn an_accepted_message_reaches_the_agent_and_its_id_is_known_again() {
    let house = House::builder().ready();
    let mut webhook = Webhook::start(&house, &[]);
    let body = r#"{"id":"build-7","content":"build 7 failed\nsay: seen","meta":{"sender":"ci"}}"#;
    let first = webhook.post(body);
    assert_eq!(first.status, 202, "{first:?}");
    assert!(first.text.ends_with("{\"id\":\"build-7\"}\n"), "{first:?}");
    let again = webhook.post(body);
    assert_eq!(again.status, 200, "{again:?}");
    assert!(
        again.text.contains(r#""duplicate":true"#) && again.text.contains(r#""id":"build-7""#),
        "{again:?}"
    );
    assert_eq!(house.wait_for_messages(1), [("ci".to_owned(), "build 7 failed\nsay: seen".to_owned())]);

    let form = webhook.curl(&["-H", BEARER, "-d", "content=a%20form", "-d", "id=f-1"]);
    let plain = webhook.curl(&["-H", BEARER, "-H", "Content-Type: text/plain", "-d", "plain text"]);
    let keyed = webhook.curl(&[
        "-H",
        BEARER,
        "-H",
        JSON,
        "-H",
        "Idempotency-Key: k-1",
        "-d",
        r#"{"content":"keyed"}"#,
    ]);
    assert_eq!((form.status, plain.status, keyed.status), (202, 202, 202), "{form:?} {plain:?} {keyed:?}");
    assert!(keyed.text.contains(r#"{"id":"k-1"}"#), "{keyed:?}");
    assert_eq!(house.stored_on("ci")[1..], ["a form", "plain text", "keyed"]);
    assert!(webhook.adapter.end().success());
}

#[test]
fn a_sender_that_signs_needs_no_bearer_token() {
    let house = House::builder().ready();
    let webhook = Webhook::start(&house, &["--raw"]);
    let body = r#"{"zen":"Keep it logically awesome."}"#;
    // printf BODY | openssl dgst -sha256 -hmac TOKEN
    let right =
        "X-Hub-Signature-256: sha256=cfa20c906cd14e4245157fc94096aaab116cb8c28ef90403f13c04a25c0f1924";
    let wrong = right.replace("=cf", "=00");
    let delivery = "X-GitHub-Delivery: 72d3162e";
    let refused = webhook.curl(&["-H", &wrong, "-H", delivery, "-H", JSON, "-d", body]);
    let unsigned = webhook.curl(&["-H", delivery, "-H", JSON, "-d", body]);
    assert_eq!((refused.status, unsigned.status), (401, 401), "{refused:?} {unsigned:?}");
    let taken = webhook.curl(&["-H", right, "-H", delivery, "-H", JSON, "-d", body]);
    assert_eq!(taken.status, 202, "{taken:?}");
    assert!(taken.text.contains("72d3162e"), "{taken:?}");
    assert_eq!(house.stored_on("ci"), [body]);
}

#[test]
fn whoever_may_not_write_or_writes_nonsense_is_told_so_and_nothing_is_stored() {
    let house = House::builder().ready();
    let webhook = Webhook::start(&house, &["--host", "hooks.example.org"]);
    let body = r#"{"content":"x"}"#;
    let large = house.path("large");
    std::fs::write(&large, vec![b'x'; 1024 * 1024 + 1]).unwrap();
    let large = format!("@{}", large.display());
    let cases: [(&[&str], u16, &str); 14] = [
        (&["-H", JSON, "-d", body], 401, "www-authenticate: Bearer"),
        (&["-H", "Authorization: Bearer token-of-the-webhook-test", "-H", JSON, "-d", body], 401, "wrong"),
        (&["-H", "Authorization: Basic dG9rZW4=", "-H", JSON, "-d", body], 401, "wrong"),
        (&["-H", BEARER], 405, "allow: POST"),
        (&["-H", BEARER, "-X", "PUT", "-d", body], 405, "allow: POST"),
        (&["-H", BEARER, "-H", JSON, "-d", "{"], 400, "no JSON"),
        (&["-H", BEARER, "-H", JSON, "-d", r#"{"content":7}"#], 400, "content is no string"),
        (&["-H", BEARER, "-H", "Content-Type: image/png", "-d", "x"], 415, "image/png"),
        (&["-H", BEARER, "-H", "Content-Type: text/plain", "--data-binary", &large], 413, "1048576"),
        (&["-H", BEARER, "-H", JSON, "-H", "Host: evil.example", "-d", body], 403, "--host"),
        (&["-H", BEARER, "-H", JSON, "-H", "Host: 127.0.0.1.evil.example:80", "-d", body], 403, "--host"),
        (&["-H", BEARER, "-H", JSON, "-H", "Origin: http://localhost", "-d", body], 403, "web pages"),
        (&["-H", BEARER, "-H", JSON, "-d", r#"{"content":"\u0007"}"#], 422, "empty"),
        (&["-H", BEARER, "-H", JSON, "-d", body, "--request-target", "/other"], 404, "go to /"),
    ];
    for (arguments, status, words) in cases {
        let answer = webhook.curl(arguments);
        assert_eq!(answer.status, status, "{arguments:?}: {answer:?}");
        assert!(answer.text.contains(words), "{arguments:?}: {answer:?}");
    }
    assert_eq!(house.stored(), []);
    assert!(!webhook.adapter.said().contains(TOKEN));
    for host in ["localhost:1", "127.0.0.1", "[::1]:9877", "Hooks.Example.org"] {
        let answer = webhook.curl(&["-H", BEARER, "-H", JSON, "-H", &format!("Host: {host}"), "-d", body]);
        assert_eq!(answer.status, 202, "{host}: {answer:?}");
    }
}

#[test]
fn while_the_daemon_is_away_nothing_is_said_to_be_accepted() {
    let house = House::builder().build();
    let webhook = Webhook::start(&house, &[]);
    let body = r#"{"id":"d-1","content":"say: late"}"#;
    let away = webhook.post(body);
    assert_eq!(away.status, 503, "{away:?}");
    assert!(away.text.contains("retry-after: 5"), "{away:?}");
    house.start();
    assert_eq!(webhook.post(body).status, 202);
    house.kill9();
    assert_eq!(webhook.post(body).status, 503);
    house.start();
    assert_eq!(webhook.post(body).status, 200, "it has the message since before it was killed");
    assert_eq!(house.stored_on("ci"), ["say: late"]);
    house.wait_for_messages(1);
}

#[test]
fn a_full_inbox_is_told_and_takes_the_same_message_later() {
    // An agent that is not up for a while: nothing goes out of the inbox.
    let house = House::builder()
        .settings("[limits]\nqueue_messages = 2\n")
        .agent("CCMUX_DEMO_START_MS", "600000")
        .build();
    house.start();
    let webhook = Webhook::start(&house, &[]);
    let post = |n: u8| webhook.post(&format!(r#"{{"id":"n-{n}","content":"say: {n}"}}"#));
    assert_eq!((post(1).status, post(2).status), (202, 202));
    let refused = post(3);
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.text.contains("retry-after: 5") && refused.text.contains("2 messages"), "{refused:?}");
    assert_eq!(post(1).status, 200, "what is known needs no room");
    assert_eq!(house.stored_on("ci"), ["say: 1", "say: 2"]);
    let dropped = house.ccmux(&["inbox", "drop", "n-1"]);
    assert!(dropped.status.success(), "{dropped:?}");
    assert_eq!(post(3).status, 202);
}

#[test]
fn however_often_the_daemon_dies_what_is_sent_until_accepted_comes_once() {
    const ROUNDS: usize = 6;
    const MESSAGES: usize = 4 * ROUNDS;
    let house = House::builder().build();
    house.start();
    let webhook = Webhook::start(&house, &[]);
    let accepted = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..MESSAGES {
                let body = format!(r#"{{"id":"n-{n}","content":"say: {n}"}}"#);
                wait_for(LIMIT, &format!("message {n}"), || (webhook.post(&body).status < 300).then_some(()));
                accepted.fetch_add(1, Ordering::Relaxed);
            }
        });
        for round in 1..ROUNDS {
            house.wait_until("some more", || accepted.load(Ordering::Relaxed) >= 3 * round);
            house.kill9();
            house.start();
        }
    });
    let expected: Vec<String> = (0..MESSAGES).map(|n| format!("say: {n}")).collect();
    assert_eq!(house.stored_on("ci"), expected);
}

/// Requests that no honest sender makes: each is refused, none is stored, and the next sender is served.
#[test]
fn a_hostile_client_is_refused_and_disturbs_nobody() {
    let house = House::builder().ready();
    let webhook = Webhook::start(&house, &[]);
    let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\n{BEARER}\r\n");
    let many = (0..200).map(|n| format!("X-{n}: x\r\n")).collect::<String>();
    let mebibyte = "x".repeat(1024 * 1024);
    let half = &mebibyte[..900 * 1024];
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n");
    let length = half.len();
    let stranger = format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{half}");
    let long_id = format!(r#"{{"content":"x","id":"{half}"}}"#);
    let bytes = |text: &str| text.as_bytes().to_vec();
    let cases: Vec<(&str, Vec<u8>, &[u16])> = vec![
        ("a large body of a stranger", bytes(&stranger), &[401]),
        ("no HTTP", bytes("\0\u{1}\u{2}hello\r\n\r\n"), &[400, 0]),
        ("TLS", vec![0x16, 0x03, 0x01, 0x02, 0x00, 0x01], &[400, 0]),
        ("HTTP/2", bytes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), &[400, 0, 505]),
        ("HTTP/9", bytes(&head.replace("1.1", "9.9")), &[400, 0, 505]),
        ("a large header", bytes(&format!("{head}X: {mebibyte}\r\n\r\n")), &[431]),
        ("many headers", bytes(&format!("{head}{many}\r\n")), &[431]),
        ("a large path", bytes(&head.replace("POST /", &format!("POST /{half}"))), &[414, 431]),
        ("two lengths", bytes(&format!("{head}Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx")), &[400]),
        ("a negative length", bytes(&format!("{head}Content-Length: -1\r\n\r\n")), &[400]),
        ("a lie of a length", bytes(&format!("{head}Content-Length: 99999999999\r\n\r\nx")), &[413]),
        ("bad chunks", bytes(&format!("{chunked}\r\nzz\r\nx\r\n0\r\n\r\n")), &[400]),
        ("endless chunks", bytes(&format!("{chunked}\r\n200000\r\n{mebibyte}{mebibyte}")), &[413]),
        ("no host", bytes(&format!("POST / HTTP/1.1\r\n{BEARER}\r\nContent-Length: 1\r\n\r\nx")), &[403]),
        ("a folded header", bytes(&format!("{head}X: a\r\n b\r\n\r\n")), &[400]),
        (
            "an id of a megabyte",
            bytes(&format!("{head}Content-Length: {}\r\n\r\n{long_id}", long_id.len())),
            &[400],
        ),
        (
            "a key that is no text",
            [
                bytes(&format!("{head}Content-Length: 15\r\nIdempotency-Key: ")),
                b"\xff\xfe\r\n\r\n".to_vec(),
                bytes(r#"{"content":"x"}"#),
            ]
            .concat(),
            &[400],
        ),
    ];
    for (what, request, expected) in cases {
        let answer = webhook.say(&request);
        assert!(expected.contains(&answer.status), "{what}: {answer:?}");
    }
    assert_eq!(house.stored(), []);
    assert_eq!(webhook.post(r#"{"content":"say: served"}"#).status, 202);
}

/// A second request would meet a connection that is about to be closed, and its sender would not know its fate.
#[test]
fn a_connection_serves_one_request_and_says_so() {
    let house = House::builder().ready();
    let webhook = Webhook::start(&house, &[]);
    let one = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\n{BEARER}\r\nContent-Length: 15\r\n\r\n{{\"content\":\"x\"}}"
    );
    let answer = webhook.say(format!("{one}{one}").as_bytes());
    assert_eq!(answer.status, 202, "{answer:?}");
    assert!(answer.text.contains("connection: close"), "{answer:?}");
    assert_eq!(answer.text.matches("HTTP/1.1").count(), 1, "{answer:?}");
    assert_eq!(house.stored_on("ci"), ["x"]);
}

#[test]
fn slow_senders_keep_nobody_out_for_ever() {
    let house = House::builder().ready();
    let webhook = Webhook::start(&house, &[]);
    let slow = |head: &str| {
        let mut stream = TcpStream::connect(&webhook.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let mut crowd: Vec<TcpStream> = (0..64).map(|n| slow(["", "POST / HTTP/1.1\r\nHo"][n % 2])).collect();
    let mut waits = slow("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    waits.set_read_timeout(Some(WATCH)).unwrap();
    assert!(waits.read(&mut [0; 64]).is_err(), "one too many is not served");
    let answer = webhook.post(r#"{"content":"say: in time"}"#);
    assert_eq!(answer.status, 202, "{answer:?}");
    for stream in &mut crowd {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        let text = String::from_utf8_lossy(&rest);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 408"), "{text}");
    }
}

#[test]
fn an_open_door_is_refused_before_it_opens() {
    let house = House::builder()
        .file("open", "a token that all may read", 0o644)
        .file("short", "short", 0o600)
        .build();
    let open = house.path("open").display().to_string();
    let short = house.path("short").display().to_string();
    for (arguments, code, words) in [
        (&["--listen", "0.0.0.0:0"][..], 4, "--allow-remote"),
        (&["--token-file", &open], 4, "chmod 600"),
        (&["--token-file", &short], 4, "shorter than 16"),
        (&[], 4, "no token"),
        (&["--listen", "nowhere"], 2, "--listen"),
    ] {
        let mut command = house.command(house.bin("ccmux"));
        command.args(["adapter", "webhook", "--channel", "ci"]).args(arguments);
        let output = house.run_to_end(command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}
