//! What becomes of a batch and of the messages in it. Every change is checked against [`may_become`].

use ccmux_policy::{Attempt, UnixMs};
use ccmux_wire::id::{BatchId, MessageId, PromptId, Seq};
use ccmux_wire::receipt::{MessageState, Proof};
use rusqlite::{Params, params};

use super::error::InboxError;
use super::message::{BatchState, Mark};
use super::state::{is_queued, may_become};
use super::writer::{Writer, unix_ms};

/// The reason of a message that expired.
const TOO_OLD: &str = "not sent within its channel's ttl";

/// When the last steps of a delivered batch were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proved {
    /// Enter was last pressed for it, if that is known.
    pub entered_at: Option<UnixMs>,
    /// Claude Code proved that it took it.
    pub proved_at: UnixMs,
}

impl Writer {
    /// Records, before anything is typed, which messages are about to be typed and where to look for them.
    pub(super) fn begin_batch(
        &mut self,
        batch: BatchId,
        messages: &[MessageId],
        text: &str,
        mark: &Mark,
        now: UnixMs,
    ) -> Result<(), InboxError> {
        if messages.is_empty() {
            return Err(InboxError::EmptyBatch(batch));
        }
        self.insert_batch(batch, text, mark, now)?;
        for id in messages {
            self.check(*id, MessageState::InFlight)?;
            let sql = "UPDATE messages SET state = 'in_flight', batch = ?2, injected_at = ?3 WHERE id = ?1";
            self.change("begin batch", sql, params![id.0 as i64, batch.0 as i64, now.0])?;
            self.note_changed(*id);
        }
        Ok(())
    }

    fn insert_batch(&self, batch: BatchId, text: &str, mark: &Mark, now: UnixMs) -> Result<(), InboxError> {
        let sql =
            "INSERT INTO batches (id, state, transcript_path, transcript_offset, agent_pid, began_at, text)
            VALUES (?1, 'in_flight', ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
        let path = mark.transcript_path.as_ref().and_then(|path| path.to_str());
        let values = params![batch.0 as i64, path, mark.offset as i64, mark.agent_pid, now.0, text];
        match self.change("begin batch", sql, values)? {
            0 => Err(InboxError::BatchExists(batch)),
            _ => Ok(()),
        }
    }

    /// It was typed, or may have been: from here on a second try is `(redelivered)`.
    pub(super) fn pasted(&mut self, batch: BatchId, now: UnixMs) -> Result<(), InboxError> {
        self.expect_batch(batch, BatchState::InFlight, &[BatchState::InFlight])?;
        let values = params![batch.0 as i64, now.0];
        self.change("pasted", "UPDATE batches SET pasted_at = ?2 WHERE id = ?1", values)?;
        let sql = "UPDATE messages SET injected_at = ?2 WHERE batch = ?1 AND state = 'in_flight'";
        self.change("pasted", sql, values).map(|_| ())
    }

    /// Claude Code proved that it took the batch. The first proof counts; hooks may fire again.
    pub(super) fn delivered(
        &mut self,
        batch: BatchId,
        proof: Proof,
        prompt: Option<&PromptId>,
        at: Proved,
    ) -> Result<(), InboxError> {
        let from = [BatchState::InFlight, BatchState::Uncertain, BatchState::Delivered];
        if self.expect_batch(batch, BatchState::Delivered, &from)? == BatchState::Delivered {
            return Ok(());
        }
        let prompt = prompt.map(PromptId::as_str);
        let values = params![batch.0 as i64, proof.word(), prompt, at.proved_at.0];
        let sql =
            "UPDATE batches SET state = 'delivered', proof = ?2, prompt_id = ?3, ended_at = ?4, reason = NULL, text = ''
            WHERE id = ?1";
        self.change("delivered", sql, values)?;
        self.leave_flight(batch, MessageState::Delivered)?;
        let sql = "UPDATE messages SET state = 'delivered', proof = ?2, prompt_id = ?3, delivered_at = ?4,
                entered_at = ?5, reason = NULL
            WHERE batch = ?1 AND state IN ('in_flight', 'uncertain')";
        let entered_at = at.entered_at.map(|at| at.0);
        let values = params![batch.0 as i64, proof.word(), prompt, at.proved_at.0, entered_at];
        self.change("delivered", sql, values).map(|_| ())
    }

    /// It can't be proved either way.
    pub(super) fn uncertain(&mut self, batch: BatchId, reason: &str) -> Result<(), InboxError> {
        let from = [BatchState::InFlight, BatchState::Uncertain];
        if self.expect_batch(batch, BatchState::Uncertain, &from)? == BatchState::Uncertain {
            return Ok(());
        }
        let values = params![batch.0 as i64, reason, unix_ms()];
        let sql = "UPDATE batches SET state = 'uncertain', reason = ?2, ended_at = ?3 WHERE id = ?1";
        self.change("uncertain", sql, values)?;
        self.leave_flight(batch, MessageState::Uncertain)?;
        let sql =
            "UPDATE messages SET state = 'uncertain', reason = ?2 WHERE batch = ?1 AND state = 'in_flight'";
        self.change("uncertain", sql, params![batch.0 as i64, reason]).map(|_| ())
    }

    /// It was provably not taken: its messages wait again, marked if it had been typed. The policy knows whether it was even
    /// where the note of it could not be written.
    pub(super) fn requeued(&mut self, batch: BatchId, attempt: Attempt) -> Result<(), InboxError> {
        let from = [BatchState::InFlight, BatchState::Requeued];
        if self.expect_batch(batch, BatchState::Requeued, &from)? == BatchState::Requeued {
            return Ok(());
        }
        let sql = "UPDATE batches SET state = 'requeued', ended_at = ?2, text = '' WHERE id = ?1";
        self.change("requeued", sql, params![batch.0 as i64, unix_ms()])?;
        self.leave_flight(batch, MessageState::Accepted)?;
        let sql = "UPDATE messages SET state = 'accepted', failures = failures + ?3,
                redelivered = redelivered OR ?2 OR (b.pasted_at IS NOT NULL),
                injected_at = CASE WHEN ?2 OR b.pasted_at IS NOT NULL THEN messages.injected_at END
            FROM batches AS b WHERE b.id = ?1 AND messages.batch = ?1 AND messages.state = 'in_flight'";
        let values = params![batch.0 as i64, !attempt.is_untyped(), attempt == Attempt::Failed];
        self.change("requeued", sql, values).map(|_| ())
    }

    /// The message is given up.
    pub(super) fn failed(&mut self, id: MessageId, reason: &str) -> Result<(), InboxError> {
        if self.message_state(id)? == MessageState::Failed {
            return Ok(());
        }
        self.check(id, MessageState::Failed)?;
        self.leave_queue(id)?;
        let sql = "UPDATE messages SET state = 'failed', reason = ?2 WHERE id = ?1";
        self.change("failed", sql, params![id.0 as i64, reason]).map(|_| ())
    }

    /// It was not sent in its channel's time. What became something else meanwhile stays that.
    pub(super) fn expired(&mut self, id: MessageId) -> Result<(), InboxError> {
        if self.message_state(id)? != MessageState::Accepted {
            return Ok(());
        }
        self.leave_queue(id)?;
        let sql = "UPDATE messages SET state = 'expired', reason = ?2 WHERE id = ?1";
        self.change("expired", sql, params![id.0 as i64, TOO_OLD]).map(|_| ())
    }

    /// The turn on that line of `output.sock` answers the messages. The first answer counts.
    pub(super) fn answered(&mut self, messages: &[MessageId], seq: Seq) -> Result<(), InboxError> {
        for id in messages {
            if self.message_state(*id)? == MessageState::Answered {
                continue;
            }
            self.check(*id, MessageState::Answered)?;
            let sql = "UPDATE messages SET state = 'answered', turn_seq = ?2, answered_at = ?3, reason = NULL
                WHERE id = ?1";
            self.change("answered", sql, params![id.0 as i64, seq.0 as i64, unix_ms()])?;
            self.note_changed(*id);
        }
        Ok(())
    }

    /// Their turns are over and answer nothing: they stay delivered, with the reason.
    pub(super) fn left_unanswered(&mut self, messages: &[MessageId], reason: &str) -> Result<(), InboxError> {
        for id in messages {
            if self.message_state(*id)? == MessageState::Answered {
                continue;
            }
            self.check(*id, MessageState::Answered)?;
            let sql = "UPDATE messages SET reason = ?2 WHERE id = ?1";
            self.change("left unanswered", sql, params![id.0 as i64, reason])?;
            self.note_changed(*id);
        }
        Ok(())
    }

    fn check(&self, message: MessageId, to: MessageState) -> Result<(), InboxError> {
        let from = self.message_state(message)?;
        if may_become(from, to) { Ok(()) } else { Err(InboxError::Illegal { message, from, to }) }
    }

    fn expect_batch(
        &self,
        batch: BatchId,
        to: BatchState,
        allowed: &[BatchState],
    ) -> Result<BatchState, InboxError> {
        let from = self.batch(batch)?.ok_or(InboxError::NoBatch(batch))?.state;
        if allowed.contains(&from) { Ok(from) } else { Err(InboxError::IllegalBatch { batch, from, to }) }
    }

    /// Notes the batch's messages that may go to `to`, and takes them off the queue if they wait no more there. Before
    /// the update.
    fn leave_flight(&mut self, batch: BatchId, to: MessageState) -> Result<(), InboxError> {
        for id in self.messages_of(batch)? {
            if !may_become(self.message_state(id)?, to) {
                continue;
            }
            if is_queued(to) { self.note_changed(id) } else { self.leave_queue(id)? }
        }
        Ok(())
    }

    pub(super) fn leave_queue(&mut self, id: MessageId) -> Result<(), InboxError> {
        if is_queued(self.message_state(id)?) {
            let sql = "SELECT bytes FROM messages WHERE id = ?1";
            let bytes: i64 = self
                .connection
                .prepare_cached(sql)
                .and_then(|mut find| find.query_row([id.0 as i64], |row| row.get(0)))
                .map_err(InboxError::during("leave queue"))?;
            self.queue.messages = self.queue.messages.saturating_sub(1);
            self.queue.bytes = self.queue.bytes.saturating_sub(bytes as u64);
        }
        self.note_changed(id);
        Ok(())
    }

    pub(super) fn change(
        &self,
        what: &'static str,
        sql: &str,
        values: impl Params,
    ) -> Result<usize, InboxError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut update| update.execute(values))
            .map_err(InboxError::during(what))
    }
}
