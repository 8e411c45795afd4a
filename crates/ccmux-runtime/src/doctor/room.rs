//! Disk and inbox: is there room, and can be written.

use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::finding::Finding;
use super::patient::Patient;

/// Below this, soon nothing is accepted any more.
const FEW_BYTES: u64 = 256 * 1024 * 1024;
/// Below this, a database can't even commit.
const NO_BYTES: u64 = 16 * 1024 * 1024;
/// A daemon that commits holds the lock for milliseconds.
const BUSY: Duration = Duration::from_secs(2);

pub(super) fn disk(patient: &Patient) -> Vec<Finding> {
    let dir = existing(&patient.state_dir);
    vec![match free_bytes(dir) {
        Ok(free) => judge_room(dir, free),
        Err(error) => {
            let what = format!("{}: its file system can't be asked: {error}", dir.display());
            Finding::warning("disk", what, "see df")
        }
    }]
}

/// The directory, or what will hold it.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(Path::new("/"))
}

fn free_bytes(dir: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(dir)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

fn judge_room(dir: &Path, free: u64) -> Finding {
    let what = format!("{} MiB are free at {}", free / (1024 * 1024), dir.display());
    let remedy = "make room there; retention.bytes and retention.days make the databases smaller";
    match free {
        ..NO_BYTES => Finding::failure("disk", what, remedy),
        NO_BYTES..FEW_BYTES => Finding::warning("disk", what, remedy),
        FEW_BYTES.. => Finding::ok("disk", what),
    }
}

pub(super) fn inbox(patient: &Patient) -> Vec<Finding> {
    let check = "inbox";
    let path = patient.state_dir.join("inbox.db");
    if !path.exists() {
        return vec![Finding::ok(check, format!("{} is not there yet: the daemon makes it", path.display()))];
    }
    vec![match try_write(&path) {
        Ok(()) => Finding::ok(check, format!("{} can be written", path.display())),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Finding::warning(
            check,
            format!("{} is locked for more than {} s", path.display(), BUSY.as_secs()),
            "another program holds it: `fuser inbox.db` names it",
        ),
        Err(error) => Finding::failure(
            check,
            format!("{} can't be written: {error}", path.display()),
            "see its owner and mode and the disk; a damaged one is moved aside at the daemon's next start",
        ),
    }]
}

/// Takes the write lock and gives it back, with nothing written.
fn try_write(path: &Path) -> rusqlite::Result<()> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.execute_batch("BEGIN IMMEDIATE; SELECT COUNT(*) FROM sqlite_schema; ROLLBACK")
}

/// The latest time at which a message came in, by the wall clock of that moment.
pub(super) fn latest_message_ms(state_dir: &Path) -> Option<i64> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(state_dir.join("inbox.db"), flags).ok()?;
    connection.query_row("SELECT MAX(accepted_at) FROM messages", [], |row| row.get(0)).ok()?
}

#[cfg(test)]
mod tests {
    use super::super::finding::Health;
    use super::*;

    #[test]
    fn little_room_is_a_warning_and_none_a_failure() {
        for (mib, state) in
            [(1, Health::Failure), (17, Health::Warning), (255, Health::Warning), (256, Health::Ok)]
        {
            assert_eq!(judge_room(Path::new("/x"), mib * 1024 * 1024).state, state, "{mib}");
        }
    }
}
