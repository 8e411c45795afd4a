//! What was seen of the agent, in words, with what the person can do.

use super::dialogs::StartDialog;
use super::last_words::LastWords;

/// Rows of a screen that nobody understands are shown up to that many.
const SHOWN: usize = 12;

/// What the agent shows once it rests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// An empty prompt box, and somebody is logged in.
    Ready,
    /// Past its dialogs, but a turn runs or somebody's text is in the box.
    Working,
    /// A dialog is open.
    Dialog(StartDialog),
    /// A prompt box, but nobody is logged in.
    LoggedOut,
    /// The agent ended.
    Ended(LastWords),
    /// A screen that fits no rule; its last rows, or why there is none.
    Unclear(Vec<String>),
}

impl Seen {
    /// For a screen without a rule, as plain text.
    pub(super) fn unclear(text: &str) -> Self {
        let rows: Vec<&str> = text.lines().map(str::trim_end).filter(|row| !row.is_empty()).collect();
        let from = rows.len().saturating_sub(SHOWN);
        let harmless = |row: &&str| row.replace(char::is_control, "\u{fffd}");
        Self::Unclear(rows[from..].iter().map(harmless).collect())
    }

    /// Whether messages could be delivered now, or soon.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready | Self::Working)
    }

    /// Whether a person at the agent's terminal can help.
    pub fn needs_person(&self) -> bool {
        matches!(self, Self::Dialog(_) | Self::LoggedOut | Self::Unclear(_))
    }

    /// For the person: the first line says what it is, the others belong to it.
    pub fn lines(&self) -> Vec<String> {
        let one = |line: &str| vec![line.to_owned()];
        match self {
            Self::Ready => one("Claude is ready"),
            Self::Working => one("Claude is past its dialogs, and something is in its prompt box or runs"),
            Self::Dialog(dialog) => dialog.lines(),
            Self::LoggedOut => vec![
                "Claude is not logged in".to_owned(),
                "type /login in Claude's prompt and follow it, or set ANTHROPIC_API_KEY for the agent (agent.env)"
                    .to_owned(),
            ],
            Self::Ended(words) => {
                let head = format!("the agent {}: {}", words.ended(), words.remedy);
                let quoted = words.rows.iter().map(|row| format!("| {row}"));
                std::iter::once(head).chain(quoted).collect()
            }
            Self::Unclear(rows) => {
                let head = "Claude shows something that no screen rule fits".to_owned();
                let quoted = rows.iter().map(|row| format!("| {row}"));
                std::iter::once(head).chain(quoted).collect()
            }
        }
    }

    /// Why Claude is not ready, in one line.
    pub fn reason(&self) -> String {
        match self {
            Self::Ready | Self::Working => "Claude is ready".to_owned(),
            Self::Dialog(dialog) => format!("the {} dialog is open: {}", dialog.name, dialog.asks),
            Self::LoggedOut => "Claude is not logged in: type /login in its prompt".to_owned(),
            Self::Ended(words) => {
                let said = words.rows.last().map_or("nothing", String::as_str).trim();
                format!("the agent {} and said: {said}: {}", words.ended(), words.remedy)
            }
            Self::Unclear(_) => "Claude shows something that no screen rule fits".to_owned(),
        }
    }
}
