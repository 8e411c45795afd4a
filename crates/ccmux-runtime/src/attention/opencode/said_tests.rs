//! The recorded events of the real OpenCode, as JSON, read to what the policy hears; and events of no known form.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::*;

fn folder(crate_and_folder: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(crate_and_folder)
}

fn end(id: &str) -> &str {
    &id[id.len() - 6..]
}

/// As a line of the policy's scenarios.
fn line(said: &Said, event: &Event) -> String {
    let what = match event {
        Event::Info { parent: None } => "info".to_owned(),
        Event::Info { parent: Some(parent) } => format!("info {}", end(parent.as_str())),
        Event::Busy => "busy".to_owned(),
        Event::Retry => "retry".to_owned(),
        Event::Step => "step".to_owned(),
        Event::Idle => "idle".to_owned(),
        Event::Asked { kind, request } => format!("asked {} {}", kind.word(), end(request)),
        Event::Answered { request } => format!("answered {}", end(request)),
        Event::UserMessage { message } => format!("user {}", end(message)),
        Event::Written { message, synthetic } => {
            format!("written {} {}", end(message), if *synthetic { "synthetic" } else { "human" })
        }
        Event::Assistant { finished } => format!("assistant {}", if *finished { "finished" } else { "open" }),
        Event::Failed { aborted } => format!("failed {}", if *aborted { "aborted" } else { "error" }),
        Event::Deleted => "deleted".to_owned(),
    };
    format!("{} {what}", end(said.session.as_str()))
}

fn recorded() -> Vec<(String, Vec<Value>)> {
    let files = fs::read_dir(folder("ccmux-runtime/tests/fixtures/opencode")).unwrap();
    let read = |entry: fs::DirEntry| {
        let name = entry.path().file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(entry.path()).unwrap();
        (name, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    };
    files.map(|entry| read(entry.unwrap())).collect()
}

fn said(event: &Value) -> Option<Said> {
    Said::of(&serde_json::from_value(event.clone()).unwrap())
}

/// Acceptance G4.
#[test]
fn each_recorded_event_means_what_the_policys_scenarios_say() {
    let recorded = recorded();
    assert_eq!(recorded.len(), 37);
    for (name, events) in recorded {
        let mut lines = String::new();
        for event in events {
            let said = said(&event).unwrap_or_else(|| panic!("{name}: {event}"));
            let by = event["by"].as_str().unwrap_or("both");
            for fact in &said.events {
                lines.push_str(&format!("{} {by} {}\n", event["ms"], line(&said, fact)));
            }
        }
        let scenario = folder("ccmux-policy/tests/opencode/scenarios").join(format!("{name}.txt"));
        assert_eq!(lines, fs::read_to_string(scenario).unwrap(), "{name}");
    }
}

fn failed(name: &str, data: Value) -> Said {
    let properties = json!({"sessionID": "ses_1", "error": {"name": name, "data": data}});
    said(&json!({"type": "session.error", "properties": properties})).unwrap()
}

#[test]
fn an_error_that_a_provider_answered_shows_its_name_and_status_and_nothing_of_the_answer() {
    for message in [
        json!("Unprocessable Entity: denied for key sk-CANARY of tenant CANARY.corp.example:8443/v1"),
        json!("CANARY"),
        json!("{\"error\":\"CANARY\"}"),
        json!(["CANARY"]),
    ] {
        let data = json!({
            "message": message, "statusCode": 422, "responseHeaders": {"set-cookie": "CANARY-header"},
            "responseBody": "denied for key sk-CANARY", "metadata": {"url": "https://CANARY-url/v1?key=CANARY"},
        });
        let said = failed("APIError", data);
        assert_eq!(said.detail.as_deref(), Some("APIError 422"));
        assert!(!format!("{said:?}").contains("CANARY"), "{said:?}");
    }
    let aborted = failed("MessageAbortedError", json!({"message": "Aborted"}));
    assert_eq!(aborted.events, [Event::Failed { aborted: true }]);
}

#[test]
fn an_error_that_nobody_answered_shows_one_line_without_addresses() {
    let detail = |message: &str| failed("APIError", json!({"message": message})).detail.unwrap();
    assert_eq!(detail("rate limited"), "APIError: rate limited");
    assert_eq!(detail("Model not found: nope/gpt-4.1"), "APIError: Model not found: nope/gpt-4.1");
    for address in [
        "https://u:CANARY@host/v1?k=CANARY",
        "HTTPS://CANARY",
        "CANARY.corp.example",
        "CANARY.corp.example:8443/v1",
        "CANARY:8443",
        "CANARY@host",
    ] {
        let said = detail(&format!("can't reach {address} now\nCANARY stack"));
        assert_eq!(said, "APIError: can't reach (address) now", "{address}");
    }
    for body in ["{\"error\":\"CANARY\"}", "<html>CANARY", "[CANARY]"] {
        assert_eq!(detail(body), "APIError");
    }
}

#[test]
fn a_model_that_is_asked_again_says_why_in_known_words_only() {
    let detail = |message: &str| {
        let status = json!({"type": "retry", "attempt": 1, "message": message});
        let properties = json!({"sessionID": "ses_1", "status": status});
        said(&json!({"type": "session.status", "properties": properties})).unwrap().detail
    };
    assert_eq!(detail("rate limited"), Some("Rate limited".to_owned()));
    assert_eq!(detail("Too Many Requests: key sk-CANARY"), Some("Too many requests".to_owned()));
    assert_eq!(detail("quota of sk-CANARY at CANARY.example is used up"), None);
}

#[test]
fn what_a_tool_is_called_with_and_what_a_message_says_is_not_read() {
    let asked = json!({"type": "permission.asked", "properties": {
        "id": "per_1", "sessionID": "ses_1", "permission": "bash",
        "patterns": ["CANARY"], "metadata": {"command": "CANARY", "diff": "CANARY"},
    }});
    let said = said(&asked).unwrap();
    assert!(said.detail.as_deref() == Some("bash") && !format!("{said:?}").contains("CANARY"), "{said:?}");
}

#[test]
fn an_event_of_another_form_is_left_out() {
    for event in [
        json!({"type": "session.next.prompted", "properties": {"sessionID": "ses_1"}}),
        json!({"type": "session.idle", "properties": {"sessionID": 7}}),
        json!({"type": "session.idle", "properties": {"sessionID": "a b"}}),
        json!({"type": "session.idle", "properties": {"sessionID": "x".repeat(200)}}),
        json!({"type": "session.idle"}),
        json!({"type": "session.status", "properties": {"sessionID": "ses_1", "status": {"type": "asleep"}}}),
        json!({"type": "permission.asked", "properties": {"sessionID": "ses_1", "id": ""}}),
        json!({"type": "message.updated", "properties": {"sessionID": "ses_1", "info": []}}),
    ] {
        assert_eq!(said(&event), None, "{event}");
    }
}
