//! Publishes turns, and has alerts told. A turn that waits for its transcript holds up later turns, never an alert.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use ccmux_policy::effect::Note;
use ccmux_policy::{AlertKind, Effect, Event, UnixMs};
use ccmux_wire::channel::ChannelName;
use ccmux_wire::id::{MessageId, PromptId, Seq, SessionId};
use ccmux_wire::output::ReplyTo;
use ccmux_wire::receipt::MessageState;
use tokio::sync::mpsc;

use super::herald::{Alerts, News};
use super::on_the_way::{NotUnderstood, PutAway};
use crate::agent::reset_time::reset_time;
use crate::clock::unix_ms;
use crate::control::hooks::error_word;
use crate::inbox::{Inbox, InboxError, passes, stopped, until_done};
use crate::outlet::Outlets;
use crate::turns::store::StoreError;
use crate::turns::{TurnOrder, Turns, TurnsError};

/// Of a turn that ended before Claude said anything: Esc, or an agent that ended.
const NO_WORDS: &str = "its turn ended before Claude wrote anything";
/// Of a prompt without an id (older versions): its turn may have been published before the delivery was proved.
const NOT_FOUND: &str = "its turn is over, and no answer to it was found";
const UNREADABLE: &str = "its turn could not be read: the log tells why";
const REFUSED: &str = "the API failed in its turn: send it again later";

/// An answer whose delivery is not recorded yet waits for it, but later turns not for ever.
const TRIES_IF_EARLY: u32 = 8;

/// The task.
#[derive(Debug)]
pub struct Speaker {
    /// What is ordered.
    pub orders: mpsc::UnboundedReceiver<Effect>,
    /// What is answered.
    pub events: mpsc::Sender<Event>,
    /// Reads, stores and broadcasts.
    pub turns: Turns,
    /// Knows the messages.
    pub inbox: Inbox,
    /// Tells alerts.
    pub alerts: Alerts,
    /// The text of a draft that is put away.
    pub put_away: PutAway,
    /// The screen that an alert is about.
    pub not_understood: NotUnderstood,
    /// Where senders are told that their messages wait.
    pub outlets: Outlets,
    /// Messages that an earlier daemon delivered, and whose turns it may not have published.
    pub earlier: Vec<(MessageId, PromptId)>,
}

impl Speaker {
    /// Runs until nobody orders any more, or the daemon stops while a database refuses.
    pub async fn run(mut self) {
        let (turn_orders, waiting) = mpsc::unbounded_channel();
        let publisher = Publisher {
            orders: waiting,
            events: self.events.clone(),
            turns: self.turns.clone(),
            inbox: self.inbox.clone(),
            earlier: std::mem::take(&mut self.earlier),
        };
        let publisher = tokio::spawn(publisher.run());
        while let Some(order) = self.orders.recv().await {
            match order {
                Effect::PublishTurn { session, prompt, in_reply_to, answers, interrupted } => {
                    let until = self.end_of(&session, prompt.as_ref()).await;
                    // Names come when it is this order's turn.
                    let (names, earlier) = (Vec::new(), Vec::new());
                    let order =
                        TurnOrder { session, prompt, in_reply_to: names, earlier, interrupted, until };
                    drop(turn_orders.send(Waiting { order, in_reply_to, answers }));
                }
                other => self.say(other),
            }
        }
        drop(turn_orders);
        let _ = publisher.await;
    }

    /// Where the transcript ends now, for an order that names no prompt: a turn that begins while the order waits is not
    /// meant. The file that is not there yet has no such turn.
    async fn end_of(&self, session: &SessionId, prompt: Option<&PromptId>) -> Option<u64> {
        if prompt.is_some() {
            return None;
        }
        let mark = self.turns.mark(session).await.ok().flatten()?;
        (mark.offset > 0).then_some(mark.offset)
    }

    fn say(&self, order: Effect) {
        match order {
            Effect::Alert { kind, session, messages, tool, message } => {
                if kind == AlertKind::Failure && !messages.is_empty() {
                    tokio::spawn(left_unanswered(
                        self.inbox.clone(),
                        self.events.clone(),
                        messages.clone(),
                        REFUSED,
                    ));
                }
                let screen = (kind == AlertKind::UnknownScreen).then(|| self.not_understood.screen());
                self.alerts.raise(News { session, messages, tool, screen, ..News::new(kind, message) });
            }
            Effect::TellSenders { messages, message } => {
                tokio::spawn(tell_senders(self.inbox.clone(), self.outlets.clone(), messages, message));
            }
            Effect::TellDraftLost => {
                let what = format!("a draft that was put away did not come back: {}", self.put_away.text());
                self.alerts.raise_in_silence(News::new(AlertKind::Stuck, what));
            }
            Effect::Note { note: Note::OnlyMouse } => tracing::info!(event = "human.only_mouse"),
            Effect::Note { note: Note::SubmittedWithOtherText } => {
                tracing::warn!(event = "batch.submitted_with_other_text");
            }
            Effect::Note { note: Note::Dispute(what) } => {
                tracing::warn!(event = "witnesses.disagree", %what);
            }
            _ => {}
        }
    }
}

/// Writes a line of ccmux's own to the channels that the messages came from, where somebody reads what leaves there. Whoever
/// does not is not waited for by anybody else.
async fn tell_senders(inbox: Inbox, outlets: Outlets, messages: Vec<MessageId>, message: String) {
    let names = match inbox.reply_to(messages).await {
        Ok(names) => names,
        Err(error) => return tracing::error!(event = "inbox.failed", %error),
    };
    let channels: BTreeSet<_> = names.into_iter().map(|name| name.channel).collect();
    for channel in channels.iter().map(ChannelName::as_str) {
        match outlets.send(channel, format!("[ccmux] {message}")).await {
            Ok(()) => tracing::info!(event = "senders.told", channel),
            Err(error) => tracing::debug!(event = "senders.not_told", channel, %error),
        }
    }
}

/// Whoever waits for an answer has waited enough. `None`: the daemon stopped before.
async fn left_unanswered(
    inbox: Inbox,
    events: mpsc::Sender<Event>,
    messages: Vec<MessageId>,
    why: &'static str,
) -> Option<()> {
    if messages.is_empty() {
        return Some(());
    }
    let early = AtomicU32::new(0);
    let left = || inbox.left_unanswered(messages.clone(), why);
    let done = until_done("left unanswered", |error| may_pass(error, &early), stopped(&events), left).await?;
    if let Err(error) = done {
        tracing::error!(event = "inbox.failed", %error);
    }
    Some(())
}

/// The database's trouble passes, and so does a delivery that is not recorded yet.
fn may_pass(error: &InboxError, early: &AtomicU32) -> bool {
    error.may_pass() || (is_early(error) && early.fetch_add(1, Relaxed) < TRIES_IF_EARLY)
}

/// An order to publish, and the messages that it is about.
struct Waiting {
    order: TurnOrder,
    in_reply_to: Vec<MessageId>,
    answers: Vec<MessageId>,
}

/// Turns, one after the other.
struct Publisher {
    orders: mpsc::UnboundedReceiver<Waiting>,
    events: mpsc::Sender<Event>,
    turns: Turns,
    inbox: Inbox,
    /// Whatever turns they have is found by the first order that is done: it reads from where the last daemon ended.
    earlier: Vec<(MessageId, PromptId)>,
}

impl Publisher {
    async fn run(mut self) {
        while let Some(Waiting { order, in_reply_to, answers }) = self.orders.recv().await {
            if self.publish(order, in_reply_to, answers).await.is_none() {
                return;
            }
        }
    }

    /// A turn that is not stored now is stored later: what Claude said would be lost otherwise. `None`: the daemon
    /// stopped before.
    async fn publish(
        &mut self,
        mut order: TurnOrder,
        in_reply_to: Vec<MessageId>,
        answers: Vec<MessageId>,
    ) -> Option<()> {
        let names = || self.inbox.reply_to(in_reply_to.clone());
        let names = until_done("reply to", InboxError::may_pass, stopped(&self.events), names).await?;
        order.in_reply_to = names.unwrap_or_default();
        order.earlier = self.earlier_names().await?;
        let session = order.session.clone();
        let publish = || self.turns.publish(order.clone());
        let published = until_done("publish turn", is_store, stopped(&self.events), publish).await?;
        self.tell_failure(&session).await;
        match published {
            Ok(Some(seq)) => {
                self.settle_earlier(&session).await?;
                let answered = self.answered(answers, seq).await;
                let _ = self.events.send(Event::TurnPublished { session, seq }).await;
                answered
            }
            Ok(None) => {
                self.settle_earlier(&session).await?;
                let (own, earlier) = parted(answers, &in_reply_to);
                self.answered_before(&session, order.prompt.as_ref(), own).await?;
                self.answered_by_the_last(&session, earlier).await
            }
            Err(error) => {
                tracing::error!(event = "turn.failed", %session, %error);
                self.left_unanswered(parted(answers, &in_reply_to).0, UNREADABLE).await
            }
        }
    }

    /// A failure of which no hook told. What its text says of a time was said when it was written.
    async fn tell_failure(&self, session: &SessionId) {
        let Some(failure) = self.turns.take_failure(session) else { return };
        let written_at = failure.written_at.and_then(|at| at.parse::<jiff::Timestamp>().ok());
        let written_at = written_at.map_or_else(unix_ms, |at| UnixMs(at.as_millisecond()));
        let event = Event::FailureRead {
            session: session.clone(),
            prompt: failure.prompt,
            error: error_word(failure.error.as_deref().unwrap_or("unknown")),
            resets_at: reset_time(&failure.text, written_at),
        };
        let _ = self.events.send(event).await;
    }

    /// The turn was published before its messages had their receipt: that line is their answer.
    async fn answered_before(
        &self,
        session: &SessionId,
        prompt: Option<&PromptId>,
        answers: Vec<MessageId>,
    ) -> Option<()> {
        tracing::debug!(event = "turn.nothing_new", %session);
        let Some(prompt) = prompt.filter(|_| !answers.is_empty()) else {
            return self.left_unanswered(answers, NOT_FOUND).await;
        };
        match self.answered_by_turn_of(session, prompt, answers.clone()).await? {
            Ok(()) => Some(()),
            Err(why) => self.left_unanswered(answers, why).await,
        }
    }

    /// Their own turns ended with tasks in the background, and now none is left; this one has no words.
    async fn answered_by_the_last(&self, session: &SessionId, answers: Vec<MessageId>) -> Option<()> {
        if answers.is_empty() {
            return Some(());
        }
        let read = || self.turns.last_turn_of(session);
        match until_done("read turn", is_store, stopped(&self.events), read).await? {
            Ok(Some(seq)) => self.answered(answers, seq).await,
            Ok(None) => self.left_unanswered(answers, NOT_FOUND).await,
            Err(error) => {
                tracing::error!(event = "turn.failed", %session, %error);
                Some(())
            }
        }
    }

    /// By the names that their senders know.
    async fn earlier_names(&self) -> Option<Vec<(PromptId, ReplyTo)>> {
        let (messages, prompts): (Vec<_>, Vec<_>) = self.earlier.iter().cloned().unzip();
        let names = || self.inbox.reply_to(messages.clone());
        let names = until_done("reply to", InboxError::may_pass, stopped(&self.events), names).await?;
        Some(prompts.into_iter().zip(names.unwrap_or_default()).collect())
    }

    /// Turns that the last daemon could not publish are published now, or there are none.
    async fn settle_earlier(&mut self, session: &SessionId) -> Option<()> {
        for (message, prompt) in std::mem::take(&mut self.earlier) {
            let _ = self.answered_by_turn_of(session, &prompt, vec![message]).await?;
        }
        Some(())
    }

    /// An error is why there is none.
    async fn answered_by_turn_of(
        &self,
        session: &SessionId,
        prompt: &PromptId,
        answers: Vec<MessageId>,
    ) -> Option<Result<(), &'static str>> {
        let read = || self.turns.turn_of(session, prompt);
        match until_done("read turn", is_store, stopped(&self.events), read).await? {
            Ok(Some(seq)) => self.answered(answers, seq).await.map(Ok),
            Ok(None) => Some(Err(NO_WORDS)),
            Err(error) => {
                tracing::error!(event = "turn.failed", %session, %error);
                Some(Err(UNREADABLE))
            }
        }
    }

    async fn left_unanswered(&self, messages: Vec<MessageId>, why: &'static str) -> Option<()> {
        left_unanswered(self.inbox.clone(), self.events.clone(), messages, why).await
    }

    async fn answered(&self, answers: Vec<MessageId>, seq: Seq) -> Option<()> {
        let answered = || self.inbox.answered(answers.clone(), seq);
        let early = AtomicU32::new(0);
        let may_pass = |error: &InboxError| may_pass(error, &early);
        let done = until_done("answered", may_pass, stopped(&self.events), answered).await?;
        if let Err(error) = done {
            tracing::error!(event = "inbox.failed", %error);
        }
        Some(())
    }
}

/// Those that were delivered into the turn that ended, and those of turns before it.
fn parted(answers: Vec<MessageId>, in_reply_to: &[MessageId]) -> (Vec<MessageId>, Vec<MessageId>) {
    answers.into_iter().partition(|message| in_reply_to.contains(message))
}

/// The database's trouble; a transcript's does not pass.
pub(super) fn is_store(error: &TurnsError) -> bool {
    matches!(error, TurnsError::Store(StoreError::Sqlite { source, .. }) if passes(source))
}

/// The clerk may be about to record the delivery that comes before the answer.
fn is_early(error: &InboxError) -> bool {
    matches!(error, InboxError::Illegal { from: MessageState::InFlight, .. })
}
