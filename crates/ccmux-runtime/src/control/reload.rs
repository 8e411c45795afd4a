//! What `ccmux reload` and SIGHUP read again while the daemon runs: settings and screen rules.
//!
//! What is broken is refused with the reason, and all that was in force stays: nothing is applied before everything was read.

use std::sync::Arc;

use ccmux_policy::Event;
use ccmux_wire::control::Reloaded;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::live::{Changes, Live};
use crate::screen::{RuleBook, RulesOrigin};
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
    /// The settings, once the daemon runs.
    pub live: Option<Live>,
}

impl Reloader {
    /// Reads everything again that can be.
    ///
    /// # Errors
    /// What is wrong, in words: nothing has changed.
    pub async fn reload(&self) -> Result<Reloaded, String> {
        let read = self.live.as_ref().map(Live::read).transpose();
        let read = read.inspect_err(|error| tracing::error!(event = "settings.refused", %error));
        let read = read.map_err(|error| format!("{error}; the settings in force stay"))?;
        let origin = self.reread_rules().await?;
        let changes = match (&self.live, read) {
            (Some(live), Some(read)) => live.apply(read).await,
            _ => Changes::default(),
        };
        let rules = format!("screen rules of {}: {origin}", self.rules.profile());
        let reread = [rules].into_iter().chain(changes.live).collect();
        Ok(Reloaded { reread, needs_restart: changes.needs_restart })
    }

    async fn reread_rules(&self) -> Result<RulesOrigin, String> {
        let rules = self.rules.clone();
        let reread = tokio::task::spawn_blocking(move || rules.reread()).await;
        match reread.map_err(|error| error.to_string())? {
            Ok(origin) => {
                tracing::info!(event = "rules.reread", profile = self.rules.profile(), %origin);
                let _ = self.events.send(Event::RulesReread).await;
                Ok(origin)
            }
            Err(error) => {
                tracing::error!(event = "rules.refused", %error);
                Err(format!("{error}; the rules in force stay, and so do the settings"))
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
