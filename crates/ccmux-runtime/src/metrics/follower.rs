//! Follows the receipts of the inbox: each committed change of a message, counted once.
//!
//! A message that is put back is `accepted` again and was accepted before: only a number higher than all before is a new
//! one. Numbers are given in the order of the commits.

use std::sync::Arc;

use ccmux_wire::id::MessageId;
use ccmux_wire::receipt::{MessageState, Receipt};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::Metrics;

/// The task.
#[derive(Debug)]
pub struct Follower {
    /// Counts.
    pub metrics: Metrics,
    /// Every change.
    pub receipts: Receiver<Arc<(MessageId, Receipt)>>,
    /// Ends it.
    pub shutdown: CancellationToken,
}

impl Follower {
    /// Runs until shutdown, or until the inbox is closed.
    pub async fn run(mut self) {
        let mut newest = MessageId(0);
        loop {
            let change = tokio::select! {
                () = self.shutdown.cancelled() => return,
                change = self.receipts.recv() => change,
            };
            match change {
                Ok(changed) => {
                    let (id, receipt) = &*changed;
                    let is_known = match receipt.state {
                        MessageState::Accepted => *id <= newest,
                        // That nobody answers it is said later.
                        MessageState::Delivered => receipt.goes_no_further(),
                        _ => false,
                    };
                    if !is_known {
                        self.metrics.reached(receipt);
                    }
                    newest = newest.max(*id);
                }
                Err(RecvError::Lagged(missed)) => self.metrics.missed(missed),
                Err(RecvError::Closed) => return,
            }
        }
    }
}
