//! Bytes → frames → rows, and the parse cursor that is committed with them.
//!
//! Whatever was received stays: complete messages as rows, the beginning of one as `partial` beside the cursor. So the
//! bytes below `received` need not be given again after a crash, and do no harm if they are.

use ccmux_wire::channel::ChannelName;
use ccmux_wire::id::MessageId;
use ccmux_wire::inbound::{
    self, Frame, Framer, InboundMessage, MAX_ID_BYTES, Parsed, Position, Skip, Terminator,
};
use ccmux_wire::receipt::{MessageState, Receipt};
use rusqlite::{OptionalExtension, params};

use super::error::{AcceptError, InboxError};
use super::message::{Accepted, Ingested, NewMessage, Rejected, Size};
use super::rows::made_id;
use super::writer::{Writer, unix_ms};
use crate::body::logged;

/// Bytes of a channel, and whether frames are left for which the queue had no room.
pub(super) struct Taken {
    pub ingested: Ingested,
    pub more: bool,
}

/// What became of a message on its way into the table.
enum Stored {
    New(MessageId),
    Known(MessageId),
    /// Nothing was left of it after sanitising.
    Blank,
}

/// How far to go with what a framer holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Upto {
    CompleteFrames,
    Everything,
}

impl Writer {
    /// Takes bytes that begin at `offset` of the channel's stream.
    pub(super) fn ingest(
        &mut self,
        channel: &ChannelName,
        offset: u64,
        bytes: &[u8],
    ) -> Result<Taken, InboxError> {
        let mut framer = self.take_framer(channel)?;
        let mut ingested = Ingested::default();
        if offset > framer.received() {
            framer = self.jump(channel, framer, offset, &mut ingested)?;
        }
        let known = usize::try_from(framer.received() - offset).unwrap_or(usize::MAX).min(bytes.len());
        framer.push(&bytes[known..]);
        self.drain(channel, framer, Upto::CompleteFrames, ingested)
    }

    /// Goes on with frames for which there was no room.
    pub(super) fn ingest_rest(&mut self, channel: &ChannelName) -> Result<Taken, InboxError> {
        let framer = self.take_framer(channel)?;
        self.drain(channel, framer, Upto::CompleteFrames, Ingested::default())
    }

    /// Nothing came for a while: what is held is accepted as it stands.
    pub(super) fn flush_quiet(&mut self, channel: &ChannelName) -> Result<Taken, InboxError> {
        let framer = self.take_framer(channel)?;
        self.drain(channel, framer, Upto::Everything, Ingested::default())
    }

    /// Where the channel's stream goes on, and whether something of it is held.
    pub(super) fn stream_state(&mut self, channel: &ChannelName) -> Result<(u64, bool), InboxError> {
        let framer = self.take_framer(channel)?;
        let state = (framer.received(), framer.pending());
        self.framers.insert(channel.clone(), framer);
        Ok(state)
    }

    /// Takes a message that came whole.
    pub(super) fn accept(&mut self, new: &NewMessage) -> Result<Result<Accepted, AcceptError>, InboxError> {
        let bytes = new.content.len() as u64;
        let limit = self.settings.message_bytes;
        if bytes > limit {
            return Ok(Err(AcceptError::TooLarge { bytes, limit }));
        }
        if let Some(bytes) = new.id.as_ref().map(String::len).filter(|len| !(1..=MAX_ID_BYTES).contains(len))
        {
            return Ok(Err(AcceptError::BadId { bytes, limit: MAX_ID_BYTES }));
        }
        if let Some(objection) = self.settings.channels.objection(new) {
            return Ok(Err(objection));
        }
        if !self.has_room() && self.find_known(new)?.is_none() {
            let queue = self.queue;
            return Ok(Err(AcceptError::QueueFull { messages: queue.messages, bytes: queue.bytes }));
        }
        let (message, duplicate) = match self.store(new)? {
            Stored::New(id) => (id, false),
            Stored::Known(id) => (id, true),
            Stored::Blank => return Ok(Err(AcceptError::Empty)),
        };
        Ok(Ok(Accepted { message, receipt: self.receipt(message)?, duplicate }))
    }

    /// Bytes are missing (the database is newer than the stream's log): what is held can't be completed any more.
    fn jump(
        &mut self,
        channel: &ChannelName,
        mut framer: Framer,
        offset: u64,
        ingested: &mut Ingested,
    ) -> Result<Framer, InboxError> {
        tracing::warn!(event = "channel.gap", %channel, from = framer.received(), to = offset);
        while let Some(frame) = framer.flush_quiet() {
            self.take_frame(channel, frame, ingested)?;
        }
        Ok(Framer::resume(self.message_limit(), Position { consumed: offset, skip: None }))
    }

    fn drain(
        &mut self,
        channel: &ChannelName,
        mut framer: Framer,
        upto: Upto,
        mut ingested: Ingested,
    ) -> Result<Taken, InboxError> {
        while self.has_room() {
            let frame = if upto == Upto::Everything { framer.flush_quiet() } else { framer.next_frame() };
            let Some(frame) = frame else { break };
            self.take_frame(channel, frame, &mut ingested)?;
        }
        let more = if upto == Upto::Everything { framer.pending() } else { framer.has_frame() };
        ingested.cursor = framer.consumed();
        ingested.received = framer.received();
        ingested.pending = framer.pending();
        self.store_framer(channel, &framer)?;
        self.framers.insert(channel.clone(), framer);
        Ok(Taken { ingested, more })
    }

    fn take_frame(
        &mut self,
        channel: &ChannelName,
        frame: Frame,
        into: &mut Ingested,
    ) -> Result<(), InboxError> {
        let bytes = frame_bytes(&frame);
        let format = self.settings.channels.format(channel);
        match inbound::parse_as(format, &frame, channel, unix_ms()) {
            Parsed::Ignored => Ok(()),
            Parsed::Rejected { reason, bytes } => {
                reject(channel, reason, (bytes, frame_body(&frame)), into);
                Ok(())
            }
            Parsed::Message(message) => self.take_message(channel, &heed_warnings(message), bytes, into),
        }
    }

    fn take_message(
        &mut self,
        channel: &ChannelName,
        message: &NewMessage,
        bytes: u64,
        into: &mut Ingested,
    ) -> Result<(), InboxError> {
        if let Some(objection) = self.settings.channels.objection(message) {
            reject(channel, objection.to_string(), (bytes, Some(message.content.as_bytes())), into);
            return Ok(());
        }
        if self.take_answer(message)? {
            return Ok(());
        }
        match self.store(message)? {
            Stored::New(_) => into.accepted += 1,
            Stored::Known(id) => {
                tracing::info!(event = "message.duplicate", %channel, first = %id);
                into.duplicates += 1;
            }
            Stored::Blank => {
                let why = "nothing but characters that are removed".to_owned();
                reject(channel, why, (bytes, Some(message.content.as_bytes())), into);
            }
        }
        Ok(())
    }

    fn store(&mut self, new: &NewMessage) -> Result<Stored, InboxError> {
        if let Some(known) = self.find_known(new)? {
            return Ok(Stored::Known(known));
        }
        let content = (self.texts.normalise)(&new.channel, &new.content);
        if content.trim().is_empty() {
            return Ok(Stored::Blank);
        }
        let size = (self.texts.measure)(&new.shown, &content);
        let sql = "INSERT INTO messages
            (channel, shown, sender_id, content, meta, ts, bytes, rows, state, accepted_at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'accepted', ?9)";
        let meta = new.meta.as_ref().map(ToString::to_string);
        let now = unix_ms();
        self.connection
            .prepare_cached(sql)
            .and_then(|mut insert| {
                insert.insert(params![
                    new.channel.as_str(),
                    new.shown,
                    new.id,
                    content,
                    meta,
                    new.ts_ms,
                    size.bytes as i64,
                    size.rows,
                    now
                ])
            })
            .map(|row| {
                self.note_body(MessageId(row as u64), logged(&content));
                self.note_stored(MessageId(row as u64), new, size, now)
            })
            .map_err(InboxError::during("store message"))
    }

    fn note_stored(&mut self, id: MessageId, new: &NewMessage, size: Size, now: i64) -> Stored {
        self.last_message = self.last_message.max(id);
        let channels = &self.settings.channels;
        let message = ccmux_policy::Message {
            id,
            channel: new.channel.clone(),
            bytes: size.bytes,
            rows: size.rows,
            failures: 0,
            priority: channels.priority(&new.channel),
            expires_at: channels.expires_at(&new.channel, now),
        };
        self.note_new(message, accepted_receipt(id, new, now));
        Stored::New(id)
    }

    fn find_known(&self, new: &NewMessage) -> Result<Option<MessageId>, InboxError> {
        let Some(sender_id) = &new.id else { return Ok(None) };
        self.connection
            .prepare_cached("SELECT id FROM messages WHERE channel = ?1 AND sender_id = ?2")
            .and_then(|mut find| {
                find.query_row(params![new.channel.as_str(), sender_id], |row| row.get(0)).optional()
            })
            .map(|found: Option<i64>| found.map(|row| MessageId(row as u64)))
            .map_err(InboxError::during("find message"))
    }

    /// Out of the map: whoever fails leaves it out, and it is rebuilt from the database.
    fn take_framer(&mut self, channel: &ChannelName) -> Result<Framer, InboxError> {
        match self.framers.remove(channel) {
            Some(framer) => Ok(framer),
            None => self.load_framer(channel).map_err(InboxError::during("read cursor")),
        }
    }

    fn load_framer(&self, channel: &ChannelName) -> rusqlite::Result<Framer> {
        let sql = "SELECT cursor, partial, skip_until, skipped FROM intake WHERE channel = ?1";
        let mut find = self.connection.prepare_cached(sql)?;
        let loaded = find.query_row([channel.as_str()], |row| {
            let skipped = row.get::<_, i64>(3)? as u64;
            let skip = row
                .get::<_, Option<String>>(2)?
                .map(|until| Skip { until: terminator_from_word(&until), bytes: skipped });
            let at = Position { consumed: row.get::<_, i64>(0)? as u64, skip };
            let mut framer = Framer::resume(self.message_limit(), at);
            framer.push(row.get_ref(1)?.as_blob()?);
            Ok(framer)
        });
        Ok(loaded.optional()?.unwrap_or_else(|| Framer::new(self.message_limit())))
    }

    fn store_framer(&self, channel: &ChannelName, framer: &Framer) -> Result<(), InboxError> {
        let sql =
            "INSERT INTO intake (channel, cursor, partial, skip_until, skipped) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (channel) DO UPDATE SET cursor = excluded.cursor, partial = excluded.partial,
            skip_until = excluded.skip_until, skipped = excluded.skipped";
        let at = framer.position();
        let until = at.skip.map(|skip| terminator_word(skip.until));
        let skipped = at.skip.map_or(0, |skip| skip.bytes);
        self.connection
            .prepare_cached(sql)
            .and_then(|mut upsert| {
                upsert.execute(params![
                    channel.as_str(),
                    at.consumed as i64,
                    framer.partial(),
                    until,
                    skipped as i64
                ])
            })
            .map(|_| ())
            .map_err(InboxError::during("store cursor"))
    }

    fn message_limit(&self) -> usize {
        usize::try_from(self.settings.message_bytes).unwrap_or(usize::MAX)
    }
}

/// What [`Writer::receipt`] would read.
fn accepted_receipt(id: MessageId, new: &NewMessage, now: i64) -> Receipt {
    Receipt {
        id: new.id.clone().unwrap_or_else(|| made_id(id)),
        channel: new.channel.clone(),
        state: MessageState::Accepted,
        proof: None,
        reason: None,
        accepted_at: now,
        injected_at: None,
        entered_at: None,
        delivered_at: None,
        answered_at: None,
        legs: None,
        turn_seq: None,
    }
}

fn frame_bytes(frame: &Frame) -> u64 {
    match frame {
        Frame::Line(bytes) | Frame::Block(bytes) => bytes.len() as u64,
        Frame::TooLong { bytes } => *bytes,
    }
}

/// Of what was too long, nothing is kept.
fn frame_body(frame: &Frame) -> Option<&[u8]> {
    match frame {
        Frame::Line(bytes) | Frame::Block(bytes) => Some(bytes),
        Frame::TooLong { .. } => None,
    }
}

fn reject(channel: &ChannelName, reason: String, (bytes, body): (u64, Option<&[u8]>), into: &mut Ingested) {
    tracing::warn!(event = "message.rejected", %channel, bytes, body = body.map(logged), reason);
    into.rejected.push(Rejected { channel: channel.clone(), reason, bytes });
}

fn heed_warnings(message: InboundMessage) -> NewMessage {
    for warning in &message.warnings {
        tracing::warn!(event = "message.warned", channel = %message.channel, warning);
    }
    NewMessage {
        channel: message.channel,
        shown: message.shown,
        content: message.content,
        id: message.id,
        meta: message.meta,
        ts_ms: message.ts_ms,
    }
}

fn terminator_word(until: Terminator) -> &'static str {
    match until {
        Terminator::Newline => "newline",
        Terminator::Nul => "nul",
    }
}

fn terminator_from_word(word: &str) -> Terminator {
    if word == "nul" { Terminator::Nul } else { Terminator::Newline }
}
