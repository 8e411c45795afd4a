//! The numbers that decisions depend on. Milliseconds unless a name says otherwise.

use serde::{Deserialize, Serialize};

/// Everything configurable about decisions; defaults as in config/ccmux.toml.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicySettings {
    /// No injection that soon after a human was active (`idle_threshold`).
    pub idle_threshold_ms: u64,
    /// The most bytes of one prompt (`limits.batch_bytes`); a single bigger message goes alone.
    pub batch_bytes: u64,
    /// First pause before a restart (`backoff.initial`).
    pub backoff_initial_ms: u64,
    /// Longest pause before a restart (`backoff.cap`).
    pub backoff_cap_ms: u64,
    /// A draft is put away after it kept messages waiting that long; 0: never (`draft.max_hold`).
    pub draft_max_hold_ms: u64,
    /// An agent of more bytes is started anew between two turns; 0: however big (`agent.max_rss`).
    pub max_rss: u64,
    /// Start the agent again after it ended by itself with 0 (`agent.restart_on_exit`).
    pub restart_on_exit: bool,
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self {
            idle_threshold_ms: 30_000,
            batch_bytes: 32 * 1024,
            backoff_initial_ms: 1_000,
            backoff_cap_ms: 60_000,
            draft_max_hold_ms: 0,
            max_rss: 0,
            restart_on_exit: true,
        }
    }
}
