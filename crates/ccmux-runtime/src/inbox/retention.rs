//! Forgets what nothing will happen to any more, a little at a time, and gives the room back.
//!
//! ```text
//! delivered, answered, failed, expired, uncertain and seen ──► older than retention.days, or
//!                                                              older than an hour and the file over retention.bytes
//! accepted, in_flight, uncertain and not seen              ──► never
//! ```

use rusqlite::params;

use super::error::InboxError;
use super::rows::unsigned;
use super::writer::{Writer, unix_ms};

/// Messages that go in one transaction: what else is ordered does not wait longer.
const STEP: i64 = 100;
/// Pages that are given back in one.
const PAGES: i64 = 2_000;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
/// Nothing younger goes for the sake of room: its turn may not be over, its sender may ask again.
const YOUNG_MS: i64 = 60 * 60 * 1_000;

/// What became of one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Messages that are gone.
    pub messages: u64,
    /// There is more to do.
    pub more: bool,
}

impl Writer {
    /// One step.
    pub(super) fn forget_some(&mut self) -> Result<Forgotten, InboxError> {
        let (retention, now) = (self.settings.retention, unix_ms());
        let too_old = i64::try_from(retention.days).unwrap_or(i64::MAX).saturating_mul(DAY_MS);
        let mut messages = 0;
        if retention.days > 0 {
            messages += self.forget_before(now.saturating_sub(too_old))?;
        }
        if messages == 0 && retention.bytes > 0 && self.used_bytes()? > retention.bytes {
            messages += self.forget_before(now - YOUNG_MS)?;
        }
        let batches = if messages == 0 { self.forget_batches()? } else { 0 };
        let pages = self.give_back()?;
        Ok(Forgotten { messages, more: messages > 0 || batches > 0 || pages > 0 })
    }

    fn forget_before(&self, cutoff_ms: i64) -> Result<u64, InboxError> {
        let sql = "DELETE FROM messages WHERE id IN (
            SELECT id FROM messages
            WHERE state IN ('delivered', 'answered', 'uncertain', 'failed', 'expired')
                AND (state <> 'uncertain' OR seen_at IS NOT NULL) AND accepted_at < ?1
            ORDER BY accepted_at LIMIT ?2)";
        self.change("forget", sql, params![cutoff_ms, STEP]).map(|count| count as u64)
    }

    /// Batches of which no message is left. The last one stays: its number is not used again.
    fn forget_batches(&self) -> Result<usize, InboxError> {
        let sql = "DELETE FROM batches WHERE id IN (
            SELECT id FROM batches AS b
            WHERE state <> 'in_flight' AND id < (SELECT max(id) FROM batches)
                AND NOT EXISTS (SELECT 1 FROM messages WHERE batch = b.id)
            ORDER BY id LIMIT ?1)";
        self.change("forget", sql, [STEP])
    }

    fn used_bytes(&self) -> Result<u64, InboxError> {
        let pragma = |name| self.one("measure", &format!("PRAGMA {name}"), |row| unsigned(row, 0));
        Ok((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?)
    }

    /// Makes the file smaller by what is free in it. Returns how many pages went.
    fn give_back(&self) -> Result<u64, InboxError> {
        let free = |writer: &Self| writer.one("measure", "PRAGMA freelist_count", |row| unsigned(row, 0));
        let before = free(self)?;
        if before == 0 {
            return Ok(0);
        }
        self.list("give room back", &format!("PRAGMA incremental_vacuum({PAGES})"), [], |_| Ok(()))?;
        Ok(before.saturating_sub(free(self)?))
    }
}
