//! What clients tell the daemon about notes and questions between agents, so that people hear of them: `notify` on
//! `control.sock`. The notes themselves are in the repository's queue, with or without a daemon.
//!
//! ```json
//! {"v":1,"type":"notify","repository":"/src/app","left":{"id":"n-1-a","from":"w","kind":"complete","text":"done"}}
//! {"v":1,"type":"notify","repository":"/src/app","gone":["n-1-a"]}
//! ```

use serde::{Deserialize, Serialize};

/// People are told the beginning.
const MAX_CHARS: usize = 1000;

/// What happened in a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotesNews {
    /// The directory that its notes are in.
    pub repository: String,
    /// A note was left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Told>,
    /// A question was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Told>,
    /// Notes that were taken, questions that were closed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
}

/// A note or a question, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Which.
    pub id: String,
    /// Whose.
    pub from: String,
    /// Its kind's word.
    pub kind: String,
    /// Its beginning.
    pub text: String,
}

impl Told {
    /// With the text's beginning.
    pub fn new(id: &str, from: &str, kind: &str, text: &str) -> Self {
        let text = text.chars().take(MAX_CHARS).collect();
        Self { id: id.to_owned(), from: from.to_owned(), kind: kind.to_owned(), text }
    }
}
