//! The file behind the store: made private, checked, brought to the present schema, or moved aside.
//!
//! Knows the tables' form, not what is in them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::database_file::{self, NotMoved, make_private};

/// A database of at most so many pages (64 MiB) is checked whole when it is opened.
const CHECKED_PAGES: i64 = 16 * 1024;

/// The write-ahead log is cut to that length once its content is in the file.
const WAL_BYTES: i64 = 4 * 1024 * 1024;

/// One step of the schema a row; `user_version` counts those that were taken.
const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE lines (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        ts INTEGER NOT NULL,
        kind TEXT NOT NULL,
        session TEXT,
        prompt_id TEXT,
        last_uuid TEXT,
        json TEXT NOT NULL,
        UNIQUE (session, prompt_id, last_uuid)
    );
    CREATE TABLE cursors (
        session TEXT PRIMARY KEY,
        path BLOB NOT NULL,
        dev INTEGER NOT NULL,
        ino INTEGER NOT NULL,
        offset INTEGER NOT NULL,
        prompt_id TEXT,
        changed_at INTEGER NOT NULL
    );
"];

/// Why the database can't do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite says no.
    #[error("turn database {path}: {what}: {source}")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What was done.
        what: &'static str,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The file can't be made or opened.
    #[error("turn database {path}: open: {source}: check the owner of the state directory")]
    Create {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A damaged file is in the way.
    #[error("turn database {path} is damaged and can't be moved aside: {source}")]
    MoveAside {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It was written by a later ccmux.
    #[error("turn database {path} has version {version}, this ccmux knows {known}: use the newer ccmux")]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// Ours.
        known: u32,
    },
    /// A line can't be written as JSON.
    #[error("turn database {path}: write a line as JSON: {source}")]
    Json {
        /// The file.
        path: PathBuf,
        /// What serde said.
        source: serde_json::Error,
    },
}

/// Opens the file for writing and for reading.
pub(super) fn connect(path: &Path) -> Result<(Connection, Connection), StoreError> {
    let failed = |what| move |source| StoreError::Sqlite { path: path.to_owned(), what, source };
    make_private(path).map_err(|source| StoreError::Create { path: path.to_owned(), source })?;
    let mut writer = Connection::open(path).map_err(failed("open"))?;
    writer.busy_timeout(Duration::from_secs(5)).map_err(failed("configure"))?;
    if pages(&writer).map_err(failed("configure"))? == 0 {
        // Only before there is anything in it.
        writer.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(failed("configure"))?;
    }
    writer.pragma_update(None, "journal_mode", "WAL").map_err(failed("configure"))?;
    writer.pragma_update(None, "journal_size_limit", WAL_BYTES).map_err(failed("configure"))?;
    writer.pragma_update(None, "synchronous", "FULL").map_err(failed("configure"))?;
    check(&writer).map_err(failed("check"))?;
    migrate(&mut writer, path)?;
    if let Err(error) = make_shrinkable(&writer) {
        // It works all the same: what is deleted is used again.
        tracing::warn!(event = "turns.not_shrinkable", %error);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let reader = Connection::open_with_flags(path, flags).map_err(failed("open"))?;
    reader.busy_timeout(Duration::from_secs(5)).map_err(failed("configure"))?;
    Ok((writer, reader))
}

fn pages(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA page_count", [], |row| row.get(0))
}

/// A file from before lines were forgotten is written anew, if that is quick.
fn make_shrinkable(connection: &Connection) -> rusqlite::Result<()> {
    let mode: i64 = connection.query_row("PRAGMA auto_vacuum", [], |row| row.get(0))?;
    if mode == 0 && pages(connection)? <= CHECKED_PAGES {
        connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; VACUUM")?;
    }
    Ok(())
}

/// A whole check reads the whole file: a big one is only looked at where it is used.
fn check(connection: &Connection) -> rusqlite::Result<()> {
    let sql = if pages(connection)? <= CHECKED_PAGES {
        "PRAGMA quick_check(1)"
    } else {
        "SELECT 'ok' FROM sqlite_schema"
    };
    let sound: String = connection.query_row(sql, [], |row| row.get(0))?;
    if sound == "ok" {
        return Ok(());
    }
    let damage = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    Err(rusqlite::Error::SqliteFailure(damage, Some(sound)))
}

/// Gives the file another name; returns it.
pub(super) fn move_aside(path: &Path, now: i64) -> Result<PathBuf, StoreError> {
    let failed = |NotMoved { path, source }| StoreError::MoveAside { path, source };
    database_file::move_aside(path, now).map_err(failed)
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |source| StoreError::Sqlite { path: path.to_owned(), what: "migrate", source };
    let version: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
    let known = MIGRATIONS.len() as u32;
    if version > known {
        return Err(StoreError::TooNew { path: path.to_owned(), version, known });
    }
    for (step, sql) in (1..).zip(MIGRATIONS).skip(version as usize) {
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        transaction.execute_batch(sql).map_err(failed)?;
        transaction.pragma_update(None, "user_version", step).map_err(failed)?;
        transaction.commit().map_err(failed)?;
    }
    Ok(())
}
