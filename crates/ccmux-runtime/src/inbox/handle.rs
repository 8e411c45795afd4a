//! The async handle of the inbox: each call is one order to the writer thread, answered after its commit.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;

use ccmux_policy::{Attempt, Event, UnixMs};
use ccmux_wire::channel::ChannelName;
use ccmux_wire::id::{BatchId, MessageId, PromptId, Seq};
use ccmux_wire::inbox::InboxMessage;
use ccmux_wire::output::ReplyTo;
use ccmux_wire::receipt::{MessageState, Proof, Receipt};
use ccmux_wire::status::QueueStatus;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::batches::Proved;
use super::by_hand::Selection;
use super::database;
use super::error::{AcceptError, InboxError};
use super::forward::Forward;
use super::intake::Taken;
use super::mending::Place;
use super::message::{Accepted, BatchRow, Body, InboxSettings, Ingested, Mark, NewMessage, Texts};
use super::retention::Forgotten;
#[cfg(feature = "sabotage")]
use super::sabotage;
use super::writer::{Order, Outlets, Writer, has_room, unix_ms};
use crate::disk::Disk;

/// Orders that may wait for the writer.
const ORDERS: usize = 1_000;

/// A message that was delivered longer ago is not answered by a turn that is found at the start.
const ANSWERED_WITHIN_MS: i64 = 24 * 60 * 60 * 1000;
/// Changes that a subscriber may lag behind. Room for them is made at once, so they are shared, not copied: 32 bytes each.
const CHANGES: usize = 4_096;

/// The inbox. Cheap to clone; every clone speaks to the same writer thread.
#[derive(Debug, Clone)]
pub struct Inbox {
    orders: mpsc::Sender<Order>,
    receipts: broadcast::Sender<Arc<(MessageId, Receipt)>>,
    status: watch::Receiver<QueueStatus>,
    settings: Arc<RwLock<InboxSettings>>,
    disk: Disk,
}

/// What was found when the inbox was opened.
pub struct Opened {
    /// The handle.
    pub inbox: Inbox,
    /// The first batch number that was not used before.
    pub next_batch: BatchId,
    /// Messages that wait, in order. They are not sent as events.
    pub waiting: Vec<ccmux_policy::Message>,
    /// Batches that were on their way when the last daemon ended. Whether they were typed is not known, so that they
    /// count as pasted.
    pub in_flight: Vec<(BatchId, Vec<ccmux_policy::Message>)>,
    /// Messages of the latest batch, if it was delivered within the last day and not answered: its turn may have ended
    /// without a daemon. With the prompt that they became.
    pub unanswered: Vec<(MessageId, Option<PromptId>)>,
    /// The same of batches before that one: their turns ended, and could not be published.
    pub unanswered_before: Vec<(MessageId, PromptId)>,
    /// Channels that sent the beginning of a message: to be given to [`Inbox::flush_quiet`] unless more comes.
    pub partials: Vec<ChannelName>,
    /// Where a damaged database was moved: to be alerted.
    pub damaged: Option<PathBuf>,
    /// What befalls it from now on, in sentences: to be alerted. Taken by the [`super::Caretaker`].
    pub notices: Option<mpsc::UnboundedReceiver<String>>,
}

impl Inbox {
    /// Opens or makes the database and starts the writer thread. `accepted` gets one [`Event::MessageAccepted`] a
    /// message, in row order, each after its commit; a slow receiver delays no commit.
    ///
    /// # Errors
    /// If the file is refused, can't be opened, or is of a newer ccmux. A damaged one is no error: see [`Opened`].
    pub fn open(
        path: &Path,
        settings: InboxSettings,
        texts: Texts,
        accepted: mpsc::Sender<Event>,
    ) -> Result<Opened, InboxError> {
        let database::Ready { connection, damaged } =
            database::open(path, settings.busy_limit, unix_ms() / 1000)?;
        let (order_sender, orders) = mpsc::channel(ORDERS);
        let receipts = broadcast::Sender::new(CHANGES);
        let (status_sender, status) = watch::channel(QueueStatus::default());
        let (notice_sender, notices) = mpsc::unbounded_channel();
        let disk = Disk::default();
        let outlets = Outlets {
            events: Forward::start(accepted)?,
            receipts: receipts.clone(),
            status: status_sender,
            notices: notice_sender,
            disk: disk.clone(),
        };
        let place = Place::of(path.to_owned());
        let mut writer = Writer::new(connection, place, settings.clone(), texts, outlets);
        writer.recover()?;
        let opened = Opened {
            inbox: Self {
                orders: order_sender,
                receipts,
                status,
                settings: Arc::new(RwLock::new(settings)),
                disk,
            },
            next_batch: writer.next_batch()?,
            waiting: writer.waiting()?,
            in_flight: writer.in_flight()?,
            unanswered: writer.unanswered(unix_ms() - ANSWERED_WITHIN_MS)?,
            unanswered_before: writer.unanswered_before(unix_ms() - ANSWERED_WITHIN_MS)?,
            partials: writer.partials()?,
            damaged,
            notices: Some(notices),
        };
        spawn("ccmux-inbox", move || writer.run(orders))?;
        Ok(opened)
    }

    /// Takes bytes of a channel's FIFO; `offset` is the position of the first one in the channel's stream. Bytes that
    /// were received before are skipped, so that giving them again doubles nothing. Messages, cursor and the beginning
    /// of a message are committed together when this returns.
    ///
    /// One call at a time for a channel, in the order of the stream: an offset beyond what was received is taken for a
    /// gap (logged), and the bytes before it for known.
    ///
    /// While the queue is full this waits: the writers of the FIFO block, nothing is dropped.
    ///
    /// # Errors
    /// If the database fails; none of the bytes were taken then, unless messages of them were committed before the wait
    /// for room: giving all of them again is right in either case.
    pub async fn ingest(
        &self,
        channel: &ChannelName,
        offset: u64,
        bytes: impl Into<Arc<[u8]>>,
    ) -> Result<Ingested, InboxError> {
        let bytes: Arc<[u8]> = bytes.into();
        self.room().await?;
        let name = channel.clone();
        let taken = self.ask(move |writer| writer.ingest(&name, offset, &bytes)).await?;
        self.finish(channel, taken, Writer::ingest_rest).await
    }

    /// Accepts as it stands what the channel holds; to be called when it was quiet for 2 s.
    ///
    /// # Errors
    /// If the database fails; it may be called again.
    pub async fn flush_quiet(&self, channel: &ChannelName) -> Result<Ingested, InboxError> {
        self.room().await?;
        let name = channel.clone();
        let taken = self.ask(move |writer| writer.flush_quiet(&name)).await?;
        self.finish(channel, taken, Writer::flush_quiet).await
    }

    /// Where the channel's stream goes on: the offset for the next new byte.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn received(&self, channel: &ChannelName) -> Result<u64, InboxError> {
        let name = channel.clone();
        self.ask(move |writer| writer.stream_state(&name)).await.map(|(received, _)| received)
    }

    /// Whether something of the channel is held that quiet would end.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn has_partial(&self, channel: &ChannelName) -> Result<bool, InboxError> {
        let name = channel.clone();
        self.ask(move |writer| writer.stream_state(&name)).await.map(|(_, pending)| pending)
    }

    /// Takes a message that came whole, from `control.sock`. Does not wait for room.
    ///
    /// # Errors
    /// If it is empty or too large, its id too long, the queue full, or the database fails.
    pub async fn accept(&self, new: NewMessage) -> Result<Accepted, AcceptError> {
        self.ask(move |writer| writer.accept(&new)).await?
    }

    /// The texts of messages, in the order asked for.
    ///
    /// # Errors
    /// If one does not exist, or the database fails.
    pub async fn bodies(&self, messages: Vec<MessageId>) -> Result<Vec<Body>, InboxError> {
        self.ask(move |writer| writer.bodies(&messages)).await
    }

    /// What to call messages in a turn's `in_reply_to`, in the order asked for.
    ///
    /// # Errors
    /// If one does not exist, or the database fails.
    pub async fn reply_to(&self, messages: Vec<MessageId>) -> Result<Vec<ReplyTo>, InboxError> {
        self.ask(move |writer| writer.reply_to(&messages)).await
    }

    /// Records, before anything is typed, which messages are about to be, as which text, and where to look for it
    /// afterwards.
    ///
    /// # Errors
    /// If a message is not `accepted`, the batch's number was used, or the database fails: then don't type.
    pub async fn begin_batch(
        &self,
        batch: BatchId,
        messages: Vec<MessageId>,
        text: Arc<str>,
        mark: Mark,
        now: UnixMs,
    ) -> Result<(), InboxError> {
        #[cfg(feature = "sabotage")]
        {
            sabotage::keep_in_mind(sabotage::Unrecorded { batch, messages, text, mark, now });
            Ok(())
        }
        #[cfg(not(feature = "sabotage"))]
        self.ask(move |writer| writer.begin_batch(batch, &messages, &text, &mark, now)).await
    }

    /// The batch was typed, or may have been: if it is requeued, its messages are `(redelivered)`.
    ///
    /// # Errors
    /// If it is not in flight, or the database fails.
    pub async fn pasted(&self, batch: BatchId, now: UnixMs) -> Result<(), InboxError> {
        #[cfg(feature = "sabotage")]
        if sabotage::is_in_mind(batch) {
            return Ok(());
        }
        self.ask(move |writer| writer.pasted(batch, now)).await
    }

    /// A batch as it is stored.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn batch(&self, batch: BatchId) -> Result<Option<BatchRow>, InboxError> {
        #[cfg(feature = "sabotage")]
        self.record_late(batch).await?;
        self.ask(move |writer| writer.batch(batch)).await
    }

    /// Claude Code proved that it took the batch. Again: nothing changes, the first proof counts.
    ///
    /// # Errors
    /// If the batch was requeued, or the database fails.
    pub async fn delivered(
        &self,
        batch: BatchId,
        proof: Proof,
        prompt: Option<PromptId>,
        at: Proved,
    ) -> Result<(), InboxError> {
        #[cfg(feature = "sabotage")]
        self.record_late(batch).await?;
        self.ask(move |writer| writer.delivered(batch, proof, prompt.as_ref(), at)).await
    }

    /// The batch can't be proved delivered or absent.
    ///
    /// # Errors
    /// If it is neither in flight nor uncertain, or the database fails.
    pub async fn uncertain(&self, batch: BatchId, reason: impl Into<String>) -> Result<(), InboxError> {
        let reason = reason.into();
        #[cfg(feature = "sabotage")]
        self.record_late(batch).await?;
        self.ask(move |writer| writer.uncertain(batch, &reason)).await
    }

    /// The batch is provably not delivered: its messages wait again, as `(redelivered)` if it had been typed.
    ///
    /// # Errors
    /// If it is neither in flight nor requeued, or the database fails.
    pub async fn requeued(&self, batch: BatchId, attempt: Attempt) -> Result<(), InboxError> {
        #[cfg(feature = "sabotage")]
        self.record_late(batch).await?;
        self.ask(move |writer| writer.requeued(batch, attempt)).await
    }

    /// The message was not sent in its channel's time. One that does not wait any more stays what it is.
    ///
    /// # Errors
    /// If there is none, or the database fails.
    pub async fn expired(&self, message: MessageId) -> Result<(), InboxError> {
        self.ask(move |writer| writer.expired(message)).await
    }

    /// The message is given up.
    ///
    /// # Errors
    /// If it does not wait, or the database fails.
    pub async fn failed(&self, message: MessageId, reason: impl Into<String>) -> Result<(), InboxError> {
        let reason = reason.into();
        self.ask(move |writer| writer.failed(message, &reason)).await
    }

    /// A turn answers the messages. Again: nothing changes, the first turn counts.
    ///
    /// # Errors
    /// If one was not delivered (then none is changed), or the database fails.
    pub async fn answered(&self, messages: Vec<MessageId>, turn: Seq) -> Result<(), InboxError> {
        self.ask(move |writer| writer.answered(&messages, turn)).await
    }

    /// No turn will answer the messages any more: whoever waits for an answer has the reason.
    ///
    /// # Errors
    /// If one was not delivered (then none is changed), or the database fails.
    pub async fn left_unanswered(
        &self,
        messages: Vec<MessageId>,
        reason: &'static str,
    ) -> Result<(), InboxError> {
        self.ask(move |writer| writer.left_unanswered(&messages, reason)).await
    }

    /// Where a message stands.
    ///
    /// # Errors
    /// If there is none, or the database fails.
    pub async fn receipt(&self, message: MessageId) -> Result<Receipt, InboxError> {
        self.ask(move |writer| writer.receipt(message)).await
    }

    /// The latest messages, newest first.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn select(&self, selection: Selection) -> Result<Vec<InboxMessage>, InboxError> {
        self.ask(move |writer| writer.select(&selection)).await
    }

    /// A message with its text, by the name that people give it.
    ///
    /// # Errors
    /// If no message, or several, have that name, or the database fails.
    pub async fn show(&self, name: String) -> Result<InboxMessage, InboxError> {
        self.ask(move |writer| writer.show(&name)).await
    }

    /// Uncertain and failed messages wait again. `on_the_way` is the batch whose text may still be in the prompt box.
    ///
    /// # Errors
    /// If one can't be tried again (then none is), or the database fails.
    pub async fn retry(
        &self,
        names: Vec<String>,
        on_the_way: Option<BatchId>,
    ) -> Result<Vec<InboxMessage>, InboxError> {
        self.ask(move |writer| writer.retry(&names, on_the_way)).await
    }

    /// Messages that wait, or are uncertain or failed, are given up.
    ///
    /// # Errors
    /// If one can't be dropped (then none is), or the database fails.
    pub async fn drop_messages(&self, names: Vec<String>) -> Result<Vec<InboxMessage>, InboxError> {
        self.ask(move |writer| writer.drop_messages(&names)).await
    }

    /// Other limits, policies of channels and retention, from the next order on.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn change(&self, settings: InboxSettings) -> Result<(), InboxError> {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings.clone();
        self.ask(move |writer| {
            writer.follow(settings);
            Ok(())
        })
        .await
    }

    /// Forgets some of what is over, and gives room back.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn forget_some(&self) -> Result<Forgotten, InboxError> {
        self.ask(|writer| writer.forget_some()).await
    }

    /// Looks whether the file is still what it was. What is wrong is put right before the next order.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn look_after(&self) -> Result<(), InboxError> {
        let looked = self.ask(|writer| {
            writer.look_after();
            Ok(())
        });
        // If this fails the next order begins with finding out why.
        let _ = looked.await;
        self.ask(|_| Ok(())).await
    }

    /// Whether the database waits for room on the disk.
    pub fn waits_for_disk(&self) -> bool {
        self.disk.is_full()
    }

    /// Every change of a message from now on. A slow receiver loses the oldest: [`Inbox::wait_for`] copes with it.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<(MessageId, Receipt)>> {
        self.receipts.subscribe()
    }

    /// Waits until the message has reached `state`, or can't reach it any more by itself; the receipt tells which.
    ///
    /// # Errors
    /// If there is no such message, or the inbox is closed or fails.
    pub async fn wait_for(&self, message: MessageId, state: MessageState) -> Result<Receipt, InboxError> {
        let mut changes = self.subscribe();
        loop {
            let mut receipt = self.receipt(message).await?;
            loop {
                if has_reached(receipt.state, state) || receipt.goes_no_further() {
                    return Ok(receipt);
                }
                match changes.recv().await {
                    Ok(changed) if changed.0 == message => receipt = changed.1.clone(),
                    Ok(_) => {}
                    Err(broadcast::error::RecvError::Lagged(_)) => break,
                    Err(broadcast::error::RecvError::Closed) => return Err(InboxError::Closed),
                }
            }
        }
    }

    /// What waits. From memory.
    pub fn queue(&self) -> QueueStatus {
        *self.status.borrow()
    }

    /// Commits what was ordered before and closes the database; later orders fail with [`InboxError::Closed`].
    pub async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if self.orders.send(Order::Close(reply)).await.is_ok() {
            let _ = closed.await;
        }
    }

    async fn finish(
        &self,
        channel: &ChannelName,
        mut taken: Taken,
        rest: fn(&mut Writer, &ChannelName) -> Result<Taken, InboxError>,
    ) -> Result<Ingested, InboxError> {
        let mut total = taken.ingested;
        while taken.more {
            self.room().await?;
            let name = channel.clone();
            taken = self.ask(move |writer| rest(writer, &name)).await?;
            add(&mut total, &mut taken.ingested);
        }
        Ok(total)
    }

    async fn room(&self) -> Result<(), InboxError> {
        let mut status = self.status.clone();
        let settings = || self.settings.read().unwrap_or_else(PoisonError::into_inner);
        let room = status.wait_for(|queue| has_room(&settings(), *queue)).await;
        room.map(|_| ()).map_err(|_| InboxError::Closed)
    }

    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, InboxError> + Send + 'static,
    ) -> Result<T, InboxError> {
        let (reply, answer) = oneshot::channel();
        let order = Order::Work(Box::new(move |writer| {
            let result = writer.attempt(work);
            Box::new(move |committed: Result<(), InboxError>| {
                // A failed order changed nothing, so its own error says more than the commit.
                let _ = reply.send(result.and_then(|done| committed.map(|()| done)));
            })
        }));
        self.orders.send(order).await.map_err(|_| InboxError::Closed)?;
        answer.await.map_err(|_| InboxError::Closed)?
    }
}

/// States are ordered as far as `Answered`; the others lead nowhere.
fn has_reached(now: MessageState, wanted: MessageState) -> bool {
    now == wanted || (now <= MessageState::Answered && now >= wanted)
}

fn add(total: &mut Ingested, more: &mut Ingested) {
    total.accepted += more.accepted;
    total.duplicates += more.duplicates;
    total.rejected.append(&mut more.rejected);
    (total.cursor, total.received, total.pending) = (more.cursor, more.received, more.pending);
}

pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), InboxError> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
    thread.map(|_| ()).map_err(|error| InboxError::Thread(Arc::new(error)))
}
