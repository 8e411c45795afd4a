//! Whether the prompt box shows a text of ours.

use ccmux_policy::screen::BoxHolds;
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
    if found.hidden_below > 0 {
        return false;
    }
    let shown = visible(text);
    let Some(rest) = without_tail(&shown, &found.rows) else {
        return false;
    };
    let total = wrap::row_count(text, usize::from(found.width));
    let hidden = usize::try_from(found.hidden_above).unwrap_or(usize::MAX);
    rest.trim().is_empty() == (hidden == 0) && total.abs_diff(hidden.saturating_add(found.rows.len())) == 0
}

/// What is left of `text` when `rows` are taken from its end. Blanks are free where rows meet, and nowhere else.
fn without_tail<'a>(text: &'a str, rows: &[String]) -> Option<&'a str> {
    rows.iter().rev().try_fold(text, |rest, row| {
        let row = visible(row);
        rest.trim_end().strip_suffix(row.trim())
    })
}

/// Without characters that take no column: terminals drop or move them.
fn visible(text: &str) -> String {
    text.chars()
        .filter(|c| *c == '\n' || c.width().unwrap_or(0) > 0)
        .collect()
}
