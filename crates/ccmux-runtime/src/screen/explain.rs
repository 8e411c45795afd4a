//! Why a capture is classified as it is: which rule decided, and every pattern that fits a row. For people, for
//! `ccmux doctor --screen`, and for the test that each rule has a fixture.
//!
//! ```text
//! dialog      class
//! dialog permission  '^ ?Do you want to …'  on the row " Do you want to proceed?"     decided
//! ```
//!
//! [`classify`] stays the only judge: here is said what it saw. Pure, as all of this room.

use regex::Regex;
use serde::Serialize;

use super::prompt_box::{self, Found, Sign};
use super::rows::{self, Row};
use super::rules::{Rules, any_fits};
use super::{Screen, around, classify};
use ccmux_policy::screen::ScreenClass;

/// A pattern that fits a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// The rule as the file names it, e.g. `busy.below`, `dialog permission`.
    pub rule: String,
    /// The pattern.
    pub pattern: String,
    /// The row.
    pub row: String,
}

/// A classified capture with its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What it shows.
    pub screen: Screen,
    /// What decided; `None` if no rule fits.
    pub decided_by: Option<Mark>,
    /// Every pattern that fits, the deciding one too.
    pub marks: Vec<Mark>,
}

/// Classifies `ansi` and says why.
pub fn explain(rules: &Rules, ansi: &str) -> Explanation {
    let rows = rows::parse(ansi);
    let found = prompt_box::find(rules, &rows);
    let screen = classify(rules, ansi);
    let marks = marks(rules, &rows, found.as_ref());
    let decided_by = deciding(&screen, found.as_ref(), &marks);
    Explanation { screen, decided_by, marks }
}

fn marks(rules: &Rules, rows: &[Row], found: Option<&Found>) -> Vec<Mark> {
    let mut marks = Vec::new();
    for (name, over_box, patterns) in rules.shells() {
        if found.is_none() || over_box {
            note(&mut marks, &format!("shell {name}"), patterns, rows.last());
        }
    }
    let Some(found) = found else {
        for (name, patterns) in rules.dialogs() {
            note(&mut marks, &format!("dialog {name}"), patterns, rows);
        }
        return marks;
    };
    let (above, hints, below) = around(found, rows);
    let placeholder = found.placeholder_text.iter().map(|text| Row::plain(text)).collect::<Vec<_>>();
    note(&mut marks, "overlay.placeholder", rules.overlay_placeholders(), &placeholder);
    note(&mut marks, "overlay.above", rules.overlay_above(), above);
    note(&mut marks, "overlay.below", rules.overlay_below(), below);
    for (name, patterns) in rules.dialogs() {
        note(&mut marks, &format!("dialog {name}"), patterns, below);
    }
    note(&mut marks, "busy.queued_placeholder", rules.queued_placeholders(), &placeholder);
    note(&mut marks, "busy.below", rules.busy_below(), below);
    note(&mut marks, "busy.above", rules.busy_above(), above);
    let facts = [
        ("facts.press_enter", rules.press_enter()),
        ("facts.stashed", rules.stashed()),
        ("facts.vim_normal", rules.vim_normal()),
    ];
    for (name, patterns) in facts {
        note(&mut marks, name, patterns, hints.iter().chain(below));
    }
    marks
}

fn note<'a>(
    marks: &mut Vec<Mark>,
    rule: &str,
    patterns: &[Regex],
    rows: impl IntoIterator<Item = &'a Row> + Clone,
) {
    for pattern in patterns {
        let row = rows.clone().into_iter().find(|row| any_fits(std::slice::from_ref(pattern), row));
        if let Some(row) = row {
            let (rule, pattern) = (rule.to_owned(), pattern.as_str().to_owned());
            marks.push(Mark { rule, pattern, row: row.text.clone() });
        }
    }
}

fn deciding(screen: &Screen, found: Option<&Found>, marks: &[Mark]) -> Option<Mark> {
    let first = |head: &str| marks.iter().find(|mark| mark.rule.starts_with(head)).cloned();
    let by_box = |rule: &str| {
        let row = screen.prompt_box.as_ref().and_then(|found| found.rows.first()).cloned();
        Mark { rule: rule.to_owned(), pattern: String::new(), row: row.unwrap_or_default() }
    };
    match screen.class {
        ScreenClass::Shell => first("shell "),
        ScreenClass::Dialog if found.is_some_and(|found| found.sign == Sign::Shell) => {
            Some(by_box("prompt_box.shell_signs"))
        }
        ScreenClass::Dialog => first(if found.is_some() { "overlay." } else { "dialog " }),
        ScreenClass::Queued => first("busy.queued_placeholder"),
        ScreenClass::Busy => first("busy.below").or_else(|| first("busy.above")),
        ScreenClass::Ready | ScreenClass::Draft => Some(by_box("prompt_box")),
        ScreenClass::Unknown => None,
    }
}
