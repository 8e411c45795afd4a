//! How much a service takes, and when it takes the next one. Pure: it is told what time it is.
//!
//! ```text
//! 20 within 62 s:   ||||||||||||||||||||······················|
//!                   0 s        20 sent                        62 s: the next one
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// A service takes so many within such a time. The times are somewhat longer than what services say: a request's way
/// takes longer at one time than at another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// So many.
    pub count: usize,
    /// Within that time.
    pub within: Duration,
}

impl Limit {
    /// From milliseconds.
    pub const fn new(count: usize, within_ms: u64) -> Self {
        Self { count, within: Duration::from_millis(within_ms) }
    }
}

/// What was sent lately, and whether the service wants us to wait.
#[derive(Debug, Clone)]
pub struct Pace {
    limits: &'static [Limit],
    sent: VecDeque<Instant>,
    held_until: Option<Instant>,
}

impl Pace {
    /// Nothing was sent yet.
    pub fn new(limits: &'static [Limit]) -> Self {
        Self { limits, sent: VecDeque::new(), held_until: None }
    }

    /// When the next one may go; now, if that is past.
    pub fn next_at(&self, now: Instant) -> Instant {
        let by_limit = self.limits.iter().filter_map(|limit| {
            let oldest = self.sent.len().checked_sub(limit.count)?;
            Some(*self.sent.get(oldest)? + limit.within)
        });
        by_limit.chain(self.held_until).fold(now, Instant::max)
    }

    /// When the last of so many could go, if each went as soon as it may; `None`: later than `patience`.
    pub fn last_of(&self, count: usize, now: Instant, patience: Duration) -> Option<Instant> {
        let (mut pace, mut at) = (self.clone(), now);
        for _ in 0..count {
            at = pace.next_at(at);
            if at > now + patience {
                return None;
            }
            pace.went(at);
        }
        Some(at)
    }

    /// One went.
    pub fn went(&mut self, at: Instant) {
        self.sent.push_back(at);
        let most = self.limits.iter().map(|limit| limit.count).max().unwrap_or(0);
        while self.sent.len() > most {
            self.sent.pop_front();
        }
    }

    /// The service takes nothing before.
    pub fn hold(&mut self, until: Instant) {
        self.held_until = self.held_until.max(Some(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_WITHIN_10: &[Limit] = &[Limit::new(2, 10_000), Limit::new(3, 60_000)];

    #[test]
    fn as_many_go_as_every_limit_allows() {
        let (mut pace, start) = (Pace::new(TWO_WITHIN_10), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut went = Vec::new();
        for _ in 0..5 {
            let next = pace.next_at(went.last().copied().unwrap_or(start));
            pace.went(next);
            went.push(next);
        }
        assert_eq!(went, [at(0), at(0), at(10), at(60), at(60)]);
        assert_eq!(pace.sent.len(), 3, "no more is kept than counts");
    }

    #[test]
    fn who_is_told_to_wait_waits_and_no_limit_is_no_wait() {
        let now = Instant::now();
        let mut pace = Pace::new(&[]);
        (0..100).for_each(|_| pace.went(now));
        assert_eq!((pace.next_at(now), pace.sent.len()), (now, 0));
        pace.hold(now + Duration::from_secs(5));
        pace.hold(now + Duration::from_secs(3));
        assert_eq!(pace.next_at(now), now + Duration::from_secs(5));
        assert_eq!(pace.last_of(1, now, Duration::from_secs(4)), None);
    }
}
