//! An order to publish → what is read for it, stored and sent.
//!
//! ```text
//! order of P ─► P's turn published before? ─► nothing
//!                  │ no
//!                  └► read from the cursor through P's turn ─► store with the cursor ─► send
//!                       those before it: missed, in reply to an earlier daemon's messages, or to nobody
//! ```
//!
//! Everything here blocks: callers are threads. Knows no file, and no SQL.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ccmux_wire::id::{PromptId, Seq};
use ccmux_wire::output::ReplyTo;

use super::broadcast::Line;
use super::sessions::Session;
use super::store::NewTurn;
use super::transcript::{Cursor, Read, TurnBody, TurnRequest};
use super::{Room, TurnOrder, TurnsError, ends_with_words, unix_seconds};
use crate::body::logged;

impl Room {
    pub(super) fn publish(&self, session: &Session, order: &TurnOrder) -> Result<Option<Seq>, TurnsError> {
        let known = self.store.cursor(&order.session)?;
        let path = session.transcript().or_else(|| known.as_ref().map(|cursor| cursor.path.clone()));
        let path = path.ok_or_else(|| TurnsError::NoTranscript(order.session.clone()))?;
        let known = known.filter(|cursor| cursor.path == path);
        let Some(request) = self.request(session, order, known.as_ref())? else {
            return Ok(None);
        };
        let mut cursor = known.unwrap_or_else(|| Cursor::start_of(&path));
        loop {
            let mut read = self.read(&cursor, &request)?;
            if order.interrupted {
                session.note_failure(read.failure.take());
            }
            if read.turns.is_empty() && read.cursor == cursor {
                return Ok(None);
            }
            let (more, next) = (read.more, read.cursor.clone());
            let seq = self.publish_read(session, order, &cursor, read)?;
            if !more {
                return Ok(seq);
            }
            cursor = next;
        }
    }

    /// What to read for an order; `None` if its turn was published.
    fn request(
        &self,
        session: &Session,
        order: &TurnOrder,
        cursor: Option<&Cursor>,
    ) -> Result<Option<TurnRequest>, TurnsError> {
        let words = if order.interrupted { None } else { session.last_message(order.prompt.as_ref()) };
        let mut request = TurnRequest::new(order.prompt.clone(), words);
        let Some(cursor) = cursor else {
            // Nobody knows which of the turns in the file are old.
            request.only_last = true;
            return Ok(Some(request));
        };
        if self.is_behind(cursor, order)? {
            return Ok(None);
        }
        request.old_before = self.store.cursor_stored_at(&order.session)?;
        if order.prompt.is_none() {
            (request.until, request.running) = (order.until, session.running());
        }
        request.continues =
            cursor.prompt.is_some() && order.prompt.as_ref().is_none_or(|_| cursor.prompt == order.prompt);
        if request.continues && !self.goes_on(order, &mut request)? {
            return Ok(None);
        }
        Ok(Some(request))
    }

    /// The turn of that prompt was published, and others since.
    fn is_behind(&self, cursor: &Cursor, order: &TurnOrder) -> Result<bool, TurnsError> {
        match &order.prompt {
            Some(prompt) if cursor.prompt != order.prompt => {
                Ok(self.store.turn_of(&order.session, prompt)?.is_some())
            }
            _ => Ok(false),
        }
    }

    /// Whether more may come of the session's last turn. A Stop that says what the turn ended with is most often the same
    /// once more; but the model may say "done" twice: what is in the file is looked at, and nothing is waited for.
    fn goes_on(&self, order: &TurnOrder, request: &mut TurnRequest) -> Result<bool, TurnsError> {
        let last = self.store.last_turn(&order.session)?;
        let partial = last.as_ref().is_some_and(|turn| turn.partial);
        let Some(words) = &request.last_message else {
            // The late rest of a partial turn is no turn of its own.
            request.continues = !partial;
            return Ok(order.prompt.is_none() || !partial);
        };
        let repeated =
            last.is_some_and(|turn| turn.prompt_id == order.prompt && ends_with_words(&turn.turn, words));
        if repeated {
            (request.last_message, request.wait, request.quiet) = (None, Duration::ZERO, Duration::ZERO);
        }
        Ok(!(repeated && partial))
    }

    /// A transcript that can't be read is no reason to keep back what the hook said.
    fn read(&self, cursor: &Cursor, request: &TurnRequest) -> Result<Read, TurnsError> {
        match (self.reader.read_turn(cursor, request), &request.last_message) {
            (Err(error), Some(words)) => {
                tracing::warn!(event = "transcript.unreadable", %error);
                let mut cursor = cursor.clone();
                cursor.prompt.clone_from(&request.prompt);
                let turns = vec![TurnBody::of_words(request.prompt.clone(), words)];
                Ok(Read { turns, holds_wanted: true, failure: None, more: false, cursor, bytes_read: 0 })
            }
            (read, _) => Ok(read?),
        }
    }

    /// Stores and sends what was read behind `cursor`. The order's messages belong to the wanted turn; those before it
    /// were missed.
    fn publish_read(
        &self,
        session: &Session,
        order: &TurnOrder,
        cursor: &Cursor,
        mut read: Read,
    ) -> Result<Option<Seq>, TurnsError> {
        let now = unix_seconds();
        let told = session.take_told(read.turns.first().map(|body| body.last_text.as_str()));
        let told = told.map(|seq| (seq, read.turns.remove(0)));
        let count = read.turns.len();
        let own = read.holds_wanted.then(|| count.checked_sub(1)).flatten();
        let mut in_reply_to = self.in_reply_to(order, cursor, own.and_then(|own| read.turns.get(own)))?;
        let turns = read.turns.into_iter().enumerate().map(|(n, body)| {
            let own = if Some(n) == own { std::mem::take(&mut in_reply_to) } else { Vec::new() };
            let in_reply_to = if own.is_empty() { earlier(order, &body) } else { own };
            NewTurn { session: order.session.clone(), ts: now, in_reply_to, body }
        });
        let turns: Vec<NewTurn> = turns.collect();
        turns.iter().for_each(|turn| self.count(turn));
        let lines =
            self.stored_and_sent(|| self.store.append_turns(turns, &order.session, &read.cursor, now))?;
        for line in &lines {
            let bytes = line.bytes().trim_ascii_end();
            tracing::info!(event = "turn.published", session = %order.session, seq = line.seq().0, bytes = bytes.len(), body = logged(bytes));
        }
        let own = lines.last().filter(|_| own.is_some() && lines.len() == count).map(Line::seq);
        Ok(own.or_else(|| told.filter(|_| read.holds_wanted && count == 0).map(|(seq, _)| seq)))
    }

    /// A turn that goes on after its Stop answers the same messages.
    fn in_reply_to(
        &self,
        order: &TurnOrder,
        cursor: &Cursor,
        own: Option<&TurnBody>,
    ) -> Result<Vec<ReplyTo>, TurnsError> {
        let goes_on = own.is_some_and(|own| own.prompt_id.is_some() && own.prompt_id == cursor.prompt);
        if !goes_on || !order.in_reply_to.is_empty() {
            return Ok(order.in_reply_to.clone());
        }
        Ok(self.store.last_turn(&order.session)?.map(|turn| turn.in_reply_to).unwrap_or_default())
    }

    pub(super) fn count(&self, turn: &NewTurn) {
        self.published.fetch_add(1, Relaxed);
        if turn.body.partial {
            self.partial.fetch_add(1, Relaxed);
            let prompt = turn.body.prompt_id.as_ref().map_or("", PromptId::as_str);
            tracing::warn!(event = "turn.partial", session = %turn.session, prompt);
        }
    }
}

/// What an earlier daemon delivered into that turn.
fn earlier(order: &TurnOrder, body: &TurnBody) -> Vec<ReplyTo> {
    let same = |(prompt, _): &&(PromptId, ReplyTo)| body.prompt_id.as_ref() == Some(prompt);
    order.earlier.iter().filter(same).map(|(_, name)| name.clone()).collect()
}
