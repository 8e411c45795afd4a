//! Acceptance E5: `ccmux mcp` and a daemon that ends while a call is with it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use ccmux_tests::house::House;
use ccmux_tests::patience::{WATCH, stays_quiet};
use serde_json::{Value, json};

/// `ccmux mcp`, as Claude starts it.
struct Bridge {
    child: Child,
    input: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Bridge {
    fn of(house: &House) -> Self {
        let mut command = house.command(house.bin("ccmux"));
        let mut child = command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { input: child.stdin.take().unwrap(), said, child }
    }

    fn send(&mut self, channel: &str, message: &str) {
        let arguments = json!({"channel": channel, "message": message});
        let params = json!({"name": "send_to_channel", "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        writeln!(self.input, "{call}").unwrap();
    }

    fn result(&mut self) -> (bool, String) {
        let answer: Value = serde_json::from_str(&self.said.next().unwrap().unwrap()).unwrap();
        let result = &answer["result"];
        (result["isError"] == true, result["content"][0]["text"].as_str().unwrap().to_owned())
    }
}

/// A house whose daemon waits long for a reader, and a call that is with it.
fn with_a_call() -> (House, Bridge) {
    let house = House::builder().settings("[out]\nwait = 30\n[log]\nlevel = \"debug\"\n").ready();
    house.fifo("out.slow");
    let mut bridge = Bridge::of(&house);
    bridge.send("slow", "only once");
    house.wait_until("the call at the daemon", || house.log_events("tool.called").len() == 1);
    (house, bridge)
}

/// Acceptance E5. Field fault 34.
#[test]
fn e5_a_call_that_a_stopping_daemon_did_not_do_is_done_by_the_next_one() {
    let (house, mut bridge) = with_a_call();
    assert!(house.stop().success());
    house.start();
    let got = house.adapter("slow");
    assert_eq!(bridge.result(), (false, "sent to slow".to_owned()));
    assert_eq!(house.wait_for_lines(&got, 1), ["only once"]);
    stays_quiet(WATCH, "a second message", || (got.lines().len() > 1).then(|| format!("{got:?}")));
}

/// Acceptance E5.
#[test]
fn e5_a_call_that_died_with_its_daemon_is_told_and_not_repeated() {
    let (house, mut bridge) = with_a_call();
    house.kill9();
    let (is_error, text) = bridge.result();
    assert!(is_error && text.contains("it may have been written, or not"), "{text}");
    house.start();
    let got = house.adapter("slow");
    stays_quiet(WATCH, "a message that nobody sent again", || got.lines().pop());
}

/// Acceptance E5.
#[test]
fn e5_twenty_kills_under_a_bridge_that_calls_lose_and_double_nothing() {
    let house = House::builder().ready();
    let got = house.adapter("test");
    let mut bridge = Bridge::of(&house);
    let (mut sent, mut unsure) = (0, 0);
    for n in 0..20 {
        bridge.send("test", &format!("message {n}"));
        house.kill9();
        house.start();
        match bridge.result() {
            (false, _) => sent += 1,
            (true, text) => {
                assert!(text.contains("may have been written"), "{text}");
                unsure += 1;
            }
        }
    }
    let mut lines = house.wait_for_lines(&got, sent);
    let count = lines.len();
    lines.sort();
    lines.dedup();
    assert_eq!(lines.len(), count, "one came twice: {:?}", got.lines());
    assert!(count >= sent && count <= sent + unsure, "{count} of {sent} and {unsure}");
}
