//! Halves of characters: JavaScript cuts texts between the two, and writes what is left as an escape that is no text.
//!
//! ```text
//! "cut here: \ud83d"   ──►   "cut here: \ufffd"
//! ```
//!
//! Claude Code writes such ones in files, hooks and calls (it cuts long texts), so what holds them is read all the same.
//! Knows no JSON but the escapes.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

const STAND_IN: &str = "\\ufffd";

/// The text with something readable in their place, of the same length: positions stay true.
pub fn readable(text: &str) -> Cow<'_, str> {
    let mut changed = Cow::Borrowed(text);
    let mut at = 0;
    while let Some(found) = text[at..].find('\\') {
        at += found;
        at += match (half_at(text, at), half_at(text, at + STAND_IN.len())) {
            (Some(Half::First), Some(Half::Second)) => 2 * STAND_IN.len(),
            (Some(_), _) => {
                changed.to_mut().replace_range(at..at + STAND_IN.len(), STAND_IN);
                STAND_IN.len()
            }
            // What is escaped may be a backslash.
            (None, _) => 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
        };
    }
    changed
}

/// The text to read in place of one that can't be read; `None`: it is not for halves.
pub fn mended(json: &[u8]) -> Option<String> {
    match readable(std::str::from_utf8(json).ok()?) {
        Cow::Owned(mended) => Some(mended),
        Cow::Borrowed(_) => None,
    }
}

/// Reads JSON, with or without halves.
///
/// # Errors
/// If it is none.
pub fn from_slice<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(json).or_else(|error| match mended(json) {
        Some(mended) => serde_json::from_str(&mended),
        None => Err(error),
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Half {
    First,
    Second,
}

fn half_at(text: &str, at: usize) -> Option<Half> {
    let digits = text.get(at..at + STAND_IN.len())?.strip_prefix("\\u")?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Half::First),
        0xdc00..=0xdfff => Some(Half::Second),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_with_a_half_is_read_and_what_is_none_keeps_its_error() {
        assert_eq!(from_slice::<String>(br#""x\ud83d""#).unwrap(), "x\u{fffd}");
        assert_eq!(from_slice::<String>(r#""\ud83d\ude00é""#.as_bytes()).unwrap(), "\u{1f600}é");
        for none in [&br#"{"a":"\ud83d""#[..], b"\xff\\ud83d", b"{"] {
            assert!(from_slice::<serde_json::Value>(none).is_err());
        }
    }

    #[test]
    fn only_halves_that_stand_alone_are_replaced() {
        for (text, read) in [
            (r#""\ud83d\ude00 \u00e4 é""#, r#""\ud83d\ude00 \u00e4 é""#),
            (r#""x\ud83d""#, r#""x\ufffd""#),
            (r#""\uDE00y\ud83d\ud83d\ude00""#, r#""\ufffdy\ufffd\ud83d\ude00""#),
            (r#""\\ud83d \" \\""#, r#""\\ud83d \" \\""#),
            (r#""\ud83"#, r#""\ud83"#),
            ("\\", "\\"),
            ("\\é", "\\é"),
        ] {
            assert_eq!(readable(text), read);
        }
    }
}
