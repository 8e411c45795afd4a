//! Sizes, as services count them. What does not fit is cut, with `…` at the end.

use super::super::Notice;

/// Bytes of UTF-8.
pub fn bytes(character: char) -> usize {
    character.len_utf8()
}

/// Units of UTF-16.
pub fn units(character: char) -> usize {
    character.len_utf16()
}

/// Bytes within quotes of JSON.
pub fn json_bytes(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' => 2,
        control if control.is_control() && control.len_utf8() == 1 => 6,
        other => other.len_utf8(),
    }
}

/// As many characters as weigh no more than `most`.
pub fn cut(text: &str, most: usize, weigh: fn(char) -> usize) -> String {
    if text.chars().map(weigh).sum::<usize>() <= most {
        return text.to_owned();
    }
    let mut room = most.saturating_sub(weigh('…'));
    let fits = |character: &char| match room.checked_sub(weigh(*character)) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    let mut short: String = text.chars().take_while(fits).collect();
    short.push('…');
    short
}

/// Without what a terminal, or a reader, could take for more than text. Line ends stay.
pub fn clean(text: &str) -> String {
    let harmless = |character: &char| *character == '\n' || !character.is_control();
    text.chars().map(|character| if character == '\t' { ' ' } else { character }).filter(harmless).collect()
}

/// Title and body in one text.
pub fn whole(notice: &Notice) -> String {
    clean(format!("{}\n{}", notice.title, notice.body).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut_between_characters() {
        assert_eq!(cut("abc", 3, bytes), "abc");
        assert_eq!(cut("abcdef", 5, bytes), "ab…");
        assert_eq!(cut("äöü", 5, bytes), "ä…");
        assert_eq!(cut("😀😀", 3, units), "😀…");
        assert_eq!(cut("\"\"\"\"", 7, json_bytes), "\"\"…");
        assert_eq!(cut("abc", 0, units), "…");
        for text in ["\u{1}\u{7f}\u{85}\"\\\n\tä😀", "a/b\u{2028}"] {
            let written = serde_json::Value::from(text).to_string().len() - 2;
            assert!(text.chars().map(json_bytes).sum::<usize>() >= written, "{text:?}");
        }
        assert_eq!(clean("a\u{1b}[2J\tb\r\nc\u{9b}"), "a[2J b\nc");
    }
}
