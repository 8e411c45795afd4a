//! What output for people looks like: colour where a terminal wants it, local times, spans, and text that can't
//! command the terminal it is shown on.

use std::borrow::Cow;
use std::env;
use std::io::{self, IsTerminal};
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// How something is printed on a terminal that wants colour.
#[derive(Debug, Clone, Copy)]
pub enum Ink {
    Bold,
    Dim,
    Green,
    Yellow,
    Red,
    Cyan,
}

impl Ink {
    fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Cyan => "36",
        }
    }
}

/// Where the output goes.
#[derive(Debug, Clone, Copy)]
pub struct Paper {
    coloured: bool,
}

impl Paper {
    /// stdout, with colours only on a terminal and without `NO_COLOR`.
    pub fn stdout() -> Self {
        let wanted = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { coloured: wanted && io::stdout().is_terminal() }
    }

    /// Without any colour.
    #[cfg(test)]
    pub fn plain() -> Self {
        Self { coloured: false }
    }

    /// The text in that ink, where there is any.
    pub fn ink(self, ink: Ink, text: &str) -> String {
        if self.coloured { format!("\x1b[{}m{text}\x1b[0m", ink.code()) } else { text.to_owned() }
    }
}

/// The text without control characters but newline and tab: what Claude says must not command the terminal.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.contains(harmful) { Cow::Owned(text.replace(harmful, "\u{fffd}")) } else { Cow::Borrowed(text) }
}

/// The local time of day of a Unix second.
pub fn time_of_day(unix_s: i64) -> String {
    Timestamp::from_second(unix_s).map_or_else(
        |_| "??:??:??".to_owned(),
        |at| at.to_zoned_datetime(TimeZone::system()).strftime("%H:%M:%S").to_string(),
    )
}

/// How long ago a Unix millisecond was.
pub fn ago(unix_ms: i64) -> String {
    span(ms_since(unix_ms).max(0) / 1000)
}

/// Milliseconds since a Unix millisecond.
pub fn ms_since(unix_ms: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(unix_ms)
}

/// Seconds in words, two units at most.
pub fn span(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min {} s", seconds % 60),
        3600..86400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// Bytes for people.
pub fn size(bytes: u64) -> String {
    match bytes {
        ..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_can_not_command_the_terminal() {
        assert_eq!(harmless("a\x1b[2Jb\r\x07\u{9b}1m\n\tc"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}\u{fffd}1m\n\tc");
        assert_eq!(harmless("你好 👋"), "你好 👋");
    }

    #[test]
    fn spans_have_two_units_at_most() {
        for (seconds, words) in [(0, "0 s"), (61, "1 min 1 s"), (3600, "1 h 0 min"), (90_000, "1 d 1 h")] {
            assert_eq!(span(seconds), words);
        }
    }

    #[test]
    fn without_a_terminal_there_is_no_colour() {
        assert_eq!(Paper::plain().ink(Ink::Red, "x"), "x");
        assert_eq!(Paper { coloured: true }.ink(Ink::Red, "x"), "\x1b[31mx\x1b[0m");
    }
}
