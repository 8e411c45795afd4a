//! Whether a prompt that Claude reports is the one that was injected, under all that Claude does to a text.
//!
//! It does not know who reports: hooks and the transcript are compared alike.

use unicode_normalization::UnicodeNormalization;

use super::invisible::is_invisible;

/// `reported` is `ours` under the comparison form.
pub fn same_prompt(ours: &str, reported: &str) -> bool {
    form(ours) == form(reported)
}

/// `ours` stands somewhere in `reported`: Claude joins queued prompts into one, and a human may have typed before or
/// behind it.
pub fn contains_prompt(reported: &str, ours: &str) -> bool {
    let (reported, ours) = (form(reported), form(ours));
    !ours.is_empty() && reported.contains(&ours)
}

/// Without what is invisible, NFC, blanks at line ends gone, `<\/` undone. Blanks inside and at line starts count.
fn form(text: &str) -> String {
    // What is invisible goes first: it may stand between `<` and `\/`.
    let kept: String = text.chars().filter(|c| !is_invisible(*c)).nfc().collect();
    let kept = kept.replace("<\\/", "</");
    let lines: Vec<&str> = kept.split('\n').map(str::trim_end).collect();
    lines.join("\n").trim_end().to_owned()
}
