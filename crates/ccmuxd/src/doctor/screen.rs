//! `ccmuxd doctor --screen`, and so `ccmux doctor --screen`: what [`ccmux_runtime::doctor`] saw, for people or as JSON.
//!
//! ```text
//! dialog: permission
//! rule      dialog permission: ^ ?Do you want to (proceed|…)\b
//! row        Do you want to proceed?
//! box       none
//! facts     none
//! pane      %0, pid 4711, 160x48
//! rules     claude-code, built in
//! ```
//!
//! Exit codes: 0 the screen is understood, 1 it is not, or there is none; 69 and 78 as for a start.

use std::io::{self, Write};
use std::process::ExitCode;

use ccmux_policy::screen::ScreenClass;
use ccmux_runtime::daemon::Setting;
use ccmux_runtime::doctor::{BoxReport, PaneReport, ScreenReport, look};

use crate::fail;

/// Runs it.
pub fn run(setting: &Setting, json: bool) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(1, &format!("the runtime can't start: {error}")),
    };
    let report = match runtime.block_on(look(setting)) {
        Ok(report) => report,
        Err(error) => return fail(error.exit_code(), &error.to_string()),
    };
    let text = if json { in_json(&report) } else { in_words(&report) };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(1, &error.to_string()),
        _ if report.understood => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn in_json(report: &ScreenReport) -> String {
    serde_json::to_string(report).map(|line| line + "\n").unwrap_or_default()
}

fn in_words(report: &ScreenReport) -> String {
    let mut text = format!("{}\n", headline(report));
    let mut row = |name: &str, value: &str| text.push_str(&format!("{name:<9} {}\n", harmless(value)));
    if let Some(mark) = &report.decided_by {
        let pattern = if mark.pattern.is_empty() { String::new() } else { format!(": {}", mark.pattern) };
        row("rule", &format!("{}{pattern}", mark.rule));
        if !mark.row.is_empty() {
            row("row", &mark.row);
        }
    }
    row("box", &report.prompt_box.as_ref().map_or_else(|| "none".to_owned(), box_in_words));
    let facts = report.facts.join(", ").replace('_', " ");
    row("facts", if facts.is_empty() { "none" } else { &facts });
    row("pane", &pane_in_words(&report.pane));
    row("rules", &format!("{}, {}", report.profile, report.rules));
    let decided = report.decided_by.as_ref();
    for mark in report.marks.iter().filter(|mark| Some(*mark) != decided) {
        row("also fits", &format!("{}: {}", mark.rule, mark.pattern));
    }
    text
}

fn headline(report: &ScreenReport) -> String {
    match (report.class, &report.dialog) {
        (ScreenClass::Ready, _) => "ready: the prompt box is empty".to_owned(),
        (ScreenClass::Draft, _) => "draft: the prompt box holds text".to_owned(),
        (ScreenClass::Busy, _) => "busy: a turn runs".to_owned(),
        (ScreenClass::Queued, _) => "queued: a turn runs, and input waits for its end".to_owned(),
        (ScreenClass::Dialog, which) => {
            format!("dialog: {}", which.as_deref().unwrap_or("one without a name"))
        }
        (ScreenClass::Shell, _) => "shell: the agent is gone".to_owned(),
        (ScreenClass::Unknown, _) => {
            "unknown: there is no prompt box, and no dialog that a rule describes".to_owned()
        }
    }
}

fn box_in_words(found: &BoxReport) -> String {
    match found {
        BoxReport { placeholder: true, .. } => "empty, with a suggestion".to_owned(),
        BoxReport { empty: true, .. } => "empty".to_owned(),
        BoxReport { rows, hidden_above, hidden_below, .. } => {
            format!("{rows} rows of text, {hidden_above} more above, {hidden_below} below")
        }
    }
}

fn pane_in_words(pane: &PaneReport) -> String {
    let dead = if pane.dead { ", dead" } else { "" };
    let mode = if pane.in_mode { ", in copy mode" } else { "" };
    format!("{}, pid {}{dead}, {}x{}{mode}", pane.id, pane.pid, pane.size.0, pane.size.1)
}

/// A row of the screen must not command the terminal that it is shown on.
fn harmless(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}
