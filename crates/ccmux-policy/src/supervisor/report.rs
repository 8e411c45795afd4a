//! What the policy believes, for people and programs.

use ccmux_wire::id::{BatchId, SessionId};
use ccmux_wire::status::StateWord;

use super::{Supervisor, earlier};
use crate::event::ExitStatus;
use crate::evidence::Activity;
use crate::flight::Flight;
use crate::gate::{Gate, Reason};
use crate::now::Now;
use crate::screen::{BoxHolds, ScreenClass, Seen};

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
    /// When ccmux looks again, or starts the agent again, by itself.
    pub next_look_ms: Option<u64>,
    /// What each witness said last.
    pub evidence: Vec<String>,
    /// The owned session.
    pub session: Option<SessionId>,
    /// The agent's process.
    pub pid: Option<i32>,
    /// How often it was started again.
    pub restarts: u32,
    /// How the one before it ended, if this daemon saw it.
    pub last_exit: Option<ExitStatus>,
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
    /// The batch on its way, be it uncertain already.
    pub batch: Option<BatchId>,
}

impl Supervisor {
    pub(super) fn note_state(&mut self, now: Now) {
        let word = self.state_word(now);
        if word != self.state.0 || self.state.1 == Now::default() {
            self.state = (word, now);
        }
    }

    pub(super) fn state_word(&self, now: Now) -> StateWord {
        if self.lifecycle.pid().is_none() {
            let degraded = self.lifecycle.is_degraded();
            return if degraded { StateWord::Degraded } else { StateWord::Down };
        }
        match self.evidence.activity(now) {
            Activity::Busy => return StateWord::Busy,
            Activity::Dialog(_) => return StateWord::Dialog,
            Activity::Idle | Activity::Unknown => {}
        }
        match (self.evidence.last_look().map(|seen| self.screen_word(seen)), self.ask_gate(now)) {
            (None, _) => StateWord::Starting,
            (Some(shown), Gate::Open | Gate::Closed { reason: Reason::Unseen, .. }) => shown,
            // Nobody asks again once Claude has settled, unless a message waits.
            (Some(StateWord::Ready), Gate::Closed { reason: Reason::Settling, .. }) => StateWord::Ready,
            (_, Gate::Closed { reason, .. }) => reason.word(),
        }
    }

    pub(super) fn screen_word(&self, seen: &Seen) -> StateWord {
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
        let (answer, opens_when, reason) = self.gate_lines(gate, now);
        let flight = self.flight.iter().chain(&self.found).flat_map(Flight::messages);
        let (count, bytes) = flight.fold((0, 0), |(n, sum), message| (n + 1, sum + message.bytes));
        PolicyStatus {
            state: self.state_word(now),
            since: self.state.1,
            reason,
            gate: answer,
            opens_when,
            next_look_ms: earlier(self.look_at, self.tried_at)
                .or(self.lifecycle.start_at())
                .map(|at| at.since(now.mono)),
            evidence: self.evidence.lines(now),
            session: self.session.clone(),
            pid: self.lifecycle.pid(),
            restarts: self.lifecycle.restarts(),
            last_exit: self.last_exit,
            messages: self.queue.messages() + count,
            bytes: self.queue.bytes() + bytes,
            asked: self.times_asked,
            look_is_due: self.asked || self.pending_look.is_some(),
            degraded: self.lifecycle.is_degraded(),
            batch: self.flight.as_ref().map(Flight::batch),
        }
    }

    pub(super) fn gate_lines(&self, gate: Gate, now: Now) -> (String, String, String) {
        let state = self.state_word(now);
        let nothing = "nothing waits for it".to_owned();
        match gate {
            Gate::Open => ("open".to_owned(), String::new(), "an injection would be possible".to_owned()),
            // Without a message nobody looks all the time: the last look is as good as the present one.
            Gate::Closed { reason: Reason::Unseen, .. } if state == StateWord::Ready => {
                ("open".to_owned(), nothing, "the prompt box was empty at the last look".to_owned())
            }
            Gate::Closed { reason, .. } => {
                let is_seen = !matches!(reason, Reason::Unseen | Reason::Settling);
                let word = if is_seen { reason.word() } else { state };
                let line = format!("closed: {}: {}", word.word(), reason.sentence());
                (line, reason.opens_when().to_owned(), reason.sentence())
            }
        }
    }
}
