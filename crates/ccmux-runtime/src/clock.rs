//! The one place that reads clocks: [`Clock::now`] gives both, and the local offset for people.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ccmux_policy::{Mono, Now, UnixMs};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// Reads the clocks.
#[derive(Debug, Clone)]
pub struct Clock {
    zone: TimeZone,
}

impl Default for Clock {
    fn default() -> Self {
        Self { zone: TimeZone::system() }
    }
}

impl Clock {
    /// This moment.
    pub fn now(&self) -> Now {
        let wall = unix_ms();
        Now { mono: mono(), wall, utc_offset_s: self.utc_offset_at(wall) }
    }

    /// Seconds east of UTC at a moment.
    pub fn utc_offset_at(&self, at: UnixMs) -> i32 {
        let timestamp = Timestamp::from_millisecond(at.0).unwrap_or(Timestamp::UNIX_EPOCH);
        self.zone.to_offset(timestamp).seconds()
    }

    /// The runtime's own instant for a deadline of the policy.
    pub fn instant_of(&self, deadline: Mono) -> Instant {
        Instant::now() + Duration::from_millis(deadline.since(mono()))
    }
}

/// Milliseconds since boot, sleep included where the system has such a clock.
fn mono() -> Mono {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let now = clock_gettime(clock);
    Mono(now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000)
}

/// Milliseconds since 1970.
pub fn unix_ms() -> UnixMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMs(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back_and_deadlines_keep_their_distance() {
        let clock = Clock::default();
        let (first, second) = (clock.now(), clock.now());
        assert!(first.mono <= second.mono);
        let wait = clock.instant_of(second.mono + 10_000) - Instant::now();
        assert!((9_000..=10_000).contains(&wait.as_millis()), "{wait:?}");
    }
}
