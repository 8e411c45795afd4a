//! Every reason for a closed gate is shown by a timeline: with what opens the gate, and when it is asked again.
//!
//! A reason that is added without a line here does not compile; one without a timeline fails.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a test reads its data

use std::collections::BTreeSet;
use std::path::Path;

use ccmux_policy::gate::Reason;
use ccmux_policy::hold::Cause;

/// Each reason as a value, and the timeline that shows it. The match knows all reasons.
macro_rules! reasons {
    ($($name:ident = $value:expr => $timeline:literal),+ $(,)?) => {
        const NAMES: &[&str] = &[$(stringify!($name)),+];

        fn name(reason: &Reason) -> &'static str {
            match reason {
                $(Reason::$name { .. } => stringify!($name)),+
            }
        }

        fn all() -> Vec<(Reason, &'static str)> {
            vec![$(($value, $timeline)),+]
        }
    };
}

reasons! {
    Stopping = Reason::Stopping => "33-one-reason-after-the-other",
    Down = Reason::Down => "33-one-reason-after-the-other",
    Degraded = Reason::Degraded => "34-ten-ends-at-once",
    NotStarted = Reason::NotStarted { why: "tmux: no answer within 5 s".into(), degraded: false } => "90-silent-at-the-start",
    Ended = Reason::Ended => "79-ended-by-itself",
    Starting = Reason::Starting => "33-one-reason-after-the-other",
    Held = Reason::Held { cause: Cause::UsageLimit, until: Some("until 03:46".into()) } => "70-usage-limit",
    InFlight = Reason::InFlight("a batch is being typed") => "01-idle-message",
    Busy = Reason::Busy => "33-one-reason-after-the-other",
    Dialog = Reason::Dialog("menu".into()) => "33-one-reason-after-the-other",
    Settling = Reason::Settling => "33-one-reason-after-the-other",
    Unseen = Reason::Unseen => "33-one-reason-after-the-other",
    CopyMode = Reason::CopyMode => "33-one-reason-after-the-other",
    Draft = Reason::Draft => "33-one-reason-after-the-other",
    VimNormal = Reason::VimNormal => "33-one-reason-after-the-other",
    Human = Reason::Human { ago_s: 1 } => "29-focus-every-two-seconds",
    UnknownScreen = Reason::UnknownScreen => "30-unknown-screen-is-told",
    ShellScreen = Reason::ShellScreen => "33-one-reason-after-the-other",
    Refused = Reason::Refused("the pane is in copy mode".into()) => "20-copy-mode-and-refusal",
    TooSmall = Reason::TooSmall { has: 2, needs: 3 } => "86-pane-too-small",
    LookFailed = Reason::LookFailed("tmux: no answer within 5 s".into()) => "33-one-reason-after-the-other",
}

fn timeline(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/timelines");
    std::fs::read_to_string(folder.join(format!("{name}.timeline"))).unwrap()
}

/// That the lines hold is the business of `tests/timelines.rs`.
#[test]
fn every_reason_is_shown_by_a_timeline_with_what_opens_it_and_when_it_is_asked_again() {
    for (reason, file) in all() {
        let says = format!(": {}; opens when {}; next look ", reason.sentence(), reason.opens_when());
        let shown = timeline(file);
        let shown = shown.lines().any(|line| line.contains(" = closed: ") && line.contains(&says));
        assert!(shown, "{} is not in {file}.timeline: no line holds {says:?}", name(&reason));
    }
}

#[test]
fn every_reason_is_listed_under_its_own_name() {
    let listed: BTreeSet<&str> = all().iter().map(|(reason, _)| name(reason)).collect();
    assert_eq!(listed, NAMES.iter().copied().collect());
}
