//! The clock of the records: Unix milliseconds.

use std::time::{SystemTime, UNIX_EPOCH};

pub fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
