//! Acceptance E with the official MCP client library, over all three ways to the tools.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ccmux_tests::house::House;
use ccmux_tests::mcp_library::{self, Client, WAYS, Way};
use serde_json::{Value, json};

/// One call's result: whether it is an error, and its text.
fn result(fact: &Value) -> (bool, &str) {
    (fact["is_error"] == true, fact["text"].as_str().unwrap_or_else(|| panic!("{fact}")))
}

fn only_result(client: Client) -> (bool, String) {
    let (facts, status) = client.rest();
    assert!(status.success() && facts.len() == 1, "{facts:?} {status}");
    let (is_error, text) = result(&facts[0]);
    (is_error, text.to_owned())
}

/// Acceptance E3.
#[test]
fn e3_the_library_lists_the_tools_and_reads_which_channels_there_are() {
    let Some(python) = mcp_library::or_skip() else { return };
    let house = House::builder().ready();
    let _adapter = house.adapter("test");
    house.wait_until("the channel to be listed", || house.ccmux_ok(&["channels"]).contains("test"));
    for way in WAYS {
        let fact = house.mcp_client(&python, way, &["tools"]).next();
        assert_eq!(fact["server"], "ccmux", "{way:?}: {fact}");
        assert_eq!(fact["tools"], json!(["send_to_channel", "list_channels"]), "{way:?}");
        let instructions = fact["instructions"].as_str().unwrap();
        assert!(instructions.contains("[HH:MM name]"), "{way:?}: {instructions}");
        assert!(instructions.contains("took messages: test;"), "{way:?}: {instructions}");
        assert!(fact["channels"].as_str().unwrap().contains("- test\n"), "{way:?}: {fact}");
        assert_eq!(fact["list_changed"], way != Way::Http, "{way:?}");
    }
}

/// Acceptance E3.
#[test]
fn e3_fifty_calls_at_once_all_arrive_whole() {
    let Some(python) = mcp_library::or_skip() else { return };
    for way in WAYS {
        let house = House::builder().ready();
        let got = house.adapter("test");
        let (facts, status) = house.mcp_client(&python, way, &["many", "50"]).rest();
        assert!(status.success(), "{way:?}: {status}");
        let done: Vec<_> = facts.iter().map(result).collect();
        assert_eq!(done, vec![(false, "sent to test"); 50], "{way:?}");
        let lines = house.wait_for_lines(&got, 50);
        let calls: BTreeSet<String> = (0..50).map(|n| format!("call {n}")).collect();
        assert_eq!((lines.len(), lines.into_iter().collect::<BTreeSet<_>>()), (50, calls), "{way:?}");
    }
}

/// Acceptance E2.
#[test]
fn e2_a_mebibyte_is_taken_and_a_byte_more_is_refused_with_the_limit() {
    let Some(python) = mcp_library::or_skip() else { return };
    let house = House::builder().ready();
    let got = house.adapter("test");
    for (n, way) in WAYS.into_iter().enumerate() {
        let call = |bytes: u32| only_result(house.mcp_client(&python, way, &["big", &bytes.to_string()]));
        assert_eq!(call(1024 * 1024), (false, "sent to test".to_owned()), "{way:?}");
        assert_eq!(house.wait_for_lines(&got, n + 1)[n].len(), 1024 * 1024, "{way:?}");
        let (is_error, text) = call(1024 * 1024 + 1);
        assert!(is_error && text.contains("the limit is 1048576"), "{way:?}: {text}");
    }
}

/// Acceptance E3.
#[test]
fn e3_a_client_that_vanishes_in_the_middle_of_a_call_leaves_the_daemon_alone() {
    let Some(python) = mcp_library::or_skip() else { return };
    let house = House::builder().settings("[out]\nwait = 5\n").ready();
    house.fifo("out.deaf");
    for way in WAYS {
        let (facts, status) = house.mcp_client(&python, way, &["vanish", "deaf"]).rest();
        assert_eq!((facts, status.code()), (vec![json!({"calling": true})], Some(9)), "{way:?}");
    }
    let got = house.adapter("test");
    for way in WAYS {
        assert!(!only_result(house.mcp_client(&python, way, &["big", "5"])).0, "{way:?}");
    }
    assert_eq!(house.wait_for_lines(&got, 3), ["mmmmm"; 3]);
}

/// Over streamable HTTP it is neither announced nor told: docs/adr/0018.
#[test]
fn a_channel_that_comes_is_told_where_it_was_announced() {
    let Some(python) = mcp_library::or_skip() else { return };
    let house = House::builder().ready();
    let clients = [Way::Sse, Way::Stdio].map(|way| house.mcp_client(&python, way, &["news"]));
    for client in &clients {
        assert_eq!(client.next(), json!({"listening": true}));
        assert!(client.is_silent_for(Duration::from_secs(1)), "nothing has changed");
    }
    house.fifo("out.new");
    for client in clients {
        let (facts, status) = client.rest();
        assert_eq!((facts, status.success()), (vec![json!({"changed": true})], true));
    }
}

/// Acceptance A6.
#[test]
fn a6_the_daemon_stops_in_time_while_clients_are_connected() {
    let Some(python) = mcp_library::or_skip() else { return };
    let house = House::builder().ready();
    let clients = WAYS.map(|way| house.mcp_client(&python, way, &["hold"]));
    for client in &clients {
        assert_eq!(client.next(), json!({"connected": true}));
    }
    let began = Instant::now();
    assert!(house.stop().success());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
