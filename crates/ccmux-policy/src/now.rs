//! Time as an argument: milliseconds since boot, and the wall clock beside it.

use std::fmt;
use std::ops::Add;

use serde::{Deserialize, Serialize};

/// Milliseconds on a clock that never goes back (since boot; in tests since the timeline began).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mono(pub u64);

/// Milliseconds since 1970, as the wall clock says; it may jump.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixMs(pub i64);

/// One moment, on both clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// For deadlines and durations.
    pub mono: Mono,
    /// For what tmux and people say.
    pub wall: UnixMs,
    /// Seconds east of UTC, for local times shown to people.
    pub utc_offset_s: i32,
}

impl Mono {
    /// Milliseconds from `earlier` until here; 0 if `earlier` is later.
    pub fn since(self, earlier: Mono) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Mono {
    type Output = Mono;

    fn add(self, ms: u64) -> Mono {
        Mono(self.0.saturating_add(ms))
    }
}

impl fmt::Display for Mono {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}
