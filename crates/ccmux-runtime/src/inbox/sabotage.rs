//! Breaks the promise on purpose, with the feature `sabotage`: a batch is typed before it is recorded, and recorded only
//! once its fate is known. Nobody notices while the daemon lives. A daemon that is killed in between types its messages
//! again, and `cargo xtask chaos --sabotage` must see that: a proof that can't fail proves nothing.
//!
//! Never part of a build that people are given.

use std::sync::{Arc, Mutex, PoisonError};

use ccmux_policy::UnixMs;
use ccmux_wire::id::{BatchId, MessageId};

use super::error::InboxError;
use super::handle::Inbox;
use super::message::Mark;

/// A batch as it should have been recorded.
pub(super) struct Unrecorded {
    pub batch: BatchId,
    pub messages: Vec<MessageId>,
    pub text: Arc<str>,
    pub mark: Mark,
    pub now: UnixMs,
}

/// There is one batch at a time.
static UNRECORDED: Mutex<Option<Unrecorded>> = Mutex::new(None);

/// Says "recorded" and records nothing.
pub(super) fn keep_in_mind(batch: Unrecorded) {
    *UNRECORDED.lock().unwrap_or_else(PoisonError::into_inner) = Some(batch);
}

impl Inbox {
    /// Records now what should have been recorded before the first key.
    pub(super) async fn record_late(&self, batch: BatchId) -> Result<(), InboxError> {
        let kept =
            UNRECORDED.lock().unwrap_or_else(PoisonError::into_inner).take_if(|kept| kept.batch == batch);
        match kept {
            None => Ok(()),
            Some(Unrecorded { batch, messages, text, mark, now }) => {
                self.ask(move |writer| writer.begin_batch(batch, &messages, &text, &mark, now)).await
            }
        }
    }
}

/// A batch that is not recorded can't be noted as pasted either.
pub(super) fn is_in_mind(batch: BatchId) -> bool {
    let kept = UNRECORDED.lock().unwrap_or_else(PoisonError::into_inner);
    kept.as_ref().is_some_and(|kept| kept.batch == batch)
}
