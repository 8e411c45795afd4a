//! Whether the storm has passed: nothing waits, and nothing moves any more.
//!
//! A channel that met a full disk pauses up to five seconds before it tries again, so that a message may be on its way
//! although nothing moves: while one is missing, quiet must last longer.

use std::time::{Duration, Instant};

use super::records::Queue;

/// The last turn ends within that time, and its line is told.
const WITH_ALL: Duration = Duration::from_secs(3);
/// The longest pause of anything that is tried again, and more.
const WITH_SOME_MISSING: Duration = Duration::from_secs(12);

/// What moves while something moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stock {
    pub queue: Queue,
    /// Messages whose write returned.
    pub written: u64,
    /// Lines of `output.sock`.
    pub heard: usize,
}

/// Since when nothing has moved.
#[derive(Debug)]
pub struct Quiet {
    stock: Stock,
    since: Instant,
}

impl Quiet {
    pub fn since(now: Instant) -> Self {
        Self { stock: Stock::default(), since: now }
    }

    /// It looks like this now.
    pub fn note(&mut self, stock: Stock, now: Instant) {
        if stock != self.stock {
            *self = Self { stock, since: now };
        }
    }

    /// Nothing more is to be expected.
    pub fn is_all_over(&self, now: Instant) -> bool {
        let all_accepted = self.stock.queue.accepted >= self.stock.written;
        let needed = if all_accepted { WITH_ALL } else { WITH_SOME_MISSING };
        self.stock.written > 0 && self.stock.queue.waiting == 0 && now.duration_since(self.since) >= needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_must_last_longer_while_a_message_is_missing() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut quiet = Quiet::since(start);
        let stock = |waiting, accepted| Stock { queue: Queue { waiting, accepted }, written: 9, heard: 1 };
        quiet.note(stock(1, 9), after(1));
        assert!(!quiet.is_all_over(after(60)), "one waits");
        quiet.note(stock(0, 9), after(60));
        assert!(!quiet.is_all_over(after(62)));
        assert!(quiet.is_all_over(after(63)));
        quiet.note(stock(0, 8), after(70));
        assert!(!quiet.is_all_over(after(81)), "one is missing");
        assert!(quiet.is_all_over(after(82)));
    }
}
