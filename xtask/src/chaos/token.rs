//! What a message of the storm is known by, wherever it turns up: `c3-000012`, the twelfth of the third channel.

use std::fmt;

/// The mark in a message's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    pub channel: u16,
    pub number: u32,
}

impl Token {
    /// All tokens in a text, in order.
    pub fn all_in(text: &str) -> Vec<Self> {
        let starts = text.match_indices('c').filter(|(at, _)| !ends_in_a_word(&text[..*at]));
        starts.filter_map(|(at, _)| Self::at_the_start_of(&text[at..])).collect()
    }

    fn at_the_start_of(text: &str) -> Option<Self> {
        let (channel, rest) = text.strip_prefix('c')?.split_once('-')?;
        let number = rest.get(..6).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        Some(Self { channel: channel.parse().ok()?, number: number.parse().ok()? })
    }
}

fn ends_in_a_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(|last| last.is_alphanumeric() || last == '-')
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}-{:06}", self.channel, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_again_in_any_text() {
        let token = Token { channel: 12, number: 34 };
        assert_eq!(token.to_string(), "c12-000034");
        let text = format!("[10:00 c12] say: {token}, c3-000001\n  ecc1-000002 c-1 c1-12");
        assert_eq!(Token::all_in(&text), [token, Token { channel: 3, number: 1 }]);
    }
}
