//! Times in buckets, as Prometheus wants them: each bucket holds what is at most its bound.

/// Upper bounds in milliseconds: from a commit to a message that waits for a human.
pub const BOUNDS_MS: [u64; 14] =
    [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000];

/// Times since the daemon's start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How many fell between two bounds; the last ones are above all.
    buckets: [u64; BOUNDS_MS.len() + 1],
    sum_ms: u64,
}

impl Histogram {
    /// One more.
    pub fn add(&mut self, ms: u64) {
        let bucket = BOUNDS_MS.partition_point(|bound| *bound < ms);
        self.buckets[bucket] += 1;
        self.sum_ms = self.sum_ms.saturating_add(ms);
    }

    /// Bound in seconds (`None`: no bound), and how many were at most that.
    pub fn cumulated(&self) -> impl Iterator<Item = (Option<f64>, u64)> {
        let bounds = BOUNDS_MS.iter().map(|ms| Some(*ms as f64 / 1000.0)).chain([None]);
        let counts = self.buckets.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        bounds.zip(counts)
    }

    /// All of them together, in seconds.
    pub fn sum_s(&self) -> f64 {
        self.sum_ms as f64 / 1000.0
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_counts_in_every_bucket_that_it_fits_into() {
        let mut histogram = Histogram::default();
        [0, 5, 6, 300_000, 300_001].into_iter().for_each(|ms| histogram.add(ms));
        let buckets: Vec<_> = histogram.cumulated().collect();
        assert_eq!(buckets[0], (Some(0.005), 2));
        assert_eq!(buckets[1], (Some(0.01), 3));
        assert_eq!(buckets[13], (Some(300.0), 4));
        assert_eq!(buckets[14], (None, 5));
        assert_eq!((histogram.count(), histogram.sum_s()), (5, 600.012));
    }
}
