//! What `ccmux reload` and SIGHUP read again while the daemon runs: the screen rules, and nothing else yet.
//!
//! What is broken is refused with the reason, and what was in force stays. It knows no settings: they count from the
//! daemon's next start.

use std::sync::Arc;

use ccmux_policy::Event;
use ccmux_wire::control::Reloaded;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::screen::RuleBook;
use crate::systemd::Systemd;

/// Reads again; clones do the same.
#[derive(Debug, Clone)]
pub struct Reloader {
    /// The screen rules.
    pub rules: RuleBook,
    /// To have the screen looked at anew.
    pub events: mpsc::Sender<Event>,
    /// To be told when it was asked for by a signal.
    pub systemd: Systemd,
}

impl Reloader {
    /// Reads everything again that can be.
    ///
    /// # Errors
    /// What is wrong, in words: nothing has changed.
    pub async fn reload(&self) -> Result<Reloaded, String> {
        let rules = self.rules.clone();
        let reread = tokio::task::spawn_blocking(move || rules.reread()).await;
        match reread.map_err(|error| error.to_string())? {
            Ok(origin) => {
                let profile = self.rules.profile();
                tracing::info!(event = "rules.reread", profile, %origin);
                let _ = self.events.send(Event::RulesReread).await;
                Ok(Reloaded {
                    reread: vec![format!("screen rules of {profile}: {origin}")],
                    needs_restart: vec!["settings".to_owned()],
                })
            }
            Err(error) => {
                tracing::error!(event = "rules.refused", %error);
                Err(format!("{error}; the rules in force stay"))
            }
        }
    }

    /// Reloads whenever it is asked to, until shutdown: for the signal.
    pub async fn run(self, asked: Arc<Notify>, shutdown: CancellationToken) {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = asked.notified() => {}
            }
            // Whoever sent the signal reads the log.
            self.systemd.reloading();
            let _ = self.reload().await;
            self.systemd.ready();
        }
    }
}
