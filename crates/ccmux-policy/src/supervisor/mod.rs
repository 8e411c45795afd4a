//! The one type with verbs: hears of every event, gives every order.
//!
//! | module | what it hears of |
//! |---|---|
//! | [`agent`] | the agent's process |
//! | [`witnesses`] | hooks, the state file, turns |
//! | [`looks`] | looks at the screen |
//! | [`delivery`] | messages: gate, flight, receipt |
//! | [`holding`] | failures of the API |
//! | [`stash`] | a draft that is put away for a while |
//! | [`report`] | nothing: it tells |
//!
//! `handle` is one match whose arms are one call each; afterwards [`Supervisor::advance`] lets every part do what is due
//! now. Parts answer values; only this module turns them into effects.

mod agent;
mod delivery;
mod holding;
mod looks;
mod report;
mod small_pane;
mod stash;
mod witnesses;

use std::collections::VecDeque;

use ccmux_wire::id::{BatchId, MessageId, PromptId, SessionId};
use ccmux_wire::status::StateWord;

use crate::effect::{AlertKind, Effect};
use crate::event::{Event, ExitStatus, Message};
use crate::evidence::Evidence;
use crate::flight::Flight;
use crate::gate::Reason;
use crate::hold::{Failure, Hold};
use crate::lifecycle::Lifecycle;
use crate::now::{Mono, Now};
use crate::queue::Queue;
use crate::settings::PolicySettings;
use crate::turns::Turns;
use holding::{ANSWERS, Told};
use looks::PendingLook;
pub use report::PolicyStatus;
use small_pane::TooSmall;
use stash::Stash;
use witnesses::EndedEarly;

/// After a refusal or a failed look, that long nothing is tried.
const BREATHE_MS: u64 = 1_000;

/// Why nothing is tried for a moment.
#[derive(Debug, Clone)]
struct Breather {
    until: Mono,
    reason: Reason,
}

/// Decides what ccmux does next.
#[derive(Debug)]
pub struct Supervisor {
    settings: PolicySettings,
    effects: VecDeque<Effect>,
    session: Option<SessionId>,
    evidence: Evidence,
    lifecycle: Lifecycle,
    turns: Turns,
    queue: Queue,
    flight: Option<Flight>,
    found: VecDeque<Flight>,
    last_exit: Option<ExitStatus>,
    /// What kept the agent from starting the last time.
    start_error: Option<String>,
    /// Since when every look fails; absent: the last one did not.
    blind_since: Option<Mono>,
    told_blind: bool,
    next_batch: BatchId,
    looks_ordered: u64,
    times_asked: u64,
    pending_look: Option<PendingLook>,
    look_at: Option<Mono>,
    tried_at: Option<Mono>,
    too_small: Option<TooSmall>,
    breather: Option<Breather>,
    box_seen: bool,
    unknown_since: Option<Mono>,
    told_unknown: bool,
    told_dispute: Option<Mono>,
    held_since: Option<Mono>,
    told_held: bool,
    hooks_missed: u32,
    hooks_heard: bool,
    unhooked_since: Option<Mono>,
    used_prompts: VecDeque<PromptId>,
    ended_early: Option<EndedEarly>,
    stash: Stash,
    hold: Hold,
    told: Told,
    dialog_since: Option<Mono>,
    told_dialog: bool,
    /// The agent takes that much, which is more than `max_rss`.
    too_big: Option<u64>,
    /// Starts in a row that were to resume the conversation and ended without a prompt box.
    vain_resumes: u32,
    /// What was not resumed therefore.
    set_aside: Option<SessionId>,
    stopping: bool,
    asked: bool,
    state: (StateWord, Now),
}

impl Supervisor {
    /// A policy that knows nothing yet.
    pub fn new(settings: PolicySettings) -> Self {
        Self {
            settings,
            effects: VecDeque::new(),
            session: None,
            evidence: Evidence::default(),
            lifecycle: Lifecycle::default(),
            turns: Turns::default(),
            queue: Queue::default(),
            flight: None,
            found: VecDeque::new(),
            last_exit: None,
            start_error: None,
            blind_since: None,
            told_blind: false,
            next_batch: BatchId(1),
            looks_ordered: 0,
            times_asked: 0,
            pending_look: None,
            look_at: None,
            tried_at: None,
            too_small: None,
            breather: None,
            box_seen: false,
            unknown_since: None,
            told_unknown: false,
            told_dispute: None,
            held_since: None,
            told_held: false,
            hooks_missed: 0,
            hooks_heard: false,
            unhooked_since: None,
            used_prompts: VecDeque::new(),
            ended_early: None,
            stash: Stash::None,
            hold: Hold::default(),
            told: Told::default(),
            dialog_since: None,
            told_dialog: false,
            too_big: None,
            vain_resumes: 0,
            set_aside: None,
            stopping: false,
            asked: false,
            state: (StateWord::Down, Now::default()),
        }
    }

    /// Takes a past fact in. Orders that follow from it are in [`Supervisor::next_effect`].
    pub fn handle(&mut self, event: Event, now: Now) {
        match event {
            Event::DaemonStarted { next_batch } => self.next_batch = next_batch,
            Event::DaemonReturned { unanswered, prompt } => self.turns.found(prompt, unanswered),
            Event::AgentFound { pid, session } => self.agent_found(pid, session, now),
            Event::AgentMissing { session } => self.agent_missing(session, now),
            Event::AgentStarted { pid } => self.agent_started(pid, now),
            Event::AgentStartFailed { reason } => self.agent_start_failed(&reason, now),
            Event::AgentExited { pid, status } => self.agent_exited(pid, status, now),
            Event::AgentMeasured { pid, bytes } => self.agent_measured(pid, bytes),
            Event::HoldFound { held } => self.hold.found(held, now),
            Event::FailureRead { session, prompt, error, resets_at } => {
                let failure = Failure { prompt: prompt.as_ref(), error: &error, resets_at, is_read: true };
                self.failure_read(&session, failure, now);
            }
            Event::MessageAccepted(message) => self.queue.insert(message, now),
            Event::MessageDropped { message } => self.message_dropped(message),
            Event::InboxLost => self.queue = Queue::default(),
            Event::BatchFound { batch, messages } => self.batch_found(batch, messages, now),
            Event::Session { session, origin, fact } => self.session_fact(session, origin, fact, now),
            Event::SessionSeen { session } => self.session_seen(&session),
            Event::StateFileRead { state } => self.state_file(state, now),
            Event::PaneActive => self.pane_active(now),
            Event::PaneSilent => self.pane_silent(now),
            Event::RulesReread => self.rules_reread(now),
            Event::SettingsReread { settings } => self.settings_reread(settings, now),
            Event::ScreenSeen { look, seen } => self.screen_seen(look, seen, now),
            Event::LookFailed { look, reason } => self.look_failed(look, reason, now),
            Event::Pasted { batch } => self.in_flight(batch, now, |flight, now| flight.pasted(now)),
            Event::PasteDoubtful { batch, .. } => {
                self.in_flight(batch, now, |flight, now| flight.pasted(now))
            }
            Event::PasteRefused { batch, reason } => self.paste_refused(batch, reason, now),
            Event::PaneTooSmall { batch, has, needs } => self.pane_too_small(batch, has, needs, now),
            Event::EnterPressed { batch } => {
                self.in_flight(batch, now, |flight, now| flight.enter_pressed(now))
            }
            Event::EnterRefused { batch, .. } => {
                self.in_flight(batch, now, |flight, now| flight.enter_refused(now));
            }
            Event::DraftStashed => self.stash_pressed(None, now),
            Event::StashRefused { reason } => self.stash_pressed(Some(reason), now),
            Event::TranscriptSearched { batch, found, prompt, session } => {
                self.searched(batch, (found, prompt), session, now);
            }
            Event::TakenOut { batch } => self.in_flight(batch, now, |flight, _| flight.taken_out()),
            Event::TakeOutRefused { batch, .. } => {
                self.in_flight(batch, now, |flight, now| flight.take_out_refused(now));
            }
            Event::TurnPublished { .. } if self.hold.is_tried(now) => self.lift_hold(ANSWERS),
            Event::TurnPublished { .. } | Event::DeadlinePassed => {}
            Event::StateAsked => {
                self.times_asked += 1;
                self.ask_for_look(now);
            }
            Event::ShutdownAsked => self.stopping = true,
        }
        self.advance(now);
    }

    /// The next order, oldest first.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to come back although nothing happened.
    ///
    /// The hold's is among them also while nothing waits: the state changes then.
    pub fn next_deadline(&self) -> Option<Mono> {
        let breather = self.breather.as_ref().map(|breather| breather.until);
        let ended_early = self.ended_early.as_ref().map(|ended| ended.until);
        let expires = self.queue.expires_at();
        let (tried, starts) = (self.tried_at, self.lifecycle.start_at());
        let small = self.too_small.as_ref().map(|small| small.until);
        let all =
            [small, self.look_at, breather, ended_early, expires, tried, starts, self.turns.gives_up_at()];
        all.into_iter().flatten().min()
    }

    fn advance(&mut self, now: Now) {
        self.look_at = None;
        self.tried_at = self.hold.tried_at(now);
        self.evidence.note_idle(now);
        if self.breather.as_ref().is_some_and(|breather| now.mono >= breather.until) {
            self.breather = None;
        }
        if !self.stopping && self.lifecycle.start_due(now.mono) {
            self.effects.push_back(Effect::StartAgent { resume: self.session.clone() });
        }
        self.try_small_pane(now);
        self.advance_turns(now);
        self.advance_flight(now);
        self.expire(now);
        self.advance_ended_early(now);
        if self.queue.is_empty() {
            // Nobody waits any more behind whatever it was.
            (self.held_since, self.told_held) = (None, false);
        }
        if self.flight.is_none() && (self.too_big.is_some() || !self.queue.is_empty()) {
            self.advance_queue(now);
        }
        self.tell_senders(now);
        self.advance_curiosity(now);
        self.note_state(now);
    }

    fn alert(&mut self, kind: AlertKind, message: String) {
        self.alert_about(kind, &[], None, message);
    }

    fn alert_about(&mut self, kind: AlertKind, messages: &[Message], tool: Option<String>, message: String) {
        self.alert_of(kind, messages.iter().map(|message| message.id).collect(), tool, message);
    }

    fn alert_of(&mut self, kind: AlertKind, messages: Vec<MessageId>, tool: Option<String>, message: String) {
        self.effects.push_back(Effect::Alert {
            kind,
            session: self.session.clone(),
            messages,
            tool,
            message,
        });
    }
}

fn earlier(a: Option<Mono>, b: Option<Mono>) -> Option<Mono> {
    [a, b].into_iter().flatten().min()
}
