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
        let (mono, wall) = (since_boot(), since_1970());
        // By the distance of the clocks: two moments are equally far apart on both, unless the wall clock was set.
        let distance =
            (wall.as_micros().cast_signed() - mono.as_micros().cast_signed() + 500).div_euclid(1000);
        let wall = i128::from(ms_of(mono).0) + distance;
        let wall = UnixMs(i64::try_from(wall).unwrap_or(i64::MAX));
        Now { mono: ms_of(mono), wall, utc_offset_s: self.utc_offset_at(wall) }
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

fn mono() -> Mono {
    ms_of(since_boot())
}

fn ms_of(since_boot: Duration) -> Mono {
    Mono(u64::try_from(since_boot.as_millis()).unwrap_or(u64::MAX))
}

/// Sleep included where the system has such a clock.
fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let now = clock_gettime(clock);
    Duration::from_secs(now.tv_sec.unsigned_abs()) + Duration::from_nanos(now.tv_nsec.unsigned_abs())
}

/// Milliseconds since 1970.
pub fn unix_ms() -> UnixMs {
    UnixMs(i64::try_from(since_1970().as_millis()).unwrap_or(i64::MAX))
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Waits for a deadline; without one, for ever.
pub(crate) async fn until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
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
