//! What a captured screen shows, by rules that are data (`config/agents/claude-code.toml`).
//!
//! ```text
//! ● the conversation, which may quote anything       only its left edge is looked at (spinner lines)
//! ✻ Churning… (3s · ↓ 12 tokens)                     above the box: busy
//! ─── ↑ 41 more ──────────────────────────────       the top rule: label, rows scrolled away
//! ❯ text                                             the box: its last rows
//! ────────────────────────────────────────────       the bottom rule
//!   ⏵⏵ bypass permissions on · esc to interrupt      below the box: status lines of any number
//! ```
//!
//! Pure: text in, a [`Screen`] out. It knows no pane, no clock and no message; [`box_holds`] is told which text to
//! compare with. When in doubt it says [`ScreenClass::Unknown`], and a dialog is never [`ScreenClass::Ready`].

mod explain;
mod holds;
mod prompt_box;
mod rows;
mod rule_book;
mod rules;
mod tail;
mod wrap;

#[cfg(test)]
mod tests;

pub use explain::{Explanation, Mark, explain};
pub use holds::box_holds;
pub use prompt_box::PromptBox;
pub use rule_book::{RuleBook, RulesOrigin};
pub use rules::{Rules, RulesError};
pub use tail::tail_behind;
pub use wrap::rows_shown;

use ccmux_policy::screen::ScreenClass;

use prompt_box::{Found, Sign};
use rows::Row;

/// How many rows above the box speak about it: a hint stands right above its top rule.
const HINT_ROWS: usize = 1;

/// A capture as plain text, for people: no sequences, no trailing blanks, no empty rows at the end.
pub fn plain_text(ansi: &str) -> String {
    let rows: Vec<String> = rows::parse(ansi).into_iter().map(|row| row.text).collect();
    rows.join("\n")
}

/// What one capture shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    /// What kind of screen.
    pub class: ScreenClass,
    /// The prompt box, where there is one. It is there while a turn runs, too.
    pub prompt_box: Option<PromptBox>,
    /// Which rule named the dialog.
    pub dialog: Option<String>,
    /// The agent says that it waits for Enter to send what is in the box.
    pub press_enter: bool,
    /// A draft of the human is stashed: a second stash would destroy it.
    pub stashed: bool,
    /// Vim's normal mode: Enter is a motion.
    pub vim_normal: bool,
}

/// Classifies `ansi`, the visible rows with SGR sequences (`capture-pane -p -e`).
pub fn classify(rules: &Rules, ansi: &str) -> Screen {
    let rows = rows::parse(ansi);
    match prompt_box::find(rules, &rows) {
        Some(found) if !rules.is_gone(&rows, true) => with_box(rules, &rows, found),
        Some(_) => gone(),
        None if rules.is_gone(&rows, false) => gone(),
        None => without_box(rules, &rows),
    }
}

/// A box is there: the rows around it decide.
fn with_box(rules: &Rules, rows: &[Row], found: Found) -> Screen {
    let (above, hints, below) = around(&found, rows);
    let says = |patterns: &[regex::Regex]| fits(hints, patterns) || fits(below, patterns);
    let dialog = overlay(rules, &found, above, below);
    let queued = found.placeholder_text.as_deref().is_some_and(|text| rules.queued_placeholder(text));
    let busy = fits(below, rules.busy_below()) || fits(above, rules.busy_above());
    let class = match (&dialog, queued, busy) {
        (Some(_), _, _) => ScreenClass::Dialog,
        (None, true, _) => ScreenClass::Queued,
        (None, false, true) => ScreenClass::Busy,
        (None, false, false) if found.prompt_box.is_empty() => ScreenClass::Ready,
        (None, false, false) => ScreenClass::Draft,
    };
    Screen {
        class,
        dialog,
        press_enter: says(rules.press_enter()),
        stashed: says(rules.stashed()),
        vim_normal: says(rules.vim_normal()),
        prompt_box: Some(found.prompt_box),
    }
}

/// The rows above the box, those of them that speak about it, and the rows below.
fn around<'a>(found: &Found, rows: &'a [Row]) -> (&'a [Row], &'a [Row], &'a [Row]) {
    let above = &rows[..found.top];
    (above, &above[above.len().saturating_sub(HINT_ROWS)..], &rows[found.bottom + 1..])
}

/// Why the keys would not go into the box, or not to Claude, although it is there.
fn overlay(rules: &Rules, found: &Found, above: &[Row], below: &[Row]) -> Option<String> {
    if found.sign == Sign::Shell {
        return Some("shell mode".to_owned());
    }
    let overlaid = fits(below, rules.overlay_below())
        || fits(above, rules.overlay_above())
        || found.placeholder_text.as_deref().is_some_and(|text| rules.overlay_placeholder(text));
    let name = || rules.dialog(below).or_else(|| rules.dialog(above)).unwrap_or("overlay");
    overlaid.then(|| name().to_owned())
}

/// No box: a dialog, or something new.
fn without_box(rules: &Rules, rows: &[Row]) -> Screen {
    let dialog = rules.dialog(rows).map(str::to_owned);
    let class = if dialog.is_some() { ScreenClass::Dialog } else { ScreenClass::Unknown };
    Screen { dialog, ..plain(class) }
}

/// The agent is gone; a box that it left on the screen is none.
fn gone() -> Screen {
    plain(ScreenClass::Shell)
}

fn plain(class: ScreenClass) -> Screen {
    Screen { class, prompt_box: None, dialog: None, press_enter: false, stashed: false, vim_normal: false }
}

fn fits(rows: &[Row], patterns: &[regex::Regex]) -> bool {
    rows.iter().any(|row| rules::any_fits(patterns, row))
}
