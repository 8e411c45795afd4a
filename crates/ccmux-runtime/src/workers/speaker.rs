//! Publishes turns and alerts. A turn that waits for its transcript holds up later turns, never an alert.

use ccmux_policy::{AlertKind, Effect, Event};
use ccmux_wire::id::{MessageId, SessionId};
use tokio::sync::mpsc;

use crate::inbox::Inbox;
use crate::turns::{TurnOrder, Turns};

/// The task.
#[derive(Debug)]
pub struct Speaker {
    /// What is ordered.
    pub orders: mpsc::UnboundedReceiver<Effect>,
    /// What is answered.
    pub events: mpsc::Sender<Event>,
    /// Reads, stores and broadcasts.
    pub turns: Turns,
    /// Knows the messages.
    pub inbox: Inbox,
}

impl Speaker {
    /// Runs until nobody orders any more.
    pub async fn run(mut self) {
        let (turn_orders, waiting) = mpsc::unbounded_channel();
        let publisher = Publisher {
            orders: waiting,
            events: self.events,
            turns: self.turns.clone(),
            inbox: self.inbox.clone(),
        };
        let publisher = tokio::spawn(publisher.run());
        while let Some(order) = self.orders.recv().await {
            match order {
                Effect::Alert { kind, session, messages, message } => {
                    alert(&self.turns, &self.inbox, kind, session, messages, message).await;
                }
                turn => {
                    let _ = turn_orders.send(turn);
                }
            }
        }
        drop(turn_orders);
        let _ = publisher.await;
    }
}

/// Stores and broadcasts an alert, with the ids that the messages' senders know.
pub async fn alert(
    turns: &Turns,
    inbox: &Inbox,
    kind: AlertKind,
    session: Option<SessionId>,
    messages: Vec<MessageId>,
    message: String,
) {
    tracing::warn!(event = "alert", kind = kind.word(), %message);
    let ids = match inbox.reply_to(messages).await {
        Ok(senders) => senders.into_iter().map(|sender| sender.id).collect(),
        Err(_) => Vec::new(),
    };
    if let Err(error) = turns.alert(kind, message, session, ids).await {
        tracing::error!(event = "alert.failed", kind = kind.word(), %error);
    }
}

/// Turns, one after the other.
struct Publisher {
    orders: mpsc::UnboundedReceiver<Effect>,
    events: mpsc::Sender<Event>,
    turns: Turns,
    inbox: Inbox,
}

impl Publisher {
    async fn run(mut self) {
        while let Some(order) = self.orders.recv().await {
            let Effect::PublishTurn { session, prompt, in_reply_to, answers, interrupted } = order else {
                continue;
            };
            let in_reply_to = self.inbox.reply_to(in_reply_to).await.unwrap_or_default();
            let order = TurnOrder { session: session.clone(), prompt, in_reply_to, interrupted };
            match self.turns.publish(order).await {
                Ok(Some(seq)) => {
                    tracing::info!(event = "turn.published", %session, %seq);
                    if let Err(error) = self.inbox.answered(answers, seq).await {
                        tracing::error!(event = "inbox.failed", %error);
                    }
                    let _ = self.events.send(Event::TurnPublished { session, seq }).await;
                }
                Ok(None) => tracing::debug!(event = "turn.nothing_new", %session),
                Err(error) => tracing::error!(event = "turn.failed", %session, %error),
            }
        }
    }
}
