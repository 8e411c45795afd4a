//! Acceptance E: Claude answers on channels. The demo agent first, then the real CLI over both transports.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ccmux_tests::claude;
use ccmux_tests::house::House;
use serde_json::Value;

/// An adapter that reads the FIFO for good: what it got so far.
fn adapter(house: &House, name: &str) -> Arc<Mutex<Vec<String>>> {
    let path = house.fifo(name);
    let got = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&got);
    // Open before the first message, as an adapter is; both ends, so that it never ends.
    let fifo = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    std::thread::spawn(move || {
        for line in BufReader::new(fifo).lines().map_while(Result::ok) {
            lines.lock().unwrap().push(line);
        }
    });
    got
}

fn wait_for_lines(house: &House, got: &Mutex<Vec<String>>, count: usize) -> Vec<String> {
    house.wait_for("lines at the adapter", || {
        Some(got.lock().unwrap().clone()).filter(|lines| lines.len() >= count)
    })
}

/// The tool results of a turn: whether each is an error, and its text.
fn results(turn: &Value) -> Vec<(bool, String)> {
    let blocks = turn["turn"].as_array().into_iter().flatten();
    let results = blocks.filter(|block| block["type"] == "tool_result");
    results.map(|block| (block["is_error"] == true, block["content"].to_string())).collect()
}

/// Acceptance E1.
#[test]
fn e1_the_agents_answer_comes_out_of_the_fifo_and_errors_come_back_to_it() {
    let house = House::builder().ready();
    let got = adapter(&house, "out.test");
    let turns = house.subscribe();
    house.fifo("out.deaf");
    fs::write(house.run_dir().join("out.file"), "precious").unwrap();
    let mut found = Vec::new();
    // One after the other: what comes while it is busy would become one prompt.
    for (n, word) in ["test hello", "nowhere x", "deaf x", "file x"].into_iter().enumerate() {
        house.write("in.t", format!("mcp: {word}\n"));
        found = turns.wait_for_turns(n + 1);
    }
    assert_eq!(wait_for_lines(&house, &got, 1), ["hello"]);
    let results: Vec<(bool, String)> = found.iter().flat_map(results).collect();
    let says = ["sent to test", "no channel", "nobody is listening on deaf", "out.file is refused"];
    for ((is_error, text), (n, says)) in results.iter().zip(says.into_iter().enumerate()) {
        assert_eq!(*is_error, n > 0, "{text}");
        assert!(text.contains(says), "{says}: {text}");
    }
    assert_eq!(results.len(), 4);
    assert_eq!(fs::read(house.run_dir().join("out.file")).unwrap(), b"precious");
}

/// Acceptance E1.
#[test]
fn e1_the_port_and_the_token_are_the_same_for_an_agent_that_outlived_the_daemon() {
    let house = House::builder().ready();
    let got = adapter(&house, "out.test");
    let port = house.status().mcp.port.expect("a port");
    let agent = house.agent_pid();
    house.kill9();
    house.start();
    house.wait_ready();
    assert_eq!((house.status().mcp.port, house.agent_pid()), (Some(port), agent));
    house.write("in.t", "mcp: test again\n");
    assert_eq!(wait_for_lines(&house, &got, 1), ["again"]);
}

/// Acceptance A7.
#[test]
fn a7_a_port_that_is_taken_is_told_and_messages_and_turns_flow() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let house = House::builder().env("CCMUX_MCP_PORT", port).ready();
    let status = house.status();
    assert_eq!((status.mcp.port, status.degraded), (None, vec!["mcp".to_owned()]));
    let turns = house.subscribe_with("{\"since\":0}\n");
    let alert = turns.wait_for_alert("mcp_down");
    assert!(alert["alert"]["message"].as_str().unwrap().contains(&port.to_string()), "{alert}");
    house.write("in.t", "say: it flows\n");
    turns.wait_for_text("it flows");
}

/// Acceptance A6.
#[test]
fn a6_the_daemon_stops_in_time_with_streams_open() {
    let house = House::builder().ready();
    let port = house.status().mcp.port.unwrap();
    let token = house.state_dir().join("mcp.token");
    assert_eq!(token.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let token = fs::read_to_string(token).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET /sse HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n")
        .unwrap();
    let mut head = [0; 15];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    let began = Instant::now();
    assert!(house.stop().success());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// One call, an error, and the same in Claude's default mode: no dialog may come up.
fn real_claude_answers(settings: &str, default_mode: bool) {
    let Some(claude) = claude::or_skip() else { return };
    let mut settings = settings.to_owned();
    if default_mode {
        settings.push_str(&format!("\n[agent]\ncommand = \"{}\"\n", claude.display()));
    }
    let mut house = House::with_claude(&claude);
    if default_mode {
        house.env_remove("CCMUX_AGENT_COMMAND");
    }
    house.write_settings(&settings);
    house.start();
    house.wait_ready();
    let got = adapter(&house, "out.test");
    let turns = house.subscribe();
    house.write("in.t", "mcp: test hello from claude\n");
    assert_eq!(wait_for_lines(&house, &got, 1), ["hello from claude"]);
    turns.wait_for_turns(1);
    house.write("in.t", "mcp: nowhere x\n");
    let found = turns.wait_for_turns(2);
    let results: Vec<(bool, String)> = found.iter().flat_map(results).collect();
    assert_eq!(
        results.iter().map(|(is_error, _)| *is_error).collect::<Vec<_>>(),
        [false, true],
        "{results:?}"
    );
    assert!(results[1].1.contains("these take messages: test"), "{results:?}");
}

/// Acceptance E1.
#[test]
fn e1_the_real_claude_answers_over_streamable_http() {
    real_claude_answers("", false);
}

/// Acceptance E1.
#[test]
fn e1_the_real_claude_answers_over_server_sent_events() {
    real_claude_answers("[mcp]\nentry = \"sse\"\n", false);
}

/// Acceptance E1.
#[test]
fn e1_the_real_claude_is_not_asked_for_permission_in_its_default_mode() {
    real_claude_answers("", true);
}
