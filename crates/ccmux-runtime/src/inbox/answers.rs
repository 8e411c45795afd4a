//! Lines that answer an ask: taken out of a channel's stream where messages are made of it, in the same transaction.
//!
//! ```text
//! frame ─► message ─► begins with a code that was issued? ─ no ──► messages
//!                         └ yes ─► answers + cursor, one COMMIT ─► whoever asked ─► seen to: the row goes
//! ```
//!
//! So a line is a message or an answer, never both, and a daemon that dies in between finds the answer again. Codes are kept
//! before anybody hears of them; which line is an answer is asked of [`IsAnswer`].

use std::sync::Arc;

use ccmux_policy::UnixMs;
use ccmux_wire::afar::Code;
use ccmux_wire::channel::ChannelName;
use rusqlite::params;
use tokio::sync::mpsc;

use super::error::InboxError;
use super::handle::Inbox;
use super::message::NewMessage;
use super::writer::{Writer, unix_ms};

/// Whether a channel's text is an answer.
pub type IsAnswer = dyn Fn(&ChannelName, &str) -> bool + Send + Sync;

/// A line that is an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerLine {
    /// Its row, until somebody has seen to it.
    pub row: i64,
    /// Where it came from.
    pub channel: ChannelName,
    /// `meta.sender`.
    pub sender: Option<String>,
    /// The text as Claude may get it.
    pub line: String,
}

/// What an earlier daemon left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswersLeft {
    /// Every code it issued, and when it was closed.
    pub codes: Vec<(Code, Option<UnixMs>)>,
    /// Lines that nobody has seen to.
    pub lines: Vec<AnswerLine>,
}

/// How the writer knows answers, and whom it tells.
#[derive(Clone)]
pub(super) struct AnswerWatch {
    is_answer: Arc<IsAnswer>,
    taken: mpsc::UnboundedSender<AnswerLine>,
}

impl Inbox {
    /// What an earlier daemon left of codes and answers.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn answers_left(&self) -> Result<AnswersLeft, InboxError> {
        self.ask(|writer| writer.answers_left()).await
    }

    /// From now on answers are told to `taken`, after their commit, and are no messages. What an answer is, is asked on the
    /// writer's thread.
    ///
    /// # Errors
    /// If the inbox is closed.
    pub async fn watch_answers(
        &self,
        is_answer: Arc<IsAnswer>,
        taken: mpsc::UnboundedSender<AnswerLine>,
    ) -> Result<(), InboxError> {
        self.ask(move |writer| {
            writer.answers = Some(AnswerWatch { is_answer, taken });
            Ok(())
        })
        .await
    }

    /// A code will be issued.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn keep_code(&self, code: Code, at: UnixMs) -> Result<(), InboxError> {
        self.ask(move |writer| writer.keep_code(&code, at)).await
    }

    /// Codes were closed.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn close_codes(&self, codes: Vec<Code>, at: UnixMs) -> Result<(), InboxError> {
        self.ask(move |writer| codes.iter().try_for_each(|code| writer.close_code(code, at))).await
    }

    /// Codes are nobody's any more.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn forget_codes(&self, codes: Vec<Code>) -> Result<(), InboxError> {
        self.ask(move |writer| codes.iter().try_for_each(|code| writer.forget_code(code))).await
    }

    /// An answer was seen to.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn answer_seen_to(&self, row: i64) -> Result<(), InboxError> {
        self.ask(move |writer| {
            writer.change("forget answer", "DELETE FROM answers WHERE id = ?1", [row]).map(drop)
        })
        .await
    }
}

impl Writer {
    /// Takes the message as an answer, if it is one.
    pub(super) fn take_answer(&mut self, message: &NewMessage) -> Result<bool, InboxError> {
        let Some(watch) = &self.answers else { return Ok(false) };
        if !(watch.is_answer)(&message.channel, &message.content) {
            return Ok(false);
        }
        let sender = message.meta.as_ref().and_then(|meta| meta.get("sender")?.as_str()).map(str::to_owned);
        let line = crate::prompt::sanitise(&message.content);
        let sql = "INSERT INTO answers (channel, sender, line, at) VALUES (?1, ?2, ?3, ?4)";
        let channel = message.channel.clone();
        self.change("store answer", sql, params![channel.as_str(), sender, line, unix_ms()])?;
        let row = self.connection.last_insert_rowid();
        self.note_answer(AnswerLine { row, channel, sender, line });
        Ok(true)
    }

    /// After the commit.
    pub(super) fn tell_answers(&self, answers: Vec<AnswerLine>) {
        let Some(watch) = &self.answers else { return };
        for answer in answers {
            tracing::info!(event = "answer.accepted", channel = %answer.channel, bytes = answer.line.len());
            let _ = watch.taken.send(answer);
        }
    }

    fn answers_left(&self) -> Result<AnswersLeft, InboxError> {
        let codes = self.list("read codes", "SELECT code, closed_at FROM codes", [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Option<i64>>(1)?))
        })?;
        let codes =
            codes.into_iter().filter_map(|(code, at)| Some((Code::of(&code)?, at.map(UnixMs)))).collect();
        let sql = "SELECT id, channel, sender, line FROM answers ORDER BY id";
        let lines = self.list("read answers", sql, [], |row| {
            let channel = row.get::<_, String>(1)?.parse::<ChannelName>();
            let (row, sender, line) = (row.get(0)?, row.get(2)?, row.get(3)?);
            Ok(channel.ok().map(|channel| AnswerLine { row, channel, sender, line }))
        })?;
        Ok(AnswersLeft { codes, lines: lines.into_iter().flatten().collect() })
    }

    fn keep_code(&self, code: &Code, at: UnixMs) -> Result<(), InboxError> {
        let sql = "INSERT OR IGNORE INTO codes (code, issued_at) VALUES (?1, ?2)";
        self.change("keep code", sql, params![code.as_str(), at.0]).map(drop)
    }

    fn close_code(&self, code: &Code, at: UnixMs) -> Result<(), InboxError> {
        let sql = "UPDATE codes SET closed_at = ?2 WHERE code = ?1 AND closed_at IS NULL";
        self.change("close code", sql, params![code.as_str(), at.0]).map(drop)
    }

    fn forget_code(&self, code: &Code) -> Result<(), InboxError> {
        self.change("forget code", "DELETE FROM codes WHERE code = ?1", [code.as_str()]).map(drop)
    }
}
