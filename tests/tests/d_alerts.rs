//! Alerts, each kind by what causes it. The test of a kind is named after it: `alert_KIND_...`; kinds without a test here
//! take a minute of silence to come about and have a timeline of the policy instead (a test of the policy keeps the list).

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::time::Duration;

use ccmux_tests::{House, Subscriber};
use serde_json::{Value, json};

/// The alert of a kind, with what every alert has looked at.
fn alert(subscriber: &Subscriber, kind: &str) -> Value {
    let line = subscriber.wait_for_alert(kind);
    assert!(line["seq"].as_u64().unwrap() > 0 && line["ts"].as_i64().unwrap() > 1_700_000_000, "{line}");
    assert!(!line["alert"]["message"].as_str().unwrap().is_empty(), "{line}");
    line["alert"].clone()
}

#[test]
fn alert_permission_request_names_the_tool_and_nothing_of_its_input() {
    let house = House::builder().ready();
    let alerts = house.subscribe();
    house.write("in.t", "perm: echo hunter2\n");
    let alert = alert(&alerts, "permission_request");
    assert_eq!(alert["tool"], "Bash");
    assert!(!alert.to_string().contains("hunter2"), "{alert}");
    assert!(!fs::read_to_string(house.path("ccmux.log")).unwrap().contains("hunter2"));
    assert!(alerts.alerts_of("question").is_empty());
}

#[test]
fn alert_question_is_not_a_request_for_permission() {
    let house = House::builder().ready();
    let alerts = house.subscribe();
    house.write("in.t", "ask: Which one?\n");
    assert_eq!(alert(&alerts, "question")["tool"], "AskUserQuestion");
    assert!(alerts.alerts_of("permission_request").is_empty());
}

#[test]
fn alert_failure_says_that_the_api_failed() {
    let house = House::builder().ready();
    let alerts = house.subscribe();
    house.write("in.t", "error: 529\n");
    assert!(alert(&alerts, "failure")["message"].as_str().unwrap().contains("API"));
}

#[test]
fn alert_agent_exited_comes_before_agent_restarted() {
    let house = House::builder().ready();
    let alerts = house.subscribe();
    let pid = house.kill_agent();
    let exited = alert(&alerts, "agent_exited");
    assert!(
        exited["message"].as_str().unwrap().contains(&format!("(pid {pid}) ended by signal 9")),
        "{exited}"
    );
}

#[test]
fn alert_agent_restarted_names_the_new_process() {
    let house = House::builder().ready();
    let alerts = house.subscribe();
    house.kill_agent();
    let restarted = alert(&alerts, "agent_restarted");
    let pid = house.wait_for("the agent", || house.status().agent.pid);
    assert!(restarted["message"].as_str().unwrap().contains(&pid.to_string()), "{restarted}");
    let kinds: Vec<Value> = alerts.alerts().iter().map(|line| line["alert"]["kind"].clone()).collect();
    assert_eq!(kinds, ["agent_exited", "agent_restarted"]);
}

#[test]
fn alert_degraded_comes_once_when_the_agent_keeps_ending() {
    let house = House::builder()
        .agent("CCMUX_DEMO_EXIT", 3)
        .settings("[backoff]\ninitial = 0.01\ncap = 0.05\n")
        .build();
    house.start();
    let alerts = house.subscribe_with("{\"since\":0}\n");
    alert(&alerts, "degraded");
    house.wait_until("some more ends", || house.log_events("agent.exited").len() > 13);
    assert_eq!(alerts.alerts_of("degraded").len(), 1);
    assert!(alerts.alerts_of("agent_exited").len() <= 10, "its further ends are told nobody");
    assert_eq!(house.status().degraded, ["agent"]);
}

#[test]
fn alert_uncertain_names_the_message() {
    let house = House::builder().agent("CCMUX_DEMO_SWALLOW_ENTER", 5).ready();
    let alerts = house.subscribe();
    house.write("in.t", "{\"id\":\"order-1\",\"content\":\"say: swallowed\"}\n");
    assert_eq!(alert(&alerts, "uncertain")["messages"], json!(["order-1"]));
}

#[test]
fn alert_hooks_silent_comes_after_three_deliveries_without_a_hook() {
    let house = House::builder().agent("CCMUX_DEMO_HOOKS", "off").ready();
    let alerts = house.subscribe();
    for n in 0..3 {
        assert!(alerts.alerts_of("hooks_silent").is_empty(), "after {n}");
        house.send("delivered", &format!("say: {n}"));
    }
    alert(&alerts, "hooks_silent");
}

#[test]
fn alert_rejected_names_the_channel_and_none_of_the_text() {
    let house = House::builder().ready();
    let alerts = house.subscribe();
    house.write("in.t", "{\"hunter2\":1}\n");
    let alert = alert(&alerts, "rejected");
    assert_eq!(alert["channel"], "t");
    assert!(!alert.to_string().contains("hunter2"), "{alert}");
}

#[test]
fn alert_rejected_comes_for_each_of_a_flood() {
    let house = House::builder().ready();
    let alerts = house.subscribe();
    house.write("in.t", "{}\n".repeat(1500));
    house.wait_until("all to be told", || alerts.alerts_of("rejected").len() == 1500);
    assert!(house.log_events("alert.dropped").is_empty());
}

#[test]
fn alert_damaged_says_where_the_database_went() {
    let house = House::builder().ready();
    house.send("answered", "say: before");
    assert!(house.stop().success());
    fs::write(house.state_dir().join("turns.db"), [0xa5; 8192]).unwrap();
    house.start();
    let alerts = house.subscribe_with("{\"since\":0}\n");
    assert!(alert(&alerts, "damaged")["message"].as_str().unwrap().contains("turns.db.damaged-"));
}

#[test]
fn alert_mcp_down_names_the_port() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let house = House::builder().env("CCMUX_MCP_PORT", port).ready();
    let alerts = house.subscribe_with("{\"since\":0}\n");
    assert!(alert(&alerts, "mcp_down")["message"].as_str().unwrap().contains(&port.to_string()));
}

/// Acceptance A7. Field fault 32.
#[test]
fn alert_mcp_up_comes_once_the_port_is_free() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let house = House::builder().env("CCMUX_MCP_PORT", port).ready();
    let alerts = house.subscribe_with("{\"since\":0}\n");
    alert(&alerts, "mcp_down");
    assert_eq!(house.status().degraded, ["mcp"]);
    drop(taken);
    // It is tried again every 30 s.
    let told =
        house.wait_within(Duration::from_secs(60), "an alert mcp_up", || alerts.alerts_of("mcp_up").pop());
    assert!(told["alert"]["message"].as_str().unwrap().contains(&port.to_string()), "{told}");
    let status = house.status();
    assert_eq!((status.mcp.port, status.degraded), (Some(port), Vec::new()));
    assert_eq!(house.ask(&house.request("GET", "/healthz"), "").status, 200);
    assert_eq!(alerts.alerts_of("mcp_down").len(), 1);
}

#[test]
fn alert_new_version_names_both_versions_and_comes_once() {
    let house = House::builder().agent("CCMUX_DEMO_VERSION", "9.0.1").ready();
    let alerts = house.subscribe_with("{\"since\":0}\n");
    let told = alert(&alerts, "new_version");
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("9.0.1") && message.contains("2.1.332"), "{told}");
    house.kill_agent();
    alerts.wait_for_alert("agent_restarted");
    assert_eq!(alerts.alerts_of("new_version").len(), 1);
}

#[test]
fn alert_channel_opened_and_alert_channel_closed_come_for_what_happens_after_the_start() {
    let house = House::builder().build();
    fs::create_dir(house.run_dir()).unwrap();
    fs::set_permissions(house.run_dir(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    house.fifo("in.there-before");
    house.start();
    house.wait_ready();
    let alerts = house.subscribe_with("{\"since\":0}\n");
    house.fifo("in.phone");
    assert_eq!(alert(&alerts, "channel_opened")["channel"], "phone");
    house.fifo("out.phone");
    house.wait_until("both ways to be told", || alerts.alerts_of("channel_opened").len() == 2);
    fs::remove_file(house.run_dir().join("in.phone")).unwrap();
    let closed = alert(&alerts, "channel_closed");
    assert_eq!(
        (&closed["channel"], &closed["message"]),
        (&json!("phone"), &json!("channel phone (in): its FIFO is gone"))
    );
    assert_eq!(alerts.alerts_of("channel_opened").len(), 2, "what was there before is no news");
}

#[test]
fn alert_channel_closed_does_not_come_for_a_daemon_that_stops() {
    let house = House::builder().ready();
    house.fifo("in.phone");
    let alerts = house.subscribe();
    house.wait_until("it to be open", || house.status().channels.len() == 2);
    assert!(house.stop().success());
    house.wait_until("the end", || alerts.is_closed());
    assert!(alerts.alerts_of("channel_closed").is_empty());
}

#[test]
fn alert_channel_refused_says_why_at_the_start_and_later() {
    let house = House::builder().build();
    fs::create_dir(house.run_dir()).unwrap();
    fs::set_permissions(house.run_dir(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    symlink("/dev/zero", house.run_dir().join("in.early")).unwrap();
    house.start();
    let alerts = house.subscribe_with("{\"since\":0}\n");
    let refused = alert(&alerts, "channel_refused");
    assert_eq!(refused["channel"], "early");
    assert!(refused["message"].as_str().unwrap().contains("refused: "), "{refused}");
    symlink("/dev/zero", house.run_dir().join("out.late")).unwrap();
    house.wait_until("the later one", || {
        alerts.alerts_of("channel_refused").iter().any(|line| line["alert"]["channel"] == "late")
    });
}

/// A database that is locked for longer than SQLite waits.
#[test]
fn alerts_of_a_locked_database_come_once_it_is_free_and_messages_flow_meanwhile() {
    let house = House::builder().ready();
    let alerts = house.subscribe();
    let mut holder = house.command("python3");
    holder.args([
        "-c",
        "import sqlite3, sys, time\n\
        db = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
        db.execute('BEGIN IMMEDIATE')\n\
        print('locked', flush=True)\n\
        time.sleep(8)\n",
    ]);
    holder.arg(house.state_dir().join("turns.db"));
    let holder = ccmux_tests::listening::Listening::to(holder, "");
    holder.wait_for("locked");
    house.write("in.t", "{}\n{}\nsay: meanwhile\n");
    house.wait_within(Duration::from_secs(7), "the message to be delivered", || {
        house.prompts().iter().any(|prompt| prompt.contains("meanwhile")).then_some(())
    });
    house.wait_until("both alerts", || alerts.alerts_of("rejected").len() == 2);
    alerts.wait_for_text("meanwhile");
}
