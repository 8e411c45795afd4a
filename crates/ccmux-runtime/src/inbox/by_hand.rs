//! What people do to messages: look at them, have them tried again, drop them.
//!
//! They name a message as its sender knows it. All of what one order names is done, or nothing.

use ccmux_policy::Event;
use ccmux_wire::channel::ChannelName;
use ccmux_wire::id::{BatchId, MessageId};
use ccmux_wire::inbox::{InboxMessage, LIST_AT_MOST};
use ccmux_wire::receipt::MessageState;
use rusqlite::{Row, ToSql, params};
use serde_json::Value;

use super::error::InboxError;
use super::rows::{channel, public_id, receipt_of, unsigned};
use super::writer::{Writer, unix_ms};

/// The reason of a message that somebody dropped.
const DROPPED: &str = "dropped by the user";

/// Characters of a message that a list shows.
const PREVIEW: i64 = 200;

/// So many that share a name are listed.
const CANDIDATES: usize = 10;

const COLUMNS: &str =
    "SELECT id, sender_id, channel, state, proof, reason, accepted_at, injected_at, entered_at,
    delivered_at, answered_at, turn_seq, shown, redelivered, failures, batch, bytes, substr(content, 1, ?1)";

/// Messages by a name. The index of senders' ids begins with the channel, so each channel is asked for it: to look through
/// all messages for each name would hold up the intake.
pub(super) const NAMED: &str = "WITH RECURSIVE named (channel) AS (
        SELECT min(channel) FROM messages WHERE sender_id IS NOT NULL
        UNION ALL
        SELECT (SELECT min(next.channel) FROM messages AS next
                WHERE next.sender_id IS NOT NULL AND next.channel > named.channel)
            FROM named WHERE named.channel IS NOT NULL
    )
    SELECT it.id, it.sender_id, it.channel
        FROM named CROSS JOIN messages AS it ON it.channel = named.channel AND it.sender_id = ?1
        WHERE ?3 IS NULL OR it.channel = ?3
    UNION SELECT id, sender_id, channel FROM messages
        WHERE id = ?2 AND sender_id IS NULL AND (?3 IS NULL OR channel = ?3)
    ORDER BY id";

/// Which messages to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only those in this state.
    pub state: Option<MessageState>,
    /// Only those of this channel.
    pub channel: Option<ChannelName>,
    /// So many, newest first.
    pub limit: u32,
}

/// A message that goes by the name that somebody gave.
struct Candidate {
    id: MessageId,
    channel: ChannelName,
    public: String,
}

impl Writer {
    /// The latest messages. Uncertain ones count as seen from now on.
    pub(super) fn select(&mut self, selection: &Selection) -> Result<Vec<InboxMessage>, InboxError> {
        let state = selection.state.map(MessageState::word);
        let of = selection.channel.as_ref().map(ChannelName::as_str);
        let limit = selection.limit.clamp(1, LIST_AT_MOST);
        let sql = format!(
            "{COLUMNS} FROM messages WHERE (?2 IS NULL OR state = ?2) AND (?3 IS NULL OR channel = ?3)
            ORDER BY id DESC LIMIT ?4"
        );
        let found = self.list("list messages", &sql, params![PREVIEW, state, of, limit], |row| {
            Ok((unsigned(row, 0)?, message_of(row)?))
        })?;
        for (id, message) in &found {
            self.note_seen(MessageId(*id), message.receipt.state)?;
        }
        Ok(found.into_iter().map(|(_, message)| message).collect())
    }

    /// One message with its text.
    pub(super) fn show(&mut self, name: &str) -> Result<InboxMessage, InboxError> {
        let id = self.named(name)?;
        let sql = "SELECT content, meta, ts FROM messages WHERE id = ?1";
        let (content, meta, ts) = self.find(id, sql, |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?, row.get::<_, i64>(2)?))
        })?;
        let message = self.as_shown(id)?;
        self.note_seen(id, message.receipt.state)?;
        let meta: Option<Value> = meta.and_then(|meta| serde_json::from_str(&meta).ok());
        Ok(InboxMessage { content: Some(content), meta, sent_at: Some(ts), ..message })
    }

    /// Uncertain and failed messages wait again. `on_the_way`: a batch whose text may still stand in the prompt box.
    pub(super) fn retry(
        &mut self,
        names: &[String],
        on_the_way: Option<BatchId>,
    ) -> Result<Vec<InboxMessage>, InboxError> {
        self.each(names, |writer, id, refused| {
            let message = writer.as_shown(id)?;
            match message.receipt.state {
                MessageState::Uncertain if message.batch.is_some() && message.batch == on_the_way => {
                    return refused("its text may still be in the prompt box: look there (ccmux screen) and send or delete it");
                }
                MessageState::Uncertain | MessageState::Failed => {}
                MessageState::InFlight => return refused("it is on its way"),
                MessageState::Accepted => return refused("it waits already"),
                _ => return refused("only uncertain and failed messages can be tried again; send it anew"),
            }
            let sql = "UPDATE messages SET state = 'accepted', failures = 0,
                    redelivered = redelivered OR injected_at IS NOT NULL, reason = NULL,
                    proof = NULL, batch = NULL, injected_at = NULL, entered_at = NULL, seen_at = NULL
                WHERE id = ?1";
            writer.change("retry", sql, [id.0 as i64])?;
            writer.note_accepted(writer.summary(id)?);
            tracing::info!(event = "message.retried", %id);
            Ok(())
        })
    }

    /// Messages that wait, or are uncertain or failed, are given up.
    pub(super) fn drop_messages(&mut self, names: &[String]) -> Result<Vec<InboxMessage>, InboxError> {
        self.each(names, |writer, id, refused| {
            let state = writer.message_state(id)?;
            match state {
                MessageState::Accepted | MessageState::Uncertain | MessageState::Failed => {}
                MessageState::InFlight => {
                    return refused("it is being typed: see what becomes of it (ccmux inbox show)");
                }
                _ => return refused("nothing is left to drop"),
            }
            writer.leave_queue(id)?;
            let sql = "UPDATE messages SET state = 'failed', reason = ?2, seen_at = ?3 WHERE id = ?1";
            writer.change("drop", sql, params![id.0 as i64, DROPPED, unix_ms()])?;
            if state == MessageState::Accepted {
                writer.note_event(Event::MessageDropped { message: id });
            }
            tracing::info!(event = "message.dropped", %id, from = state.word());
            Ok(())
        })
    }

    fn each(
        &mut self,
        names: &[String],
        mut change: impl FnMut(
            &mut Self,
            MessageId,
            &dyn Fn(&'static str) -> Result<(), InboxError>,
        ) -> Result<(), InboxError>,
    ) -> Result<Vec<InboxMessage>, InboxError> {
        let mut changed = Vec::new();
        for name in names {
            let id = self.named(name)?;
            let state = self.message_state(id)?;
            let refused = |why| Err(InboxError::NotNow { message: name.clone(), state, why });
            change(self, id, &refused)?;
            changed.push(self.as_shown(id)?);
        }
        Ok(changed)
    }

    fn as_shown(&self, id: MessageId) -> Result<InboxMessage, InboxError> {
        let sql = format!("{COLUMNS} FROM messages WHERE id = ?2");
        let found = self.list("read message", &sql, params![PREVIEW, id.0 as i64], message_of)?;
        found.into_iter().next().ok_or(InboxError::NoMessage(id))
    }

    /// The one message that goes by that name: `ID`, or `CHANNEL/ID`.
    fn named(&self, name: &str) -> Result<MessageId, InboxError> {
        let mut found = self.candidates(name, None)?;
        if let Some((channel, id)) = name.split_once('/')
            && let Ok(channel) = channel.parse()
        {
            found.extend(self.candidates(id, Some(&channel))?);
        }
        match found.as_slice() {
            [] => Err(InboxError::Unnamed(format!("there is no message {name:?}: see ccmux inbox list"))),
            [only] => Ok(only.id),
            several => Err(InboxError::Unnamed(ambiguous(name, several))),
        }
    }

    fn candidates(&self, id: &str, on: Option<&ChannelName>) -> Result<Vec<Candidate>, InboxError> {
        let row = id.strip_prefix("m-").and_then(|row| row.parse::<i64>().ok());
        let values: [&dyn ToSql; 3] = [&id, &row, &on.map(ChannelName::as_str)];
        self.list("find message", NAMED, values, |row| {
            let (id, channel) = (MessageId(unsigned(row, 0)?), channel(row, 2)?);
            Ok(Candidate { id, channel, public: public_id(row, 0, 1)? })
        })
    }

    fn note_seen(&self, id: MessageId, state: MessageState) -> Result<(), InboxError> {
        if state == MessageState::Uncertain {
            let sql = "UPDATE messages SET seen_at = ?2 WHERE id = ?1 AND seen_at IS NULL";
            self.change("note seen", sql, params![id.0 as i64, unix_ms()])?;
        }
        Ok(())
    }
}

fn ambiguous(name: &str, several: &[Candidate]) -> String {
    let shown = several.iter().take(CANDIDATES);
    let names: Vec<String> = shown.map(|one| format!("{}/{}", one.channel, one.public)).collect();
    let more = if several.len() > CANDIDATES { ", ..." } else { "" };
    format!("{name:?} names several messages: {}{more}", names.join(", "))
}

fn message_of(row: &Row<'_>) -> rusqlite::Result<InboxMessage> {
    let receipt = receipt_of(row)?.with_legs();
    let shown: String = row.get(12)?;
    Ok(InboxMessage {
        shown: (shown != receipt.channel.as_str()).then_some(shown),
        receipt,
        redelivered: row.get(13)?,
        failures: row.get(14)?,
        batch: row.get::<_, Option<i64>>(15)?.map(|batch| BatchId(batch as u64)),
        bytes: unsigned(row, 16)?,
        preview: row.get(17)?,
        content: None,
        meta: None,
        sent_at: None,
    })
}
