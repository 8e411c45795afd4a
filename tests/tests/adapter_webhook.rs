//! `ccmux adapter webhook` beside a real daemon: what is answered with 2xx is in the inbox, and nothing else is.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Output;
use std::time::Duration;

use ccmux_tests::patience::WATCH;
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
