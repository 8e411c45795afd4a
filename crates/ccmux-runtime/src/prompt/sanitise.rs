//! Text as Claude Code keeps it: what it would change or drop is changed or dropped before.

use unicode_normalization::UnicodeNormalization;

use super::invisible::{is_emoji, is_invisible, is_joining, is_joining_mark};

const NON_JOINER: char = '\u{200c}';
const JOINER: char = '\u{200d}';
const TEXT_STYLE: char = '\u{fe0e}';
const EMOJI_STYLE: char = '\u{fe0f}';
const KEYCAP: char = '\u{20e3}';

/// `raw` without control characters and without what Claude removes; newlines are LF; NFC; no blanks at the end. Empty if
/// nothing is left.
///
/// What it returns, it leaves alone on a second pass.
pub fn sanitise(raw: &str) -> String {
    if is_plain(raw) { close(raw.trim_end()) } else { sanitise_any(raw) }
}

/// Nothing in it would be changed, but at its end: so with most texts, and to see that takes less than to clean them.
fn is_plain(raw: &str) -> bool {
    raw.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n'))
}

/// The same of any text.
pub(super) fn sanitise_any(raw: &str) -> String {
    let lines = unify_newlines(raw);
    let printable: Vec<char> = lines.chars().filter(|c| !is_dropped(*c)).nfc().collect();
    let text: String = without_invisible(&printable).into_iter().nfc().collect();
    close(text.trim_end())
}

/// All that ends a line for Claude, a terminal or a reader becomes LF; a tab becomes what Claude makes of it.
fn unify_newlines(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut previous = '\0';
    for c in raw.chars() {
        match c {
            '\n' if previous == '\r' => {}
            '\r' | '\n' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => text.push('\n'),
            '\t' => text.push_str("    "),
            _ => text.push(c),
        }
        previous = c;
    }
    text
}

/// A backslash at the end would turn Enter into a newline.
fn close(text: &str) -> String {
    if text.ends_with('\\') { format!("{text} ") } else { text.to_owned() }
}

/// Never kept, whatever stands around it.
fn is_dropped(c: char) -> bool {
    let nonchar = matches!(c, '\u{fdd0}'..='\u{fdef}') || (c as u32) & 0xfffe == 0xfffe;
    let may_stay = matches!(c, NON_JOINER | JOINER | TEXT_STYLE | EMOJI_STYLE);
    (c != '\n' && c.is_control()) || nonchar || (is_invisible(c) && !may_stay)
}

/// Joiners and variation selectors stay only where Claude keeps them.
fn without_invisible(text: &[char]) -> Vec<char> {
    let mut kept: Vec<char> = Vec::with_capacity(text.len());
    for (at, c) in text.iter().enumerate() {
        if !is_invisible(*c) || is_wanted(&kept, *c, text.get(at + 1).copied()) {
            kept.push(*c);
        }
    }
    kept
}

/// Whether Claude keeps the invisible `c` between what was kept so far and what comes.
fn is_wanted(before: &[char], c: char, after: Option<char>) -> bool {
    let Some(previous) = before.last().copied() else {
        return false;
    };
    match c {
        TEXT_STYLE | EMOJI_STYLE => is_emoji(previous) || (is_key(previous) && after == Some(KEYCAP)),
        JOINER if joins_emoji(before) => after.is_some_and(is_emoji),
        // What follows must be visible: two invisible characters in a row were not proved to stay.
        JOINER | NON_JOINER => joins_letters(before) && !after.is_some_and(is_invisible),
        _ => false,
    }
}

fn is_key(c: char) -> bool {
    c.is_ascii_digit() || c == '#' || c == '*'
}

/// An emoji at the end, with or without style or skin tone.
fn joins_emoji(before: &[char]) -> bool {
    match before {
        [.., emoji, '\u{1f3fb}'..='\u{1f3ff}' | EMOJI_STYLE] => is_emoji(*emoji),
        [.., last] => is_emoji(*last),
        [] => false,
    }
}

/// A letter of a script that joins at the end, with or without marks.
fn joins_letters(before: &[char]) -> bool {
    before.iter().rev().find(|c| !is_joining_mark(**c)).is_some_and(|letter| is_joining(*letter))
}
