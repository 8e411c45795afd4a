//! What hooks and the state file say, and the turns that begin and end by it.

use ccmux_wire::id::{BatchId, PromptId, SessionId};

use super::Supervisor;
use crate::effect::{AlertKind, Effect};
use crate::event::{FileState, Origin, SessionFact};
use crate::evidence::Activity;
use crate::flight::Flight;
use crate::now::Now;
use crate::turns::Ended;

impl Supervisor {
    pub(super) fn session_fact(&mut self, session: SessionId, origin: Origin, fact: SessionFact, now: Now) {
        if origin == Origin::Foreign {
            return; // The attention engine's business; it never touches the owned session.
        }
        self.hooks_missed = 0;
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

    pub(super) fn bind(&mut self, session: &SessionId) {
        if self.session.as_ref() != Some(session) {
            self.session = Some(session.clone());
            self.effects.push_back(Effect::BindSession { session: session.clone() });
        }
    }

    pub(super) fn prompt_submitted(&mut self, prompt: Option<PromptId>, batch: Option<BatchId>, now: Now) {
        self.evidence.hook_busy(now);
        if let Some(unfinished) = self.turns.began(prompt.clone()) {
            self.publish(unfinished, true);
        }
        self.taint_look();
        if let Some(batch) = batch {
            self.in_flight(batch, now, |flight, _| flight.proved_by_hook(prompt));
        }
    }

    pub(super) fn turn_ended(&mut self, prompt: Option<PromptId>, background: u32, now: Now) {
        self.evidence.hook_over(now);
        self.taint_look();
        let ended = self.turns.ended(prompt, background > 0);
        self.publish(ended, false);
    }

    pub(super) fn turn_failed(&mut self, error: &str, now: Now) {
        self.evidence.hook_over(now);
        self.taint_look();
        self.turns.failed();
        self.alert(AlertKind::Failure, format!("the API failed in a turn: {error}"));
    }

    pub(super) fn dialog_opened(&mut self, tool: String, now: Now) {
        self.alert(AlertKind::PermissionRequest, format!("Claude asks at the terminal ({tool})"));
        self.evidence.hook_dialog(tool, now);
        self.taint_look();
    }

    pub(super) fn state_file(&mut self, state: FileState, now: Now) {
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

    pub(super) fn advance_turns(&mut self, now: Now) {
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

    pub(super) fn publish(&mut self, ended: Ended, interrupted: bool) {
        let Some(session) = self.session.clone() else {
            return;
        };
        let Ended { prompt, in_reply_to, answers } = ended;
        self.effects.push_back(Effect::PublishTurn { session, prompt, in_reply_to, answers, interrupted });
    }
}
