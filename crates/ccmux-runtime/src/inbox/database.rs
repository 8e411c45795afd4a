//! The file `inbox.db`: made with mode 0600, checked, migrated, and moved aside when it is damaged.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::OFlag;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::error::InboxError;

/// Step n brings a database from `user_version` n to n + 1. Steps are never changed, only added.
const MIGRATIONS: [&str; 1] = [include_str!("schema_1.sql")];

/// A database that is ready, and where a damaged one was put.
pub(super) struct Ready {
    pub connection: Connection,
    pub damaged: Option<PathBuf>,
}

/// Opens the database at `path`, or a new one if there is none or it is damaged.
pub(super) fn open(path: &Path, busy_limit: Duration, now_unix_s: i64) -> Result<Ready, InboxError> {
    match connect(path, busy_limit) {
        Err(error) if is_damage(&error) => {
            let aside = move_aside(path, now_unix_s)?;
            tracing::error!(event = "inbox.damaged", path = %path.display(), moved_to = %aside.display(), %error);
            Ok(Ready { connection: connect(path, busy_limit)?, damaged: Some(aside) })
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
    connection
        .execute_batch(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;
             PRAGMA journal_size_limit=16777216;",
        )
        .map_err(InboxError::during("pragmas"))?;
    check(&connection)?;
    migrate(&mut connection, path)?;
    Ok(connection)
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
fn check(connection: &Connection) -> Result<(), InboxError> {
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

fn is_damage(error: &InboxError) -> bool {
    let InboxError::Database { source, .. } = error else {
        return false;
    };
    matches!(source.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// `inbox.db` → `inbox.db.damaged-<unix time>`, with its WAL beside it, so that `sqlite3` can still try to read it.
fn move_aside(path: &Path, now_unix_s: i64) -> Result<PathBuf, InboxError> {
    let aside = (now_unix_s..)
        .map(|time| with_suffix(path, &format!(".damaged-{time}")))
        .find(|free| !free.exists())
        .unwrap_or_else(|| with_suffix(path, ".damaged"));
    for ending in ["-wal", "-shm", ""] {
        let (from, to) = (with_suffix(path, ending), with_suffix(&aside, ending));
        match std::fs::rename(&from, &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !ending.is_empty() => {}
            moved => moved.map_err(|source| InboxError::File {
                what: "move aside",
                path: from,
                source: Arc::new(source),
            })?,
        }
    }
    Ok(aside)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
