//! What happens to the file under a running daemon: somebody removes it, puts another one in its place, or writes over it.
//!
//! | found | by | then |
//! |---|---|---|
//! | another file, or none, at the place | (dev, ino), before each group and once a minute | all is written there again, the other one moved aside |
//! | it does not begin as a database does | once a minute | the same, if all can still be read; else as below |
//! | SQLite says: damaged, and a check agrees | an order | moved aside, a new one begun; what waited is lost, and told |
//!
//! It does not know what is in the tables, but for the numbers of messages, which go on.

use std::path::PathBuf;

use ccmux_policy::Event;
use rusqlite::Connection;

use super::database::{self, Ready};
use super::error::InboxError;
use super::writer::{Writer, unix_ms};
use crate::runtime_dir::FileId;

/// Where the database is, and what is thought of it.
#[derive(Debug)]
pub(super) struct Place {
    pub path: PathBuf,
    /// The file that is open.
    id: Option<FileId>,
    /// Something was wrong with it: to be looked into before the next group.
    pub suspect: bool,
    /// It is gone, and no other could be begun yet.
    homeless: bool,
    /// Said once.
    told: bool,
}

impl Place {
    /// Of a file that was opened just now.
    pub(super) fn of(path: PathBuf) -> Self {
        Self { id: FileId::of_path(&path), path, suspect: false, homeless: false, told: false }
    }
}

impl Writer {
    /// A look from outside, for when nothing is ordered.
    pub(super) fn look_after(&mut self) {
        self.place.suspect |= !database::begins_well(&self.place.path);
    }

    /// Puts right what is wrong with the file, before a transaction begins.
    pub(super) fn mend(&mut self) {
        if self.place.homeless {
            return self.begin_anew("it was damaged");
        }
        if FileId::of_path(&self.place.path) != self.place.id {
            return self.put_back("it was not at its place any more");
        }
        if std::mem::take(&mut self.place.suspect) {
            self.look_into();
        }
    }

    fn look_into(&mut self) {
        let sound = database::check(&self.connection);
        let begins_well = database::begins_well(&self.place.path);
        match sound {
            Ok(()) if begins_well => {}
            Ok(()) => self.put_back("another program wrote over it"),
            Err(error) if database::is_damage(&error) => {
                tracing::error!(event = "inbox.damaged", path = %self.place.path.display(), %error);
                self.begin_anew("it was damaged");
            }
            Err(_) => self.place.suspect = true,
        }
    }

    fn put_back(&mut self, why: &str) {
        let (path, limit) = (self.place.path.clone(), self.settings.busy_limit);
        match database::put_back(&self.connection, &path, limit, unix_ms() / 1000) {
            Ok(ready) => {
                let aside = aside_words(&ready);
                self.move_into(ready.connection);
                let path = path.display();
                tracing::error!(event = "inbox.put_back", %path, why);
                self.notice(format!("{path}: {why}; all messages were written there again{aside}"));
            }
            Err(error) if database::is_damage(&error) => self.begin_anew(why),
            Err(error) => self.not_mended(why, &error),
        }
    }

    fn begin_anew(&mut self, why: &str) {
        self.place.homeless = true;
        // SQLite must have let go of the file before another one takes its name.
        if let Ok(nowhere) = Connection::open_in_memory() {
            self.connection = nowhere;
        }
        match self.try_to_begin_anew() {
            Ok(ready) => {
                let aside = aside_words(&ready);
                self.move_into(ready.connection);
                self.tell_at_once(Event::InboxLost);
                let path = self.place.path.display();
                self.notice(format!("{path}: {why}; a new one was begun, what waited is lost{aside}"));
            }
            Err(error) => self.not_mended(why, &error),
        }
    }

    /// Numbers go on: what was said about an old message must not be taken for a new one's.
    fn try_to_begin_anew(&self) -> Result<Ready, InboxError> {
        let ready = database::replace(&self.place.path, self.settings.busy_limit, unix_ms() / 1000)?;
        let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES ('messages', ?1)";
        ready.connection.execute(sql, [self.last_message.0 as i64]).map_err(InboxError::during("number"))?;
        Ok(ready)
    }

    fn move_into(&mut self, connection: Connection) {
        self.connection = connection;
        self.place = Place::of(self.place.path.clone());
    }

    /// Tried again before each group.
    fn not_mended(&mut self, why: &str, error: &InboxError) {
        if !std::mem::replace(&mut self.place.told, true) {
            let path = self.place.path.display();
            tracing::error!(event = "inbox.not_mended", %path, why, %error);
            self.notice(format!("{path}: {why}, and it can't be put right yet: {error}"));
        }
    }
}

fn aside_words(ready: &Ready) -> String {
    ready
        .damaged
        .as_ref()
        .map(|aside| format!("; what was there is now {}", aside.display()))
        .unwrap_or_default()
}
