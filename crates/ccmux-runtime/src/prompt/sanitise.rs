//! Text as Claude Code keeps it: what it would change or drop is changed or dropped before.

use unicode_normalization::UnicodeNormalization;

/// `raw` without control characters and without what Claude removes; newlines are LF; NFC. Blank if nothing is left.
///
/// What it returns, it leaves alone on a second pass.
pub fn sanitise(raw: &str) -> String {
    let lines = unify_newlines(raw);
    let kept: String = lines
        .chars()
        .filter(|c| *c == '\n' || !is_dropped(*c))
        .nfc()
        .collect();
    close(kept.trim_end())
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
    if text.ends_with('\\') {
        format!("{text} ")
    } else {
        text.to_owned()
    }
}

/// Whether Claude would remove `c`, or it could not be proved to arrive.
pub(super) fn is_dropped(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
            | '\u{fdd0}'..='\u{fdef}')
        || (c as u32) & 0xfffe == 0xfffe
}
