//! Any payload of a hook, of our own session and of another: what becomes of it is harmless to read, and a line of the
//! timeline that reads back as the same event.
#![no_main]

use std::sync::OnceLock;

use ccmux_policy::Event;
use ccmux_policy::event::{Origin, SessionFact};
use ccmux_policy::timeline::{event_line, parse_event};
use ccmux_runtime::control::doubles::Doubles;
use ccmux_runtime::control::hooks::HookFront;
use ccmux_runtime::turns::{Turns, TurnsSettings};
use ccmux_runtime::workers::on_the_way::OnTheWay;
use ccmux_wire::halves;
use ccmux_wire::hook::HookFrame;
use serde_json::Value;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(payload) = halves::from_slice::<Value>(bytes) else { return };
    let event = payload.get("hook_event_name").and_then(Value::as_str).unwrap_or("Stop").to_owned();
    let frame = HookFrame { event, ..HookFrame::of(payload, |_| None) };
    for origin in [Origin::Own, Origin::Foreign] {
        front().came_already(&frame, origin);
        if let Some(event) = front().event_of(&frame, origin) {
            is_harmless(&event);
        }
    }
});

fn is_harmless(event: &Event) {
    let Event::Session { session, fact, .. } = event else { panic!("{event:?}") };
    is_a_word(&session.to_string());
    match fact {
        SessionFact::Started { source: word }
        | SessionFact::Ended { reason: word }
        | SessionFact::DialogOpened { tool: word }
        | SessionFact::TurnFailed { error: word, .. } => is_a_word(word),
        _ => {}
    }
    let line = event_line(event);
    assert!(!line.chars().any(char::is_control), "{line:?}");
    assert_eq!(parse_event(&line).as_ref(), Ok(event), "{line:?}");
}

fn is_a_word(word: &str) {
    assert!(word.chars().count() <= 100 && !word.chars().any(char::is_control), "{word:?}");
}

/// One for all inputs: what it keeps must not grow with them.
fn front() -> &'static HookFront {
    static FRONT: OnceLock<HookFront> = OnceLock::new();
    FRONT.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary directory").keep();
        let settings = TurnsSettings { projects_dir: folder.join("projects"), subscriber_bytes: 1 << 20 };
        let turns = Turns::open(&folder, settings).expect("a new database").turns;
        HookFront { turns, on_the_way: OnTheWay::default(), doubles: Doubles::default() }
    })
}
