//! What the log was told: anybody outside can make us say it again, and must not be able to fill it.
//!
//! ```text
//! now, now, now, 10 s later   ─►   Some(0), None, None, Some(2)
//! ```
//!
//! Knows no clock, and not what is told.

use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(10);

/// When it was told last.
#[derive(Debug, Default)]
pub struct Told {
    last: Option<Instant>,
    untold: u64,
}

impl Told {
    /// How often it was not told since it was; `None`: it is too soon.
    pub fn again(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.duration_since(last) < EVERY) {
            self.untold += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_too_soon_is_counted_and_told_with_the_next() {
        let (mut told, now) = (Told::default(), Instant::now());
        assert_eq!([told.again(now), told.again(now), told.again(now)], [Some(0), None, None]);
        assert_eq!([told.again(now + EVERY), told.again(now + 2 * EVERY)], [Some(2), Some(0)]);
    }
}
