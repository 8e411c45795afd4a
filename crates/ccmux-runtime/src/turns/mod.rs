//! Transcripts → turns → subscribers.
//!
//! | module | what it does |
//! |---|---|
//! | [`transcript`] | reads Claude Code's transcripts: turns, and the second witness of a delivery |
//! | [`store`] | `turns.db`: every line that was published, and the cursors |
//! | [`broadcast`] | `output.sock`: the lines to every subscriber |
//! | [`retention`] | when old lines are forgotten |
//! | [`sessions`] | what is remembered of a session between two orders |
//! | [`publish`] | an order → what is read, stored and sent |
//! | [`offer`] | turns that somebody else shows us, published if the transcript does not have them |
//!
//! ```text
//! Stop hook ─► note_stop ─┐
//!                         ▼
//! policy ─► PublishTurn ─► publish ─► TranscriptReader ─► Store (commit) ─► Broadcast ─► subscribers
//!                                     at most 2 s, on a thread
//! ```
//!
//! [`Turns`] is the handle for all of it. It doesn't know why a turn is published, which messages there are, nor whose
//! hook it was: only orders about the owned session may come here.

pub mod broadcast;
mod offer;
mod publish;
pub mod retention;
pub mod sessions;
pub mod store;
pub mod transcript;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use ccmux_policy::UnixMs;
use ccmux_policy::event::Found;
use ccmux_wire::id::{PromptId, Seq, SessionId};
use ccmux_wire::output::{Alert, ReplyTo};
use ccmux_wire::status::TurnsStatus;
use tokio::sync::Semaphore;

use self::broadcast::{Broadcast, Line};
pub use self::offer::Offer;
use self::sessions::Sessions;
use self::store::{Store, StoreError};
pub use self::transcript::FoundElsewhere;
use self::transcript::{
    ApiFailure, Compare, Cursor, TranscriptError, TranscriptReader, Wanted, find_batch, find_elsewhere,
    open_transcript, text_of,
};

/// What this room has to be told.
#[derive(Debug, Clone)]
pub struct TurnsSettings {
    /// `${CLAUDE_CONFIG_DIR:-~/.claude}/projects`; no transcript outside is ever read.
    pub projects_dir: PathBuf,
    /// `limits.subscriber_bytes`.
    pub subscriber_bytes: usize,
}

/// Why an order was not done.
#[derive(Debug, thiserror::Error)]
pub enum TurnsError {
    /// The transcript.
    #[error(transparent)]
    Transcript(#[from] TranscriptError),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No hook of the session has named its transcript yet.
    #[error("session {0} has no known transcript: no hook of it has come yet")]
    NoTranscript(SessionId),
    /// The daemon stops, or a thread panicked.
    #[error("the work was ended before it was done")]
    Ended,
}

/// An order to publish.
#[derive(Debug, Clone)]
pub struct TurnOrder {
    /// Whose turn.
    pub session: SessionId,
    /// The prompt that began it; without one: what follows the cursor.
    pub prompt: Option<PromptId>,
    /// The messages that were delivered into it.
    pub in_reply_to: Vec<ReplyTo>,
    /// Messages of an earlier daemon, by the prompts that they became: a turn of one of them that is found on the way is in
    /// reply to those.
    pub earlier: Vec<(PromptId, ReplyTo)>,
    /// No Stop hook told of its end, so what one said earlier is about another turn.
    pub interrupted: bool,
    /// Without a prompt: where the transcript ended when the order was given. What begins later is not meant.
    pub until: Option<u64>,
}

/// Where a transcript ends at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The file; it need not exist yet.
    pub path: PathBuf,
    /// Its length; 0 if it doesn't exist.
    pub offset: u64,
}

/// What came of opening.
#[derive(Debug)]
pub struct Opened {
    /// The handle.
    pub turns: Turns,
    /// A damaged database was moved there; worth an alert.
    pub moved_aside: Option<PathBuf>,
}

/// The handle; clones are the same room.
#[derive(Debug, Clone)]
pub struct Turns(Arc<Room>);

#[derive(Debug)]
struct Room {
    reader: TranscriptReader,
    store: Arc<Store>,
    broadcast: Broadcast,
    sessions: Sessions,
    /// Held from before a commit until after its lines were published, so that they go out in order of their numbers.
    publishing: Mutex<()>,
    /// Turns since the daemon's start, and how many of them were partial.
    published: AtomicU64,
    partial: AtomicU64,
    /// Turns that somebody shows and that are being considered.
    offers: Semaphore,
}

impl Turns {
    /// Opens the database in the state directory. Blocks.
    ///
    /// # Errors
    /// If it can't be used nor replaced.
    pub fn open(state_dir: &Path, settings: TurnsSettings) -> Result<Opened, TurnsError> {
        let (store, moved_aside) = Store::open(&state_dir.join(store::FILE_NAME), unix_seconds())?;
        let store = Arc::new(store);
        let broadcast = Broadcast::new(Arc::clone(&store), store.last_seq()?, settings.subscriber_bytes);
        let reader = TranscriptReader { projects_dir: settings.projects_dir };
        let sessions = Sessions::default();
        let (publishing, published, partial) = (Mutex::new(()), AtomicU64::new(0), AtomicU64::new(0));
        let offers = Semaphore::new(offer::MAX_OFFERS);
        let room = Room { reader, store, broadcast, sessions, publishing, published, partial, offers };
        Ok(Opened { turns: Self(Arc::new(room)), moved_aside })
    }

    /// For `output.sock` and for `subscribe` on `control.sock`; has `subscribers` and `last_seq` for `status`.
    pub fn broadcast(&self) -> &Broadcast {
        &self.0.broadcast
    }

    /// No transcript outside is ever read.
    pub fn projects_dir(&self) -> &Path {
        &self.0.reader.projects_dir
    }

    /// What was published since the daemon's start.
    pub fn counts(&self) -> TurnsStatus {
        TurnsStatus { published: self.0.published.load(Relaxed), partial: self.0.partial.load(Relaxed) }
    }

    /// Remembers that a turn runs, so that nobody takes it for one that ended.
    pub fn note_prompt(&self, session: &SessionId, prompt: Option<&PromptId>) {
        self.0.sessions.of(session).note_prompt(prompt);
    }

    /// Remembers that the API failed in it.
    pub fn note_failure(&self, session: &SessionId) {
        self.0.sessions.of(session).note_prompt(None);
    }

    /// Remembers what a Stop hook said, until the turn is published.
    pub fn note_stop(
        &self,
        session: &SessionId,
        prompt: Option<&PromptId>,
        last_message: Option<&str>,
        transcript: Option<&Path>,
    ) {
        self.0.sessions.of(session).note_stop(prompt, last_message, transcript);
    }

    /// Remembers where a session's transcript is (every hook names it).
    pub fn note_transcript(&self, session: &SessionId, transcript: &Path) {
        self.0.sessions.of(session).note_transcript(transcript);
    }

    /// Where a session's transcript is, if a hook has named it.
    pub fn transcript_of(&self, session: &SessionId) -> Option<PathBuf> {
        self.0.sessions.of(session).transcript()
    }

    /// Reads a turn and publishes it, and before it what was not published yet. `None`: there was nothing new of it.
    ///
    /// Orders about one session are done one after the other, in the order of their calls; sessions don't wait for
    /// each other.
    ///
    /// # Errors
    /// If nothing was published although there may have been a turn.
    pub async fn publish(&self, order: TurnOrder) -> Result<Option<Seq>, TurnsError> {
        let session = self.0.sessions.of(&order.session);
        let _turn_of_this_session = session.busy.lock().await;
        let (turns, session) = (self.clone(), Arc::clone(&session));
        blocking(move || turns.0.publish(&session, &order)).await
    }

    /// The API's failure that the last order about a turn without a Stop found in the transcript; once.
    pub fn take_failure(&self, session: &SessionId) -> Option<ApiFailure> {
        self.0.sessions.of(session).take_failure()
    }

    /// Publishes an alert.
    ///
    /// # Errors
    /// If it could not be stored.
    pub async fn alert(&self, alert: Alert, session: Option<SessionId>) -> Result<Seq, TurnsError> {
        let turns = self.clone();
        blocking(move || turns.0.alert(alert, session)).await
    }

    /// A session that was never seen before begins at the present end of its transcript; of others the cursor is known.
    ///
    /// # Errors
    /// If the transcript is refused or the cursor can't be stored.
    pub async fn set_cursor_to_end(&self, session: &SessionId, transcript: &Path) -> Result<(), TurnsError> {
        self.move_cursor(session, transcript, false).await
    }

    /// The agent took this session up: what others did in it before is nothing of ours.
    ///
    /// # Errors
    /// If the transcript is refused or the cursor can't be stored.
    pub async fn take_up(&self, session: &SessionId, transcript: &Path) -> Result<(), TurnsError> {
        self.move_cursor(session, transcript, true).await
    }

    async fn move_cursor(&self, session: &SessionId, path: &Path, always: bool) -> Result<(), TurnsError> {
        self.note_transcript(session, path);
        let state = self.0.sessions.of(session);
        let _turn_of_this_session = state.busy.lock().await;
        let (turns, session, path) = (self.clone(), session.clone(), path.to_owned());
        blocking(move || turns.0.set_cursor_to_end(&session, &path, always)).await
    }

    /// Where the session's transcript ends now; `None` as long as no hook has named it.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn mark(&self, session: &SessionId) -> Result<Option<Mark>, TurnsError> {
        let (turns, session) = (self.clone(), session.clone());
        blocking(move || turns.0.mark(&session)).await
    }

    /// Looks for a text behind a mark; see [`find_batch`].
    pub async fn find_batch(
        &self,
        mark: Mark,
        text: String,
        same: Compare,
        contains: Compare,
    ) -> (Found, Option<PromptId>) {
        let turns = self.clone();
        let search = move || {
            let wanted = Wanted { text: &text, same, contains };
            Ok(find_batch(&mark.path, &turns.0.reader.projects_dir, mark.offset, wanted))
        };
        blocking(search).await.unwrap_or((Found::Unreadable, None))
    }

    /// Looks for a text in the other transcripts of the mark's folder; see [`find_elsewhere`].
    pub async fn find_elsewhere(
        &self,
        mark: Mark,
        since: UnixMs,
        text: String,
        same: Compare,
        contains: Compare,
    ) -> Option<FoundElsewhere> {
        let turns = self.clone();
        let search = move || {
            let wanted = Wanted { text: &text, same, contains };
            Ok(find_elsewhere(&mark.path, &turns.0.reader.projects_dir, since, wanted))
        };
        blocking(search).await.ok().flatten()
    }

    /// The session is about to be taken up, and its turns count from `offset` of its transcript on.
    pub fn note_first_turn(&self, session: &SessionId, transcript: &Path, offset: u64) {
        let session = self.0.sessions.of(session);
        session.note_transcript(transcript);
        session.note_first_turn(offset);
    }

    /// The line of that prompt's turn, if it was published.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn turn_of(&self, session: &SessionId, prompt: &PromptId) -> Result<Option<Seq>, TurnsError> {
        let (turns, session, prompt) = (self.clone(), session.clone(), prompt.clone());
        blocking(move || Ok(turns.0.store.turn_of(&session, &prompt)?)).await
    }

    /// The last turn of a session that was published.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn last_turn_of(&self, session: &SessionId) -> Result<Option<Seq>, TurnsError> {
        let (turns, session) = (self.clone(), session.clone());
        blocking(move || Ok(turns.0.store.last_turn(&session)?.map(|turn| turn.seq))).await
    }

    /// The text blocks of a published turn, with newlines between them.
    ///
    /// # Errors
    /// What the database says.
    pub async fn answer_text(&self, seq: Seq) -> Result<Option<String>, TurnsError> {
        let turns = self.clone();
        let read = move || Ok(turns.0.store.turn(seq)?.map(|turn| text_of(&turn.turn)));
        blocking(read).await
    }
}

impl Room {
    fn alert(&self, alert: Alert, session: Option<SessionId>) -> Result<Seq, TurnsError> {
        let kind = alert.kind.clone();
        let lines = self.stored_and_sent(|| {
            self.store.append_alert(alert, session, unix_seconds()).map(|line| vec![line])
        })?;
        let seq = lines.last().map(Line::seq).ok_or(TurnsError::Ended)?;
        tracing::info!(event = "alert.published", kind, %seq);
        Ok(seq)
    }

    fn stored_and_sent(
        &self,
        store: impl FnOnce() -> Result<Vec<Line>, StoreError>,
    ) -> Result<Vec<Line>, TurnsError> {
        let _in_order = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = store()?;
        for line in &lines {
            self.broadcast.publish(line);
        }
        Ok(lines)
    }

    fn set_cursor_to_end(&self, session: &SessionId, path: &Path, always: bool) -> Result<(), TurnsError> {
        if !always && self.store.cursor(session)?.is_some_and(|known| known.path == path) {
            return Ok(());
        }
        let mut cursor = Cursor::end_of(path, &self.reader.projects_dir)?;
        if let Some(offset) = self.sessions.of(session).take_first_turn() {
            cursor.offset = cursor.offset.min(offset);
        }
        Ok(self.store.set_cursor(session, &cursor, unix_seconds())?)
    }

    fn mark(&self, session: &SessionId) -> Result<Option<Mark>, TurnsError> {
        let path = match self.sessions.of(session).transcript() {
            Some(path) => path,
            None => match self.store.cursor(session)? {
                Some(cursor) => cursor.path,
                None => return Ok(None),
            },
        };
        let offset = match open_transcript(&path, &self.reader.projects_dir) {
            Ok(file) => file.metadata().map_err(|source| TranscriptError::io(&path, "fstat", source))?.len(),
            Err(TranscriptError::Missing { .. }) => 0,
            Err(error) => return Err(error.into()),
        };
        Ok(Some(Mark { path, offset }))
    }
}

fn ends_with_words(blocks: &[serde_json::Value], words: &str) -> bool {
    let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    bare(&text_of(blocks)).ends_with(&bare(words))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TurnsError> + Send + 'static,
) -> Result<T, TurnsError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| TurnsError::Ended)?
}

fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
