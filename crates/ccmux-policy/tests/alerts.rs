//! Every kind of alert is described to people and has a test that is named after it.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a test reads its data

use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::iter::successors;
use std::path::{Path, PathBuf};

use ccmux_policy::AlertKind::{self, *};

/// Each kind leads to the next one; the compiler asks for those that are new.
fn after(kind: AlertKind) -> Option<AlertKind> {
    Some(match kind {
        PermissionRequest => Question,
        Question => Failure,
        Failure => Held,
        Held => Resumed,
        Resumed => StartDialog,
        StartDialog => AgentExited,
        AgentExited => AgentRestarted,
        AgentRestarted => Degraded,
        Degraded => Uncertain,
        Uncertain => Failed,
        Failed => Expired,
        Expired => Stuck,
        Stuck => UnknownScreen,
        UnknownScreen => HooksSilent,
        HooksSilent => Rejected,
        Rejected => ChannelOpened,
        ChannelOpened => ChannelClosed,
        ChannelClosed => ChannelRefused,
        ChannelRefused => Damaged,
        Damaged => McpDown,
        McpDown => McpUp,
        McpUp => NewVersion,
        NewVersion => return None,
    })
}

fn words() -> BTreeSet<String> {
    successors(Some(PermissionRequest), |kind| after(*kind)).map(|kind| kind.word().to_owned()).collect()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The kinds in a document's table of them.
fn documented(document: &str, heading: &str, columns: &str) -> BTreeSet<String> {
    let text = read_to_string(repository().join("docs").join(document)).unwrap();
    let (_, section) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    let (_, table) = section.split_once(&format!("\n| {columns} |\n")).unwrap();
    let rows = table
        .split("\n\n")
        .next()
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    rows.map(str::to_owned).collect()
}

#[test]
fn a_word_is_what_json_says() {
    for kind in successors(Some(PermissionRequest), |kind| after(*kind)) {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.word());
    }
}

#[test]
fn the_protocol_describes_every_kind_and_no_other() {
    assert_eq!(documented("PROTOCOL.md", "Alerts", "kind | when"), words());
}

#[test]
fn the_operations_say_what_to_do_about_every_kind() {
    let told = documented("OPERATIONS.md", "What an alert means", "kind | what to do");
    assert_eq!(words().difference(&told).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn every_kind_has_a_test_of_its_name_or_a_timeline() {
    let end_to_end = read_to_string(repository().join("tests/tests/d_alerts.rs")).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/timelines");
    let timelines: String =
        folder.read_dir().unwrap().map(|file| read_to_string(file.unwrap().path()).unwrap()).collect();
    let untested: Vec<String> = words()
        .into_iter()
        .filter(|word| {
            let named = end_to_end.contains(&format!("fn alert_{word}_"))
                || end_to_end.contains(&format!("_alert_{word}_"));
            !named && !timelines.contains(&format!("< alert kind={word} "))
        })
        .collect();
    assert_eq!(untested, [""; 0]);
}
