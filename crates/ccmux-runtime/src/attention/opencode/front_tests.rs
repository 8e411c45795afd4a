//! Events in, keys and texts for people out. What is due when is tested in the policy.

use ccmux_policy::attention::Source;
use ccmux_wire::opencode::OpencodeEvent;
use serde_json::{Value, json};

use super::*;

const ORIGIN: Origin = Origin::Process(7);

fn hear(front: &mut Front, name: &str, properties: Value, ms: i64) -> Vec<Step> {
    let event = OpencodeEvent { id: None, name: name.to_owned(), properties };
    let said = Box::new(Said::of(&event).unwrap());
    front.hear(News::Said { origin: ORIGIN, said }, UnixMs(ms))
}

fn began(steps: Vec<Step>) -> Vec<(Kind, String, Text)> {
    let began = steps.into_iter().filter_map(|step| match step {
        Step::Began(key, text) => Some((key.kind, format!("{} {}", key.session, key.subject), text)),
        _ => None,
    });
    began.collect()
}

fn body(text: &Text) -> String {
    let key = Key {
        source: Source::Opencode,
        session: SessionId::new("s"),
        kind: Kind::Reply,
        subject: "x".into(),
    };
    let notice = text.notice(&key, 15, UnixMs(90_000), 0);
    format!("{}\n{}", notice.title, notice.body)
}

fn front_with_a_child() -> Front {
    let mut front = Front::default();
    hear(&mut front, "session.created", json!({"info": {"id": "root", "title": "fix the parser"}}), 0);
    let child = json!({"info": {"id": "child", "title": "look (@general subagent)", "parentID": "root"}});
    hear(&mut front, "session.created", child, 0);
    front
}

#[test]
fn a_sub_agents_ask_names_tool_root_and_sub_agent() {
    let mut front = front_with_a_child();
    let asked = json!({"sessionID": "child", "id": "per_1", "permission": "bash"});
    let began = began(hear(&mut front, "permission.asked", asked, 0));
    let [(Kind::Permission, key, text)] = began.as_slice() else { panic!("{began:?}") };
    assert_eq!(key, "root per_1");
    assert_eq!(
        body(text),
        "OpenCode - Permission Needed\nTool: bash\nSession: fix the parser\nSub-agent: look (@general subagent)"
    );
}

#[test]
fn a_completion_is_the_silence_reminder_of_what_was_written() {
    let mut front = front_with_a_child();
    let written = json!({"sessionID": "root", "messageID": "msg_1", "synthetic": false, "text": "say hello"});
    assert!(
        hear(&mut front, "chat.message", written, 1_000).contains(&Step::HumanActive(SessionId::new("root")))
    );
    hear(&mut front, "session.status", json!({"sessionID": "root", "status": {"type": "busy"}}), 1_000);
    let finished = json!({"sessionID": "root", "info": {"id": "m", "role": "assistant", "finish": "stop"}});
    hear(&mut front, "message.updated", finished, 42_000);
    let began = began(hear(&mut front, "session.idle", json!({"sessionID": "root"}), 43_000));
    let [(Kind::Reply, key, text)] = began.as_slice() else { panic!("{began:?}") };
    assert_eq!(key, "root msg_1");
    assert_eq!(
        body(text),
        "OpenCode - User Input Needed\nTask: say hello\nStarted: 1970-01-01 00:00:01\nDuration: 42 seconds\n\
         Waiting for your input for 15 seconds"
    );
}

#[test]
fn what_was_asked_before_a_restart_ends_with_its_process() {
    let mut front = front_with_a_child();
    let asked = json!({"sessionID": "child", "id": "per_1", "permission": "bash"});
    let steps = hear(&mut front, "permission.asked", asked, 0);
    let [Step::Began(key, text)] = steps.as_slice() else { panic!("{steps:?}") };
    let kept: Text = serde_json::from_str(&serde_json::to_string(text).unwrap()).unwrap();
    let Text::Told { by, .. } = &kept else { panic!("{kept:?}") };
    let mut next = Front::default();
    next.restored(key, by);
    let steps = next.hear(News::Closed(by.origin), UnixMs(0));
    let [Step::Ended(which)] = steps.as_slice() else { panic!("{steps:?}") };
    assert_eq!((&which.session, which.subject.as_deref()), (&key.session, Some("per_1")));
}

#[test]
fn the_pane_of_a_session_outlives_its_process() {
    let mut front = Front::default();
    let spot = Spot { pane: Some(("/s".into(), "%3".into())), window: None };
    front.hear(News::Opened { origin: ORIGIN, spot: Some(spot.clone()) }, UnixMs(0));
    hear(&mut front, "session.idle", json!({"sessionID": "root"}), 0);
    front.hear(News::Closed(ORIGIN), UnixMs(0));
    assert_eq!(front.spot_of(&SessionId::new("root")), Some(&spot));
    front.hear(News::Opened { origin: ORIGIN, spot: None }, UnixMs(0));
    hear(&mut front, "session.idle", json!({"sessionID": "other"}), 0);
    assert_eq!(front.spot_of(&SessionId::new("other")), None, "a new process with the old number");
}
