//! Which containers there are, and what they asked: a small file in the state directory, so that a daemon that comes back
//! opens their sockets again and knows the answers.
//!
//! A container sees its own questions only: whatever it names, another's is none. It opens no socket.

use std::io;
use std::path::Path;

use ccmux_wire::container::{ContainerId, ContainerStatus, GuestQuestion, MAX_TEXT_BYTES};
use serde::{Deserialize, Serialize};

use crate::agent::record::replace;

/// The file's name.
pub const FILE: &str = "containers.json";
/// So many containers at once.
pub const MAX_CONTAINERS: usize = 64;
/// So many questions of one container are kept.
pub const MAX_QUESTIONS: usize = 32;

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is one of that name.
    #[error("there is a container {0} already")]
    Taken(ContainerId),
    /// There is none of that name.
    #[error("there is no container {0}; `ccmux container list` shows those that are open")]
    Unknown(ContainerId),
    /// None that this speaker could know.
    #[error("there is no question {0:.60}")]
    NoQuestion(String),
    /// The first answer counts.
    #[error("question {0} was answered already")]
    Answered(String),
    /// A text.
    #[error("{0} is empty or longer than {MAX_TEXT_BYTES} bytes")]
    Text(&'static str),
    /// Another user.
    #[error("another user in the container is for a daemon of root only: leave `uid` out")]
    Uid,
    /// No room.
    #[error("no further {0}")]
    Full(&'static str),
    /// The system.
    #[error("{0}")]
    Failed(String),
    /// The daemon ends.
    #[error("the daemon is stopping")]
    Stopping,
}

/// A container, and what only the daemon must know of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// What anybody may know.
    #[serde(flatten)]
    pub status: ContainerStatus,
    /// When its process was started: with the pid, its identity.
    pub started: u64,
    /// Its user, where it is not the daemon's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub uid: Option<u32>,
}

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Book {
    /// Those that are open.
    #[serde(default)]
    pub containers: Vec<Kept>,
    /// What they asked, oldest first.
    #[serde(default)]
    pub questions: Vec<GuestQuestion>,
}

impl Book {
    /// As it was kept; a file that is missing or damaged is an empty book.
    pub fn read(state_dir: &Path) -> Self {
        let text = std::fs::read(state_dir.join(FILE)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Keeps it.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn write(&self, state_dir: &Path) -> io::Result<()> {
        replace(&state_dir.join(FILE), serde_json::to_string(self)?.as_bytes())
    }

    /// Whether a further one may come.
    ///
    /// # Errors
    /// If its name is taken, or there are too many.
    pub fn may_open(&self, id: &ContainerId) -> Result<(), Refusal> {
        match self.containers.len() {
            _ if self.knows(id) => Err(Refusal::Taken(id.clone())),
            MAX_CONTAINERS.. => Err(Refusal::Full("container: 64 are open")),
            _ => Ok(()),
        }
    }

    /// Whether it is open.
    pub fn knows(&self, id: &ContainerId) -> bool {
        self.containers.iter().any(|kept| kept.status.id == *id)
    }

    /// Forgets a container and what it asked. `false`: there was none.
    pub fn close(&mut self, id: &ContainerId) -> bool {
        let before = self.containers.len();
        self.containers.retain(|kept| kept.status.id != *id);
        self.questions.retain(|question| question.container != *id);
        self.containers.len() < before
    }

    /// A new question.
    ///
    /// # Errors
    /// If it has no text, or too many wait for an answer.
    pub fn ask(&mut self, question: GuestQuestion) -> Result<GuestQuestion, Refusal> {
        if !fits(&question.question) {
            return Err(Refusal::Text("the question"));
        }
        let id = question.container.clone();
        if self.questions.iter().filter(|old| old.container == id).count() >= MAX_QUESTIONS {
            let answered = self.questions.iter().position(|old| old.container == id && old.answer.is_some());
            let oldest = answered.ok_or(Refusal::Full("question: 32 wait for an answer"))?;
            self.questions.remove(oldest);
        }
        self.questions.push(question.clone());
        Ok(question)
    }

    /// A question of that container.
    ///
    /// # Errors
    /// If it is none of its own.
    pub fn question_of(&self, container: &ContainerId, id: &str) -> Result<&GuestQuestion, Refusal> {
        let own =
            self.questions.iter().find(|question| question.container == *container && question.id == id);
        own.ok_or_else(|| Refusal::NoQuestion(id.to_owned()))
    }

    /// Answers a question; the first answer counts.
    ///
    /// # Errors
    /// If there is none, or it has its answer.
    pub fn answer(&mut self, id: &str, text: String) -> Result<GuestQuestion, Refusal> {
        if !fits(&text) {
            return Err(Refusal::Text("the answer"));
        }
        let question = self.questions.iter_mut().find(|question| question.id == id);
        let question = question.ok_or_else(|| Refusal::NoQuestion(id.to_owned()))?;
        if question.answer.is_some() {
            return Err(Refusal::Answered(id.to_owned()));
        }
        question.answer = Some(text);
        Ok(question.clone())
    }
}

fn fits(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= MAX_TEXT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ContainerId {
        text.to_owned().try_into().unwrap()
    }

    fn question(number: usize, container: &str) -> GuestQuestion {
        let (id, container) = (format!("q-{number}"), id(container));
        GuestQuestion { id, container, question: "which?".into(), asked_ms: 7, answer: None }
    }

    #[test]
    fn a_container_sees_its_own_questions_only() {
        let mut book = Book::default();
        book.ask(question(1, "aaaa")).unwrap();
        assert!(book.question_of(&id("aaaa"), "q-1").is_ok());
        assert_eq!(book.question_of(&id("bbbb"), "q-1"), Err(Refusal::NoQuestion("q-1".into())));
    }

    #[test]
    fn the_first_answer_counts() {
        let mut book = Book::default();
        book.ask(question(1, "aaaa")).unwrap();
        assert_eq!(book.answer("q-1", "main".into()).unwrap().answer.as_deref(), Some("main"));
        assert_eq!(book.answer("q-1", "other".into()), Err(Refusal::Answered("q-1".into())));
        assert_eq!(book.answer("q-2", "x".into()), Err(Refusal::NoQuestion("q-2".into())));
        assert_eq!(book.question_of(&id("aaaa"), "q-1").unwrap().answer.as_deref(), Some("main"));
    }

    #[test]
    fn one_container_can_not_fill_the_book() {
        let mut book = Book::default();
        (0..MAX_QUESTIONS).for_each(|number| drop(book.ask(question(number, "aaaa")).unwrap()));
        assert!(matches!(book.ask(question(99, "aaaa")), Err(Refusal::Full(_))));
        book.ask(question(99, "bbbb")).unwrap();
        book.answer("q-5", "yes".into()).unwrap();
        book.ask(question(100, "aaaa")).unwrap();
        assert!(book.question_of(&id("aaaa"), "q-5").is_err(), "the answered one made room");
        let long = GuestQuestion { question: "x".repeat(MAX_TEXT_BYTES + 1), ..question(1, "cccc") };
        assert_eq!(book.ask(long), Err(Refusal::Text("the question")));
    }

    #[test]
    fn what_was_kept_comes_back_and_a_damaged_file_is_an_empty_book() {
        let dir = tempfile::tempdir().unwrap();
        let status = ContainerStatus { id: id("aaaa"), pid: 7, since_ms: 1, window: None };
        let mut book = Book::default();
        book.containers.push(Kept { status, started: 9, uid: None });
        book.ask(question(1, "aaaa")).unwrap();
        book.write(dir.path()).unwrap();
        assert_eq!(Book::read(dir.path()), book);
        assert!(
            book.may_open(&id("aaaa")) == Err(Refusal::Taken(id("aaaa")))
                && book.may_open(&id("bbbb")).is_ok()
        );
        assert!(book.close(&id("aaaa")) && !book.close(&id("aaaa")));
        assert_eq!(book, Book::default());
        std::fs::write(dir.path().join(FILE), "{half").unwrap();
        assert_eq!(Book::read(dir.path()), Book::default());
    }
}
