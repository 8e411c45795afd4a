//! `attention.db`: items with their texts, turns that run, mutes, and notices on their way. One transaction keeps what
//! the engine ordered at once, notices included, so that a restart neither repeats nor forgets.
//!
//! Blocking; it doesn't know what a row means.

use std::path::{Path, PathBuf};

use ccmux_policy::UnixMs;
use ccmux_policy::attention::{Flurry, Key, Mute, Row};
use ccmux_wire::id::SessionId;
use rusqlite::{Connection, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::attendant::{Letter, Turn};
use super::words::Text;
use crate::clock::unix_ms;
use crate::database_file::{is_damage, make_private, move_aside};

/// Its name in the state directory.
pub const FILE_NAME: &str = "attention.db";

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS item (key TEXT PRIMARY KEY, row TEXT NOT NULL, text TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS turn (session TEXT PRIMARY KEY, turn TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS mute (mute TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS letter (id INTEGER PRIMARY KEY AUTOINCREMENT, letter TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS told (flurry TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT;
";

/// Why it can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    /// SQLite says no.
    #[error("{path}: {source}")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The file can't be made or opened.
    #[error("{path}: open: {source}: check the owner of the state directory")]
    Create {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// What was kept.
#[derive(Debug, Default)]
pub struct Kept {
    /// Items with their texts.
    pub items: Vec<(Row, Text)>,
    /// Turns that ran.
    pub turns: Vec<(SessionId, Turn)>,
    /// Mutes.
    pub mutes: Vec<Mute>,
    /// When what was told last, as far as it cools down.
    pub told: Vec<(Flurry, UnixMs)>,
    /// Notices that were on their way.
    pub letters: Vec<(i64, Letter)>,
}

/// What is to be kept together.
#[derive(Debug, Default)]
pub struct Page {
    /// Items that are new or stand elsewhere.
    pub keep: Vec<(Row, Text)>,
    /// Items that are over.
    pub forget: Vec<Key>,
    /// Turns that began, and sessions that have none any more.
    pub turns: Vec<(SessionId, Option<Turn>)>,
    /// All mutes.
    pub mutes: Option<Vec<Mute>>,
    /// What was told just now, and what has cooled down.
    pub told: Vec<(Flurry, Option<UnixMs>)>,
    /// Notices that go on their way.
    pub letters: Vec<Letter>,
}

impl Page {
    /// Nothing is on it.
    pub fn is_empty(&self) -> bool {
        self.keep.is_empty()
            && self.forget.is_empty()
            && self.turns.is_empty()
            && self.mutes.is_none()
            && self.told.is_empty()
            && self.letters.is_empty()
    }
}

/// The database.
#[derive(Debug)]
pub struct Book(Connection);

impl Book {
    /// Opens it; a damaged one is moved aside, since nothing in it is worth a daemon that does not start.
    ///
    /// # Errors
    /// If there can be none.
    pub fn open(state_dir: &Path) -> Result<(Self, Kept), BookError> {
        let path = state_dir.join(FILE_NAME);
        let sqlite = |source| BookError::Sqlite { path: path.clone(), source };
        let private =
            || make_private(&path).map_err(|source| BookError::Create { path: path.clone(), source });
        private()?;
        Self::try_open(&path).or_else(|error| {
            let aside = is_damage(&error).then(|| move_aside(&path, unix_ms().0 / 1000).ok()).flatten();
            let Some(aside) = aside else { return Err(sqlite(error)) };
            tracing::warn!(event = "attention.moved_aside", to = %aside.display());
            private()?;
            Self::try_open(&path).map_err(sqlite)
        })
    }

    fn try_open(path: &Path) -> rusqlite::Result<(Self, Kept)> {
        let database = Connection::open(path)?;
        database.execute_batch(SCHEMA)?;
        let kept = Kept {
            items: rows(&database, "SELECT row, text FROM item ORDER BY key", |row| {
                Ok(Some((json(row, 0)?, json(row, 1)?)).and_then(both))
            })?,
            turns: rows(&database, "SELECT session, turn FROM turn", |row| {
                Ok(json::<Turn>(row, 1)?
                    .map(|turn| (row.get::<_, String>(0), turn))
                    .and_then(|(session, turn)| Some((SessionId::new(session.ok()?), turn))))
            })?,
            mutes: rows(&database, "SELECT mute FROM mute", |row| json(row, 0))?,
            told: rows(&database, "SELECT flurry, at FROM told", |row| {
                let at = UnixMs(row.get(1)?);
                Ok(json(row, 0)?.map(|flurry| (flurry, at)))
            })?,
            letters: rows(&database, "SELECT id, letter FROM letter ORDER BY id", |row| {
                let id = row.get(0)?;
                Ok(json(row, 1)?.map(|letter| (id, letter)))
            })?,
        };
        Ok((Self(database), kept))
    }

    /// Keeps a page, wholly or not at all. Returns the letters' numbers.
    ///
    /// # Errors
    /// If the database refuses.
    pub fn write(&mut self, page: &Page) -> rusqlite::Result<Vec<i64>> {
        let change = self.0.transaction()?;
        for (row, text) in &page.keep {
            let put = "INSERT OR REPLACE INTO item (key, row, text) VALUES (?1, ?2, ?3)";
            change.execute(put, params![written(&row.key), written(row), written(text)])?;
        }
        for key in &page.forget {
            change.execute("DELETE FROM item WHERE key = ?1", [written(key)])?;
        }
        for (session, turn) in &page.turns {
            match turn {
                Some(turn) => change.execute(
                    "INSERT OR REPLACE INTO turn (session, turn) VALUES (?1, ?2)",
                    params![session.as_str(), written(turn)],
                )?,
                None => change.execute("DELETE FROM turn WHERE session = ?1", [session.as_str()])?,
            };
        }
        for (flurry, at) in &page.told {
            match at {
                Some(at) => change.execute(
                    "INSERT OR REPLACE INTO told (flurry, at) VALUES (?1, ?2)",
                    params![written(flurry), at.0],
                )?,
                None => change.execute("DELETE FROM told WHERE flurry = ?1", [written(flurry)])?,
            };
        }
        if let Some(mutes) = &page.mutes {
            change.execute("DELETE FROM mute", [])?;
            for mute in mutes {
                change.execute("INSERT INTO mute (mute) VALUES (?1)", [written(mute)])?;
            }
        }
        let mut numbers = Vec::new();
        for letter in &page.letters {
            change.execute("INSERT INTO letter (letter) VALUES (?1)", [written(letter)])?;
            numbers.push(change.last_insert_rowid());
        }
        change.commit()?;
        Ok(numbers)
    }

    /// A notice has arrived, or never will.
    ///
    /// # Errors
    /// If the database refuses.
    pub fn arrived(&mut self, letter: i64) -> rusqlite::Result<()> {
        self.0.execute("DELETE FROM letter WHERE id = ?1", [letter]).map(drop)
    }
}

fn written(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// What another version wrote in another form is left out.
fn json<T: DeserializeOwned>(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    let text: String = row.get(column)?;
    Ok(serde_json::from_str(&text).ok())
}

fn both<A, B>((a, b): (Option<A>, Option<B>)) -> Option<(A, B)> {
    a.zip(b)
}

fn rows<T>(
    database: &Connection,
    query: &str,
    read: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<Option<T>>,
) -> rusqlite::Result<Vec<T>> {
    let mut statement = database.prepare(query)?;
    let found = statement.query_map([], |row| read(row))?.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(found.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use ccmux_policy::attention::{Kind, Muted, Source};

    use super::*;
    use crate::notify::Notice;

    fn row(subject: &str) -> Row {
        let (source, session) = (Source::Claude, SessionId::new("s1"));
        let key = Key { source, session, kind: Kind::Reply, subject: subject.to_owned() };
        Row { key, began: UnixMs(1), base: UnixMs(1), step: 0, due: Some(UnixMs(9)), held: false }
    }

    fn flurry(session: &str) -> Flurry {
        (Source::Claude, SessionId::new(session), Kind::Reply)
    }

    fn letter(title: &str) -> Letter {
        let [kind, session, body] = ["reply", "s1", "b"].map(str::to_owned);
        let notice = Notice { kind, session, title: title.to_owned(), body, ts: 7, code: None };
        Letter { key: Some(row(title).key), notice, routes: vec!["a".to_owned()] }
    }

    #[test]
    fn what_was_kept_is_there_again_and_what_is_over_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (mut book, _) = Book::open(dir.path()).unwrap();
        let turn = Turn { task: "t".into(), started: UnixMs(5), count: 2, spot: None };
        let text = Text::about(Kind::Reply, "x");
        let mute = Mute { what: Muted::Kind(Kind::Stuck), until: UnixMs(8) };
        let page = Page {
            keep: vec![(row("p1"), text.clone()), (row("p2"), text.clone())],
            turns: vec![
                (SessionId::new("s1"), Some(turn.clone())),
                (SessionId::new("s2"), Some(turn.clone())),
            ],
            mutes: Some(vec![mute.clone()]),
            told: vec![(flurry("s1"), Some(UnixMs(4))), (flurry("s2"), Some(UnixMs(5)))],
            letters: vec![letter("one"), letter("two")],
            ..Page::default()
        };
        let numbers = book.write(&page).unwrap();
        let over = Page {
            forget: vec![row("p1").key],
            turns: vec![(SessionId::new("s2"), None)],
            told: vec![(flurry("s2"), None)],
            ..Page::default()
        };
        book.write(&over).unwrap();
        book.arrived(numbers[0]).unwrap();
        drop(book);
        let (_, kept) = Book::open(dir.path()).unwrap();
        assert_eq!(kept.items, [(row("p2"), text)]);
        assert_eq!(kept.turns, [(SessionId::new("s1"), turn)]);
        assert_eq!(kept.mutes, [mute]);
        assert_eq!(kept.told, [(flurry("s1"), UnixMs(4))]);
        assert_eq!(kept.letters, [(numbers[1], letter("two"))]);
    }

    #[test]
    fn nobody_else_reads_what_waits() {
        let dir = tempfile::tempdir().unwrap();
        let (_book, _) = Book::open(dir.path()).unwrap();
        for file in std::fs::read_dir(dir.path()).unwrap().flatten() {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
        }
    }

    #[test]
    fn a_damaged_file_is_moved_aside_and_rows_of_another_form_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join(FILE_NAME),
            "no database at all, but long enough to be none".repeat(9),
        )
        .unwrap();
        let (book, kept) = Book::open(dir.path()).unwrap();
        assert!(kept.items.is_empty());
        assert!(
            std::fs::read_dir(dir.path())
                .unwrap()
                .flatten()
                .any(|entry| { entry.file_name().to_string_lossy().starts_with("attention.db.damaged-") })
        );
        book.0.execute("INSERT INTO letter (letter) VALUES ('{\"of\":\"tomorrow\"}')", []).unwrap();
        drop(book);
        assert!(Book::open(dir.path()).unwrap().1.letters.is_empty());
    }
}
