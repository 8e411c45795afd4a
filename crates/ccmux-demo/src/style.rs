//! The colours of Claude's screen, and text made safe to draw.

pub const RESET: &str = "\x1b[0m";
pub const RULE: &str = "\x1b[38;5;244m";
pub const GREY: &str = "\x1b[38;5;246m";
pub const SPINNER: &str = "\x1b[38;5;174m";
pub const MODE: &str = "\x1b[38;5;211m";
pub const DIALOG: &str = "\x1b[38;5;153m";
pub const RED: &str = "\x1b[38;5;211m";
/// White on a dark grey.
pub const SAID_BY_HUMAN: &str = "\x1b[48;5;237m\x1b[38;5;231m";
pub const BOLD: &str = "\x1b[1m";
pub const DIM: &str = "\x1b[2m";
pub const INVERSE: &str = "\x1b[7m";

/// Text without control characters, newlines kept: whatever a command printed, it can't move our cursor.
pub fn printable(text: &str) -> String {
    if !text.chars().any(|c| c.is_control() && c != '\n') {
        return text.to_owned();
    }
    text.replace("\r\n", "\n")
        .replace('\t', "    ")
        .chars()
        .filter(|c| !c.is_control() || *c == '\n')
        .collect()
}

/// A full-width rule, with a label after three cells where there is one (`─── ↑ 12 more ───`).
pub fn rule(width: usize, colour: &str, label: Option<&str>) -> String {
    let Some(label) = label.filter(|label| label.chars().count() + 8 <= width) else {
        return format!("{colour}{}{RESET}", "─".repeat(width));
    };
    let rest = width - label.chars().count() - 5;
    format!("{colour}───{RESET} {DIM}{label}{RESET} {colour}{}{RESET}", "─".repeat(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_text_cannot_move_the_cursor() {
        assert_eq!(printable("a\x1b[2Jb\tc\r\nd\u{9b}e"), "a[2Jb    c\nde");
    }

    #[test]
    fn a_rule_is_as_wide_as_the_pane() {
        for label in [None, Some("↑ 87 more")] {
            let plain: String = rule(40, "", label).replace(RESET, "").replace(DIM, "");
            assert_eq!(plain.chars().count(), 40);
        }
        assert!(!rule(10, "", Some("↑ 87 more")).contains("more"));
    }
}
