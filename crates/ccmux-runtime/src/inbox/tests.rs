//! Real SQLite files in temporary directories.

mod answers;
mod batches;
mod by_hand;
mod changing;
mod channels;
mod file;
mod intake;
mod mending;
mod retention;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ccmux_policy::{Attempt, Event};
use ccmux_wire::channel::ChannelName;
use ccmux_wire::id::{BatchId, MessageId, Seq};
use ccmux_wire::receipt::{MessageState, Proof};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::*;

/// No fact takes longer.
const LIMIT: Duration = Duration::from_secs(60);

fn channel(name: &str) -> ChannelName {
    name.parse().unwrap()
}

fn texts() -> Texts {
    Texts {
        normalise: Arc::new(|_, text| text.replace('\u{1b}', "")),
        measure: Arc::new(|shown, content| Size {
            bytes: (shown.len() + content.len()) as u64,
            rows: content.lines().count() as u32,
        }),
    }
}

fn new_message(on: &str, content: &str) -> NewMessage {
    NewMessage {
        channel: channel(on),
        shown: on.into(),
        content: content.into(),
        id: None,
        meta: None,
        ts_ms: 7,
    }
}

/// A state directory; daemons come and go in it.
struct Place {
    dir: Arc<TempDir>,
    settings: InboxSettings,
}

/// One daemon's inbox, with the events it sent.
struct Daemon {
    opened: Opened,
    events: mpsc::Receiver<Event>,
    _dir: Arc<TempDir>,
}

impl Place {
    fn new() -> Self {
        Self { dir: Arc::new(tempfile::tempdir().unwrap()), settings: InboxSettings::default() }
    }

    fn with(settings: InboxSettings) -> Self {
        Self { settings, ..Self::new() }
    }

    fn limited(message_bytes: u64, queue_messages: u64) -> Self {
        Self::with(InboxSettings { message_bytes, queue_messages, ..InboxSettings::default() })
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("inbox.db")
    }

    fn try_open(&self) -> Result<Daemon, InboxError> {
        let (sender, events) = mpsc::channel(16);
        Inbox::open(&self.path(), self.settings.clone(), texts(), sender).map(|opened| Daemon {
            opened,
            events,
            _dir: self.dir.clone(),
        })
    }

    fn open(&self) -> Daemon {
        self.try_open().unwrap()
    }

    /// As the `sqlite3` tool would.
    fn look(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    fn contents(&self) -> Vec<String> {
        let connection = self.look();
        let mut all = connection.prepare("SELECT content FROM messages ORDER BY id").unwrap();
        all.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

impl Daemon {
    async fn any_event(&mut self) -> Event {
        tokio::time::timeout(LIMIT, self.events.recv()).await.expect("no event came").unwrap()
    }

    async fn event(&mut self) -> ccmux_policy::Message {
        match self.any_event().await {
            Event::MessageAccepted(message) => message,
            other => panic!("{other:?}"),
        }
    }

    /// What was said about the file so far.
    fn notices(&mut self) -> Vec<String> {
        let notices = self.opened.notices.as_mut().unwrap();
        std::iter::from_fn(|| notices.try_recv().ok()).collect()
    }

    /// Accepts a message and brings it into that state.
    async fn message_in(&self, batch: u64, state: MessageState) -> MessageId {
        let (inbox, id) = (&self.opened.inbox, self.accept(&format!("text of {batch}")).await);
        let delivered = async || {
            let at = Proved { entered_at: None, proved_at: ccmux_policy::UnixMs(300) };
            inbox.delivered(BatchId(batch), Proof::Hook, None, at).await.unwrap();
        };
        match state {
            MessageState::Accepted => {}
            MessageState::Failed => inbox.failed(id, "poison").await.unwrap(),
            MessageState::Expired => inbox.expired(id).await.unwrap(),
            _ => {
                self.begin(batch, &[id]).await.unwrap();
                inbox.pasted(BatchId(batch), ccmux_policy::UnixMs(200)).await.unwrap();
            }
        }
        match state {
            MessageState::Uncertain => inbox.uncertain(BatchId(batch), "nobody knows").await.unwrap(),
            MessageState::Delivered => delivered().await,
            MessageState::Answered => {
                delivered().await;
                inbox.answered(vec![id], Seq(batch)).await.unwrap();
            }
            _ => {}
        }
        assert_eq!(self.state(id).await, state);
        id
    }

    async fn accept(&self, content: &str) -> MessageId {
        self.opened.inbox.accept(new_message("x", content)).await.unwrap().message
    }

    async fn state(&self, message: MessageId) -> MessageState {
        self.opened.inbox.receipt(message).await.unwrap().state
    }

    async fn begin(&self, batch: u64, messages: &[MessageId]) -> Result<(), InboxError> {
        let now = ccmux_policy::UnixMs(100);
        let text = "[10:00 x] hi".into();
        self.opened.inbox.begin_batch(BatchId(batch), messages.to_vec(), text, Mark::default(), now).await
    }
}
