//! The one type with verbs: hears of every event, gives every order.
//!
//! `handle` is one match whose arms are one call each; afterwards [`Supervisor::advance`] lets every part do what is due
//! now. Parts answer values; only this module turns them into effects.

use std::collections::VecDeque;

use ccmux_wire::id::{BatchId, PromptId, SessionId};
use ccmux_wire::receipt::Proof;
use ccmux_wire::status::StateWord;

use crate::effect::{AlertKind, Effect};
use crate::event::{Event, ExitStatus, FileState, Found, Message, Origin, SessionFact};
use crate::evidence::{Activity, Evidence};
use crate::flight::{Flight, Need, Outcome};
use crate::gate::{self, Gate, Reason};
use crate::lifecycle::{Exit, Lifecycle};
use crate::now::{Mono, Now};
use crate::queue::{Queue, SPLIT_AFTER_FAILURES};
use crate::screen::{BoxHolds, ScreenClass, Seen};
use crate::settings::PolicySettings;
use crate::turns::{Ended, Turns};

/// While the agent starts, or a turn's end is awaited, ccmux looks that often.
const LOOK_WHILE_STARTING_MS: u64 = 500;
/// An agent that shows no prompt box for that long is told of.
const UNKNOWN_ALERT_AFTER_MS: u64 = 60_000;
/// After a refusal or a failed look, that long nothing is tried.
const BREATHE_MS: u64 = 1_000;
/// Who asks for the state is shown a look not older than this.
const ASKED_LOOK_MS: u64 = 1_000;

/// A look that was ordered and not answered yet.
#[derive(Debug, Clone, Copy)]
struct PendingLook {
    look: u64,
    batch: Option<BatchId>,
    outdated: bool,
}

/// Why nothing is tried for a moment.
#[derive(Debug, Clone)]
struct Breather {
    until: Mono,
    reason: Reason,
}

/// What the policy believes, for people and programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyStatus {
    /// One word.
    pub state: StateWord,
    /// Since when.
    pub since: Now,
    /// A sentence about it.
    pub reason: String,
    /// `open`, or `closed: <word>: <reason>`.
    pub gate: String,
    /// What would open the gate.
    pub opens_when: String,
    /// When ccmux looks again by itself.
    pub next_look_ms: Option<u64>,
    /// What each witness said last.
    pub evidence: Vec<String>,
    /// The owned session.
    pub session: Option<SessionId>,
    /// The agent's process.
    pub pid: Option<i32>,
    /// How often it was started again.
    pub restarts: u32,
    /// Messages that wait or are on their way.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How often somebody asked; whoever did waits until this is higher and no look is due.
    pub asked: u64,
    /// A look is on its way, or should be.
    pub look_is_due: bool,
    /// The agent keeps ending at once.
    pub degraded: bool,
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
    next_batch: BatchId,
    looks_ordered: u64,
    times_asked: u64,
    pending_look: Option<PendingLook>,
    look_at: Option<Mono>,
    breather: Option<Breather>,
    box_seen: bool,
    unknown_since: Option<Mono>,
    told_unknown: bool,
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
            next_batch: BatchId(1),
            looks_ordered: 0,
            times_asked: 0,
            pending_look: None,
            look_at: None,
            breather: None,
            box_seen: false,
            unknown_since: None,
            told_unknown: false,
            stopping: false,
            asked: false,
            state: (StateWord::Down, Now::default()),
        }
    }

    /// Takes a past fact in. Orders that follow from it are in [`Supervisor::next_effect`].
    pub fn handle(&mut self, event: Event, now: Now) {
        match event {
            Event::DaemonStarted { next_batch } => self.next_batch = next_batch,
            Event::AgentFound { pid, session } => self.agent_found(pid, session, now),
            Event::AgentMissing { session } => self.agent_missing(session, now),
            Event::AgentStarted { pid } => self.agent_started(pid, now),
            Event::AgentStartFailed { reason } => self.agent_start_failed(&reason, now),
            Event::AgentExited { pid, status } => self.agent_exited(pid, status, now),
            Event::MessageAccepted(message) => self.queue.insert(message),
            Event::BatchFound { batch, messages } => self.batch_found(batch, messages, now),
            Event::Session {
                session,
                origin,
                fact,
            } => self.session_fact(session, origin, fact, now),
            Event::StateFileRead { state } => self.state_file(state, now),
            Event::PaneActive => self.pane_active(now),
            Event::PaneSilent => self.pane_silent(now),
            Event::ScreenSeen { look, seen } => self.screen_seen(look, seen, now),
            Event::LookFailed { look, reason } => self.look_failed(look, reason, now),
            Event::Pasted { batch } => self.in_flight(batch, now, |flight, now| flight.pasted(now)),
            Event::PasteDoubtful { batch, .. } => {
                self.in_flight(batch, now, |flight, now| flight.pasted(now))
            }
            Event::PasteRefused { batch, reason } => self.paste_refused(batch, reason, now),
            Event::EnterPressed { batch } => {
                self.in_flight(batch, now, |flight, now| flight.enter_pressed(now))
            }
            Event::EnterRefused { batch, .. } => {
                self.in_flight(batch, now, |flight, now| flight.enter_refused(now));
            }
            Event::TranscriptSearched { batch, found, prompt } => self.searched(batch, found, prompt, now),
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
    pub fn next_deadline(&self) -> Option<Mono> {
        let breather = self.breather.as_ref().map(|breather| breather.until);
        [
            self.look_at,
            breather,
            self.lifecycle.start_at(),
            self.turns.gives_up_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    // ---- the agent's process ------------------------------------------------------------------------------------

    fn agent_found(&mut self, pid: i32, session: Option<SessionId>, now: Now) {
        self.session = session;
        self.agent_started(pid, now);
    }

    fn agent_missing(&mut self, session: Option<SessionId>, now: Now) {
        self.session = session;
        self.lifecycle.missing(now.mono);
        self.lose_agent(now);
    }

    fn agent_started(&mut self, pid: i32, now: Now) {
        self.lifecycle.running(pid, now.mono);
        self.evidence = Evidence::default();
        self.turns.not_idle();
        self.box_seen = false;
        self.outdate(now);
        if self.lifecycle.restarts() > 0 {
            self.alert(
                AlertKind::AgentRestarted,
                format!("the agent runs again (pid {pid})"),
            );
        }
    }

    fn agent_start_failed(&mut self, reason: &str, now: Now) {
        let exit = self.lifecycle.start_failed(&self.settings, now.mono);
        self.tell_exit(format!("the agent could not be started: {reason}"), exit);
    }

    fn agent_exited(&mut self, pid: i32, status: ExitStatus, now: Now) {
        let Some(exit) = self.lifecycle.exited(pid, status, &self.settings, now.mono) else {
            return;
        };
        let how = match status {
            ExitStatus::Code(code) => format!("with code {code}"),
            ExitStatus::Signal(signal) => format!("by signal {signal}"),
            ExitStatus::Unknown => "in an unknown way".to_owned(),
        };
        self.tell_exit(format!("the agent (pid {pid}) ended {how}"), exit);
        self.lose_agent(now);
    }

    fn tell_exit(&mut self, what: String, exit: Exit) {
        let then = match exit.pause_ms {
            Some(ms) => format!("{what}; it is started again in {} s", ms as f64 / 1000.0),
            None => format!("{what}; it is not started again (agent.restart_on_exit = false)"),
        };
        self.alert(AlertKind::AgentExited, then);
        if exit.degraded_now {
            self.alert(
                AlertKind::Degraded,
                "the agent ended ten times within 60 s of its start".to_owned(),
            );
        }
    }

    fn lose_agent(&mut self, now: Now) {
        self.evidence = Evidence::default();
        self.box_seen = false;
        for flight in self.flight.iter_mut().chain(&mut self.found) {
            flight.agent_exited(now.mono);
        }
        if let Some(look) = &mut self.pending_look {
            look.outdated = true;
        }
    }

    // ---- witnesses ----------------------------------------------------------------------------------------------

    fn session_fact(&mut self, session: SessionId, origin: Origin, fact: SessionFact, now: Now) {
        if origin == Origin::Foreign {
            return; // The attention engine's business; it never touches the owned session.
        }
        let begins = matches!(fact, SessionFact::Started { .. });
        if begins || self.session.is_none() {
            self.bind(&session);
        }
        if self.session.as_ref() != Some(&session) {
            return;
        }
        match fact {
            SessionFact::Started { .. } => self.outdate(now),
            SessionFact::PromptSubmitted { prompt, batch } => self.prompt_submitted(prompt, batch, now),
            SessionFact::TurnEnded { prompt, background } => self.turn_ended(prompt, background, now),
            SessionFact::TurnFailed { error, .. } => self.turn_failed(&error, now),
            SessionFact::DialogOpened { tool } => self.dialog_opened(tool, now),
            SessionFact::Ended { .. } => self.outdate(now),
        }
    }

    fn bind(&mut self, session: &SessionId) {
        if self.session.as_ref() != Some(session) {
            self.session = Some(session.clone());
            self.effects.push_back(Effect::BindSession {
                session: session.clone(),
            });
        }
    }

    fn prompt_submitted(&mut self, prompt: Option<PromptId>, batch: Option<BatchId>, now: Now) {
        self.evidence.hook_busy(now);
        if let Some(unfinished) = self.turns.began(prompt.clone()) {
            self.publish(unfinished, true);
        }
        self.taint_look();
        if let Some(batch) = batch {
            self.in_flight(batch, now, |flight, _| flight.proved_by_hook(prompt));
        }
    }

    fn turn_ended(&mut self, prompt: Option<PromptId>, background: u32, now: Now) {
        self.evidence.hook_over(now);
        self.taint_look();
        let ended = self.turns.ended(prompt, background > 0);
        self.publish(ended, false);
    }

    fn turn_failed(&mut self, error: &str, now: Now) {
        self.evidence.hook_over(now);
        self.taint_look();
        self.turns.failed();
        self.alert(AlertKind::Failure, format!("the API failed in a turn: {error}"));
    }

    fn dialog_opened(&mut self, tool: String, now: Now) {
        self.alert(
            AlertKind::PermissionRequest,
            format!("Claude asks at the terminal ({tool})"),
        );
        self.evidence.hook_dialog(tool, now);
        self.taint_look();
    }

    fn state_file(&mut self, state: FileState, now: Now) {
        match state {
            FileState::Busy => self.turns.busy(),
            FileState::Waiting(_) => self.turns.not_idle(),
            FileState::Idle | FileState::Shell | FileState::Absent => {}
        }
        self.evidence.file_says(state, now);
        self.taint_look();
        if let Some(flight) = &mut self.flight {
            flight.agent_stirred(now.mono);
        }
    }

    fn outdate(&mut self, now: Now) {
        self.evidence.outdate(now);
        self.taint_look();
    }

    /// Our own paste makes the pane write, too: a look at a batch waits for equal captures anyway.
    fn pane_active(&mut self, now: Now) {
        self.evidence.outdate(now);
        if self.pending_look.is_some_and(|look| look.batch.is_none()) {
            self.taint_look();
        }
    }

    /// A reason to look, never proof: a turn may have ended without a hook, a dialog may have opened.
    fn pane_silent(&mut self, now: Now) {
        self.evidence.outdate(now);
        self.ask_for_look(now);
    }

    fn ask_for_look(&mut self, now: Now) {
        self.asked |= self
            .evidence
            .looked_at()
            .is_none_or(|at| now.mono.since(at) >= ASKED_LOOK_MS);
    }

    fn taint_look(&mut self) {
        if let Some(look) = &mut self.pending_look {
            look.outdated = true;
        }
    }

    fn screen_seen(&mut self, look: u64, seen: Seen, now: Now) {
        let Some(pending) = self.pending_look.take_if(|pending| pending.look == look) else {
            return;
        };
        self.asked = false;
        self.note_box(&seen, now);
        if let Some(batch) = pending.batch
            && !pending.outdated
        {
            self.in_flight(batch, now, |flight, now| flight.seen(&seen, now));
        }
        self.evidence.screen_seen(seen, pending.outdated, now);
        self.lifecycle.note_health(now.mono);
    }

    fn note_box(&mut self, seen: &Seen, now: Now) {
        self.box_seen |= matches!(
            seen.class,
            ScreenClass::Ready | ScreenClass::Draft | ScreenClass::Busy
        );
        if matches!(seen.class, ScreenClass::Unknown | ScreenClass::Shell) {
            let since = *self.unknown_since.get_or_insert(now.mono);
            if !self.told_unknown && now.mono.since(since) >= UNKNOWN_ALERT_AFTER_MS {
                self.told_unknown = true;
                self.alert(
                    AlertKind::UnknownScreen,
                    "the agent's screen fits no rule (ccmux screen shows it)".into(),
                );
            }
        } else {
            self.unknown_since = None;
            self.told_unknown = false;
        }
    }

    fn look_failed(&mut self, look: u64, reason: String, now: Now) {
        if self
            .pending_look
            .take_if(|pending| pending.look == look)
            .is_some()
        {
            self.breather = Some(Breather {
                until: now.mono + BREATHE_MS,
                reason: Reason::LookFailed(reason),
            });
        }
    }

    // ---- the batch in flight ------------------------------------------------------------------------------------

    fn batch_found(&mut self, batch: BatchId, messages: Vec<Message>, now: Now) {
        self.next_batch = self.next_batch.max(BatchId(batch.0 + 1));
        self.found.push_back(Flight::found(batch, messages, now.mono));
    }

    fn in_flight(&mut self, batch: BatchId, now: Now, tell: impl FnOnce(&mut Flight, Mono)) {
        if let Some(flight) = self
            .flight
            .iter_mut()
            .chain(&mut self.found)
            .find(|flight| flight.batch() == batch)
        {
            tell(flight, now.mono);
        }
    }

    fn searched(&mut self, batch: BatchId, found: Found, prompt: Option<PromptId>, now: Now) {
        self.in_flight(batch, now, |flight, now| flight.searched(found, prompt, now));
    }

    fn paste_refused(&mut self, batch: BatchId, reason: String, now: Now) {
        self.in_flight(batch, now, |flight, _| flight.paste_refused());
        self.breather = Some(Breather {
            until: now.mono + BREATHE_MS,
            reason: Reason::Refused(reason),
        });
        self.outdate(now);
    }

    // ---- what is due --------------------------------------------------------------------------------------------

    fn advance(&mut self, now: Now) {
        self.look_at = None;
        self.evidence.note_idle(now);
        if self
            .breather
            .as_ref()
            .is_some_and(|breather| now.mono >= breather.until)
        {
            self.breather = None;
        }
        if !self.stopping && self.lifecycle.start_due(now.mono) {
            self.effects.push_back(Effect::StartAgent {
                resume: self.session.clone(),
            });
        }
        self.advance_turns(now);
        self.advance_flight(now);
        if self.flight.is_none() && !self.queue.is_empty() {
            self.advance_queue(now);
        }
        self.advance_curiosity(now);
        self.note_state(now);
    }

    fn advance_turns(&mut self, now: Now) {
        let receipt_awaited = self.flight.as_ref().is_some_and(Flight::was_entered);
        match self.evidence.activity(now) {
            Activity::Idle if !receipt_awaited => {
                if let Some(ended) = self.turns.idle(self.evidence.background_shell(), now.mono) {
                    self.publish(ended, true);
                }
            }
            _ => self.turns.not_idle(),
        }
    }

    fn publish(&mut self, ended: Ended, interrupted: bool) {
        let Some(session) = self.session.clone() else {
            return;
        };
        let Ended {
            prompt,
            in_reply_to,
            answers,
        } = ended;
        self.effects.push_back(Effect::PublishTurn {
            session,
            prompt,
            in_reply_to,
            answers,
            interrupted,
        });
    }

    fn advance_flight(&mut self, now: Now) {
        if self.flight.is_none() {
            self.flight = self.found.pop_front();
        }
        let may_look = self.breather.is_none() && self.lifecycle.pid().is_some();
        while let Some(mut flight) = self.flight.take() {
            let need = flight.step(self.pending_look.is_some() || !may_look, now.mono);
            self.tell_uncertain(&mut flight);
            let batch = flight.batch();
            match need {
                Need::Wait(at) => self.look_at = at,
                Need::Look => self.order_look(Some(batch)),
                Need::Enter => self.effects.push_back(Effect::PressEnter { batch }),
                Need::Search => self.effects.push_back(Effect::FindInTranscript { batch }),
                Need::TellStuck(why) => self.alert_about(AlertKind::Stuck, flight.messages(), why.to_owned()),
                Need::Over(outcome) => {
                    self.flight_over(flight, outcome, now);
                    self.flight = self.found.pop_front();
                    continue;
                }
            }
            let again = matches!(need, Need::TellStuck(_));
            self.flight = Some(flight);
            if !again {
                break;
            }
        }
    }

    fn tell_uncertain(&mut self, flight: &mut Flight) {
        if let Some(why) = flight.take_uncertain() {
            let reason = why.to_owned();
            self.effects.push_back(Effect::RecordUncertain {
                batch: flight.batch(),
                reason: reason.clone(),
            });
            self.alert_about(AlertKind::Uncertain, flight.messages(), reason);
        }
    }

    fn flight_over(&mut self, flight: Flight, outcome: Outcome, now: Now) {
        let batch = flight.batch();
        match outcome {
            Outcome::Delivered(proof, prompt) => self.delivered(&flight, proof, prompt),
            Outcome::Abandoned => {}
            Outcome::Absent { typed } => {
                self.effects.push_back(Effect::RecordRequeued { batch, typed });
                self.back_to_queue(flight.into_messages(), typed);
            }
        }
        self.outdate(now);
    }

    fn delivered(&mut self, flight: &Flight, proof: Proof, prompt: Option<PromptId>) {
        let ids = flight.messages().iter().map(|message| message.id).collect();
        self.effects.push_back(Effect::RecordDelivered {
            batch: flight.batch(),
            proof,
            prompt: prompt.clone(),
        });
        if let Some(unfinished) = self.turns.delivered(prompt, ids) {
            self.publish(unfinished, true);
        }
    }

    fn back_to_queue(&mut self, messages: Vec<Message>, typed: bool) {
        let alone = messages.len() == 1;
        for mut message in messages {
            if typed && alone && message.failures >= SPLIT_AFTER_FAILURES {
                let reason = format!("given up after {} attempts", message.failures + 1);
                self.alert_about(AlertKind::Failed, std::slice::from_ref(&message), reason.clone());
                self.effects.push_back(Effect::RecordFailed {
                    message: message.id,
                    reason,
                });
                continue;
            }
            message.failures += u32::from(typed);
            self.queue.insert(message);
        }
    }

    fn advance_queue(&mut self, now: Now) {
        match self.ask_gate(now) {
            Gate::Open => self.inject(now),
            Gate::Closed {
                look_at: Some(at), ..
            } if at <= now.mono => self.order_look(None),
            Gate::Closed { look_at, .. } => self.look_at = min(self.look_at, look_at),
        }
    }

    fn inject(&mut self, now: Now) {
        let batch = self.next_batch;
        self.next_batch = BatchId(batch.0 + 1);
        let taken = self.queue.take_batch(self.settings.batch_bytes);
        let messages = taken.iter().map(|message| message.id).collect();
        self.effects.push_back(Effect::Inject { batch, messages });
        self.flight = Some(Flight::begin(batch, taken, now.mono));
    }

    /// The gate, with what the evidence does not know.
    fn ask_gate(&self, now: Now) -> Gate {
        let closed = |reason| Gate::Closed {
            reason,
            look_at: None,
        };
        if self.stopping {
            return closed(Reason::Stopping);
        }
        if self.lifecycle.pid().is_none() {
            let degraded = self.lifecycle.is_degraded();
            return closed(if degraded { Reason::Degraded } else { Reason::Down });
        }
        if self.flight.is_some() {
            return closed(Reason::InFlight);
        }
        if let Some(breather) = &self.breather {
            return Gate::Closed {
                reason: breather.reason.clone(),
                look_at: Some(breather.until),
            };
        }
        match gate::ask(&self.evidence, &self.settings, now) {
            Gate::Closed {
                reason: Reason::Unseen | Reason::UnknownScreen,
                look_at,
            } if !self.box_seen => Gate::Closed {
                reason: Reason::Starting,
                look_at,
            },
            answer => answer,
        }
    }

    /// Looks for other reasons than a waiting message: the agent starts, a turn's end is awaited, somebody asks.
    fn advance_curiosity(&mut self, now: Now) {
        if self.lifecycle.pid().is_none() || self.breather.is_some() || self.flight.is_some() {
            return;
        }
        let last = self.evidence.looked_at();
        let after = |pause| last.map_or(now.mono, |at| at + pause);
        let due = [
            self.asked.then(|| after(ASKED_LOOK_MS)),
            (!self.box_seen).then(|| after(self.starting_pause(now))),
            self.evidence
                .screen_must_confirm()
                .then(|| after(LOOK_WHILE_STARTING_MS)),
            self.evidence.idle_look_at(),
        ];
        match due.into_iter().flatten().min() {
            Some(due) if due <= now.mono => self.order_look(None),
            due => self.look_at = min(self.look_at, due),
        }
    }

    /// Half a second at first; an agent that shows no box for a minute is looked at every 5 s.
    fn starting_pause(&self, now: Now) -> u64 {
        let since = self
            .lifecycle
            .running_since()
            .map_or(0, |since| now.mono.since(since));
        if since < UNKNOWN_ALERT_AFTER_MS {
            LOOK_WHILE_STARTING_MS
        } else {
            10 * LOOK_WHILE_STARTING_MS
        }
    }

    fn order_look(&mut self, batch: Option<BatchId>) {
        if self.pending_look.is_some() || self.breather.is_some() {
            return;
        }
        self.looks_ordered += 1;
        let look = self.looks_ordered;
        self.pending_look = Some(PendingLook {
            look,
            batch,
            outdated: false,
        });
        self.effects.push_back(Effect::Look {
            look,
            batch,
            settled: batch.is_some(),
        });
    }

    // ---- telling ------------------------------------------------------------------------------------------------

    fn alert(&mut self, kind: AlertKind, message: String) {
        self.alert_about(kind, &[], message);
    }

    fn alert_about(&mut self, kind: AlertKind, messages: &[Message], message: String) {
        let messages = messages.iter().map(|message| message.id).collect();
        self.effects.push_back(Effect::Alert {
            kind,
            session: self.session.clone(),
            messages,
            message,
        });
    }

    fn note_state(&mut self, now: Now) {
        let word = self.state_word(now);
        if word != self.state.0 {
            self.state = (word, now);
        }
    }

    fn state_word(&self, now: Now) -> StateWord {
        if self.lifecycle.pid().is_none() {
            let degraded = self.lifecycle.is_degraded();
            return if degraded {
                StateWord::Degraded
            } else {
                StateWord::Down
            };
        }
        match self.evidence.activity(now) {
            Activity::Busy => return StateWord::Busy,
            Activity::Dialog(_) => return StateWord::Dialog,
            Activity::Idle | Activity::Unknown => {}
        }
        match (self.evidence.last_look(), self.ask_gate(now)) {
            (None, _) => StateWord::Starting,
            (
                _,
                Gate::Closed {
                    reason: Reason::InFlight,
                    ..
                },
            ) => StateWord::Busy,
            (
                _,
                Gate::Closed {
                    reason: Reason::Human { .. },
                    ..
                },
            ) => StateWord::Human,
            (Some(seen), _) => self.screen_word(seen),
        }
    }

    fn screen_word(&self, seen: &Seen) -> StateWord {
        match seen.class {
            _ if seen.copy_mode => StateWord::CopyMode,
            ScreenClass::Ready if seen.holds == BoxHolds::Nothing => StateWord::Ready,
            ScreenClass::Draft if seen.holds == BoxHolds::Ours => StateWord::Busy,
            ScreenClass::Ready | ScreenClass::Draft => StateWord::Draft,
            ScreenClass::Busy | ScreenClass::Queued => StateWord::Busy,
            ScreenClass::Dialog => StateWord::Dialog,
            ScreenClass::Shell | ScreenClass::Unknown if self.box_seen => StateWord::Unknown,
            ScreenClass::Shell | ScreenClass::Unknown => StateWord::Starting,
        }
    }

    /// What the policy believes now.
    pub fn status(&self, now: Now) -> PolicyStatus {
        let gate = self.ask_gate(now);
        let (answer, opens_when, reason, look_at) = self.gate_lines(gate, now);
        let flight = self.flight.iter().chain(&self.found).flat_map(Flight::messages);
        let (count, bytes) = flight.fold((0, 0), |(n, sum), message| (n + 1, sum + message.bytes));
        PolicyStatus {
            state: self.state_word(now),
            since: self.state.1,
            reason,
            gate: answer,
            opens_when,
            next_look_ms: look_at.map(|at| at.since(now.mono)),
            evidence: self.evidence.lines(now),
            session: self.session.clone(),
            pid: self.lifecycle.pid(),
            restarts: self.lifecycle.restarts(),
            messages: self.queue.messages() + count,
            bytes: self.queue.bytes() + bytes,
            asked: self.times_asked,
            look_is_due: self.asked || self.pending_look.is_some(),
            degraded: self.lifecycle.is_degraded(),
        }
    }

    fn gate_lines(&self, gate: Gate, now: Now) -> (String, String, String, Option<Mono>) {
        let state = self.state_word(now);
        let nothing = "nothing waits for it".to_owned();
        match gate {
            Gate::Open => (
                "open".to_owned(),
                String::new(),
                "an injection would be possible".to_owned(),
                None,
            ),
            // Without a message nobody looks all the time: the last look is as good as the present one.
            Gate::Closed {
                reason: Reason::Unseen,
                ..
            } if state == StateWord::Ready => (
                "open".to_owned(),
                nothing,
                "the prompt box was empty at the last look".to_owned(),
                self.look_at,
            ),
            Gate::Closed { reason, .. } => {
                let word = if reason == Reason::Unseen {
                    state
                } else {
                    reason.word()
                };
                let line = format!("closed: {}: {}", word.word(), reason.sentence());
                (
                    line,
                    reason.opens_when().to_owned(),
                    reason.sentence(),
                    self.look_at,
                )
            }
        }
    }
}

fn min(a: Option<Mono>, b: Option<Mono>) -> Option<Mono> {
    [a, b].into_iter().flatten().min()
}
