//! The property lists for launchd, against a strict list of what launchd.plist(5) knows: a key that it does not know, or a
//! value of another type, is ignored there without a word.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::process::Command;

use ccmux_tests::binaries;
use serde_json::Value;

const PLAIN: &str = "dev.ccmux.ccmuxd";
const INSTANCE: &str = "dev.ccmux.ccmuxd.NAME";

/// What a value must be.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    /// An absolute path: launchd knows no `~`.
    Path,
    Flag,
    /// From, to.
    Whole(i64, i64),
    OneOf(&'static [&'static str]),
    Texts,
    /// Names and texts.
    Variables,
    /// Keys and what they are.
    Keys(&'static [(&'static str, Kind)]),
}

const LIMITS: &[(&str, Kind)] = &[
    ("Core", Kind::Whole(0, i64::MAX)),
    ("NumberOfFiles", Kind::Whole(256, 10_240)),
    ("NumberOfProcesses", Kind::Whole(1, i64::MAX)),
];

const KEEP_ALIVE: &[(&str, Kind)] = &[("SuccessfulExit", Kind::Flag), ("Crashed", Kind::Flag)];

/// Those of launchd.plist(5) that make sense for an agent that runs for good.
const KNOWN: &[(&str, Kind)] = &[
    ("Label", Kind::Text),
    ("ProgramArguments", Kind::Texts),
    ("WorkingDirectory", Kind::Path),
    ("EnvironmentVariables", Kind::Variables),
    ("RunAtLoad", Kind::Flag),
    ("KeepAlive", Kind::Keys(KEEP_ALIVE)),
    ("ThrottleInterval", Kind::Whole(1, 3_600)),
    ("AbandonProcessGroup", Kind::Flag),
    ("ExitTimeOut", Kind::Whole(1, 600)),
    ("Umask", Kind::Whole(0, 0o777)),
    ("ProcessType", Kind::OneOf(&["Background", "Standard", "Adaptive", "Interactive"])),
    ("LimitLoadToSessionType", Kind::OneOf(&["Aqua", "Background", "LoginWindow", "StandardIO", "System"])),
    ("Nice", Kind::Whole(-20, 20)),
    ("LowPriorityIO", Kind::Flag),
    ("SoftResourceLimits", Kind::Keys(LIMITS)),
    ("HardResourceLimits", Kind::Keys(LIMITS)),
    ("StandardInPath", Kind::Path),
    ("StandardOutPath", Kind::Path),
    ("StandardErrorPath", Kind::Path),
];

/// Without these it does not do what it is for.
const NEEDED: &[&str] = &[
    "Label",
    "ProgramArguments",
    "EnvironmentVariables",
    "RunAtLoad",
    "KeepAlive",
    "ThrottleInterval",
    "AbandonProcessGroup",
    "ExitTimeOut",
    "Umask",
    "StandardErrorPath",
];

/// As a parser reads it that knows Apple's form.
fn parse(text: &str) -> Value {
    let script = "import json, plistlib, sys; print(json.dumps(plistlib.loads(sys.argv[1].encode(), fmt=plistlib.FMT_XML)))";
    let output = Command::new("python3").args(["-c", script, text]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn file(name: &str) -> String {
    fs::read_to_string(binaries::repository().join(format!("launchd/{name}.plist"))).unwrap()
}

/// What is wrong with a value, by its place.
fn faults(place: &str, value: &Value, kind: Kind) -> Vec<String> {
    let text = value.as_str().filter(|text| !text.is_empty());
    let texts = |values: Option<Vec<&Value>>| {
        values.is_some_and(|values| !values.is_empty() && values.iter().all(|value| value.is_string()))
    };
    let right = match kind {
        Kind::Text => text.is_some(),
        Kind::Path => text.is_some_and(|text| text.starts_with('/')),
        Kind::Flag => value.is_boolean(),
        Kind::Whole(from, to) => value.as_i64().is_some_and(|number| (from..=to).contains(&number)),
        Kind::OneOf(words) => text.is_some_and(|text| words.contains(&text)),
        Kind::Texts => texts(value.as_array().map(|values| values.iter().collect())),
        Kind::Variables => texts(value.as_object().map(|values| values.values().collect())),
        Kind::Keys(known) => return faults_of_keys(place, value, known),
    };
    if right { Vec::new() } else { vec![format!("{place}: {value} is not {kind:?}")] }
}

fn faults_of_keys(place: &str, value: &Value, known: &[(&str, Kind)]) -> Vec<String> {
    let Some(fields) = value.as_object() else { return vec![format!("{place}: no dictionary")] };
    let of_field = |(name, value): (&String, &Value)| {
        let place = format!("{place}/{name}");
        match known.iter().find(|(known, _)| known == name) {
            Some((_, kind)) => faults(&place, value, *kind),
            None => vec![format!("{place}: not known to launchd")],
        }
    };
    fields.iter().flat_map(of_field).collect()
}

/// Acceptance F5.
#[test]
fn every_property_list_holds_only_what_launchd_knows_and_all_that_is_needed() {
    for name in [PLAIN, INSTANCE] {
        let list = parse(&file(name));
        assert_eq!(faults(name, &list, Kind::Keys(KNOWN)), Vec::<String>::new());
        for needed in NEEDED {
            assert!(!list[needed].is_null(), "{name}: {needed} is missing");
        }
        assert_eq!(list["Label"], name, "launchd finds a service by its label");
        assert!(list["ProgramArguments"][0].as_str().unwrap().starts_with('/'));
        let variables = &list["EnvironmentVariables"];
        assert!(variables["LANG"].as_str().unwrap().ends_with(".UTF-8"), "{variables}");
        assert!(variables["PATH"].as_str().unwrap().split(':').all(|folder| folder.starts_with('/')));
        assert!(
            list["ExitTimeOut"].as_i64() > Some(5),
            "a daemon that is told to stop needs up to 5 s: SIGKILL must not come before"
        );
    }
}

#[test]
fn an_instance_differs_by_its_name_alone() {
    let as_plain = file(INSTANCE)
        .replace("dev.ccmux.ccmuxd.NAME", "dev.ccmux.ccmuxd")
        .replace("ccmuxd-NAME.stderr", "ccmuxd.stderr")
        .replace("        <string>--instance</string>\n        <string>NAME</string>\n", "");
    assert_eq!(parse(&as_plain), parse(&file(PLAIN)));
}

#[test]
fn the_check_finds_what_launchd_would_ignore() {
    let of = |wrong: &Value| faults("list", wrong, Kind::Keys(KNOWN)).join("; ");
    for (wrong, words) in [
        (serde_json::json!({"Keepalive": true}), "list/Keepalive: not known"),
        (serde_json::json!({"KeepAlive": {"SuccessfulExit": "no"}}), "list/KeepAlive/SuccessfulExit"),
        (serde_json::json!({"StandardErrorPath": "~/log"}), "Path"),
        (serde_json::json!({"ThrottleInterval": "10"}), "Whole"),
        (serde_json::json!({"Umask": 77777}), "Whole"),
        (serde_json::json!({"ProgramArguments": "/bin/ccmuxd"}), "Texts"),
        (serde_json::json!({"ProcessType": "interactive"}), "OneOf"),
        (serde_json::json!({"EnvironmentVariables": {"PATH": 1}}), "Variables"),
    ] {
        assert!(of(&wrong).contains(words), "{wrong}: {}", of(&wrong));
    }
}
