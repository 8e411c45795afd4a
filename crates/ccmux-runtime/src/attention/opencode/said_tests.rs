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

#[test]
fn an_error_shows_its_name_and_one_line_but_no_header_body_or_address() {
    let error = |name: &str, message: Value| {
        let data = json!({
            "message": message, "statusCode": 401, "responseHeaders": {"set-cookie": "CANARY-header"},
            "responseBody": "CANARY-body", "metadata": {"url": "https://CANARY-url/v1?key=CANARY"},
        });
        let properties = json!({"sessionID": "ses_1", "error": {"name": name, "data": data}});
        said(&json!({"type": "session.error", "properties": properties})).unwrap()
    };
    let detail = |message: Value| error("APIError", message).detail.unwrap();
    assert_eq!(detail(json!("rate limited")), "APIError: rate limited");
    assert_eq!(
        detail(json!("can't reach https://u:CANARY@host/v1?k=CANARY now\nCANARY stack")),
        "APIError: can't reach (address) now"
    );
    for body in ["{\"error\":\"CANARY\"}", "<html>CANARY", "[CANARY]"] {
        assert_eq!(detail(json!(body)), "APIError");
    }
    assert_eq!(detail(json!(["CANARY"])), "APIError");
    assert!(!format!("{:?}", error("APIError", json!("x"))).contains("CANARY"));
    let aborted = error("MessageAbortedError", json!("Aborted"));
    assert_eq!(aborted.events, [Event::Failed { aborted: true }]);
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
