//! The texts of notices. The silence reminder's are a contract, to the letter:
//!
//! ```text
//! Claude Code - User Input Needed
//! Task: fix the tests of the parser, and tell me when you...
//! Started: 2026-03-01 09:12:33
//! Duration: 42 seconds
//! Waiting for your input for 15 seconds
//! ```

use std::path::PathBuf;

use ccmux_policy::attention::{Key, Kind, Source};
use ccmux_policy::{AlertKind, UnixMs};
use jiff::Timestamp;
use jiff::tz::Offset;
use serde::{Deserialize, Serialize};
use unicode_segmentation::UnicodeSegmentation;

use super::opencode::Teller;
use crate::notify::Notice;

/// So many characters of a prompt say what the task is.
pub const TASK_CHARS: usize = 50;

/// What a notice about an item says; kept with the item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Text {
    /// The silence reminder.
    Silence {
        /// The prompt's beginning, as [`shortened`].
        task: String,
        /// When the turn began.
        started: UnixMs,
        /// How long it took.
        seconds: u64,
    },
    /// What ends with whoever told of it.
    Told {
        /// Who that is.
        by: Teller,
        /// What is said.
        text: Box<Text>,
    },
    /// Anything else: a title, and what it is about.
    Plain {
        /// One line.
        title: String,
        /// Lines.
        body: String,
    },
    /// A note or a question of an agent, which may go while no daemon runs.
    Note {
        /// One line.
        title: String,
        /// Lines.
        body: String,
        /// The directory that the repository's notes are in.
        root: PathBuf,
    },
}

impl Text {
    /// About a kind other than silence.
    pub fn about(kind: Kind, what: &str) -> Self {
        let (title, body) = match kind {
            Kind::Reply => ("Claude Code - User Input Needed", what.to_owned()),
            Kind::Permission => ("Claude Code - Permission Needed", format!("Tool: {what}")),
            Kind::Question => ("Claude Code - Question", what.to_owned()),
            Kind::SubagentReply => ("Claude Code - Sub-agent Done", format!("Agent: {what}")),
            Kind::Failure => ("Claude Code - Turn Failed", format!("Error: {what}")),
            Kind::Stuck => ("ccmux - Messages Are Stuck", what.to_owned()),
            Kind::Message => ("ccmux - Message", what.to_owned()),
        };
        Self::Plain { title: title.to_owned(), body }
    }

    /// What people are told, `waited_s` after it began to wait.
    pub fn notice(&self, key: &Key, waited_s: u64, now: UnixMs, utc_offset_s: i32) -> Notice {
        let (title, body) = match self {
            Self::Told { text, .. } => return text.notice(key, waited_s, now, utc_offset_s),
            Self::Plain { title, body } | Self::Note { title, body, .. } => (title.clone(), body.clone()),
            Self::Silence { task, started, seconds } => {
                let started = local(*started, utc_offset_s);
                let body = format!(
                    "Task: {task}\nStarted: {started}\nDuration: {seconds} seconds\nWaiting for your input for {waited_s} seconds"
                );
                let program = if key.source == Source::Opencode { "OpenCode" } else { "Claude Code" };
                (format!("{program} - User Input Needed"), body)
            }
        };
        let (kind, session) = (key.kind.word().to_owned(), key.session.to_string());
        Notice { kind, session, title, body, ts: now.0 / 1000, code: None }
    }

    /// One line, for lists.
    pub fn line(&self) -> String {
        match self {
            Self::Told { text, .. } => text.line(),
            Self::Silence { task, .. } => format!("Task: {task}"),
            Self::Plain { body, .. } | Self::Note { body, .. } => {
                body.lines().next().unwrap_or_default().to_owned()
            }
        }
    }
}

/// The first characters, as people count them, in one line; dots where something was cut.
pub fn shortened(text: &str, chars: usize) -> String {
    let text = text.trim();
    let mut graphemes = text.graphemes(true);
    let mut short = String::new();
    for grapheme in graphemes.by_ref().take(chars) {
        let is_control = grapheme.chars().any(char::is_control);
        short.push_str(if is_control { " " } else { grapheme });
    }
    if graphemes.next().is_some() {
        short.push_str("...");
    }
    short
}

fn local(at: UnixMs, utc_offset_s: i32) -> String {
    let offset = Offset::from_seconds(utc_offset_s).unwrap_or(Offset::UTC);
    let time = Timestamp::from_millisecond(at.0).unwrap_or(Timestamp::UNIX_EPOCH);
    offset.to_datetime(time).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The title of an alert's notice.
pub(super) fn title_of(alert: AlertKind) -> &'static str {
    match alert {
        AlertKind::Degraded => "ccmux - The Agent Keeps Ending",
        AlertKind::UnknownScreen => "ccmux - Unknown Screen",
        AlertKind::Uncertain => "ccmux - Delivery Uncertain",
        AlertKind::Failed => "ccmux - Message Failed",
        _ => "ccmux - Messages Are Stuck",
    }
}

#[cfg(test)]
mod tests {
    use ccmux_wire::id::SessionId;

    use super::*;

    #[test]
    fn the_silence_reminder_is_as_promised_to_the_letter() {
        let task = shortened("fix the tests of the parser, and tell me when you are done", TASK_CHARS);
        let text = Text::Silence { task, started: UnixMs(1_772_356_353_000), seconds: 42 };
        let (source, session) = (Source::Claude, SessionId::new("s1"));
        let key = Key { source, session, kind: Kind::Reply, subject: "p1".into() };
        let notice = text.notice(&key, 15, UnixMs(1_772_356_410_500), 3600);
        assert_eq!(notice.title, "Claude Code - User Input Needed");
        assert_eq!(
            notice.body,
            "Task: fix the tests of the parser, and tell me when you ...\n\
             Started: 2026-03-01 10:12:33\n\
             Duration: 42 seconds\n\
             Waiting for your input for 15 seconds"
        );
        assert_eq!(
            (notice.kind.as_str(), notice.session.as_str(), notice.ts),
            ("reply", "s1", 1_772_356_410)
        );
    }

    #[test]
    fn a_task_is_cut_between_characters_as_people_count_them() {
        let fifty = "x".repeat(50);
        assert_eq!(shortened(&fifty, 50), fifty, "no dots where nothing was cut");
        assert_eq!(shortened(&"你".repeat(51), 50), format!("{}...", "你".repeat(50)));
        let family = "👨‍👩‍👧";
        assert_eq!(shortened(&family.repeat(51), 50), format!("{}...", family.repeat(50)));
        assert_eq!(shortened(" a\r\nb\tc\u{1b}[2J ", 50), "a b c [2J");
    }
}
