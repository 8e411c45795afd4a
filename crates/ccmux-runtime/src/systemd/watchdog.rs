//! The watchdog's food. Only the event loop has one, so a loop that hangs starves it, and systemd ends the daemon.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Systemd;

/// Tells systemd, twice in the time that it allows, that the loop goes round.
#[derive(Debug)]
pub struct Watchdog {
    systemd: Systemd,
    /// How often, and when next; `None` if systemd does not watch.
    meals: Option<(Duration, Instant)>,
}

impl Watchdog {
    /// As often as systemd asks for.
    pub fn new(systemd: Systemd) -> Self {
        let meals = systemd.watchdog.map(|limit| (limit / 2, Instant::now()));
        Self { systemd, meals }
    }

    /// Returns when it is time; never if systemd does not watch. Cancel safe.
    pub async fn is_hungry(&self) {
        match self.meals {
            Some((_, next)) => sleep_until(next).await,
            None => std::future::pending().await,
        }
    }

    /// The loop goes round.
    pub fn feed(&mut self) {
        if let Some((every, next)) = &mut self.meals {
            *next = Instant::now() + *every;
            self.systemd.alive();
        }
    }
}
