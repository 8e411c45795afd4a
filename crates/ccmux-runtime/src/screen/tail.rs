//! What a human typed behind a text of ours that was just pasted.
//!
//! Only what is certain counts: the whole box is visible, its text is ours, exactly, and one line more behind it.

use ccmux_policy::screen::BoxHolds;

use super::prompt_box::PromptBox;
use super::{box_holds, holds};

/// The line behind `text` in the box; `None` if the box is anything but `text` and one line.
pub fn tail_behind(found: &PromptBox, text: &str) -> Option<String> {
    let hides = found.cut_above || found.hidden_above > 0 || found.hidden_below > 0;
    if found.is_empty() || hides || text.chars().any(holds::is_doubtful) {
        return None;
    }
    let shown = found.rows.join("\n");
    let rest = behind(&shown, text)?;
    // Where a row ends a blank may have stood: which of both it was, the count of rows tells.
    let joined = ["", " "].map(|blank| rest.split('\n').map(str::trim).collect::<Vec<_>>().join(blank));
    let blanks = rest.chars().take_while(|c| *c == ' ').count();
    let mut tails = joined.into_iter().map(|tail| format!("{}{tail}", " ".repeat(blanks)));
    let is_it = |tail: &String| {
        !tail.trim().is_empty() && box_holds(Some(found), &format!("{text}{tail}")) == BoxHolds::Ours
    };
    tails.find(is_it)
}

/// What is left of `shown` behind `text`, blanks aside.
fn behind<'a>(shown: &'a str, text: &str) -> Option<&'a str> {
    let mut rest = shown.char_indices().filter(|(_, c)| !c.is_whitespace());
    for ours in text.chars().filter(|c| !c.is_whitespace()) {
        rest.next().filter(|(_, c)| *c == ours)?;
    }
    // Up to the blanks before the next one: they are the human's.
    let end = match text.chars().rfind(|c| !c.is_whitespace()) {
        Some(last) => {
            let next = rest.next()?.0;
            shown[..next].rfind(last)? + last.len_utf8()
        }
        None => 0,
    };
    Some(shown[end..].trim_start_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: &[&str]) -> PromptBox {
        PromptBox {
            rows: rows.iter().map(|row| (*row).to_owned()).collect(),
            hidden_above: 0,
            cut_above: false,
            hidden_below: 0,
            width: 10,
            placeholder: false,
            label: String::new(),
        }
    }

    /// Field fault 46.
    #[test]
    fn the_line_that_a_human_typed_behind_a_text_is_told_apart() {
        assert_eq!(tail_behind(&shown(&["hello you", "there"]), "hello you"), Some("there".to_owned()));
        assert_eq!(tail_behind(&shown(&["hellothere"]), "hello"), Some("there".to_owned()));
        assert_eq!(
            tail_behind(&shown(&["hello you,", "abc def"]), "hello"),
            Some(" you, abc def".to_owned())
        );
    }

    #[test]
    fn a_box_that_is_anything_else_is_left_alone() {
        assert_eq!(tail_behind(&shown(&["hello"]), "hello"), None, "nothing behind it");
        assert_eq!(tail_behind(&shown(&["xhello"]), "hello"), None, "something before it");
        assert_eq!(tail_behind(&shown(&["hel lo x"]), "hello"), None, "something within it");
        assert_eq!(tail_behind(&shown(&["hello", "x"]), "hello"), None, "another line");
        let scrolled = PromptBox { hidden_above: 2, ..shown(&["hellox"]) };
        assert_eq!(tail_behind(&scrolled, "hello"), None, "not all of it is seen");
    }
}
