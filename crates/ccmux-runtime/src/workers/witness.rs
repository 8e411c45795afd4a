//! Searches the transcript for a batch: the second witness of a delivery.
//!
//! It judges nothing: what follows from found, absent or unreadable is for the policy to decide.

use ccmux_policy::event::Found;
use ccmux_policy::{Effect, Event};
use ccmux_wire::id::{BatchId, PromptId};
use tokio::sync::mpsc;

use super::on_the_way::OnTheWay;
use crate::inbox::{Inbox, InboxError, stopped, until_done};
use crate::prompt::{contains_prompt, same_prompt};
use crate::turns::{Mark, Turns};

/// The task.
#[derive(Debug)]
pub struct Witness {
    /// What is ordered.
    pub orders: mpsc::UnboundedReceiver<Effect>,
    /// What is answered.
    pub events: mpsc::Sender<Event>,
    /// Knows where to look.
    pub inbox: Inbox,
    /// Reads transcripts.
    pub turns: Turns,
    /// Texts between paste and receipt.
    pub on_the_way: OnTheWay,
}

impl Witness {
    /// Runs until nobody orders any more. Every order is answered while somebody listens.
    pub async fn run(mut self) {
        while let Some(order) = self.orders.recv().await {
            let Effect::FindInTranscript { batch } = order else {
                continue;
            };
            let Some((found, prompt)) = self.search(batch).await else {
                return;
            };
            tracing::debug!(event = "batch.searched", %batch, ?found);
            if self.events.send(Event::TranscriptSearched { batch, found, prompt }).await.is_err() {
                return;
            }
        }
    }

    /// `None`: the daemon stopped before the database answered.
    async fn search(&self, batch: BatchId) -> Option<(Found, Option<PromptId>)> {
        let unreadable = Some((Found::Unreadable, None));
        let Some(known) = self.on_the_way.get(batch) else {
            return unreadable;
        };
        // A database that is locked for a while says nothing about the transcript.
        let read = || self.inbox.batch(batch);
        let row = until_done("read batch", InboxError::may_pass, stopped(&self.events), read).await?;
        let Ok(Some(row)) = row else {
            return unreadable;
        };
        let Some(path) = row.mark.transcript_path else {
            return unreadable;
        };
        let mark = Mark { path, offset: row.mark.offset };
        let same = |reported: &str, ours: &str| same_prompt(ours, reported);
        Some(self.turns.find_batch(mark, known.text.to_string(), same, contains_prompt).await)
    }
}
