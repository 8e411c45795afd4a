//! Wall-clock time in the forms that files and the screen want. Knows the local offset of the start.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, UtcOffset};

static LOCAL: OnceLock<UtcOffset> = OnceLock::new();
const ISO: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
const SHORT: &[BorrowedFormatItem<'_>] = format_description!("[hour repr:12 padding:none]:[minute] [period]");

/// Must run before the first thread: the local offset can't be read safely later.
pub fn read_local_offset() {
    let _ = LOCAL.set(UtcOffset::current_local_offset().unwrap_or(UtcOffset::UTC));
}

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// `2026-11-27T22:57:27.080Z`
pub fn iso() -> String {
    OffsetDateTime::now_utc().format(ISO).unwrap_or_default()
}

/// `10:46 PM`, local time.
pub fn short() -> String {
    let offset = LOCAL.get().copied().unwrap_or(UtcOffset::UTC);
    OffsetDateTime::now_utc().to_offset(offset).format(SHORT).unwrap_or_default()
}
