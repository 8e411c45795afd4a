//! Between the writer and the event loop. The loop may wait for an order to the inbox while its channel is full, so the writer
//! must never wait for the loop: what the channel has no room for waits for a thread.
//!
//! ```text
//! writer ─ send ─┬ nothing waits, and there is room ───────────────► the loop's channel
//!                └ else ─► without a limit ─► thread, when there is room ─┘
//! ```
//!
//! Order is kept: nothing goes straight while anything waits. What piles up is bounded by the queue's limits. It does not know
//! what an event is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc as std_mpsc;

use ccmux_policy::Event;
use tokio::sync::mpsc;

use super::error::InboxError;
use super::handle::spawn;

/// The writer's end. There is one: two would overtake each other.
#[derive(Debug)]
pub(super) struct Forward {
    events: mpsc::Sender<Event>,
    without_limit: std_mpsc::Sender<Event>,
    /// Events that the thread has not passed on yet.
    waiting: Arc<AtomicUsize>,
}

impl Forward {
    /// Starts the thread. It ends once this is dropped and all is passed on, or nobody takes events any more.
    pub(super) fn start(events: mpsc::Sender<Event>) -> Result<Self, InboxError> {
        let (without_limit, late) = std_mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let (accepted, passed_on) = (events.clone(), Arc::clone(&waiting));
        spawn("ccmux-accepted", move || {
            for event in late {
                if accepted.blocking_send(event).is_err() {
                    return;
                }
                passed_on.fetch_sub(1, Ordering::Release);
            }
        })?;
        Ok(Self { events, without_limit, waiting })
    }

    /// Never waits.
    pub(super) fn send(&self, event: Event) {
        let late = if self.waiting.load(Ordering::Acquire) == 0 {
            match self.events.try_send(event) {
                Err(mpsc::error::TrySendError::Full(event)) => event,
                Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => return,
            }
        } else {
            event
        };
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _ = self.without_limit.send(late);
    }
}
