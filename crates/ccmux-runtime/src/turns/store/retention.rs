//! Forgetting: old lines are deleted in small steps, oldest first, and the file is given back page by page.
//!
//! ```text
//! lines   1 2 3 4 │ 5 6 7 8 9        forget: at most 256 lines or 4 MiB a step, always the oldest
//! pages   ▒▒▒▒▒▒▒ ░░░░               shrink: at most 256 pages a step, from the end of the file
//! ```
//!
//! Always a beginning of the sequence goes, so that what is kept has no holes. Between two steps everybody else gets to the
//! database. It doesn't know when it is time.

use rusqlite::{Transaction, params};

use super::{Store, StoreError, locked};

/// At most so many lines, or so many bytes of them, are deleted at once.
const STEP_LINES: u32 = 256;
const STEP_BYTES: u64 = 4 * 1024 * 1024;

/// At most so many pages are given back at once.
const STEP_PAGES: u32 = 256;

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Lines younger than so many seconds; `None`: for ever.
    pub seconds: Option<i64>,
    /// As many as fit into so many bytes; `None`: all.
    pub bytes: Option<u64>,
}

impl Store {
    /// Deletes some of what is too old or too much; says how many lines. 0: there is nothing to delete.
    ///
    /// # Errors
    /// If nothing was deleted.
    pub fn forget(&self, keep: Keep, now: i64) -> Result<usize, StoreError> {
        self.write("forget lines", |transaction| {
            let until = self.last_to_forget(transaction, keep, now).map_err(self.failed("forget lines"))?;
            let sql = "DELETE FROM lines WHERE seq <= ?1";
            transaction.execute(sql, [until]).map_err(self.failed("forget lines"))
        })
    }

    /// The number of the last line to be deleted in this step; 0 if none is.
    fn last_to_forget(&self, transaction: &Transaction<'_>, keep: Keep, now: i64) -> rusqlite::Result<i64> {
        let mut excess = match keep.bytes {
            Some(bytes) => used_bytes(transaction)?.saturating_sub(bytes),
            None => 0,
        };
        let sql = "SELECT seq, ts, octet_length(json) FROM lines
                   WHERE seq < (SELECT MAX(seq) FROM lines) ORDER BY seq LIMIT ?1";
        let mut sql = transaction.prepare_cached(sql)?;
        let mut rows = sql.query(params![STEP_LINES])?;
        let (mut until, mut deleted) = (0, 0);
        while deleted < STEP_BYTES
            && let Some(row) = rows.next()?
        {
            let (ts, bytes) = (row.get::<_, i64>(1)?, row.get::<_, i64>(2)?.cast_unsigned());
            let is_old = keep.seconds.is_some_and(|seconds| ts < now.saturating_sub(seconds));
            if !is_old && excess == 0 {
                break;
            }
            until = row.get(0)?;
            deleted += bytes;
            excess = excess.saturating_sub(bytes);
        }
        Ok(until)
    }

    /// Gives some free pages back to the file system; false once there are none.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn shrink(&self) -> Result<bool, StoreError> {
        let connection = locked(&self.writer);
        let shrunk = || -> rusqlite::Result<bool> {
            let mut sql = connection.prepare(&format!("PRAGMA incremental_vacuum({STEP_PAGES})"))?;
            let mut rows = sql.query([])?;
            // Every row is a page that was given back.
            while rows.next()?.is_some() {}
            let free: i64 = connection.query_row("PRAGMA freelist_count", [], |row| row.get(0))?;
            if free == 0 {
                // Without waiting for readers: the next commit does the rest.
                connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
            }
            Ok(free > 0 && self.can_shrink(&connection)?)
        };
        shrunk().map_err(self.failed("shrink"))
    }

    /// A file of an earlier ccmux may keep its free pages, and use them again.
    fn can_shrink(&self, connection: &rusqlite::Connection) -> rusqlite::Result<bool> {
        connection.query_row("PRAGMA auto_vacuum", [], |row| row.get::<_, i64>(0)).map(|mode| mode != 0)
    }
}

fn used_bytes(connection: &rusqlite::Connection) -> rusqlite::Result<u64> {
    let number =
        |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0).map(i64::cast_unsigned));
    let pages = number("PRAGMA page_count")?.saturating_sub(number("PRAGMA freelist_count")?);
    Ok(pages * number("PRAGMA page_size")?)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use ccmux_wire::id::Seq;
    use ccmux_wire::output::Alert;
    use tempfile::TempDir;

    use super::super::FILE_NAME;
    use super::*;

    const DAY: i64 = 86_400;

    struct Kept {
        store: Store,
        dir: TempDir,
    }

    impl Kept {
        fn new() -> Self {
            let dir = TempDir::new().unwrap();
            let store = Store::open(&dir.path().join(FILE_NAME), 1).unwrap().0;
            locked(&store.writer).pragma_update(None, "synchronous", "OFF").unwrap();
            Self { store, dir }
        }

        fn append(&self, ts: i64, bytes: usize) {
            let message = "x".repeat(bytes);
            let alert = Alert { kind: "stuck".into(), message, ..Alert::default() };
            self.store.append_alert(alert, None, ts).unwrap();
        }

        fn path(&self) -> PathBuf {
            self.dir.path().join(FILE_NAME)
        }

        fn forget_all(&self, keep: Keep, now: i64) -> usize {
            std::iter::from_fn(|| Some(self.store.forget(keep, now).unwrap()).filter(|n| *n > 0)).sum()
        }

        fn seqs(&self) -> (u64, u64) {
            let lines = self.store.since(Seq(0), usize::MAX, usize::MAX).unwrap();
            (lines[0].seq().0, lines.last().unwrap().seq().0)
        }
    }

    fn days(days: i64) -> Keep {
        Keep { seconds: Some(days * DAY), bytes: None }
    }

    #[test]
    fn what_is_old_goes_in_small_steps_and_the_rest_stays() {
        let kept = Kept::new();
        for n in 0..600 {
            kept.append(n * DAY, 10);
        }
        assert_eq!(kept.store.forget(days(100), 600 * DAY).unwrap(), STEP_LINES as usize);
        assert_eq!(kept.forget_all(days(100), 600 * DAY), 500 - STEP_LINES as usize);
        assert_eq!(kept.seqs(), (501, 600));
        assert_eq!(kept.store.forget(Keep { seconds: None, bytes: None }, i64::MAX).unwrap(), 0);
    }

    #[test]
    fn a_clock_that_was_wrong_for_a_while_deletes_nothing_young() {
        let kept = Kept::new();
        for ts in [500 * DAY, 500 * DAY, 0, 500 * DAY, 0] {
            kept.append(ts, 10);
        }
        assert_eq!(kept.forget_all(days(30), 500 * DAY), 0, "the sequence begins with a young line");
        assert_eq!(
            kept.forget_all(days(30), 900 * DAY),
            4,
            "the last line stays: its number is the last one"
        );
    }

    #[test]
    fn what_is_too_much_goes_oldest_first_and_the_file_shrinks() {
        const MIB: u64 = 1 << 20;
        let kept = Kept::new();
        for _ in 0..200 {
            kept.append(1, 100_000);
        }
        locked(&kept.store.writer).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        assert!(kept.path().metadata().unwrap().len() > 19 * MIB);
        let keep = Keep { seconds: None, bytes: Some(5 * MIB) };
        let first = kept.store.forget(keep, 1).unwrap();
        assert!((1..60).contains(&first), "{first} lines in one step");
        let forgotten = first + kept.forget_all(keep, 1);
        assert!((140..160).contains(&forgotten), "{forgotten}");
        assert_eq!(kept.seqs(), (forgotten as u64 + 1, 200));
        let mut steps = 0;
        while kept.store.shrink().unwrap() {
            steps += 1;
        }
        assert!(steps > 5, "{steps} steps");
        let left = kept.path().metadata().unwrap().len();
        assert!(left < 6 * MIB, "{left} bytes are left");
    }

    #[test]
    fn the_last_line_is_kept_however_big_it_is() {
        let kept = Kept::new();
        kept.append(1, 10);
        kept.append(1, 1_000_000);
        assert_eq!(kept.forget_all(Keep { seconds: None, bytes: Some(1) }, 1), 1);
        assert_eq!(kept.seqs(), (2, 2));
    }

    #[test]
    fn a_file_from_before_there_was_forgetting_shrinks_too() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join(FILE_NAME);
        drop(Store::open(&path, 1).unwrap());
        let old = rusqlite::Connection::open(&path).unwrap();
        old.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = NONE; VACUUM;").unwrap();
        drop(old);
        let store = Store::open(&path, 1).unwrap().0;
        assert!(store.can_shrink(&locked(&store.writer)).unwrap());
    }
}
