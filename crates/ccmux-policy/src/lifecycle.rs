//! When the agent is started, and started again.
//!
//! ```text
//! Unknown ─► Launching ─► Running ─► Pausing ─► Launching ...
//!                            │ exit 0 and restart_on_exit = false
//!                            ▼
//!                         Ended ─► Pausing, once restart_on_exit = true
//! ```
//!
//! Pauses before the n-th restart: initial, twice that, four times ... up to the cap; a run of 60 s starts anew. The
//! tenth exit within 60 s of its start makes `degraded`: the cap from then on, one alert.

use crate::event::ExitStatus;
use crate::now::Mono;
use crate::settings::PolicySettings;

/// A run of that length is healthy.
const HEALTHY_AFTER_MS: u64 = 60_000;
/// So many exits in a row within that time of their start are a crash loop.
const DEGRADED_AFTER_EXITS: u32 = 10;

/// Where the agent's process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Unknown,
    Launching,
    Running { pid: i32, since: Mono },
    Pausing { until: Mono },
    Ended,
}

/// What an exit leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The pause before the next start; `None`: it is not started again.
    pub pause_ms: Option<u64>,
    /// It became degraded with this exit.
    pub degraded_now: bool,
}

/// The agent's process.
#[derive(Debug, Clone)]
pub struct Lifecycle {
    life: Life,
    quick_exits: u32,
    restarts: u32,
    first_start_done: bool,
    /// The process that runs was told to end: its end is no failure.
    ends_by_order: bool,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            life: Life::Unknown,
            quick_exits: 0,
            restarts: 0,
            first_start_done: false,
            ends_by_order: false,
        }
    }
}

impl Lifecycle {
    /// An agent was found, or started.
    pub fn running(&mut self, pid: i32, now: Mono) {
        self.life = Life::Running { pid, since: now };
        self.ends_by_order = false;
        self.restarts += u32::from(self.first_start_done);
        self.first_start_done = true;
    }

    /// It is told to end, to be started again at once.
    pub fn ends_by_order(&mut self) {
        self.ends_by_order = true;
    }

    /// It was told to end and has not yet.
    pub fn is_ending(&self) -> bool {
        self.ends_by_order && self.pid().is_some()
    }

    /// There is none: start it at once.
    pub fn missing(&mut self, now: Mono) {
        self.life = Life::Pausing { until: now };
    }

    /// The agent's process ended. `None`: it was not the one that runs.
    pub fn exited(
        &mut self,
        pid: i32,
        status: ExitStatus,
        settings: &PolicySettings,
        now: Mono,
    ) -> Option<Exit> {
        let Life::Running { pid: running, since } = self.life else {
            return None;
        };
        if running != pid {
            return None;
        }
        if self.ends_by_order {
            self.life = Life::Pausing { until: now };
            return Some(Exit { pause_ms: Some(0), degraded_now: false });
        }
        let healthy = now.since(since) >= HEALTHY_AFTER_MS;
        self.quick_exits = if healthy { 0 } else { self.quick_exits + 1 };
        if status == ExitStatus::Code(0) && !settings.restart_on_exit {
            self.life = Life::Ended;
            return Some(Exit { pause_ms: None, degraded_now: false });
        }
        Some(self.pause(settings, now))
    }

    /// It could not be started at all: counts as an exit at once.
    pub fn start_failed(&mut self, settings: &PolicySettings, now: Mono) -> Exit {
        self.quick_exits += 1;
        self.first_start_done = true;
        self.pause(settings, now)
    }

    fn pause(&mut self, settings: &PolicySettings, now: Mono) -> Exit {
        let pause_ms = pause_before(self.quick_exits.max(1), settings);
        self.life = Life::Pausing { until: now + pause_ms };
        Exit { pause_ms: Some(pause_ms), degraded_now: self.quick_exits == DEGRADED_AFTER_EXITS }
    }

    /// Whether it is to be started now; says so once.
    pub fn start_due(&mut self, now: Mono) -> bool {
        let due = matches!(self.life, Life::Pausing { until } if now >= until);
        if due {
            self.life = Life::Launching;
        }
        due
    }

    /// It ended by itself, and is not started again.
    pub fn is_ended(&self) -> bool {
        self.life == Life::Ended
    }

    /// When it is to be started.
    pub fn start_at(&self) -> Option<Mono> {
        match self.life {
            Life::Pausing { until } => Some(until),
            _ => None,
        }
    }

    /// The process that runs.
    pub fn pid(&self) -> Option<i32> {
        match self.life {
            Life::Running { pid, .. } => Some(pid),
            _ => None,
        }
    }

    /// Since when it runs.
    pub fn running_since(&self) -> Option<Mono> {
        match self.life {
            Life::Running { since, .. } => Some(since),
            _ => None,
        }
    }

    /// It keeps ending at once.
    pub fn is_degraded(&self) -> bool {
        self.quick_exits >= DEGRADED_AFTER_EXITS
    }

    /// How often it was started after the first time.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Forgets the crash loop of an agent that has been healthy for a minute. Says whether it was degraded.
    pub fn note_health(&mut self, now: Mono) -> bool {
        let is_healthy = self.running_since().is_some_and(|since| now.since(since) >= HEALTHY_AFTER_MS);
        let was_degraded = is_healthy && self.is_degraded();
        if is_healthy {
            self.quick_exits = 0;
        }
        was_degraded
    }
}

/// The pause before the n-th restart in a row (n from 1).
fn pause_before(n: u32, settings: &PolicySettings) -> u64 {
    if n >= DEGRADED_AFTER_EXITS {
        return settings.backoff_cap_ms;
    }
    let doubled = settings.backoff_initial_ms.saturating_mul(1 << (n - 1).min(32));
    doubled.min(settings.backoff_cap_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_cap() {
        let settings = PolicySettings::default();
        let pauses: Vec<u64> = (1..=9).map(|n| pause_before(n, &settings) / 1000).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[test]
    fn the_tenth_quick_exit_is_degraded_once_and_a_healthy_minute_resets() {
        let settings = PolicySettings::default();
        let mut life = Lifecycle::default();
        let mut now = Mono(0);
        let told: Vec<bool> = (0..12)
            .filter_map(|_| {
                life.running(7, now);
                now = now + 100;
                life.exited(7, ExitStatus::Code(1), &settings, now).map(|exit| exit.degraded_now)
            })
            .collect();
        assert_eq!(told.iter().filter(|told| **told).count(), 1);
        assert!(told[9] && life.is_degraded());
        life.running(8, now);
        let exit = life.exited(8, ExitStatus::Signal(9), &settings, now + 60_000).unwrap();
        assert_eq!(exit.pause_ms, Some(1_000));
        assert!(!life.is_degraded());
    }

    #[test]
    fn an_exit_of_another_process_changes_nothing() {
        let mut life = Lifecycle::default();
        life.running(7, Mono(0));
        assert_eq!(life.exited(8, ExitStatus::Code(1), &PolicySettings::default(), Mono(1)), None);
        assert_eq!(life.pid(), Some(7));
    }

    #[test]
    fn a_human_exit_ends_it_only_where_so_configured() {
        let settings = PolicySettings { restart_on_exit: false, ..PolicySettings::default() };
        let mut life = Lifecycle::default();
        life.running(7, Mono(0));
        let exit = life.exited(7, ExitStatus::Code(0), &settings, Mono(1)).unwrap();
        assert_eq!((exit.pause_ms, life.start_due(Mono(1_000_000))), (None, false));
    }
}
