//! Whether the prompt box shows a text of ours.
//!
//! A text of plain characters is compared exactly, blanks free only where rows meet. Around emoji, marks and rare
//! characters a terminal is not exact (measured on tmux 3.3a: skin tones and characters it doesn't know vanish, blanks
//! appear behind emoji): there what may vanish may be missing, but nothing may be on the screen that is not ours.

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
    let rest =
        if doubtful { before_doubtful_tail(text, &found.rows) } else { before_tail(text, &found.rows) };
    let hides = found.cut_above || found.hidden_above > 0;
    let ends_so = rest.is_some_and(|rest| rest.is_empty() != hides);
    ends_so && found.hidden_below == 0 && counts(found, text, doubtful)
}

/// Whether the box has as many rows as `text` takes. Where its top is out of the screen, it has more than one sees.
fn counts(found: &PromptBox, text: &str, doubtful: bool) -> bool {
    let width = usize::from(found.width);
    let ours = wrap::row_count(text, width);
    let hidden = usize::try_from(found.hidden_above).unwrap_or(usize::MAX);
    let rows = hidden.saturating_add(found.rows.len());
    let off = if doubtful { tolerance(ours, text, width) } else { 0 };
    if found.cut_above { ours + off > rows } else { rows.abs_diff(ours) <= off }
}

/// How far the count of rows may be off. Measured: not at all, but where Claude's idea of an emoji's width differs, and by a
/// column for each character of a rare script.
fn tolerance(rows: usize, text: &str, width: usize) -> usize {
    let rare = text.chars().filter(|c| is_of_rare_script(*c)).count();
    1 + rows / 16 + rare / width.max(1)
}

/// Behind U+10000, but neither emoji nor CJK.
fn is_of_rare_script(c: char) -> bool {
    c >= '\u{10000}' && may_vanish(c) && !matches!(c, '\u{1f000}'..='\u{1faff}')
}

/// What stands in `text` before its tail `rows`; `None` if that is not its tail. Blanks are free where rows meet.
fn before_tail(text: &str, rows: &[String]) -> Option<String> {
    let text: String = text.nfc().collect();
    let taken = |rest, row: &String| str::strip_suffix(str::trim_end(rest), row.trim());
    rows.iter().rev().try_fold(text.as_str(), taken).map(|rest| rest.trim().to_owned())
}

/// The same where the terminal is not exact: blanks are free everywhere, and what may vanish may be missing.
fn before_doubtful_tail(text: &str, rows: &[String]) -> Option<String> {
    let mut ours = comparable(text);
    let shown = rows.iter().rev().flat_map(|row| comparable(row).into_iter().rev());
    for c in shown {
        take_last(&mut ours, c)?;
    }
    Some(ours.into_iter().filter(|c| !may_vanish(*c)).collect())
}

/// Takes `c` from the end of `ours`, and with it what vanished behind it; `None` if something else stands there.
fn take_last(ours: &mut Vec<char>, c: char) -> Option<()> {
    loop {
        match ours.pop()? {
            last if last == c => return Some(()),
            last if may_vanish(last) => {}
            _ => return None,
        }
    }
}

/// The characters that take a column; a letter without its marks.
fn comparable(text: &str) -> Vec<char> {
    text.nfd().filter(|c| !c.is_whitespace() && !takes_no_column(*c)).collect()
}

fn takes_no_column(c: char) -> bool {
    let skin_tone = matches!(c, '\u{1f3fb}'..='\u{1f3ff}');
    skin_tone || c.width().unwrap_or(0) == 0
}

/// Whether a terminal with older tables may not know `c`. Letters, CJK and common punctuation it does.
fn may_vanish(c: char) -> bool {
    let common = matches!(c,
        '\u{a1}'..='\u{ff}' | '\u{2010}'..='\u{205e}' | '\u{2190}'..='\u{22ff}' | '\u{2500}'..='\u{25ff}'
        | '\u{3000}'..='\u{303f}' | '\u{3041}'..='\u{3096}' | '\u{3099}'..='\u{30ff}' | '\u{ff01}'..='\u{ff60}' | '\u{20000}'..='\u{2a6df}'
        | '\u{2a700}'..='\u{2ebe0}' | '\u{2f800}'..='\u{2fa1d}');
    let letter = c < '\u{10000}' && c.is_alphanumeric() && !is_little_known(c);
    !(c.is_ascii() || common || letter)
}

/// Letters below U+10000 that are younger than many a terminal, Unicode 14 and later, and three that tmux 3.3a leaves out
/// although they are old.
fn is_little_known(c: char) -> bool {
    matches!(c,
        '\u{980}' | '\u{c80}' | '\u{d3a}' | '\u{870}'..='\u{88f}' | '\u{8b5}' | '\u{8c8}'..='\u{8c9}'
        | '\u{c5c}'..='\u{c5d}' | '\u{cdc}'..='\u{cdd}' | '\u{cf3}' | '\u{170d}' | '\u{171f}' | '\u{1b4c}'
        | '\u{1c89}'..='\u{1c8a}' | '\u{2c2f}' | '\u{2c5f}' | '\u{9ffd}'..='\u{9fff}' | '\u{a7c0}'..='\u{a7c1}'
        | '\u{a7cb}'..='\u{a7dc}' | '\u{a7f1}'..='\u{a7f4}')
}

/// Whether `c` may vanish, change its neighbour, or take columns about which tables differ.
pub(super) fn is_doubtful(c: char) -> bool {
    let complex = matches!(c, '\u{590}'..='\u{10ff}' | '\u{1100}'..='\u{11ff}' | '\u{1780}'..='\u{18af}');
    c != '\n' && (complex || takes_no_column(c) || may_vanish(c))
}
