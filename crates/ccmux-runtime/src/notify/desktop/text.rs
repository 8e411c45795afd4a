//! What came from a prompt or a tool becomes a title or a body that is only text.

/// As much as a bubble shows.
const MAX_TITLE_CHARS: usize = 200;
const MAX_BODY_CHARS: usize = 2000;

/// One line without control characters.
pub fn title(text: &str) -> String {
    let one_line = text.replace('\n', " ");
    plain(&one_line, MAX_TITLE_CHARS)
}

/// Lines without control characters, for a server that takes no markup.
pub fn body(text: &str) -> String {
    plain(text, MAX_BODY_CHARS)
}

/// The same for a server that takes markup: nothing in it is any.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            other => escaped.push(other),
        }
    }
    escaped
}

fn plain(text: &str, chars: usize) -> String {
    let harmless = text.chars().filter(|character| *character == '\n' || !is_harmful(*character));
    let mut harmless = harmless.fuse();
    let mut plain: String = harmless.by_ref().take(chars).collect();
    if harmless.next().is_some() {
        plain.push('…');
    }
    plain
}

/// Control characters, and those that turn the direction of what stands around them.
fn is_harmful(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field fault 41.
    #[test]
    fn nothing_in_a_text_is_markup_or_a_control_character() {
        assert_eq!(escaped("<b>a</b> & \"x\" &lt;"), "&lt;b&gt;a&lt;/b&gt; &amp; \"x\" &amp;lt;");
        assert_eq!(title("a\nb\u{1b}[2J\u{202e}c\r"), "a b[2Jc");
        assert_eq!(body("a\nb\u{7}\tc"), "a\nbc");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(title(&"é".repeat(201)), format!("{}…", "é".repeat(200)));
        assert_eq!(title(&"é".repeat(200)), "é".repeat(200));
        assert_eq!(body(&"x".repeat(1 << 20)).chars().count(), 2001);
    }
}
