//! One line of the queue: what somebody wants whoever listens to know.
//!
//! ```json
//! {"id":"n-1772356353-9f0c…","ts":"2026-03-01T10:12:33.123+01:00","from":"worker-1","type":"complete","msg":"tests pass"}
//! ```
//!
//! Any text is safe in it: control characters, and those that turn or break lines, are written as `\uXXXX`, so that a line
//! is one line and commands no terminal.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// The longest message, in bytes: as for messages to Claude.
pub const MAX_MESSAGE_BYTES: usize = 256 * 1024;
/// The longest name of a sender, and the longest id of a question.
pub const MAX_NAME_BYTES: usize = 128;

/// What kind of news it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// The work is done.
    Complete,
    /// A turn is over, and somebody is waited for.
    Waiting,
    /// A question waits for an answer.
    Question,
    /// It goes no further.
    Stuck,
    /// Something failed.
    Error,
    /// How it goes.
    Status,
    /// The answer to a question; only `ccmux answer` makes these.
    Answer,
}

impl NoteKind {
    /// The word as in the line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Waiting => "waiting",
            Self::Question => "question",
            Self::Stuck => "stuck",
            Self::Error => "error",
            Self::Status => "status",
            Self::Answer => "answer",
        }
    }
}

/// One line of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Which: a line that is printed again has the same.
    pub id: String,
    /// When: ISO 8601 with an offset.
    pub ts: String,
    /// Who: `CCMUX_AGENT_ID`, a worktree's name, or `system`.
    pub from: String,
    /// What kind of news.
    #[serde(rename = "type")]
    pub kind: NoteKind,
    /// The text.
    pub msg: String,
    /// The question that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question_id: Option<String>,
    /// Only for who listens under that name; absent: for whoever listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// Why a text can't be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// Nothing in it.
    #[error("the message is empty")]
    Empty,
    /// Too much in it.
    #[error(
        "the message has {bytes} bytes, {MAX_MESSAGE_BYTES} are taken: write it to a file and send the file's name"
    )]
    TooLong {
        /// So many.
        bytes: usize,
    },
    /// A name is shown in lists and compared: it is short, and one line.
    #[error("the name {0:?} is refused: use 1 to {MAX_NAME_BYTES} bytes without control characters")]
    Name(String),
}

impl Note {
    /// A note of now.
    ///
    /// # Errors
    /// If the message is empty or too long, or the name is none.
    pub fn new(from: &str, kind: NoteKind, msg: &str) -> Result<Self, NoteError> {
        let msg = checked_message(msg)?.to_owned();
        let from = checked_name(from)?.to_owned();
        Ok(Self { id: fresh_id("n"), ts: now_text(), from, kind, msg, question_id: None, to: None })
    }

    /// A line as it stands in the queue. What somebody else put there and is no note is shown as one, so that nothing is
    /// lost; its id is the same each time.
    pub fn of_line(line: &[u8]) -> Self {
        if let Ok(note) = serde_json::from_slice(line) {
            return note;
        }
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        Self {
            id: format!("n-0-{:016x}", hasher.finish()),
            ts: now_text(),
            from: "system".to_owned(),
            kind: NoteKind::Error,
            msg: format!("a line of the queue is no note: {}", String::from_utf8_lossy(line)),
            question_id: None,
            to: None,
        }
    }

    /// The line, with its newline.
    pub fn to_line(&self) -> String {
        json_line(self)
    }
}

/// The text, if it can be sent.
///
/// # Errors
/// If it is empty or too long.
pub fn checked_message(text: &str) -> Result<&str, NoteError> {
    match text.len() {
        0 => Err(NoteError::Empty),
        bytes if bytes > MAX_MESSAGE_BYTES => Err(NoteError::TooLong { bytes }),
        _ => Ok(text),
    }
}

/// The name, if it is one.
///
/// # Errors
/// If it is empty, too long, or has control characters.
pub fn checked_name(name: &str) -> Result<&str, NoteError> {
    let is_plain = !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.contains(char::is_control);
    if is_plain { Ok(name) } else { Err(NoteError::Name(name.chars().take(MAX_NAME_BYTES).collect())) }
}

/// JSON in one line that commands no terminal.
pub fn json_line(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_default();
    let mut line = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        match c {
            // Outside of strings there is none of these.
            '\u{7f}'..='\u{9f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                let _ = write!(line, "\\u{:04x}", u32::from(c));
            }
            _ => line.push(c),
        }
    }
    line.push('\n');
    line
}

/// `PREFIX-<unix seconds>-<16 hex digits>`.
pub fn fresh_id(prefix: &str) -> String {
    format!("{prefix}-{}-{:016x}", Timestamp::now().as_second(), fastrand::u64(..))
}

/// Now, in ISO 8601 with the local offset.
pub fn now_text() -> String {
    Timestamp::now().to_zoned_datetime(TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string()
}

impl FromStr for NoteKind {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        const SENT: [NoteKind; 6] = [
            NoteKind::Complete,
            NoteKind::Waiting,
            NoteKind::Question,
            NoteKind::Stuck,
            NoteKind::Error,
            NoteKind::Status,
        ];
        // Three-line senders say `info`.
        let word = if word == "info" { "status" } else { word };
        let found = SENT.into_iter().find(|kind| kind.word() == word);
        found.ok_or("use complete, waiting, question, stuck, error or status")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_one_harmless_line_and_comes_back_as_it_was() {
        let text = "a\nb\r\t\0 \"q\" \\ \u{1b}[2J \u{9b}1m \u{7f} \u{2028} \u{202e}x 你好 👋";
        let note = Note::new("a", NoteKind::Status, text).unwrap();
        let line = note.to_line();
        assert!(line.ends_with('\n') && !line.trim_end().contains(char::is_control), "{line:?}");
        assert!(!line.contains(['\u{2028}', '\u{202e}']) && line.contains("你好 👋"), "{line:?}");
        assert_eq!(Note::of_line(line.trim_end().as_bytes()), note);
    }

    #[test]
    fn a_line_has_the_documented_form() {
        let line = Note::new("w", NoteKind::Complete, "done").unwrap().to_line();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(value["id"].as_str().unwrap().starts_with("n-"));
        assert!(value["ts"].as_str().unwrap().parse::<Timestamp>().is_ok(), "{line}");
        assert_eq!(
            (&value["from"], &value["type"], &value["msg"]),
            (&"w".into(), &"complete".into(), &"done".into())
        );
        assert_eq!(value.as_object().unwrap().len(), 5);
    }

    #[test]
    fn a_line_that_is_no_note_is_shown_with_the_same_id_each_time() {
        let (one, again) = (Note::of_line(b"rubbish\xff"), Note::of_line(b"rubbish\xff"));
        assert_eq!((one.kind, &one.id), (NoteKind::Error, &again.id));
        assert!(one.msg.ends_with("rubbish\u{fffd}"), "{}", one.msg);
    }

    #[test]
    fn what_can_not_be_sent_is_named() {
        assert_eq!(Note::new("a", NoteKind::Status, ""), Err(NoteError::Empty));
        let long = "x".repeat(MAX_MESSAGE_BYTES + 1);
        let error = Note::new("a", NoteKind::Status, &long).unwrap_err().to_string();
        assert!(error.contains("262145") && error.contains("file"), "{error}");
        for name in ["", "a\nb", &"x".repeat(129)] {
            assert!(matches!(Note::new(name, NoteKind::Status, "x"), Err(NoteError::Name(_))), "{name:?}");
        }
        assert_eq!("stuck".parse(), Ok(NoteKind::Stuck));
        assert!("answer".parse::<NoteKind>().is_err() && "x".parse::<NoteKind>().is_err());
    }
}
