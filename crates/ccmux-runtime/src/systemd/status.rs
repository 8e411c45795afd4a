//! The line of `systemctl status`: the state word, and whether messages wait. Said when it changes.

use ccmux_policy::PolicyStatus;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Systemd;

/// The task.
#[derive(Debug)]
pub struct StatusTeller {
    /// Whom to tell.
    pub systemd: Systemd,
    /// What is believed.
    pub policy: watch::Receiver<PolicyStatus>,
    /// Ends it.
    pub shutdown: CancellationToken,
}

impl StatusTeller {
    /// Runs until shutdown, or until nobody decides any more.
    pub async fn run(self) {
        tokio::select! {
            () = self.shutdown.cancelled() => {}
            () = self.follow() => {}
        }
    }

    async fn follow(&self) {
        let mut policy = self.policy.clone();
        let mut told = String::new();
        loop {
            let text = line(&policy.borrow_and_update());
            if text != told {
                self.systemd.status(&text);
                told = text;
            }
            if policy.changed().await.is_err() {
                return;
            }
        }
    }
}

/// No count: it would be said anew with every message.
fn line(status: &PolicyStatus) -> String {
    let waiting = if status.messages > 0 { "; messages wait" } else { "" };
    format!("{}{waiting}", status.state.word())
}
