//! Whether the prompt box shows a text of ours.

use ccmux_policy::screen::BoxHolds;
use unicode_normalization::UnicodeNormalization;
use unicode_width::UnicodeWidthChar;

use super::prompt_box::PromptBox;
use super::wrap;

/// What the box holds, compared with `text`: ours if it shows it whole, or if its visible rows are our tail and the hidden
/// rows are as many as the rest of it takes.
pub fn box_holds(prompt_box: Option<&PromptBox>, text: &str) -> BoxHolds {
    match prompt_box {
        None => BoxHolds::Nothing,
        Some(found) if found.is_empty() => BoxHolds::Nothing,
        Some(found) if is_ours(found, text) => BoxHolds::Ours,
        Some(_) => BoxHolds::Foreign,
    }
}

fn is_ours(found: &PromptBox, text: &str) -> bool {
    let doubtful = text.chars().any(is_doubtful);
    let hidden = usize::try_from(found.hidden_above).unwrap_or(usize::MAX);
    let Some(rest) = without_tail(&shown(text, doubtful), &found.rows, doubtful) else {
        return false;
    };
    if found.hidden_below > 0 || rest.trim().is_empty() != (hidden == 0) {
        return false;
    }
    let rows = hidden.saturating_add(found.rows.len());
    let ours = wrap::row_count(text, usize::from(found.width));
    rows.abs_diff(ours) <= tolerance(ours, doubtful)
}

/// How far the count of rows may be off. Measured: not at all, but where Claude's idea of an emoji's width differs.
fn tolerance(rows: usize, doubtful: bool) -> usize {
    if doubtful { 1 + rows / 16 } else { 0 }
}

/// What is left of `text` when `rows` are taken from its end. Blanks are free where rows meet, and nowhere else.
fn without_tail(text: &str, rows: &[String], doubtful: bool) -> Option<String> {
    let taken = |rest: String, row: &String| {
        let row = shown(row, doubtful);
        rest.trim_end().strip_suffix(row.trim()).map(str::to_owned)
    };
    rows.iter().rev().try_fold(text.to_owned(), taken)
}

/// `text` as far as a terminal shows it for sure. Where widths are in doubt, tmux drops skin tones and puts blanks behind
/// emoji (measured on 3.3a): then no blank counts.
fn shown(text: &str, doubtful: bool) -> String {
    let is_shown = |c: &char| {
        if doubtful {
            !c.is_whitespace() && !is_doubtful(*c)
        } else {
            true
        }
    };
    text.nfc().filter(is_shown).collect()
}

/// Characters that a terminal may merge, drop or move: what takes no column, and what changes its neighbour.
fn is_doubtful(c: char) -> bool {
    let joins = matches!(c, '\u{1f3fb}'..='\u{1f3ff}' | '\u{1f1e6}'..='\u{1f1ff}');
    let takes_none = c != '\n' && c.width().unwrap_or(0) == 0;
    // Letters of scripts whose marks take a column in one table and none in another.
    let indic = matches!(c, '\u{900}'..='\u{dff}' | '\u{f00}'..='\u{109f}' | '\u{1780}'..='\u{17ff}');
    joins || takes_none || (indic && !c.is_alphabetic())
}
