//! Turns that somebody else shows us: the `broadcast` frame of `control.sock`, which older hooks send.
//!
//! ```text
//! frame ─► the last turn ends with its words? ─► ignored
//!              │ no: 2 s for the transcript
//!              └► and now? ─► ignored
//!                    │ no
//!                    └► published, with "source":"broadcast"
//! ```
//!
//! The transcript is always better: it has all blocks, its prompt, and what the turn answers. This is for when it can't
//! be read. Knows no socket; who may offer is asked elsewhere.

use std::time::Duration;

use ccmux_wire::id::{Seq, SessionId};
use ccmux_wire::output::TurnSource;
use serde_json::Value;
use tokio::time::sleep;

use super::sessions::Session;
use super::store::NewTurn;
use super::transcript::TurnBody;
use super::{Room, Turns, TurnsError, blocking, ends_with_words, unix_seconds};

/// The transcript shows a turn that soon, or not in time.
const SHOWN_WITHIN: Duration = Duration::from_secs(2);

/// So many offers are considered at once; each holds a turn in memory.
pub(super) const MAX_OFFERS: usize = 8;

/// A turn as it was shown.
#[derive(Debug, Clone)]
pub struct Offer {
    session: SessionId,
    blocks: Vec<Value>,
    /// What it says last: by that the transcript's turn is known.
    last_text: String,
}

impl Offer {
    /// Content blocks; the last of the texts among them tells which turn it is.
    ///
    /// # Errors
    /// A sentence about what is missing.
    pub fn new(session: SessionId, blocks: Vec<Value>) -> Result<Self, String> {
        if blocks.iter().any(|block| block.get("type").and_then(Value::as_str).is_none()) {
            return Err("the turn is no list of content blocks".to_owned());
        }
        let last_text = blocks.iter().rev().find_map(super::transcript::line::block_text);
        match last_text.map(str::to_owned).filter(|text| !text.trim().is_empty()) {
            Some(last_text) => Ok(Self { session, blocks, last_text }),
            None => Err("the turn says nothing: it has no text block".to_owned()),
        }
    }
}

impl Turns {
    /// Publishes a turn that was shown, if the transcript does not show it in time. `None`: it did, or too many were
    /// shown at once.
    ///
    /// # Errors
    /// What the database says.
    pub async fn offer(&self, offer: Offer) -> Result<Option<Seq>, TurnsError> {
        let Ok(_place) = self.0.offers.try_acquire() else {
            tracing::warn!(event = "turn.offer_dropped", session = %offer.session);
            return Ok(None);
        };
        let turns = self.clone();
        let (turns_now, now) = (turns.clone(), offer.clone());
        if blocking(move || turns_now.0.has_shown(&now)).await? {
            return Ok(None);
        }
        sleep(SHOWN_WITHIN).await;
        let session = self.0.sessions.of(&offer.session);
        // Whatever is being read now is awaited: it may be this turn.
        let _turn_of_this_session = session.busy.lock().await;
        let session = std::sync::Arc::clone(&session);
        blocking(move || turns.0.publish_offer(&session, offer)).await
    }
}

impl Room {
    /// The session's last turn is the offered one.
    fn has_shown(&self, offer: &Offer) -> Result<bool, TurnsError> {
        let last = self.store.last_turn(&offer.session)?;
        Ok(last.is_some_and(|turn| ends_with_words(&turn.turn, &offer.last_text)))
    }

    fn publish_offer(&self, session: &Session, offer: Offer) -> Result<Option<Seq>, TurnsError> {
        if self.has_shown(&offer)? {
            return Ok(None);
        }
        let ts = unix_seconds();
        let body = TurnBody {
            blocks: offer.blocks,
            last_uuid: Some(format!("broadcast after {}", self.broadcast.last_seq())),
            source: Some(TurnSource::Broadcast),
            ..TurnBody::default()
        };
        let turn = NewTurn { session: offer.session, ts, in_reply_to: Vec::new(), body };
        self.count(&turn);
        let owner = turn.session.clone();
        let lines = self.stored_and_sent(|| Ok(self.store.append_told(turn)?.into_iter().collect()))?;
        let seq = lines.last().map(super::Line::seq);
        if let Some(seq) = seq {
            session.note_told(seq, offer.last_text);
            tracing::info!(event = "turn.published", session = %owner, seq = seq.0, source = "broadcast");
        }
        Ok(seq)
    }
}
