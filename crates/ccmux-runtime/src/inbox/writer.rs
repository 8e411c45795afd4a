//! The one thread that owns the connection, and its group commit.
//!
//! ```text
//! drain what is queued (≤ 1000) → BEGIN → each order in a savepoint → COMMIT → events, receipts, replies
//!                                         (one alone needs none)
//! ```
//!
//! An order that fails undoes itself alone. A commit that fails undoes its whole group and is told to each of it.
//! Nothing leaves before the commit, and in memory nothing is kept that the database does not have.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ccmux_policy::Event;
use ccmux_wire::channel::ChannelName;
use ccmux_wire::id::MessageId;
use ccmux_wire::inbound::Framer;
use ccmux_wire::receipt::Receipt;
use ccmux_wire::status::QueueStatus;
use rusqlite::Connection;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::answers::{AnswerLine, AnswerWatch};
use super::error::InboxError;
use super::forward::Forward;
use super::mending::Place;
use super::message::{InboxSettings, Texts};
use crate::database_file::is_damage;
use crate::disk::{Disk, is_full_for_sqlite};

/// The most orders in one transaction.
const GROUP: usize = 1_000;
/// The write lock is taken at once: what is read in the transaction stays true until its end.
const BEGIN: &str = "BEGIN IMMEDIATE";

/// Says whether the group was committed to whoever waits for the answer.
pub(super) type Answer = Box<dyn FnOnce(Result<(), InboxError>) + Send>;

/// Something to do in the transaction.
pub(super) type Work = Box<dyn FnOnce(&mut Writer) -> Answer + Send>;

/// An order with its caller.
pub(super) enum Order {
    /// Something to do in the transaction.
    Work(Work),
    /// Commit what came before, close the database, tell.
    Close(oneshot::Sender<()>),
}

/// A message that whoever waits for one must hear of.
enum Changed {
    /// It is new; nothing has to be read to tell of it.
    New(MessageId, Box<Receipt>),
    /// What it is now is read after the commit.
    Message(MessageId),
}

/// What the transaction did that others must hear of once it is committed.
#[derive(Default)]
struct News {
    events: Vec<Event>,
    changed: Vec<Changed>,
    /// What the log calls the bodies of new messages.
    bodies: HashMap<MessageId, String>,
    /// Lines that are answers, and no messages.
    answers: Vec<AnswerLine>,
}

/// The thread's whole world.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) place: Place,
    pub(super) settings: InboxSettings,
    pub(super) texts: Texts,
    /// One a channel that sent something since the start; rebuilt from the database after a failure.
    pub(super) framers: HashMap<ChannelName, Framer>,
    pub(super) queue: QueueStatus,
    /// The highest number of a message: a new database goes on behind it.
    pub(super) last_message: MessageId,
    /// Which lines are answers; `None` until somebody asks.
    pub(super) answers: Option<AnswerWatch>,
    news: News,
    /// The transaction is lost; whatever else is in its group fails with it.
    lost: Option<InboxError>,
    /// The group has one order: to undo that is to undo the transaction.
    is_alone: bool,
    outlets: Outlets,
}

/// Where the writer tells what it committed, and what befell it.
pub(super) struct Outlets {
    pub events: Forward,
    pub receipts: broadcast::Sender<Arc<(MessageId, Receipt)>>,
    pub status: watch::Sender<QueueStatus>,
    /// Sentences about damage, to be alerted.
    pub notices: mpsc::UnboundedSender<String>,
    pub disk: Disk,
}

impl Writer {
    pub(super) fn new(
        connection: Connection,
        place: Place,
        settings: InboxSettings,
        texts: Texts,
        outlets: Outlets,
    ) -> Self {
        Self {
            connection,
            place,
            settings,
            texts,
            framers: HashMap::new(),
            queue: QueueStatus::default(),
            last_message: MessageId(0),
            answers: None,
            news: News::default(),
            lost: None,
            is_alone: false,
            outlets,
        }
    }

    /// Once, before the thread starts. Whether a batch left in flight was typed is not known: it may have been.
    pub(super) fn recover(&mut self) -> Result<(), InboxError> {
        self.execute(
            "recover",
            "UPDATE batches SET pasted_at = began_at WHERE state = 'in_flight' AND pasted_at IS NULL",
        )?;
        self.queue = self.count_queue()?;
        self.last_message = self.last_message()?;
        self.outlets.status.send_replace(self.queue);
        Ok(())
    }

    /// Until `Close` comes, or the last handle is gone.
    pub(super) fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        while let Some(first) = orders.blocking_recv() {
            let mut works = Vec::new();
            let mut next = Some(first);
            let mut close = None;
            while let Some(order) = next {
                match order {
                    Order::Work(work) => works.push(work),
                    Order::Close(reply) => close = Some(reply),
                }
                let full = works.len() >= GROUP || close.is_some();
                next = if full { None } else { orders.try_recv().ok() };
            }
            self.run_group(works);
            if let Some(reply) = close {
                drop(self);
                let _ = reply.send(());
                return;
            }
        }
    }

    fn run_group(&mut self, works: Vec<Work>) {
        if works.is_empty() {
            return;
        }
        self.mend();
        let changes = self.connection.total_changes();
        self.is_alone = works.len() == 1;
        self.lost = self.execute("begin", BEGIN).err();
        let answers: Vec<Answer> = works.into_iter().map(|work| work(self)).collect();
        let outcome = match self.lost.take() {
            None => self.execute("commit", "COMMIT"),
            Some(error) => Err(error),
        };
        match &outcome {
            Ok(()) => {
                if self.connection.total_changes() > changes {
                    self.outlets.disk.took();
                }
                self.tell_news();
            }
            Err(error) => self.forget(error),
        }
        for answer in answers {
            answer(outcome.clone());
        }
    }

    /// Does one order; if it fails, nothing of it stays.
    pub(super) fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, InboxError>,
    ) -> Result<T, InboxError> {
        if let Some(error) = &self.lost {
            return Err(error.clone());
        }
        let (queue, events, changed) = (self.queue, self.news.events.len(), self.news.changed.len());
        let answers = self.news.answers.len();
        let result = if self.is_alone { work(self) } else { self.within_savepoint(work) };
        if let Err(error) = &result {
            self.heed(error);
            self.queue = queue;
            self.news.events.truncate(events);
            self.news.changed.truncate(changed);
            self.news.answers.truncate(answers);
            self.undo(error);
        }
        result
    }

    fn within_savepoint<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, InboxError>,
    ) -> Result<T, InboxError> {
        self.execute("savepoint", "SAVEPOINT work")?;
        let done = work(self)?;
        self.execute("release", "RELEASE work").map(|()| done)
    }

    /// SQLite ends the whole transaction by itself after some errors (disk full, I/O).
    fn undo(&mut self, error: &InboxError) {
        self.framers.clear();
        let ended = self.connection.is_autocommit();
        let undo = if self.is_alone { ["ROLLBACK", BEGIN] } else { ["ROLLBACK TO work", "RELEASE work"] };
        if ended || undo.into_iter().any(|sql| self.execute("undo", sql).is_err()) {
            self.lost = Some(error.clone());
        }
    }

    fn forget(&mut self, error: &InboxError) {
        tracing::error!(event = "inbox.commit_failed", %error);
        self.heed(error);
        if !self.connection.is_autocommit() {
            let _ = self.execute("rollback", "ROLLBACK");
        }
        self.news = News::default();
        self.framers.clear();
        if let Ok(queue) = self.count_queue() {
            self.queue = queue;
        }
        self.outlets.status.send_replace(self.queue);
    }

    /// What an error says about the file and the disk.
    fn heed(&mut self, error: &InboxError) {
        if let InboxError::Database { source, .. } = error {
            self.outlets.disk.failed(is_full_for_sqlite(source));
            self.place.suspect |= is_damage(source);
        }
    }

    fn tell_news(&mut self) {
        let News { events, changed, bodies, answers } = std::mem::take(&mut self.news);
        self.tell_answers(answers);
        self.outlets.status.send_if_modified(|status| std::mem::replace(status, self.queue) != self.queue);
        for event in events {
            if let Event::MessageAccepted(message) = &event {
                let body = bodies.get(&message.id).map(String::as_str);
                tracing::info!(event = "message.accepted", id = %message.id, channel = %message.channel, bytes = message.bytes, body);
            }
            self.outlets.events.send(event);
        }
        if self.outlets.receipts.receiver_count() == 0 {
            return;
        }
        changed.into_iter().for_each(|changed| self.tell_changed(changed));
    }

    fn tell_changed(&self, changed: Changed) {
        let (id, receipt) = match changed {
            Changed::New(id, receipt) => (id, Ok(*receipt)),
            Changed::Message(id) => (id, self.receipt(id)),
        };
        match receipt {
            Ok(receipt) => drop(self.outlets.receipts.send(Arc::new((id, receipt)))),
            Err(error) => tracing::error!(event = "inbox.receipt_failed", %id, %error),
        }
    }

    /// A message that waits again: to be told once it is committed.
    pub(super) fn note_accepted(&mut self, message: ccmux_policy::Message) {
        self.note_changed(message.id);
        self.note_waiting(message);
    }

    /// A new message, with what its receipt is: to be told once it is committed.
    pub(super) fn note_new(&mut self, message: ccmux_policy::Message, receipt: Receipt) {
        self.news.changed.push(Changed::New(message.id, Box::new(receipt)));
        self.note_waiting(message);
    }

    fn note_waiting(&mut self, message: ccmux_policy::Message) {
        self.queue.messages += 1;
        self.queue.bytes += message.bytes;
        self.news.events.push(Event::MessageAccepted(message));
    }

    /// What the log calls the body of a message that is new.
    pub(super) fn note_body(&mut self, id: MessageId, body: String) {
        self.news.bodies.insert(id, body);
    }

    /// To be told once it is committed.
    pub(super) fn note_answer(&mut self, answer: AnswerLine) {
        self.news.answers.push(answer);
    }

    /// To be told once it is committed.
    pub(super) fn note_event(&mut self, event: Event) {
        self.news.events.push(event);
    }

    /// Now: the database that the news was about is another one.
    pub(super) fn tell_at_once(&mut self, event: Event) {
        self.news = News::default();
        self.framers.clear();
        self.queue = QueueStatus::default();
        self.outlets.status.send_replace(self.queue);
        self.outlets.events.send(event);
    }

    /// Whoever waits for room looks again.
    pub(super) fn follow(&mut self, settings: InboxSettings) {
        self.settings = settings;
        self.framers.clear();
        self.outlets.status.send_replace(self.queue);
    }

    /// For people.
    pub(super) fn notice(&self, what: String) {
        let _ = self.outlets.notices.send(what);
    }

    /// To be told once it is committed.
    pub(super) fn note_changed(&mut self, id: MessageId) {
        self.news.changed.push(Changed::Message(id));
    }

    /// Room for one more message.
    pub(super) fn has_room(&self) -> bool {
        has_room(&self.settings, self.queue)
    }

    fn execute(&self, what: &'static str, sql: &str) -> Result<(), InboxError> {
        let run = |sql| self.connection.prepare_cached(sql)?.execute([]);
        run(sql).map(|_| ()).map_err(InboxError::during(what))
    }
}

/// Whether one more message may come in.
pub(super) fn has_room(settings: &InboxSettings, queue: QueueStatus) -> bool {
    queue.messages < settings.queue_messages && queue.bytes < settings.queue_bytes
}

/// The wall clock, Unix milliseconds.
pub(super) fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
