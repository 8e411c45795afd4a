//! Any JSON file of the user: ours goes in, a second time changes nothing, and out again; the rest means what it meant.
#![no_main]

use std::sync::OnceLock;

use ccmux_runtime::agent::hook_settings::HookSettings;
use ccmux_runtime::agent::version::{Release, Version};
use ccmux_runtime::install::document::Document;
use ccmux_runtime::install::edits::{EditError, Ours, Wanted, Which};
use serde_json::{Value, json};

const HOOK: &str = "/opt/ccmux/ccmux-hook";

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(document) = Document::parse(bytes) else { return };
    assert_eq!(document.to_bytes(), bytes, "reading changes nothing");
    for which in [Which::Settings, Which::State] {
        in_and_out(which, &document);
    }
});

fn in_and_out(which: Which, document: &Document) {
    let ours = Ours { hook: HOOK.into() };
    let Ok(before) = document.value(&[]) else { return };
    let mut with = document.clone();
    match ours.put_in(which, &mut with, wanted()) {
        Ok(()) => {}
        Err(EditError::Harm) => panic!("harm in {document:?}"),
        Err(_) => return,
    }
    assert_eq!(ours.is_in(which, &with), Ok(true), "{with:?}");
    let mut again = Document::parse(&with.to_bytes()).expect("what was put in can be read");
    ours.put_in(which, &mut again, wanted()).expect("what is in can be put in again");
    assert_eq!(again, with, "a second time");
    let had_ours = ours.is_in(which, document) == Ok(true);
    ours.take_out(which, &mut with, before.as_ref().unwrap_or(&Value::Null)).expect("what is in comes out");
    assert_eq!(ours.is_in(which, &with), Ok(false), "{with:?}");
    if !had_ours {
        let empty = || json!({});
        let after = with.value(&[]).expect("what is left can be read");
        assert_eq!(after.unwrap_or_else(empty), before.unwrap_or_else(empty), "{document:?} became {with:?}");
    }
}

fn wanted() -> &'static Wanted {
    static WANTED: OnceLock<Wanted> = OnceLock::new();
    WANTED.get_or_init(|| {
        let version = Version::Known(Release::new(2, 1, 332));
        let settings = HookSettings { hook: HOOK.as_ref(), version: &version, permission_s: 600 }
            .to_json()
            .expect("settings");
        let server = json!({"type": "stdio", "command": "/opt/ccmux/ccmux", "args": ["mcp"]});
        Wanted { settings, server: Some(server) }
    })
}
