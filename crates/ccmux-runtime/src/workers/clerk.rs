//! Writes down what the policy decides about messages, in order, and records a batch before it is typed.
//!
//! It types nothing, and does not know why something is to be written down.

use std::sync::Arc;

use ccmux_policy::{Effect, Event, UnixMs};
use ccmux_wire::id::{BatchId, MessageId};
use tokio::sync::{mpsc, watch};

use super::on_the_way::{OnTheWay, TextOnTheWay};
use super::starter::AgentNow;
use crate::clock::{Clock, unix_ms};
use crate::inbox::{Body, Inbox, InboxError, Mark, Proved, stopped, until_done};
use crate::prompt::{Part, compose};
use crate::turns::Turns;

/// The task.
#[derive(Debug)]
pub struct Clerk {
    /// What is ordered.
    pub orders: mpsc::UnboundedReceiver<Effect>,
    /// What is answered.
    pub events: mpsc::Sender<Event>,
    /// Types the batch once it is recorded.
    pub typist: mpsc::UnboundedSender<Effect>,
    /// The database.
    pub inbox: Inbox,
    /// Knows where the transcript ends.
    pub turns: Turns,
    /// Texts between paste and receipt.
    pub on_the_way: OnTheWay,
    /// The agent to type for.
    pub agent: watch::Receiver<Option<AgentNow>>,
    /// Local times.
    pub clock: Clock,
}

impl Clerk {
    /// Runs until nobody orders any more, or the daemon stops while the database refuses.
    pub async fn run(mut self) {
        while let Some(order) = self.orders.recv().await {
            let done = match order {
                Effect::Inject { batch, messages } => tokio::select! {
                    () = self.inject(batch, messages) => Some(()),
                    () = stopped(&self.events) => None,
                },
                other => self.record(other).await,
            };
            if done.is_none() {
                return;
            }
        }
    }

    async fn inject(&self, batch: BatchId, messages: Vec<MessageId>) {
        match self.begin(batch, messages.clone()).await {
            Ok(()) => {
                let _ = self.typist.send(Effect::Inject { batch, messages });
            }
            Err(reason) => {
                tracing::error!(event = "batch.not_recorded", %batch, %reason);
                let _ = self.events.send(Event::PasteRefused { batch, reason }).await;
            }
        }
    }

    /// In flight before the first key: a daemon that dies in between finds the batch again.
    async fn begin(&self, batch: BatchId, messages: Vec<MessageId>) -> Result<(), String> {
        let agent = self.agent.borrow().clone().ok_or("the agent does not run")?;
        let bodies = self.inbox.bodies(messages.clone()).await.map_err(|error| error.to_string())?;
        let text = text_of(&bodies, &self.clock);
        let mark = self.mark(&agent).await;
        let begun = self.inbox.begin_batch(batch, messages, Arc::clone(&text), mark, unix_ms()).await;
        begun.map_err(|error| error.to_string())?;
        self.on_the_way.add(TextOnTheWay { batch, text, pid: agent.pid });
        Ok(())
    }

    async fn mark(&self, agent: &AgentNow) -> Mark {
        let mark = match &agent.session {
            Some(session) => self.turns.mark(session).await.unwrap_or_else(|error| {
                tracing::warn!(event = "transcript.refused", %session, %error);
                None
            }),
            None => None,
        };
        let (transcript_path, offset) = mark.map_or((None, 0), |mark| (Some(mark.path), mark.offset));
        Mark { transcript_path, offset, agent_pid: Some(agent.pid) }
    }

    /// A record that is lost would leave policy and database of two minds for ever: it is tried until it is stored, and
    /// later orders wait behind it. `None`: the daemon stopped before; the next one finds the batch in flight.
    async fn record(&self, order: Effect) -> Option<()> {
        let at = Proved { entered_at: self.entered_at(&order), proved_at: unix_ms() };
        self.note(&order);
        let attempt = || self.store(&order, at);
        let done = until_done("record", InboxError::may_pass, stopped(&self.events), attempt).await?;
        if let Err(error) = done {
            tracing::error!(event = "inbox.failed", order = ?order, %error);
        }
        Some(())
    }

    fn entered_at(&self, order: &Effect) -> Option<UnixMs> {
        match order {
            Effect::RecordDelivered { batch, .. } => self.on_the_way.entered_at(*batch),
            _ => None,
        }
    }

    fn note(&self, order: &Effect) {
        match order {
            Effect::RecordDelivered { batch, proof, .. } => {
                self.on_the_way.delivered(*batch);
                tracing::info!(event = "batch.delivered", %batch, proof = proof.word());
            }
            Effect::RecordUncertain { batch, reason } => {
                tracing::warn!(event = "batch.uncertain", %batch, %reason);
            }
            Effect::RecordRequeued { batch, attempt } => {
                self.on_the_way.remove(*batch);
                tracing::info!(event = "batch.requeued", %batch, ?attempt);
            }
            Effect::RecordFailed { message, reason } => {
                tracing::warn!(event = "message.failed", %message, %reason);
            }
            Effect::RecordExpired { message } => tracing::warn!(event = "message.expired", %message),
            _ => {}
        }
    }

    async fn store(&self, order: &Effect, at: Proved) -> Result<(), InboxError> {
        match order {
            Effect::RecordDelivered { batch, proof, prompt } => {
                self.inbox.delivered(*batch, *proof, prompt.clone(), at).await
            }
            Effect::RecordUncertain { batch, reason } => self.inbox.uncertain(*batch, reason.clone()).await,
            Effect::RecordRequeued { batch, attempt } => {
                ignore_unknown(self.inbox.requeued(*batch, *attempt).await, !attempt.is_untyped())
            }
            Effect::RecordFailed { message, reason } => self.inbox.failed(*message, reason.clone()).await,
            Effect::RecordExpired { message } => self.inbox.expired(*message).await,
            _ => Ok(()),
        }
    }
}

/// A batch that could not even be recorded has nothing to take back.
fn ignore_unknown(done: Result<(), InboxError>, typed: bool) -> Result<(), InboxError> {
    match done {
        Err(error) if !typed && !error.is_storage() => Ok(()),
        other => other,
    }
}

/// The prompt that a batch becomes.
fn text_of(bodies: &[Body], clock: &Clock) -> Arc<str> {
    let parts: Vec<Part<'_>> = bodies
        .iter()
        .map(|body| Part {
            at_wall: UnixMs(body.ts_ms),
            label: &body.shown,
            content: &body.content,
            redelivered: body.redelivered,
        })
        .collect();
    compose(&parts, &|at| clock.utc_offset_at(at)).into()
}

#[cfg(test)]
mod tests;
