//! `turns.db`: every line of `output.sock`, and how far each transcript was read.
//!
//! A turn and its cursor are committed together, so a turn is in the database exactly if its transcript was read past
//! it. `(session, prompt_id, last_uuid)` is unique: a turn is published once, however many Stop hooks came. `seq` grows
//! over restarts and deletions (AUTOINCREMENT).
//!
//! Knows no subscriber and reads no transcript. Everything here blocks: callers are threads, not tasks.

mod big_lines;
mod file;
mod retention;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ccmux_wire::id::{PromptId, Seq, SessionId};
use ccmux_wire::output::{Alert, AlertLine, ReplyTo, Turn};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use self::big_lines::BigLines;
pub use self::file::StoreError;
pub use self::retention::Keep;
use super::broadcast::{Line, LineKind};
use super::transcript::{Cursor, TurnBody};
use crate::database_file::is_damage;

/// The database's file name in the state directory.
pub const FILE_NAME: &str = "turns.db";

/// Cursors of that many sessions are kept.
const KEPT_CURSORS: u32 = 1000;

/// A turn that is to be stored.
#[derive(Debug)]
pub struct NewTurn {
    /// Whose.
    pub session: SessionId,
    /// Unix seconds.
    pub ts: i64,
    /// The messages it answers.
    pub in_reply_to: Vec<ReplyTo>,
    /// What it is made of.
    pub body: TurnBody,
}

/// The open database.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    /// A connection of its own, so that a replay never holds up a turn. Closed first: it can't clear the write-ahead log.
    reader: Mutex<Connection>,
    writer: Mutex<Connection>,
    /// Read, and still held by a subscriber.
    big_lines: Mutex<BigLines>,
}

impl Store {
    /// Opens or makes the database. A damaged one is moved aside; then its new place is returned too.
    ///
    /// # Errors
    /// If it can't be used nor replaced.
    pub fn open(path: &Path, now: i64) -> Result<(Self, Option<PathBuf>), StoreError> {
        match Self::open_sound(path) {
            Err(StoreError::Sqlite { source, .. }) if is_damage(&source) => {
                let aside = file::move_aside(path, now)?;
                let store = Self::open_sound(path)?;
                // The old numbers are lost; Unix seconds are beyond them.
                store.number_from(now)?;
                Ok((store, Some(aside)))
            }
            opened => Ok((opened?, None)),
        }
    }

    fn open_sound(path: &Path) -> Result<Self, StoreError> {
        let (writer, reader) = file::connect(path)?;
        let (writer, reader) = (Mutex::new(writer), Mutex::new(reader));
        Ok(Self { path: path.to_owned(), writer, reader, big_lines: Mutex::default() })
    }

    fn failed(&self, what: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
        move |source| StoreError::Sqlite { path: self.path.clone(), what, source }
    }

    fn write<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut connection = locked(&self.writer);
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(self.failed(what))?;
        let done = work(&transaction)?;
        transaction.commit().map_err(self.failed(what))?;
        Ok(done)
    }

    fn number_from(&self, seq: i64) -> Result<(), StoreError> {
        let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES ('lines', ?1)";
        self.write("number", |transaction| transaction.execute(sql, [seq]).map_err(self.failed("number")))?;
        Ok(())
    }

    /// Stores turns and the cursor behind them, in one commit. Gives the lines that are new.
    ///
    /// # Errors
    /// If nothing was stored.
    pub fn append_turns(
        &self,
        turns: Vec<NewTurn>,
        session: &SessionId,
        cursor: &Cursor,
        now: i64,
    ) -> Result<Vec<Line>, StoreError> {
        self.write("store a turn", |transaction| {
            let mut lines = Vec::new();
            for turn in turns {
                lines.extend(self.append_turn(transaction, turn, cursor)?);
            }
            self.write_cursor(transaction, session, cursor, now)?;
            Ok(lines)
        })
    }

    /// Stores a turn that was not read from a transcript.
    ///
    /// # Errors
    /// If it was not stored.
    pub fn append_told(&self, turn: NewTurn) -> Result<Option<Line>, StoreError> {
        let nowhere = Cursor::start_of(Path::new(""));
        self.write("store a turn", |transaction| self.append_turn(transaction, turn, &nowhere))
    }

    fn append_turn(
        &self,
        transaction: &Transaction<'_>,
        new: NewTurn,
        cursor: &Cursor,
    ) -> Result<Option<Line>, StoreError> {
        let NewTurn { session, ts, in_reply_to, body } = new;
        let prompt = body.prompt_id.as_ref().map_or("", PromptId::as_str).to_owned();
        // A turn that is only a hook's word has no line of its own in the transcript.
        let uuid = body.last_uuid.unwrap_or_else(|| format!("at {}", cursor.offset));
        if self.is_stored(transaction, &session, &prompt, &uuid)? {
            return Ok(None);
        }
        let seq = self.next_seq(transaction)?;
        let turn = Turn {
            seq,
            ts,
            session,
            prompt_id: body.prompt_id,
            in_reply_to,
            turn: body.blocks,
            partial: body.partial,
            source: body.source,
        };
        let json = self.json(&turn)?;
        transaction
            .prepare_cached(
                "INSERT INTO lines (seq, ts, kind, session, prompt_id, last_uuid, json)
                 VALUES (?1, ?2, 'turn', ?3, ?4, ?5, ?6)",
            )
            .and_then(|mut sql| {
                sql.execute(params![number(seq), ts, turn.session.as_str(), prompt, uuid, json])
            })
            .map_err(self.failed("store a turn"))?;
        Ok(Some(Line::new(seq, LineKind::Turn, json)))
    }

    fn is_stored(
        &self,
        transaction: &Transaction<'_>,
        session: &SessionId,
        prompt: &str,
        uuid: &str,
    ) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM lines WHERE session = ?1 AND prompt_id = ?2 AND last_uuid = ?3";
        let found = transaction.query_row(sql, params![session.as_str(), prompt, uuid], |_| Ok(()));
        Ok(found.optional().map_err(self.failed("look for a turn"))?.is_some())
    }

    /// Stores an alert.
    ///
    /// # Errors
    /// If it was not stored.
    pub fn append_alert(
        &self,
        alert: Alert,
        session: Option<SessionId>,
        ts: i64,
    ) -> Result<Line, StoreError> {
        self.write("store an alert", |transaction| {
            let seq = self.next_seq(transaction)?;
            let json = self.json(&AlertLine { seq, ts, session: session.clone(), alert })?;
            let session = session.as_ref().map(SessionId::as_str);
            transaction
                .execute(
                    "INSERT INTO lines (seq, ts, kind, session, json) VALUES (?1, ?2, 'alert', ?3, ?4)",
                    params![number(seq), ts, session, json],
                )
                .map_err(self.failed("store an alert"))?;
            Ok(Line::new(seq, LineKind::Alert, json))
        })
    }

    fn next_seq(&self, connection: &Connection) -> Result<Seq, StoreError> {
        self.last_seq_in(connection).map(|seq| Seq(seq.0 + 1))
    }

    fn last_seq_in(&self, connection: &Connection) -> Result<Seq, StoreError> {
        let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'lines'";
        let last = connection.query_row(sql, [], |row| row.get(0)).optional();
        last.map(|seq: Option<i64>| Seq(seq.unwrap_or(0).cast_unsigned()))
            .map_err(self.failed("read the last number"))
    }

    /// The number of the last line that was ever stored; 0 if none was.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn last_seq(&self) -> Result<Seq, StoreError> {
        self.last_seq_in(&locked(&self.writer))
    }

    fn json<T: serde::Serialize>(&self, line: &T) -> Result<String, StoreError> {
        let mut json = serde_json::to_string(line)
            .map_err(|source| StoreError::Json { path: self.path.clone(), source })?;
        json.push('\n');
        Ok(json)
    }

    /// Lines behind `seq` in order: at most `limit`, and no more once they have `bytes` (but one at least).
    ///
    /// # Errors
    /// What SQLite says.
    pub fn since(&self, seq: Seq, limit: usize, bytes: usize) -> Result<Vec<Line>, StoreError> {
        let reader = locked(&self.reader);
        let failed = self.failed("read lines");
        let mut sql = reader
            .prepare_cached("SELECT seq, kind, json FROM lines WHERE seq > ?1 ORDER BY seq")
            .map_err(&failed)?;
        let mut rows = sql.query([number(seq)]).map_err(&failed)?;
        let (mut lines, mut size) = (Vec::new(), 0);
        while lines.len() < limit && size < bytes {
            let Some(row) = rows.next().map_err(&failed)? else {
                break;
            };
            let line = self.line_of(row).map_err(&failed)?;
            size += line.bytes().len();
            lines.push(line);
        }
        Ok(lines)
    }

    /// What it says is read only if nobody has it.
    fn line_of(&self, row: &rusqlite::Row<'_>) -> rusqlite::Result<Line> {
        let mut big_lines = self.big_lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = big_lines.get(seq_of(row)?) {
            return Ok(line);
        }
        let line = line_of(row)?;
        big_lines.note(&line);
        Ok(line)
    }

    /// The turn with that number.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn turn(&self, seq: Seq) -> Result<Option<Turn>, StoreError> {
        self.one_turn("SELECT json FROM lines WHERE kind = 'turn' AND seq = ?1", params![number(seq)])
    }

    /// A session's last turn.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn last_turn(&self, session: &SessionId) -> Result<Option<Turn>, StoreError> {
        let sql = "SELECT json FROM lines WHERE kind = 'turn' AND session = ?1 ORDER BY seq DESC LIMIT 1";
        self.one_turn(sql, params![session.as_str()])
    }

    fn one_turn(&self, sql: &str, values: &[&dyn rusqlite::ToSql]) -> Result<Option<Turn>, StoreError> {
        let reader = locked(&self.reader);
        let json: Option<String> =
            reader.query_row(sql, values, |row| row.get(0)).optional().map_err(self.failed("read a turn"))?;
        json.map(|json| serde_json::from_str(&json))
            .transpose()
            .map_err(|source| StoreError::Json { path: self.path.clone(), source })
    }

    /// How far a session's transcript was read.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn cursor(&self, session: &SessionId) -> Result<Option<Cursor>, StoreError> {
        let sql = "SELECT path, dev, ino, offset, prompt_id FROM cursors WHERE session = ?1";
        locked(&self.writer)
            .query_row(sql, [session.as_str()], cursor_of)
            .optional()
            .map_err(self.failed("read a cursor"))
    }

    /// When the session's cursor was stored, Unix seconds.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn cursor_stored_at(&self, session: &SessionId) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT changed_at FROM cursors WHERE session = ?1";
        let at = locked(&self.writer).query_row(sql, [session.as_str()], |row| row.get(0));
        at.optional().map_err(self.failed("read a cursor"))
    }

    /// The latest line of that prompt's turn, if one was stored.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn turn_of(&self, session: &SessionId, prompt: &PromptId) -> Result<Option<Seq>, StoreError> {
        let sql = "SELECT max(seq) FROM lines WHERE session = ?1 AND prompt_id = ?2";
        let key = [session.as_str(), prompt.as_str()];
        let found = locked(&self.writer).query_row(sql, key, |row| row.get::<_, Option<i64>>(0));
        Ok(found.map_err(self.failed("look for a turn"))?.map(|seq| Seq(seq.unsigned_abs())))
    }

    /// Remembers how far a session's transcript was read.
    ///
    /// # Errors
    /// If it was not stored.
    pub fn set_cursor(&self, session: &SessionId, cursor: &Cursor, now: i64) -> Result<(), StoreError> {
        self.write("store a cursor", |transaction| self.write_cursor(transaction, session, cursor, now))
    }

    fn write_cursor(
        &self,
        transaction: &Transaction<'_>,
        session: &SessionId,
        cursor: &Cursor,
        now: i64,
    ) -> Result<(), StoreError> {
        use std::os::unix::ffi::OsStrExt;
        let prompt = cursor.prompt.as_ref().map(PromptId::as_str);
        let path = cursor.path.as_os_str().as_bytes();
        // Devices and inodes are 64 bits without a sign, SQLite's numbers have one; only equality counts.
        let (dev, ino) = (cursor.dev.cast_signed(), cursor.ino.cast_signed());
        transaction
            .execute(
                "INSERT OR REPLACE INTO cursors (session, path, dev, ino, offset, prompt_id, changed_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![session.as_str(), path, dev, ino, cursor.offset.cast_signed(), prompt, now],
            )
            .and_then(|_| {
                transaction.execute(
                    "DELETE FROM cursors WHERE session NOT IN
                     (SELECT session FROM cursors ORDER BY changed_at DESC, rowid DESC LIMIT ?1)",
                    [KEPT_CURSORS],
                )
            })
            .map_err(self.failed("store a cursor"))?;
        Ok(())
    }
}

/// SQLite's numbers have a sign; ours never come near it.
fn number(seq: Seq) -> i64 {
    seq.0.cast_signed()
}

fn line_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Line> {
    let kind: String = row.get(1)?;
    let kind = if kind == "turn" { LineKind::Turn } else { LineKind::Alert };
    Ok(Line::new(seq_of(row)?, kind, row.get(2)?))
}

fn seq_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Seq> {
    Ok(Seq(row.get::<_, i64>(0)?.cast_unsigned()))
}

fn cursor_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Cursor> {
    use std::os::unix::ffi::OsStringExt;
    Ok(Cursor {
        path: PathBuf::from(std::ffi::OsString::from_vec(row.get(0)?)),
        dev: row.get::<_, i64>(1)?.cast_unsigned(),
        ino: row.get::<_, i64>(2)?.cast_unsigned(),
        offset: row.get::<_, i64>(3)?.cast_unsigned(),
        prompt: row.get::<_, Option<String>>(4)?.map(PromptId::new),
    })
}

/// A panic elsewhere leaves a connection without an open transaction, so it can be used on.
fn locked(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
