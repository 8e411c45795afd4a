//! `questions.jsonl`: what was asked and what became of it, each as one line that is never changed.
//!
//! ```json
//! {"id":"q-1772356353-9f0c…","ts":"…","from":"worker-1","text":"Which branch?"}
//! {"id":"q-1772356353-9f0c…","ts":"…","by":"lead","answer":"main"}
//! ```
//!
//! A line without an answer that says `by` closes the question unanswered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::bell::{self, Rung, bell_of};
use crate::folder::{Folder, FolderError};
use crate::listener;
use crate::note::{Note, NoteError, NoteKind, checked_message, checked_name, fresh_id, json_line, now_text};
use crate::queue;

const FILE: &str = "questions.jsonl";
/// Closed questions go when the file has grown to this.
const TIDY_BYTES: usize = 1 << 20;
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Standing {
    /// It waits.
    Open,
    /// Somebody answered.
    Answered {
        /// Who.
        by: String,
        /// What.
        answer: String,
    },
    /// Somebody saw it, and that is all.
    Acknowledged {
        /// Who.
        by: String,
    },
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Question {
    /// `q-<unix seconds>-<hex>`.
    pub id: String,
    /// When it was asked.
    pub ts: String,
    /// Who asks.
    pub from: String,
    /// What.
    pub text: String,
    /// What became of it.
    #[serde(flatten)]
    pub standing: Standing,
}

/// Why a question can't be asked or closed.
#[derive(Debug, thiserror::Error)]
pub enum QuestionError {
    /// The files.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The text or a name.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// No such question.
    #[error("there is no question `{0}` here: `ccmux questions` lists them")]
    Unknown(String),
    /// It was closed before anybody waited, and is forgotten.
    #[error(
        "question `{0}` was closed and tidied away meanwhile: an answer waits as a note, `ccmux listen` takes it"
    )]
    Tidied(String),
    /// Somebody was first.
    #[error("question `{id}` is closed already by {by}")]
    Closed {
        /// Which.
        id: String,
        /// Who.
        by: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Asked {
        id: String,
        ts: String,
        from: String,
        text: String,
    },
    Closed {
        id: String,
        ts: String,
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
    },
}

/// Asks: keeps the question, and leaves a note for whoever listens.
///
/// # Errors
/// If the text is none, or there is no room; nothing is asked then.
pub fn ask(folder: &Folder, from: &str, text: &str) -> Result<(Question, Note), QuestionError> {
    let (from, text) = (checked_name(from)?.to_owned(), checked_message(text)?.to_owned());
    let (id, ts) = (fresh_id("q"), now_text());
    let note = Note { question_id: Some(id.clone()), ..Note::new(&from, NoteKind::Question, &text)? };
    let line = Line::Asked { id: id.clone(), ts: ts.clone(), from: from.clone(), text: text.clone() };
    let _lock = folder.lock()?;
    let begins = write(folder, &line)?;
    if let Err(error) = queue::add_locked(folder, &note) {
        folder.cut(FILE, begins)?;
        return Err(error.into());
    }
    Ok((Question { id, ts, from, text, standing: Standing::Open }, note))
}

/// All of them, oldest first.
///
/// # Errors
/// If the file can't be read.
pub fn all(folder: &Folder) -> Result<Vec<Question>, FolderError> {
    let _lock = folder.lock()?;
    read(folder)
}

/// Waits until one is closed; `None`: it is still open at the deadline, and an answer will be a note.
///
/// # Errors
/// If the files can't be used, or it is not there any more.
pub fn closed(
    folder: &Folder,
    id: &str,
    deadline: Option<Instant>,
) -> Result<Option<Question>, QuestionError> {
    listener::wait_until(folder, id, deadline, || {
        let found = read(folder)?.into_iter().find(|question| question.id == id);
        let question = found.ok_or_else(|| QuestionError::Tidied(id.to_owned()))?;
        Ok(Some(question).filter(|question| question.standing != Standing::Open))
    })
}

/// Answers. Who asked and waits is woken; else a note lies in the queue for them.
///
/// # Errors
/// If there is no such open question, or no room; it stays open then.
pub fn answer(folder: &Folder, id: &str, by: &str, text: &str) -> Result<Question, QuestionError> {
    let (by, text) = (checked_name(by)?.to_owned(), checked_message(text)?.to_owned());
    let _lock = folder.lock()?;
    let question = open_one(folder, id)?;
    let closed =
        Line::Closed { id: id.to_owned(), ts: now_text(), by: by.clone(), answer: Some(text.clone()) };
    if bell::ring(folder, &bell_of(id)) == Rung::Heard {
        write(folder, &closed)?;
    } else {
        // Left by an asker that was killed.
        folder.remove(&bell_of(id))?;
        let note = Note::new(&by, NoteKind::Answer, &text)?;
        let (question_id, to) = (Some(id.to_owned()), Some(question.from.clone()));
        // First: whoever is killed between the two has given the answer.
        let (_, begins) = queue::add_locked(folder, &Note { question_id, to, ..note })?;
        if let Err(error) = write(folder, &closed) {
            queue::take_back(folder, begins)?;
            return Err(error.into());
        }
    }
    Ok(Question { standing: Standing::Answered { by, answer: text }, ..question })
}

/// Closes a question without an answer.
///
/// # Errors
/// If there is no such open question, or no room.
pub fn acknowledge(folder: &Folder, id: &str, by: &str) -> Result<Question, QuestionError> {
    let by = checked_name(by)?.to_owned();
    let _lock = folder.lock()?;
    let question = open_one(folder, id)?;
    write(folder, &Line::Closed { id: id.to_owned(), ts: now_text(), by: by.clone(), answer: None })?;
    bell::ring(folder, &bell_of(id));
    Ok(Question { standing: Standing::Acknowledged { by }, ..question })
}

fn open_one(folder: &Folder, id: &str) -> Result<Question, QuestionError> {
    let found = read(folder)?.into_iter().find(|question| question.id == id);
    let question = found.ok_or_else(|| QuestionError::Unknown(id.to_owned()))?;
    match &question.standing {
        Standing::Open => Ok(question),
        Standing::Answered { by, .. } | Standing::Acknowledged { by } => {
            Err(QuestionError::Closed { id: id.to_owned(), by: by.clone() })
        }
    }
}

fn read(folder: &Folder) -> Result<Vec<Question>, FolderError> {
    let (mut order, mut questions) = (Vec::new(), BTreeMap::new());
    for line in folder.lines(FILE)?.split(|byte| *byte == b'\n') {
        match serde_json::from_slice(line) {
            Ok(Line::Asked { id, ts, from, text }) => {
                order.push(id.clone());
                questions.insert(id.clone(), Question { id, ts, from, text, standing: Standing::Open });
            }
            Ok(Line::Closed { id, by, answer, .. }) => {
                if let Some(question) = questions.get_mut(&id) {
                    question.standing = match answer {
                        Some(answer) => Standing::Answered { by, answer },
                        None => Standing::Acknowledged { by },
                    };
                }
            }
            Err(_) => {}
        }
    }
    Ok(order.iter().filter_map(|id| questions.remove(id)).collect())
}

/// Returns where the line begins.
fn write(folder: &Folder, line: &Line) -> Result<u64, FolderError> {
    let lines = folder.lines(FILE)?;
    if lines.len() > TIDY_BYTES {
        folder.replace(FILE, &tidied(folder, &lines)?)?;
    }
    folder.append(FILE, json_line(line).as_bytes(), MAX_BYTES)
}

/// Without the closed ones that nobody waits for.
fn tidied(folder: &Folder, lines: &[u8]) -> Result<Vec<u8>, FolderError> {
    let is_needed = |question: &Question| {
        question.standing == Standing::Open || bell::is_heard(folder, &bell_of(&question.id))
    };
    let needed: BTreeSet<String> = read(folder)?.into_iter().filter(is_needed).map(|one| one.id).collect();
    let stays = |line: &&[u8]| match serde_json::from_slice(line) {
        Ok(Line::Asked { id, .. } | Line::Closed { id, .. }) => needed.contains(&id),
        Err(_) => false,
    };
    Ok(lines.split_inclusive(|byte| *byte == b'\n').filter(stays).collect::<Vec<_>>().concat())
}
