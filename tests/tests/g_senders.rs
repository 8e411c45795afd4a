//! Older senders: three lines over TCP become notices; whatever else comes does no harm.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use ccmux_tests::House;
use ccmux_tests::notices::into_a_file;

const SETTINGS: &str =
    "[attention]\nroutes = [\"file\"]\n[attention.reply]\nafter = 0\n[attention.question]\nafter = 0\n";

fn house() -> (House, SocketAddr) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let house =
        House::builder().settings(&into_a_file(&format!("{SETTINGS}[tcp]\nlisten = \"{free}\"\n"))).ready();
    house.wait_until("the port", || TcpStream::connect(free).is_ok());
    (house, free)
}

fn say(address: SocketAddr, text: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(text).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

fn descriptors(house: &House) -> usize {
    fs::read_dir(format!("/proc/{}/fd", house.daemon_pid())).unwrap().count()
}

/// Acceptance G6.
#[test]
fn three_lines_become_a_notice_of_their_kind_and_window() {
    let (house, address) = house();
    assert_eq!(say(address, b"complete\n77\nthe tests pass\n"), "ok\n");
    let told = house.wait_for_notice_of("the tests pass");
    assert_eq!((told["kind"].as_str(), told["session"].as_str()), (Some("reply"), Some("w-77")));
    assert_eq!(say(address, b"question\n78\nwhich branch\n"), "ok\n");
    assert_eq!(house.wait_for_notice_of("which branch")["kind"], "question");
    let to = address.to_string();
    house.ccmux_ok(&["notify", "--tcp", &to, "--type", "info", "just", "so\nyou know"]);
    let told = house.wait_for_notice_of("just so you know");
    assert_eq!((told["kind"].as_str(), told["session"].as_str()), (Some("message"), Some("tcp")));
    house.wait_until("the message to be over", || !house.ccmux_ok(&["attention"]).contains("message"));
    let waits = house.ccmux_ok(&["attention"]);
    assert!(waits.contains("w-77") && waits.contains("w-78"), "{waits}");
}

/// Acceptance G6.
#[test]
fn what_is_said_at_once_and_each_permission_of_a_container_without_a_socket_is_told() {
    let (house, address) = house();
    assert_eq!(say(address, b"complete\n88\nfirst\n"), "ok\n");
    assert_eq!(say(address, b"complete\n88\nsecond\n"), "ok\n");
    house.wait_until("the second one to stand", || house.ccmux_ok(&["attention"]).contains("second"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/container/tell.sh");
    for count in 1..=3 {
        let mut tell = house.command("bash");
        tell.args([script, "question", "Claude waits for an answer"]);
        tell.env("CCMUX_TCP", address.to_string()).env("WINDOWID", "89");
        assert!(house.run_to_end(tell).status.success());
        let told = || house.notices().iter().filter(|notice| notice["session"] == "w-89").count();
        house.wait_until("its notice", || told() == count);
    }
    assert_eq!(house.ccmux_ok(&["attention"]).matches("w-89").count(), 1, "the latest stands");
}

/// Acceptance G6.
#[test]
fn probes_garbage_and_ten_thousand_connections_are_survived() {
    let (house, address) = house();
    let before = descriptors(&house);
    assert!(say(address, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 200 OK"));
    for garbage in
        [&b"\x16\x03\x01\x00\xa5\x01\x00"[..], &[0; 5000], &[b'\n'; 20_000], b"complete\n1\n\x1b[31m\x07 \n"]
    {
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let crowd = (0..20).map(|_| {
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for number in 0..500 {
                let Ok(mut stream) = TcpStream::connect(address) else { continue };
                let _ = stream.write_all(if number % 3 == 0 { b"complete\n" } else { b"x" });
                if number % 10 == 0 {
                    open.push(stream);
                }
            }
            open.len()
        })
    });
    let threads: Vec<_> = crowd.collect();
    let opened: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(opened > 100, "{opened}");
    assert!(descriptors(&house) < before + 200, "{} then {}", before, descriptors(&house));
    house.send("delivered", "say: still there");
    house.wait_until("a place", || say(address, b"info\n\nafter the crowd\n") == "ok\n");
    house.wait_for_notice_of("after the crowd");
    house.wait_until("the crowd to be gone", || descriptors(&house) <= before + 5);
    assert!(house.notices().iter().all(|notice| !notice["body"].as_str().unwrap().contains('\u{1b}')));
}

#[test]
fn a_token_is_wanted_where_the_settings_say_so() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = into_a_file(&format!("{SETTINGS}[tcp]\nlisten = \"{free}\"\ntoken_file = \"~/token\"\n"));
    let house = House::builder().settings(&settings).build();
    let refused = house.run_daemon(&[]);
    assert_eq!(refused.status.code(), Some(78), "{}", String::from_utf8_lossy(&refused.stderr));
    let token = house.home().join("token");
    fs::write(&token, "0123456789abcdef0123\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    house.start();
    let (to, token) = (free.to_string(), token.display().to_string());
    house.wait_until("the port", || TcpStream::connect(free).is_ok());
    let output = house.ccmux(&["notify", "--tcp", &to, "no token"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(4) && stderr.contains("the token is wrong or missing"), "{stderr}");
    house.ccmux_ok(&["notify", "--tcp", &to, "--token-file", &token, "with the token"]);
    house.wait_for_notice_of("with the token");
    let log = fs::read_to_string(house.path("ccmux.log")).unwrap();
    assert!(!log.contains("0123456789abcdef0123") && !log.contains("with the token"));
    assert!(house.notices().iter().all(|notice| notice["body"] != "no token"));
}

#[test]
fn without_a_token_no_other_address_is_opened() {
    let house = House::builder().settings("[tcp]\nlisten = \"0.0.0.0:8080\"\n").build();
    let output = house.run_daemon(&[]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(78) && stderr.contains("tcp.token_file"), "{stderr}");
}
