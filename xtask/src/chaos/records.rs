//! What ccmux itself has on record: `inbox.db` and `turns.db`, opened for reading while the daemon runs.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rusqlite::{Connection, OpenFlags, Row};

use super::token::Token;

/// A message, as the inbox has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recorded {
    /// All tokens in its text; one, if nothing went wrong.
    pub tokens: Vec<Token>,
    pub state: String,
    pub proof: Option<String>,
    pub reason: Option<String>,
    pub redelivered: bool,
    pub failures: u32,
    pub accepted_at: i64,
    pub delivered_at: Option<i64>,
    /// The agent that its last batch was typed to, and when.
    pub agent: Option<i32>,
    pub typed_at: i64,
}

/// A line of `output.sock`, as the turn database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub seq: u64,
    /// Of a turn; an alert has none.
    pub prompt: Option<String>,
    pub partial: bool,
}

/// Every message.
pub fn messages(state_dir: &Path) -> anyhow::Result<Vec<Recorded>> {
    let sql = "SELECT content, m.state, m.proof, m.reason, redelivered, failures, accepted_at, delivered_at, agent_pid,
        coalesce(began_at, 0)
        FROM messages AS m LEFT JOIN batches AS b ON b.id = m.batch ORDER BY m.id";
    list(&state_dir.join("inbox.db"), sql, |row| {
        Ok(Recorded {
            tokens: Token::all_in(&row.get::<_, String>(0)?),
            state: row.get(1)?,
            proof: row.get(2)?,
            reason: row.get(3)?,
            redelivered: row.get(4)?,
            failures: row.get(5)?,
            accepted_at: row.get(6)?,
            delivered_at: row.get(7)?,
            agent: row.get(8)?,
            typed_at: row.get(9)?,
        })
    })
}

/// How full the inbox is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queue {
    /// Messages that wait or are on their way.
    pub waiting: u64,
    /// Messages that were ever accepted.
    pub accepted: u64,
}

impl Queue {
    /// Messages whose fate is known.
    pub fn settled(self) -> u64 {
        self.accepted - self.waiting
    }
}

/// How full the inbox is now.
pub fn queue(state_dir: &Path) -> anyhow::Result<Queue> {
    let sql = "SELECT count(*) FILTER (WHERE state IN ('accepted', 'in_flight')), count(*) FROM messages";
    let count = |row: &Row<'_>, at| row.get::<_, i64>(at).map(i64::unsigned_abs);
    let read = |row: &Row<'_>| Ok(Queue { waiting: count(row, 0)?, accepted: count(row, 1)? });
    Ok(list(&state_dir.join("inbox.db"), sql, read)?.first().copied().unwrap_or_default())
}

/// Batches by what became of them: `delivered 120`.
pub fn batches(state_dir: &Path) -> anyhow::Result<Vec<(String, i64)>> {
    let sql = "SELECT state, count(*) FROM batches GROUP BY state ORDER BY state";
    list(&state_dir.join("inbox.db"), sql, |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Every line of `output.sock`.
pub fn lines(state_dir: &Path) -> anyhow::Result<Vec<Told>> {
    let sql = "SELECT seq, kind, prompt_id, json LIKE '%\"partial\":true%' FROM lines ORDER BY seq";
    list(&state_dir.join("turns.db"), sql, |row| {
        let is_turn = row.get::<_, String>(1)? == "turn";
        Ok(Told {
            seq: row.get::<_, i64>(0)?.unsigned_abs(),
            prompt: row.get::<_, Option<String>>(2)?.filter(|_| is_turn),
            partial: row.get(3)?,
        })
    })
}

fn list<T>(
    database: &Path,
    sql: &str,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> anyhow::Result<Vec<T>> {
    let rows = || -> rusqlite::Result<Vec<T>> {
        let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.prepare(sql)?.query_map([], read)?.collect()
    };
    rows().with_context(|| format!("can't read {}", database.display()))
}
