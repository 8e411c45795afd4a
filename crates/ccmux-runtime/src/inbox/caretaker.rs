//! Looks after the database when nothing is ordered: once a minute whether the file is still there, once an hour what may
//! be forgotten. Tells what befell it.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::handle::Inbox;

/// Between two looks at the file.
const LOOK: Duration = Duration::from_secs(60);
/// Between two times of forgetting.
const FORGET: Duration = Duration::from_secs(3_600);
/// Between two steps of it: others order something, too.
const BREATHE: Duration = Duration::from_millis(50);

/// The task.
#[derive(Debug)]
pub struct Caretaker {
    /// The database.
    pub inbox: Inbox,
    /// Sentences about damage.
    pub notices: mpsc::UnboundedReceiver<String>,
    /// Ends it.
    pub shutdown: CancellationToken,
}

impl Caretaker {
    /// Runs until shutdown. `tell` makes an alert of a sentence.
    pub async fn run<T: Future<Output = ()>>(mut self, tell: impl Fn(String) -> T) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut forget_at = Instant::now();
        loop {
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                notice = self.notices.recv() => match notice {
                    Some(notice) => tell(notice).await,
                    None => return,
                },
                _ = looks.tick() => {
                    let _ = self.inbox.look_after().await;
                    if Instant::now() >= forget_at {
                        forget_at = Instant::now() + FORGET;
                        self.forget().await;
                    }
                }
            }
        }
    }

    async fn forget(&self) {
        let mut messages = 0;
        loop {
            match self.inbox.forget_some().await {
                Ok(forgotten) => {
                    messages += forgotten.messages;
                    if !forgotten.more {
                        break;
                    }
                }
                Err(error) => {
                    tracing::warn!(event = "inbox.not_forgotten", %error);
                    break;
                }
            }
            tokio::select! {
                () = sleep(BREATHE) => {}
                () = self.shutdown.cancelled() => break,
            }
        }
        if messages > 0 {
            tracing::info!(event = "inbox.forgot", messages);
        }
    }
}
