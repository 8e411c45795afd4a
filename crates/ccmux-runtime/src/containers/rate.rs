//! So many in a while, and no more: a bucket that fills again by the time.

use std::time::Duration;

use tokio::time::Instant;

/// Not thread-safe; whoever shares it locks it.
#[derive(Debug)]
pub struct Rate {
    burst: u32,
    every: Duration,
    /// When the bucket would be full.
    full_at: Instant,
}

impl Rate {
    /// `burst` at once, and one more each `every`.
    pub fn new(burst: u32, every: Duration) -> Self {
        Self { burst, every, full_at: Instant::now() }
    }

    /// Takes one; how long to wait before it counts as taken. Zero: now.
    pub fn take(&mut self) -> Duration {
        let now = Instant::now();
        self.full_at = self.full_at.max(now) + self.every;
        (self.full_at - now).saturating_sub(self.every * self.burst)
    }

    /// Takes one if there is one now.
    pub fn try_take(&mut self) -> bool {
        let before = self.full_at;
        let is_there = self.take().is_zero();
        if !is_there {
            self.full_at = before;
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_then_one_at_a_time() {
        let mut rate = Rate::new(3, Duration::from_secs(1));
        assert!((0..3).all(|_| rate.try_take()) && !rate.try_take());
        tokio::time::advance(Duration::from_millis(1100)).await;
        assert!(rate.try_take() && !rate.try_take());
        assert!(rate.take() > Duration::ZERO, "whoever waits gets it later");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!((0..3).all(|_| rate.try_take()) && !rate.try_take(), "it never holds more than a burst");
    }
}
