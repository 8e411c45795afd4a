//! Looks at the screen and types, on orders only, one thing after the other.
//!
//! It types nothing without a guard that the terminal itself checks, nothing for a pane whose process is a shell, and never
//! presses a key that no order named. To stop a turn is no order of the policy's, but the user's ([`interrupt`]).

mod interrupt;
mod paste;
mod take_out;
mod untouched;

use std::sync::Arc;
use std::time::Duration;

use ccmux_policy::screen::{BoxHolds, ScreenClass, Seen};
use ccmux_policy::{Effect, Event};
use ccmux_wire::id::BatchId;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::on_the_way::{NotUnderstood, OnTheWay, PutAway};
use super::starter::AgentNow;
use crate::agent::process::is_shell;
use crate::clock::unix_ms;
use crate::control::interrupt::Interrupts;
use crate::inbox::Inbox;
use crate::screen::{RuleBook, Rules, Screen, box_holds, classify};
use crate::terminal::{Activity, Capture, Guard, Terminal, TerminalError, Typed, Untouched};

/// Between two captures that must be equal.
const SETTLE_PAUSE: Duration = Duration::from_millis(100);
/// Looks that output calls for are at least that far apart: an agent may draw all the time.
const DRAW_PAUSE: Duration = Duration::from_millis(20);
/// A box that is still changing after that long is reported as it is.
const SETTLES_WITHIN: Duration = Duration::from_secs(5);

/// The task.
#[derive(Debug)]
pub struct Typist<T> {
    /// What is ordered.
    pub orders: mpsc::UnboundedReceiver<Effect>,
    /// Turns that are to be stopped.
    pub interrupts: Interrupts,
    /// What is answered.
    pub events: mpsc::Sender<Event>,
    /// The pane.
    pub terminal: Arc<T>,
    /// What screens look like.
    pub rules: RuleBook,
    /// Texts between paste and receipt.
    pub on_the_way: OnTheWay,
    /// The agent that is typed for.
    pub agent: watch::Receiver<Option<AgentNow>>,
    /// The text of a draft that is put away.
    pub put_away: PutAway,
    /// The latest screen that no rule fits.
    pub not_understood: NotUnderstood,
    /// Notes when a batch was typed.
    pub inbox: Inbox,
    /// What the last look at a batch saw: Enter is pressed only if nobody touched the terminal since.
    pub looked: Option<(BatchId, Untouched)>,
    /// The batch that was typed last.
    pub pasted: Option<Pasted>,
}

/// A batch that was typed.
#[derive(Debug)]
pub struct Pasted {
    batch: BatchId,
    /// What the pane wrote before says nothing about the batch.
    at: Instant,
    /// As the look before saw it: who touched the terminal since may have typed something that is not drawn yet.
    activity: Option<Activity>,
}

impl<T: Terminal> Typist<T> {
    /// Runs until nobody orders any more. Every order is answered.
    pub async fn run(mut self) {
        loop {
            let order = tokio::select! {
                order = self.orders.recv() => order,
                Some(asked) = self.interrupts.recv() => {
                    let _ = asked.send(self.interrupt().await);
                    continue;
                }
            };
            let Some(order) = order else { return };
            let answer = match order {
                Effect::Look { look, batch, settled } => self.look(look, batch, settled).await,
                Effect::Inject { batch, .. } => self.paste(batch).await,
                Effect::PressEnter { batch } => self.press_enter(batch).await,
                Effect::TakeOut { batch } => self.take_out(batch).await,
                Effect::StashDraft => self.stash_draft().await,
                _ => continue,
            };
            if self.events.send(answer).await.is_err() {
                return;
            }
        }
    }

    async fn look(&mut self, look: u64, batch: Option<BatchId>, settled: bool) -> Event {
        let seen = if settled { self.look_at(batch).await } else { self.glance().await };
        match seen {
            Ok((capture, screen)) => {
                self.looked = batch.map(|batch| (batch, capture.untouched()));
                Event::ScreenSeen { look, seen: self.seen(batch, &capture, screen) }
            }
            Err(error) => Event::LookFailed { look, reason: error.to_string() },
        }
    }

    async fn glance(&self) -> Result<(Capture, Screen), TerminalError> {
        let capture = self.terminal.capture().await?;
        if capture.pane.dead.is_some() {
            return Err(TerminalError::NoPane("the pane's process has ended".into()));
        }
        let mut screen = classify(&self.rules.rules(), &capture.text);
        // An `agent.command` that is a shell script, or that became a shell: whatever the screen still shows, the pane's
        // process would run what is typed.
        if is_shell(capture.pane.pid) {
            screen.class = ScreenClass::Shell;
        }
        if matches!(screen.class, ScreenClass::Unknown | ScreenClass::Shell) {
            self.not_understood.remember(&capture.text);
        }
        Ok((capture, screen))
    }

    /// What stands in the box before the agent has drawn anything is of no use: it is not looked at sooner.
    async fn look_at(&self, batch: Option<BatchId>) -> Result<(Capture, Screen), TerminalError> {
        if let Some(pasted) = batch.and_then(|batch| self.pasted_at(batch)) {
            let _ = timeout_at(pasted + SETTLE_PAUSE, self.terminal.wrote_after(pasted)).await;
        }
        self.settled_look().await
    }

    /// Looks until two captures with the pause between them show the same kind of screen and the same box, and none
    /// between them shows another. The rest of the screen may move: clocks and spinners do. When the agent draws, the
    /// pause is not waited for: what it drew may be the text, and the pause begins with that.
    async fn settled_look(&self) -> Result<(Capture, Screen), TerminalError> {
        let mut asked = Instant::now();
        let until = asked + SETTLES_WITHIN;
        let mut last = self.glance().await?;
        let mut same_since = Instant::now();
        loop {
            let settles_at = same_since + SETTLE_PAUSE;
            let _ = timeout_at(settles_at, self.drawn_after(asked)).await;
            asked = Instant::now();
            let next = self.glance().await?;
            let equal = next.1.class == last.1.class && next.1.prompt_box == last.1.prompt_box;
            if equal && asked >= settles_at || asked >= until {
                return Ok(next);
            }
            if !equal {
                same_since = Instant::now();
            }
            last = next;
        }
    }

    async fn drawn_after(&self, look: Instant) {
        self.terminal.wrote_after(look).await;
        sleep_until(look + DRAW_PAUSE).await;
    }

    fn seen(&self, batch: Option<BatchId>, capture: &Capture, screen: Screen) -> Seen {
        let text = batch.and_then(|batch| self.on_the_way.get(batch)).map(|known| known.text);
        let tail = text.as_ref().and_then(|text| self.removable_from(text, capture, &screen));
        let holds = match text {
            Some(text) => box_holds(screen.prompt_box.as_ref(), &text),
            None if screen.class == ScreenClass::Draft => BoxHolds::Foreign,
            None => BoxHolds::Nothing,
        };
        Seen {
            class: screen.class,
            holds,
            copy_mode: capture.pane.in_mode,
            removable: tail.is_some(),
            silent: batch.is_some_and(|batch| self.is_silent_since_paste(batch, capture)),
            active_at: capture.active_at,
            press_enter: screen.press_enter,
            stashed: screen.stashed,
            can_stash: self.agent_can_stash(),
            vim_normal: screen.vim_normal,
            dialog: screen.dialog,
        }
    }

    /// As far as the pane's output is watched; without a watch the look alone counts.
    fn is_silent_since_paste(&self, batch: BatchId, capture: &Capture) -> bool {
        self.pasted_at(batch).zip(capture.silent_since).is_some_and(|(pasted, since)| since <= pasted)
    }

    fn pasted_at(&self, batch: BatchId) -> Option<Instant> {
        self.pasted.as_ref().filter(|pasted| pasted.batch == batch).map(|pasted| pasted.at)
    }

    fn agent_can_stash(&self) -> bool {
        self.agent_is(|rules, version| rules.can_stash(version))
    }

    /// Whether the rules say so of the agent's version; an unknown version has no ability.
    fn agent_is(&self, says: impl FnOnce(&Rules, &str) -> bool) -> bool {
        let agent = self.agent.borrow();
        let version = agent.as_ref().and_then(|agent| agent.version.as_deref());
        version.is_some_and(|version| says(&self.rules.rules(), version))
    }

    /// The text is remembered first: if the draft does not come back, people are told what it was.
    async fn stash_draft(&self) -> Event {
        let refused = |reason: String| Event::StashRefused { reason };
        let (draft, untouched) = match self.glance().await {
            Ok((
                capture,
                Screen { class: ScreenClass::Draft, prompt_box: Some(draft), stashed: false, .. },
            )) => (draft, capture.untouched()),
            Ok(_) => return refused("there is no draft any more".to_owned()),
            Err(error) => return refused(error.to_string()),
        };
        let Some(pid) = self.agent.borrow().as_ref().map(|agent| agent.pid) else {
            return refused("the agent does not run".to_owned());
        };
        self.put_away.remember(draft.rows.join("\n"));
        tracing::info!(event = "draft.stashed", rows = draft.rows.len());
        match self.terminal.stash_draft(Guard { pid, untouched: Some(untouched) }).await {
            Ok(Typed::Done) | Err(TerminalError::Silent { .. }) => Event::DraftStashed,
            Ok(Typed::Refused(reason)) => refused(reason),
            Err(error) => refused(error.to_string()),
        }
    }

    async fn press_enter(&mut self, batch: BatchId) -> Event {
        let Some(known) = self.on_the_way.get(batch) else {
            return Event::EnterRefused { batch, reason: "its text is not known".into() };
        };
        let untouched = match self.untouched(batch, &known.text).await {
            Ok(untouched) => untouched,
            Err(reason) => return Event::EnterRefused { batch, reason },
        };
        // The receipt may come before tmux says that it pressed.
        let before = self.on_the_way.entered_at(batch);
        self.on_the_way.note_entered(batch, Some(unix_ms()));
        let reason = match self.terminal.press_enter(Guard { pid: known.pid, untouched }).await {
            // No answer: it may have been pressed, so it counts; nothing follows from it without another look.
            Ok(Typed::Done) | Err(TerminalError::Silent { .. }) => {
                tracing::info!(event = "batch.entered", %batch);
                return Event::EnterPressed { batch };
            }
            Ok(Typed::Refused(reason)) => reason,
            Err(error) => error.to_string(),
        };
        self.on_the_way.note_entered(batch, before);
        Event::EnterRefused { batch, reason }
    }
}

#[cfg(test)]
mod tests;
