//! The file `inbox.db`: made with mode 0600, checked, migrated, and moved aside when it is damaged.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::OFlag;
use rusqlite::{Connection, OpenFlags};

use super::error::InboxError;
use crate::database_file::{self, NotMoved};

/// Step n brings a database from `user_version` n to n + 1. Steps are never changed, only added.
const MIGRATIONS: [&str; 3] =
    [include_str!("schema_1.sql"), include_str!("schema_2.sql"), include_str!("schema_3.sql")];

/// How every SQLite file begins.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// A database that is ready, and where a damaged one was put.
pub(super) struct Ready {
    pub connection: Connection,
    pub damaged: Option<PathBuf>,
}

/// Opens the database at `path`, or a new one if there is none or it is damaged.
pub(super) fn open(path: &Path, busy_limit: Duration, now_unix_s: i64) -> Result<Ready, InboxError> {
    match connect(path, busy_limit) {
        Err(error) if is_damage(&error) => {
            tracing::error!(event = "inbox.damaged", path = %path.display(), %error);
            replace(path, busy_limit, now_unix_s)
        }
        connection => Ok(Ready { connection: connection?, damaged: None }),
    }
}

fn connect(path: &Path, busy_limit: Duration) -> Result<Connection, InboxError> {
    secure(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let mut connection = Connection::open_with_flags(path, flags).map_err(InboxError::during("open"))?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.busy_timeout(busy_limit).map_err(InboxError::during("busy_timeout"))?;
    // Before the first table, or it comes too late; and not where it is so already: that would write into the file.
    if !may_shrink(&connection)? {
        connection.execute_batch("PRAGMA auto_vacuum=INCREMENTAL").map_err(InboxError::during("pragmas"))?;
    }
    connection
        .execute_batch(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;
             PRAGMA journal_size_limit=16777216;",
        )
        .map_err(InboxError::during("pragmas"))?;
    check(&connection)?;
    migrate(&mut connection, path)?;
    let_shrink(&connection)?;
    Ok(connection)
}

fn may_shrink(connection: &Connection) -> Result<bool, InboxError> {
    let mode: i64 = connection
        .query_row("PRAGMA auto_vacuum", [], |row| row.get(0))
        .map_err(InboxError::during("pragmas"))?;
    Ok(mode != 0)
}

/// A file of schema 1 can't give room back before it was written anew, once. Where there is no room for that now there
/// may be at the next start.
fn let_shrink(connection: &Connection) -> Result<(), InboxError> {
    if !may_shrink(connection)?
        && let Err(error) = connection.execute_batch("VACUUM")
    {
        tracing::warn!(event = "inbox.not_vacuumed", %error);
    }
    Ok(())
}

/// Makes the file if there is none; refuses what is no regular file of ours alone.
fn secure(path: &Path) -> Result<(), InboxError> {
    let failed =
        |what| move |e: io::Error| InboxError::File { what, path: path.to_owned(), source: Arc::new(e) };
    let refused = |why| Err(InboxError::Refused { path: path.to_owned(), why });
    let file: File = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).bits())
        .open(path)
        .map_err(failed("open"))?;
    let found = file.metadata().map_err(failed("look at"))?;
    if !found.is_file() {
        return refused("not a regular file");
    }
    if found.uid() != nix::unistd::geteuid().as_raw() {
        return refused("it belongs to another user");
    }
    if found.nlink() != 1 {
        return refused("it has other names (hard links)");
    }
    file.set_permissions(PermissionsExt::from_mode(0o600)).map_err(failed("set the mode of"))
}

/// Reads every page once, so that damage shows at the start and not in the middle of a batch.
pub(super) fn check(connection: &Connection) -> Result<(), InboxError> {
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(InboxError::during("quick_check"))?;
    if verdict == "ok" {
        return Ok(());
    }
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    Err(InboxError::during("quick_check")(rusqlite::Error::SqliteFailure(code, Some(verdict))))
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), InboxError> {
    let failed = || InboxError::during("migrate");
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed())?;
    let known = MIGRATIONS.len() as i64;
    if found > known {
        return Err(InboxError::Newer { path: path.to_owned(), found, known });
    }
    for (version, step) in (1..).zip(MIGRATIONS).skip(usize::try_from(found).unwrap_or(0)) {
        let transaction = connection.transaction().map_err(failed())?;
        transaction.execute_batch(step).map_err(failed())?;
        transaction.pragma_update(None, "user_version", version as i64).map_err(failed())?;
        transaction.commit().map_err(failed())?;
    }
    Ok(())
}

/// The database at that place is broken; the file is given another name, and a new one is begun.
pub(super) fn replace(path: &Path, busy_limit: Duration, now_unix_s: i64) -> Result<Ready, InboxError> {
    let damaged = match database_file::move_aside(path, now_unix_s) {
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => None,
        moved => Some(moved.map_err(not_moved)?),
    };
    database_file::remove_companions(path).map_err(not_moved)?;
    Ok(Ready { connection: connect(path, busy_limit)?, damaged })
}

/// The file of an open connection is not at its place any more: all that it holds is written there again. Whatever took
/// the place is moved aside.
pub(super) fn put_back(
    connection: &Connection,
    path: &Path,
    busy_limit: Duration,
    now_unix_s: i64,
) -> Result<Ready, InboxError> {
    let rescued = database_file::with_ending(path, ".rescued");
    let failed = |what| {
        let path = rescued.clone();
        move |source| InboxError::File { what, path, source: Arc::new(source) }
    };
    match std::fs::remove_file(&rescued) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("remove")(error)),
        _ => {}
    }
    // Private before anything is in it: SQLite writes into an empty file as it is.
    secure(&rescued)?;
    let name = rescued.to_string_lossy();
    connection.execute("VACUUM INTO ?1", [&*name]).map_err(InboxError::during("write again"))?;
    let damaged = match database_file::move_aside(path, now_unix_s) {
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => None,
        moved => Some(moved.map_err(not_moved)?),
    };
    database_file::remove_companions(path).map_err(not_moved)?;
    std::fs::rename(&rescued, path).map_err(failed("rename"))?;
    Ok(Ready { connection: connect(path, busy_limit)?, damaged })
}

/// Whether the file still begins as a database does: a program that writes over it does not ask the daemon.
pub(super) fn begins_well(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut magic, 0));
    read.is_ok() && magic == *MAGIC
}

pub(super) fn is_damage(error: &InboxError) -> bool {
    matches!(error, InboxError::Database { source, .. } if database_file::is_damage(source))
}

fn not_moved(NotMoved { path, source }: NotMoved) -> InboxError {
    InboxError::File { what: "move aside", path, source: Arc::new(source) }
}
