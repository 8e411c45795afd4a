//! Rows → values.

use ccmux_wire::channel::ChannelName;
use ccmux_wire::id::{BatchId, MessageId, PromptId, Seq};
use ccmux_wire::output::ReplyTo;
use ccmux_wire::receipt::{MessageState, Proof, Receipt};
use ccmux_wire::status::QueueStatus;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row};

use super::error::InboxError;
use super::message::{BatchRow, BatchState, Body, Mark};
use super::writer::Writer;

/// What [`receipt_of`] reads.
const RECEIPT: &str =
    "SELECT id, sender_id, channel, state, proof, reason, accepted_at, injected_at, entered_at,
    delivered_at, answered_at, turn_seq FROM messages WHERE id = ?1";
/// What [`Writer::summary_of`] reads.
const SUMMARY: &str = "SELECT id, channel, bytes, rows, failures, redelivered, accepted_at FROM messages";

impl Writer {
    /// The receipt as it is now.
    pub(super) fn receipt(&self, id: MessageId) -> Result<Receipt, InboxError> {
        self.find(id, RECEIPT, |row| receipt_of(row).map(Receipt::with_legs))
    }

    /// The messages' texts, in the order asked for.
    pub(super) fn bodies(&self, ids: &[MessageId]) -> Result<Vec<Body>, InboxError> {
        let sql =
            "SELECT id, sender_id, channel, shown, content, ts, redelivered FROM messages WHERE id = ?1";
        ids.iter().map(|id| self.find(*id, sql, body_of)).collect()
    }

    /// The messages' names, in the order asked for.
    pub(super) fn reply_to(&self, ids: &[MessageId]) -> Result<Vec<ReplyTo>, InboxError> {
        let sql = "SELECT id, sender_id, channel FROM messages WHERE id = ?1";
        let read = |row: &Row<'_>| Ok(ReplyTo { id: public_id(row, 0, 1)?, channel: channel(row, 2)? });
        ids.iter().map(|id| self.find(*id, sql, read)).collect()
    }

    /// The message's state.
    pub(super) fn message_state(&self, id: MessageId) -> Result<MessageState, InboxError> {
        self.find(id, "SELECT state FROM messages WHERE id = ?1", |row| word(row, 0, MessageState::from_word))
    }

    /// The batch, if there is one of that number.
    pub(super) fn batch(&self, batch: BatchId) -> Result<Option<BatchRow>, InboxError> {
        let sql =
            "SELECT state, transcript_path, transcript_offset, agent_pid, began_at, pasted_at, prompt_id, text
            FROM batches WHERE id = ?1";
        let found = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut find| find.query_row([batch.0 as i64], |row| batch_of(batch, row)).optional())
            .map_err(InboxError::during("read batch"))?;
        let Some(mut row) = found else { return Ok(None) };
        row.messages = self.messages_of(batch)?;
        Ok(Some(row))
    }

    /// Messages whose latest batch it is.
    pub(super) fn messages_of(&self, batch: BatchId) -> Result<Vec<MessageId>, InboxError> {
        let sql = "SELECT id FROM messages WHERE batch = ?1 ORDER BY id";
        let read = |row: &Row<'_>| Ok(MessageId(unsigned(row, 0)?));
        self.list("read batch", sql, [batch.0 as i64], read)
    }

    /// Messages that were accepted and wait for a batch, in order.
    pub(super) fn waiting(&self) -> Result<Vec<ccmux_policy::Message>, InboxError> {
        let sql = format!("{SUMMARY} WHERE state = 'accepted' ORDER BY id");
        self.list("read queue", &sql, [], |row| self.summary_of(row))
    }

    /// A message as the policy knows it.
    pub(super) fn summary(&self, id: MessageId) -> Result<ccmux_policy::Message, InboxError> {
        self.find(id, &format!("{SUMMARY} WHERE id = ?1"), |row| self.summary_of(row))
    }

    /// Batches that an earlier daemon left on their way, with the messages that still are.
    pub(super) fn in_flight(&self) -> Result<Vec<(BatchId, Vec<ccmux_policy::Message>)>, InboxError> {
        let batches = self.list(
            "read batches",
            "SELECT id FROM batches WHERE state = 'in_flight' ORDER BY id",
            [],
            |row| unsigned(row, 0),
        )?;
        let sql = format!("{SUMMARY} WHERE batch = ?1 AND state = 'in_flight' ORDER BY id");
        let messages = |batch: u64| self.list("read batch", &sql, [batch as i64], |row| self.summary_of(row));
        batches.into_iter().map(|batch| Ok((BatchId(batch), messages(batch)?))).collect()
    }

    /// A ttl is for what was never typed.
    fn summary_of(&self, row: &Row<'_>) -> rusqlite::Result<ccmux_policy::Message> {
        let channel = channel(row, 1)?;
        let channels = &self.settings.channels;
        let expires_at = channels.expires_at(&channel, row.get(6)?);
        let was_typed: bool = row.get(5)?;
        Ok(ccmux_policy::Message {
            id: MessageId(unsigned(row, 0)?),
            bytes: unsigned(row, 2)?,
            rows: row.get(3)?,
            failures: row.get(4)?,
            priority: channels.priority(&channel),
            expires_at: expires_at.filter(|_| !was_typed),
            channel,
        })
    }

    /// Messages of the latest batch that was delivered since that moment, if they are not answered, with its prompt. Those
    /// of earlier batches had their turn: it failed, or was broken off.
    pub(super) fn unanswered(&self, since_ms: i64) -> Result<Vec<(MessageId, Option<PromptId>)>, InboxError> {
        let sql = "SELECT id, prompt_id FROM messages WHERE state = 'delivered'
            AND batch = (SELECT max(batch) FROM messages WHERE delivered_at >= ?1) ORDER BY id";
        self.list("read receipts", sql, [since_ms], |row| {
            Ok((MessageId(unsigned(row, 0)?), row.get::<_, Option<String>>(1)?.map(PromptId::new)))
        })
    }

    /// Messages of batches before that one, delivered as late and not answered, with the prompts that they became.
    pub(super) fn unanswered_before(&self, since_ms: i64) -> Result<Vec<(MessageId, PromptId)>, InboxError> {
        let sql = "SELECT id, prompt_id FROM messages
            WHERE state = 'delivered' AND prompt_id IS NOT NULL AND delivered_at >= ?1
            AND batch < (SELECT max(batch) FROM messages WHERE delivered_at >= ?1) ORDER BY id";
        self.list("read receipts", sql, [since_ms], |row| {
            Ok((MessageId(unsigned(row, 0)?), PromptId::new(row.get::<_, String>(1)?)))
        })
    }

    /// The first batch number that was not used before.
    pub(super) fn next_batch(&self) -> Result<BatchId, InboxError> {
        let sql = "SELECT coalesce(max(id), 0) + 1 FROM batches";
        self.one("read batches", sql, |row| unsigned(row, 0)).map(BatchId)
    }

    /// Channels of which something is held.
    pub(super) fn partials(&self) -> Result<Vec<ChannelName>, InboxError> {
        let sql =
            "SELECT channel FROM intake WHERE length(partial) > 0 OR skip_until IS NOT NULL ORDER BY channel";
        self.list("read cursors", sql, [], |row| channel(row, 0))
    }

    /// What waits, counted.
    pub(super) fn count_queue(&self) -> Result<QueueStatus, InboxError> {
        let sql =
            "SELECT count(*), coalesce(sum(bytes), 0) FROM messages WHERE state IN ('accepted', 'in_flight')";
        self.one("count queue", sql, |row| {
            Ok(QueueStatus { messages: unsigned(row, 0)?, bytes: unsigned(row, 1)? })
        })
    }

    /// The highest number that a message ever had.
    pub(super) fn last_message(&self) -> Result<MessageId, InboxError> {
        let sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'messages'";
        self.one("read messages", sql, |row| unsigned(row, 0)).map(MessageId)
    }

    pub(super) fn find<T>(
        &self,
        id: MessageId,
        sql: &str,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, InboxError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut find| find.query_row([id.0 as i64], read).optional())
            .map_err(InboxError::during("read message"))?
            .ok_or(InboxError::NoMessage(id))
    }

    pub(super) fn one<T>(
        &self,
        what: &'static str,
        sql: &str,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, InboxError> {
        self.connection.query_row(sql, [], read).map_err(InboxError::during(what))
    }

    pub(super) fn list<T>(
        &self,
        what: &'static str,
        sql: &str,
        values: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, InboxError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut find| find.query_map(values, read)?.collect())
            .map_err(InboxError::during(what))
    }
}

pub(super) fn receipt_of(row: &Row<'_>) -> rusqlite::Result<Receipt> {
    Ok(Receipt {
        id: public_id(row, 0, 1)?,
        channel: channel(row, 2)?,
        state: word(row, 3, MessageState::from_word)?,
        proof: row.get::<_, Option<String>>(4)?.as_deref().and_then(proof_from_word),
        reason: row.get(5)?,
        accepted_at: row.get(6)?,
        injected_at: row.get(7)?,
        entered_at: row.get(8)?,
        delivered_at: row.get(9)?,
        answered_at: row.get(10)?,
        legs: None,
        turn_seq: row.get::<_, Option<i64>>(11)?.map(|seq| Seq(seq as u64)),
    })
}

fn body_of(row: &Row<'_>) -> rusqlite::Result<Body> {
    Ok(Body {
        id: MessageId(unsigned(row, 0)?),
        sender_id: public_id(row, 0, 1)?,
        channel: channel(row, 2)?,
        shown: row.get(3)?,
        content: row.get(4)?,
        ts_ms: row.get(5)?,
        redelivered: row.get(6)?,
    })
}

fn batch_of(batch: BatchId, row: &Row<'_>) -> rusqlite::Result<BatchRow> {
    let transcript_path = row.get::<_, Option<String>>(1)?.map(Into::into);
    Ok(BatchRow {
        batch,
        state: word(row, 0, BatchState::from_word)?,
        messages: Vec::new(),
        mark: Mark { transcript_path, offset: unsigned(row, 2)?, agent_pid: row.get(3)? },
        began_at: row.get(4)?,
        pasted_at: row.get(5)?,
        prompt: row.get::<_, Option<String>>(6)?.map(PromptId::new),
        text: row.get(7)?,
    })
}

/// The sender's own id, or one made of the row.
pub(super) fn public_id(row: &Row<'_>, id: usize, sender_id: usize) -> rusqlite::Result<String> {
    let own: Option<String> = row.get(sender_id)?;
    Ok(match own {
        Some(own) => own,
        None => made_id(MessageId(unsigned(row, id)?)),
    })
}

/// The id of a message whose sender gave none.
pub(super) fn made_id(id: MessageId) -> String {
    format!("m-{id}")
}

pub(super) fn channel(row: &Row<'_>, column: usize) -> rusqlite::Result<ChannelName> {
    word(row, column, |text| text.parse().ok())
}

fn proof_from_word(word: &str) -> Option<Proof> {
    [Proof::Hook, Proof::Transcript].into_iter().find(|proof| proof.word() == word)
}

/// SQLite has signed integers; ours are never above `i64::MAX`.
pub(super) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|value| value as u64)
}

fn word<T>(row: &Row<'_>, column: usize, read: impl FnOnce(&str) -> Option<T>) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    read(&text).ok_or_else(|| {
        let error = format!("`{text}` is no known word");
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
    })
}
