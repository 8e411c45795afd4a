//! Answers from afar: the codes that Claude's permissions and questions are answered by, and what `ccmux permission` asks.
//!
//! ```text
//! {"v":1,"type":"permission","verb":"list"}
//! {"v":1,"type":"permission","verb":"answer","code":"bcdfg","reply":{"reply":"deny","reason":"not now"}}
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a code is made of: no vowels, so that it is never a word, and nothing that looks like a digit.
pub const ALPHABET: &[u8; 19] = b"bcdfghjkmnpqrstvwxz";

/// So many letters.
pub const CODE_LETTERS: usize = 5;

/// The name of one ask, e.g. `bcdfg`: who answers says it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Code(String);

/// The text is no code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no code: give the five letters behind `code:`, of bcdfghjkmnpqrstvwxz")]
pub struct NoCode(String);

impl Code {
    /// Reads one, in capital letters, too: telephones write them.
    pub fn of(text: &str) -> Option<Self> {
        let code = text.to_ascii_lowercase();
        let fits = code.len() == CODE_LETTERS && code.bytes().all(|byte| ALPHABET.contains(&byte));
        fits.then_some(Self(code))
    }

    /// Makes one of random bytes; `None` if too few of them can be used (not every byte can: each letter is to be as likely
    /// as any other).
    pub fn from_random(bytes: &[u8]) -> Option<Self> {
        let usable = bytes.iter().filter(|byte| usize::from(**byte) < 13 * ALPHABET.len());
        let letters = usable.map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]));
        let code: String = letters.take(CODE_LETTERS).collect();
        (code.len() == CODE_LETTERS).then_some(Self(code))
    }

    /// Its letters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Code {
    type Error = NoCode;

    fn try_from(text: String) -> Result<Self, NoCode> {
        Self::of(&text).ok_or(NoCode(text))
    }
}

impl std::str::FromStr for Code {
    type Err = NoCode;

    fn from_str(text: &str) -> Result<Self, NoCode> {
        Self::of(text).ok_or_else(|| NoCode(text.to_owned()))
    }
}

impl From<Code> for String {
    fn from(code: Code) -> Self {
        code.0
    }
}

/// What somebody answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// Yes.
    Allow,
    /// No.
    Deny {
        /// Claude is told it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A question's answer: the number of a choice, several with commas between them, or words.
    Text {
        /// As it was written.
        text: String,
    },
}

/// What `ccmux permission` and `ccmux answer` ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum PermissionRequest {
    /// Show what can be answered.
    List,
    /// Answer one.
    Answer {
        /// Which.
        code: Code,
        /// What.
        reply: Reply,
    },
}

/// Something that Claude asks and that can be answered from afar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenAsk {
    /// Its name.
    pub code: Code,
    /// `permission`, `question`.
    pub kind: String,
    /// The tool that Claude wants to use.
    pub tool: String,
    /// What is asked, as it was told: several lines.
    pub text: String,
    /// Since when, in milliseconds since 1970.
    pub since_ms: i64,
    /// Nobody waits for the answer any more after so many milliseconds.
    pub expires_in_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_five_letters_of_the_alphabet_in_any_case() {
        assert_eq!(Code::of("BcdFg").unwrap().as_str(), "bcdfg");
        for text in ["", "bcdf", "bcdfgh", "bcdfa", "bcdf1", "bcdf ", "bcdfé"] {
            assert_eq!(Code::of(text), None, "{text}");
        }
    }

    #[test]
    fn every_letter_is_as_likely_as_any_other() {
        let mut counts = [0usize; 19];
        for byte in 0..=255u8 {
            if let Some(code) = Code::from_random(&[byte; 5]) {
                counts[ALPHABET.iter().position(|letter| *letter == code.as_str().as_bytes()[0]).unwrap()] +=
                    1;
            }
        }
        assert_eq!(counts, [13; 19]);
        assert_eq!(Code::from_random(&[255; 20]), None);
        assert_eq!(Code::from_random(&[0, 255, 1, 2, 3, 4]).unwrap().as_str(), "bcdfg");
    }

    #[test]
    fn requests_read_as_documented() {
        let line = r#"{"verb":"answer","code":"bcdfg","reply":{"reply":"deny","reason":"not now"}}"#;
        let request: PermissionRequest = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&request).unwrap(), line);
        let bad = line.replace("bcdfg", "aaaaa");
        assert!(serde_json::from_str::<PermissionRequest>(&bad).unwrap_err().to_string().contains("aaaaa"));
    }
}
