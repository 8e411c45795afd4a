//! What the databases have in common as files: how damage is known, and where a damaged file goes.
//!
//! ```text
//! inbox.db, inbox.db-wal, inbox.db-shm ──► inbox.db.damaged-1740000000, ...-wal, ...-shm
//! ```
//!
//! Its log moves with it, so that `sqlite3` can still try to read it, and so that it is never applied to the new file.
//! Knows no table.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use rusqlite::ErrorCode;

/// What SQLite keeps beside a database.
const COMPANIONS: [&str; 2] = ["-wal", "-shm"];

/// The file itself is broken; another one would do.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Makes the file, if it is not there: it holds texts of messages and turns, and nobody else reads it.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags.bits());
    options.open(path).map(drop)
}

/// A file that can't be given another name.
#[derive(Debug)]
pub(crate) struct NotMoved {
    /// Which one.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Gives a database that nobody has open another name; returns it.
pub(crate) fn move_aside(path: &Path, now_unix_s: i64) -> Result<PathBuf, NotMoved> {
    let aside = (now_unix_s..)
        .map(|time| with_ending(path, &format!(".damaged-{time}")))
        .find(|free| !free.exists())
        .unwrap_or_else(|| with_ending(path, ".damaged"));
    for ending in COMPANIONS {
        rename_if_there(&with_ending(path, ending), &with_ending(&aside, ending))?;
    }
    std::fs::rename(path, &aside).map_err(|source| NotMoved { path: path.to_owned(), source })?;
    Ok(aside)
}

/// Removes what lies beside a database that is gone: a log of another file must not be applied to the next one.
pub(crate) fn remove_companions(path: &Path) -> Result<(), NotMoved> {
    for ending in COMPANIONS {
        let beside = with_ending(path, ending);
        match std::fs::remove_file(&beside) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(NotMoved { path: beside, source });
            }
            _ => {}
        }
    }
    Ok(())
}

fn rename_if_there(from: &Path, to: &Path) -> Result<(), NotMoved> {
    match std::fs::rename(from, to) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(NotMoved { path: from.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// `inbox.db` and `-wal` → `inbox.db-wal`.
pub(crate) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}
