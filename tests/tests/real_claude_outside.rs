//! What the real Claude Code is told by its environment, and what it gets to hear of FIFOs that can't take its messages.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccmux_tests::adapter::results;
use ccmux_tests::{House, claude};
use ccmux_wire::status::StateWord;

fn wait_ready(house: &House) {
    house.wait_within(Duration::from_secs(60), "Claude to be ready", || {
        house.state().filter(|state| *state == StateWord::Ready)
    });
}

/// A proxy that serves nobody, and what was asked of it.
fn proxy() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut line = String::new();
            let _ = BufReader::new(stream).read_line(&mut line);
            lines.lock().unwrap().push(line);
        }
    });
    (address, asked)
}

/// Field faults 31, 32.
#[test]
fn f31_f32_started_in_a_claude_and_behind_a_proxy_it_writes_a_transcript_and_reaches_loopback() {
    let Some(claude) = claude::or_skip() else { return };
    let house = House::with_claude(&claude);
    let (address, asked) = proxy();
    let mut variables = vec![
        ("CLAUDECODE", "1"),
        ("CLAUDE_CODE_CHILD_SESSION", "1"),
        ("CLAUDE_CODE_ENTRYPOINT", "cli"),
        ("CLAUDE_CODE_SESSION_ID", "00000000-0000-0000-0000-000000000000"),
        ("CLAUDE_PID", "1"),
    ];
    let proxies = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    variables.extend(proxies.map(|name| (name, address.as_str())));
    house.start_with(&variables);
    wait_ready(&house);
    let adapter = house.adapter("test");
    let turns = house.subscribe();
    house.write("in.t", "mcp: test by loopback\n");
    assert_eq!(house.wait_for_lines(&adapter, 1), ["by loopback"]);
    turns.wait_for_turns(1);
    assert!(house.prompts().iter().any(|prompt| prompt.ends_with("mcp: test by loopback")), "no transcript");
    let asked = asked.lock().unwrap().clone();
    println!("asked of the proxy: {asked:?}");
    let loopback = |line: &String| ["127.0.0.1", "localhost", "[::1]"].iter().any(|host| line.contains(host));
    assert!(!asked.iter().any(loopback), "{asked:?}");
}

/// Acceptance E2.
#[test]
fn e2_the_real_claude_is_told_what_is_wrong_with_a_channel() {
    let Some(claude) = claude::or_skip() else { return };
    let house = House::with_claude(&claude);
    house.start();
    wait_ready(&house);
    let path = |name: &str| house.run_dir().join(format!("out.{name}"));
    let adapter = house.adapter("real");
    house.fifo("out.deaf");
    fs::write(path("file"), "precious").unwrap();
    fs::create_dir(path("folder")).unwrap();
    symlink(path("real"), path("link")).unwrap();
    let turns = house.subscribe();
    let cases = [
        ("nowhere", "no channel"),
        ("deaf", "nobody is listening on deaf"),
        ("file", "a regular file"),
        ("folder", "a directory"),
        ("link", "a symbolic link"),
    ];
    for (n, (name, says)) in cases.into_iter().enumerate() {
        house.write("in.t", format!("mcp: {name} x\n"));
        let turn = turns.wait_for_turns(n + 1).pop().unwrap();
        let (is_error, text) = results(&turn).pop().expect("a tool result");
        assert!(is_error && text.contains(says), "{name}: {text}");
    }
    let big = "m".repeat(200_000);
    house.write("in.t", format!("mcp: real {big}\n"));
    assert!(house.wait_for_lines(&adapter, 1) == [big]);
    assert_eq!(fs::read(path("file")).unwrap(), b"precious");
}
