//! Whether a prompt that Claude reports is the one that was injected, under all that Claude does to a text.

use unicode_normalization::UnicodeNormalization;

use super::invisible::is_invisible;

/// `reported` is `ours` under the comparison form.
pub fn same_prompt(ours: &str, reported: &str) -> bool {
    form(ours) == form(reported)
}

/// `ours` stands in `reported` on lines of its own: Claude joins queued prompts into one.
pub fn contains_prompt(reported: &str, ours: &str) -> bool {
    let (reported, ours) = (form(reported), form(ours));
    if ours.is_empty() {
        return false;
    }
    let whole_lines = |at: usize| {
        let end = at + ours.len();
        (at == 0 || reported[..at].ends_with('\n'))
            && (end == reported.len() || reported[end..].starts_with('\n'))
    };
    reported.match_indices(ours.as_str()).any(|(at, _)| whole_lines(at))
}

/// Without what is invisible, NFC, blanks at line ends gone, `<\/` undone. Blanks inside and at line starts count.
fn form(text: &str) -> String {
    let unescaped = text.replace("<\\/", "</");
    let kept: String = unescaped.chars().filter(|c| !is_invisible(*c)).nfc().collect();
    let lines: Vec<&str> = kept.split('\n').map(str::trim_end).collect();
    lines.join("\n").trim_end().to_owned()
}
