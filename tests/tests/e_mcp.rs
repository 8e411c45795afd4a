//! Acceptance E: Claude answers on channels. (The real CLI: real_claude_tool.rs.)
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use ccmux_tests::adapter::results;
use ccmux_tests::house::House;

/// Acceptance E1.
#[test]
fn e1_the_agents_answer_comes_out_of_the_fifo_and_errors_come_back_to_it() {
    let house = House::builder().ready();
    let got = house.adapter("test");
    let turns = house.subscribe();
    house.fifo("out.deaf");
    fs::write(house.run_dir().join("out.file"), "precious").unwrap();
    let mut found = Vec::new();
    // One after the other: what comes while it is busy would become one prompt.
    for (n, word) in ["test hello", "nowhere x", "deaf x", "file x"].into_iter().enumerate() {
        house.write("in.t", format!("mcp: {word}\n"));
        found = turns.wait_for_turns(n + 1);
    }
    assert_eq!(house.wait_for_lines(&got, 1), ["hello"]);
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
    let house = House::builder().settings("[mcp]\nentry = \"http\"\n").ready();
    let got = house.adapter("test");
    let port = house.status().mcp.port.expect("a port");
    let agent = house.agent_pid();
    house.kill9();
    house.start();
    house.wait_ready();
    assert_eq!((house.status().mcp.port, house.agent_pid()), (Some(port), agent));
    house.write("in.t", "mcp: test again\n");
    assert_eq!(house.wait_for_lines(&got, 1), ["again"]);
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
