//! `GET /metrics` of a daemon that works, read by Prometheus' own parser.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use ccmux_tests::{House, metrics};

const SECRET: &str = "say: xyzzy-plugh";

#[test]
fn the_page_is_prometheus_text_and_tells_what_happened() {
    let Some(python) = metrics::parser_or_skip() else { return };
    let house = House::builder().settings("[channels.strict]\nallowed = [\"ann\"]\n").ready();
    let fresh = house.metrics(&python);
    assert_eq!(fresh.value("ccmux_messages_total", &[]), None);
    assert_eq!(fresh.value("ccmux_message_leg_seconds_count", &[]), None);
    let turns = house.subscribe();
    for _ in 0..3 {
        house.send("answered", SECRET);
    }
    house.write("in.strict", "by nobody\n");
    turns.wait_for_alert("rejected");
    house.ccmux(&["send", "-c", "strict", "by nobody"]);
    house.wait_until("all to be counted", || {
        house.metrics(&python).value("ccmux_messages_total", &[("state", "answered")]) == Some(3.0)
    });
    let page = house.metrics(&python);
    let value = |name: &str, labels: &[(&str, &str)]| page.value(name, labels);
    for state in ["accepted", "delivered", "answered"] {
        assert_eq!(
            value("ccmux_messages_total", &[("state", state), ("channel", "default")]),
            Some(3.0),
            "{state}"
        );
    }
    assert_eq!(value("ccmux_messages_total", &[("state", "rejected"), ("channel", "strict")]), Some(2.0));
    for (leg, at_least) in [("queued", 3.0), ("typed", 1.0), ("proved", 1.0), ("answered", 3.0)] {
        let count = value("ccmux_message_leg_seconds_count", &[("leg", leg)]).unwrap();
        // Now and then Claude's hook is faster than the news that Enter was pressed: when, is not known then.
        assert!((at_least..=3.0).contains(&count), "{leg}: {count}");
        let all = value("ccmux_message_leg_seconds_bucket", &[("leg", leg), ("le", "+Inf")]);
        assert_eq!(all, Some(count), "{leg}");
    }
    assert_eq!(value("ccmux_turn_publish_seconds_count", &[]), Some(3.0));
    assert!(value("ccmux_turn_publish_seconds_sum", &[]).unwrap() < 10.0);
    assert_eq!(value("ccmux_hooks_total", &[("event", "UserPromptSubmit")]), Some(3.0));
    assert_eq!(value("ccmux_alerts_total", &[("kind", "rejected")]), Some(1.0));
    assert_eq!(value("ccmux_subscribers", &[]), Some(1.0));
    assert_eq!(value("ccmux_turns_published_total", &[]), Some(3.0));
    assert_eq!((value("ccmux_queue_messages", &[]), value("ccmux_agent_up", &[])), (Some(0.0), Some(1.0)));
    assert_eq!(value("ccmux_state", &[("state", "down")]), Some(0.0));
    assert_eq!(value("ccmux_degraded", &[("part", "mcp")]), Some(0.0));
    assert!(value("ccmux_build_info", &[("version", env!("CARGO_PKG_VERSION"))]).is_some());
    assert!(page.types().iter().any(|one| one == &("ccmux_hooks_total".into(), "counter".into())));
    assert!(!page.text.contains("xyzzy"), "a text of a message:\n{}", page.text);
}

#[test]
fn a_restarted_agent_is_counted_and_nobody_reads_the_page_without_the_token() {
    let Some(python) = metrics::parser_or_skip() else { return };
    let house = House::builder().env("CCMUX_BACKOFF_INITIAL", 0).ready();
    house.kill_agent();
    house.wait_until("the restart", || {
        house.metrics(&python).value("ccmux_agent_restarts_total", &[]) == Some(1.0)
    });
    let (page, answer) = house.metrics_text(true);
    assert_eq!(answer, "200 text/plain; version=0.0.4; charset=utf-8");
    let token = std::fs::read_to_string(house.state_dir().join("mcp.token")).unwrap();
    assert!(!page.contains(&token));
    let (refusal, answer) = house.metrics_text(false);
    assert!(answer.starts_with("401") && !refusal.contains("ccmux_"), "{answer} {refusal}");
}
