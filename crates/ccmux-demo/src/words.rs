//! The script words of a prompt: the last line that starts with a verb says what the turn does.
//!
//! The same words as the mock API that drives the real Claude Code; knows text only.
//!
//! ```text
//! "[10:00 telegram] say: hello"  -> Say("hello")
//! "full: ls"                     -> Full("ls")
//! "what now?"                    -> Echo
//! ```

use std::time::Duration;

/// What a turn is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Word {
    Say(String),
    Think(String),
    Slow(f64),
    Silent(f64),
    Ping(f64),
    Gap(f64),
    Bash(String),
    Perm(String),
    Full(String),
    Edit(String),
    Mcp(String),
    Tool(String),
    Ask(String),
    Plan(String),
    Task(String),
    Big(usize),
    /// A status, and what Claude Code says about it.
    Error(u16, String),
    Cut(String),
    Echo,
}

impl Word {
    /// The word of a prompt: the last line with a verb wins.
    pub fn of(prompt: &str) -> Self {
        prompt.lines().rev().find_map(word_of_line).unwrap_or(Self::Echo)
    }

    /// A verb stands in the text, so it is no plain message.
    pub fn stands_in(prompt: &str) -> bool {
        Self::of(prompt) != Self::Echo
    }
}

/// Seconds as a duration; nonsense and more than a day count as zero.
pub fn seconds(value: f64) -> Duration {
    if (0.0..=86_400.0).contains(&value) { Duration::from_secs_f64(value) } else { Duration::ZERO }
}

fn word_of_line(line: &str) -> Option<Word> {
    let line = line.trim_start();
    let plain = line.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(line, |(_, rest)| rest);
    let (verb, argument) = plain.trim_start().split_once(':')?;
    let text = argument.trim();
    let number = leading_number(text);
    Some(match verb {
        "say" => Word::Say(text.to_owned()),
        "think" => Word::Think(text.to_owned()),
        "slow" => Word::Slow(number),
        "silent" => Word::Silent(number),
        "ping" => Word::Ping(number),
        "gap" => Word::Gap(number),
        "bash" => Word::Bash(text.to_owned()),
        "perm" => Word::Perm(text.to_owned()),
        "full" => Word::Full(text.to_owned()),
        "edit" => Word::Edit(text.to_owned()),
        "mcp" => Word::Mcp(text.to_owned()),
        "tool" => Word::Tool(text.to_owned()),
        "ask" => Word::Ask(text.to_owned()),
        "plan" => Word::Plan(text.to_owned()),
        "task" => Word::Task(text.to_owned()),
        "big" => Word::Big((number as usize).min(64 << 20)),
        "error" => Word::Error(number as u16, behind_number(text)),
        "cut" => Word::Cut(text.to_owned()),
        _ => return None,
    })
}

fn leading_number(text: &str) -> f64 {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].parse().unwrap_or(0.0)
}

fn behind_number(text: &str) -> String {
    text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_the_mock_reads_them() {
        let cases = [
            ("say: hello ", Word::Say("hello".into())),
            ("  say:hello", Word::Say("hello".into())),
            ("[10:00 telegram] say: hi: you", Word::Say("hi: you".into())),
            ("bash: ls\nsay: last wins", Word::Say("last wins".into())),
            ("say: a\nplain text", Word::Say("a".into())),
            ("slow: 2.5 s", Word::Slow(2.5)),
            ("big: 1000000", Word::Big(1_000_000)),
            ("error: 529", Word::Error(529, String::new())),
            ("error: 429 resets 3pm", Word::Error(429, "resets 3pm".into())),
            ("please say: x", Word::Echo),
            ("", Word::Echo),
            ("[x say: y", Word::Echo),
        ];
        for (prompt, expected) in cases {
            assert_eq!(Word::of(prompt), expected, "{prompt:?}");
        }
    }

    #[test]
    fn a_nonsense_duration_is_none_at_all() {
        assert_eq!(seconds(f64::NAN), Duration::ZERO);
        assert_eq!(seconds(1e300), Duration::ZERO);
        assert_eq!(seconds(0.5), Duration::from_millis(500));
    }
}
