//! What hooks and the state file say, and the turns that begin and end by it.

use ccmux_wire::id::{BatchId, PromptId, SessionId};

use super::Supervisor;
use super::delivery::HOOKS_MISSED;
use super::holding::ANSWERS;
use crate::effect::{AlertKind, Effect};
use crate::event::{FileState, Origin, SessionFact};
use crate::evidence::Activity;
use crate::flight::Flight;
use crate::hold::Failure;
use crate::now::{Mono, Now};
use crate::turns::Ended;

/// A turn waits that long for the receipt of its message, so that it can name it.
const RECEIPT_BEFORE_TURN_MS: u64 = 700;
/// No hook for that long, although Claude works, means that none comes.
const HOOKS_SILENT_AFTER_MS: u64 = 600_000;

/// A turn that ended before the receipt of the batch that began it.
#[derive(Debug, Clone)]
pub(super) struct EndedEarly {
    prompt: Option<PromptId>,
    background: bool,
    pub(super) until: Mono,
}

impl Supervisor {
    pub(super) fn session_fact(&mut self, session: SessionId, origin: Origin, fact: SessionFact, now: Now) {
        if origin == Origin::Foreign {
            return; // The attention engine's business; it never touches the owned session.
        }
        (self.hooks_missed, self.unhooked_since) = (0, None);
        if self.begins(&fact) || self.session.is_none() {
            self.bind(&session);
        }
        if self.session.as_ref() != Some(&session) {
            return;
        }
        self.hooks_heard = true;
        match fact {
            SessionFact::Started { .. } => self.outdate(now),
            SessionFact::PromptSubmitted { prompt, batch } => self.prompt_submitted(prompt, batch, now),
            SessionFact::TurnEnded { prompt, background } => self.turn_ended(prompt, background, now),
            SessionFact::TurnFailed { prompt, error, resets_at } => {
                let failure = Failure { prompt: prompt.as_ref(), error: &error, resets_at, is_read: false };
                self.turn_failed(failure, now);
            }
            SessionFact::LoggedIn => self.lift_hold("somebody logged in: messages go in again"),
            SessionFact::DialogOpened { tool } => self.dialog_opened(tool, now),
            SessionFact::Ended { .. } => self.outdate(now),
        }
    }

    /// The agent is in that session now. A prompt tells, too, while none of the known session's hooks was heard: it may
    /// have been changed without a daemon. A prompt that is the batch in flight tells always: that session took it.
    fn begins(&self, fact: &SessionFact) -> bool {
        matches!(fact, SessionFact::Started { .. })
            || matches!(fact, SessionFact::PromptSubmitted { batch, .. } if !self.hooks_heard || batch.is_some())
    }

    pub(super) fn bind(&mut self, session: &SessionId) {
        if self.session.as_ref() != Some(session) {
            let unfinished = self.session.as_ref().and_then(|_| self.turns.left());
            self.publish(unfinished, true);
            self.session = Some(session.clone());
            self.effects.push_back(Effect::BindSession { session: session.clone() });
        }
    }

    pub(super) fn prompt_submitted(&mut self, prompt: Option<PromptId>, batch: Option<BatchId>, now: Now) {
        self.evidence.hook_busy(now);
        let queued = self.turns.runs(prompt.as_ref());
        let unfinished = self.turns.began(prompt.clone());
        self.publish(unfinished, true);
        self.taint_look();
        // A hook may fire again for a prompt that proved another batch, with the same text: it proves nothing (C4).
        let used = prompt.as_ref().is_some_and(|prompt| self.used_prompts.contains(prompt));
        if let Some(batch) = batch.filter(|_| !used) {
            self.in_flight(batch, now, |flight, _| flight.proved_by_hook(prompt, queued));
        } else if let (None, Some(flight)) = (batch, &mut self.flight) {
            flight.other_prompt_submitted(now.mono);
        }
    }

    pub(super) fn turn_ended(&mut self, prompt: Option<PromptId>, background: u32, now: Now) {
        self.evidence.hook_over(background > 0, now);
        self.taint_look();
        self.lift_hold(ANSWERS);
        match &mut self.flight {
            Some(flight) if flight.receipt_is_awaited() => {
                flight.turn_ended(now.mono);
                let until = now.mono + RECEIPT_BEFORE_TURN_MS;
                self.ended_early = Some(EndedEarly { prompt, background: background > 0, until });
            }
            _ => self.publish_ended(prompt, background > 0),
        }
    }

    fn publish_ended(&mut self, prompt: Option<PromptId>, background: bool) {
        let left = self.turns.overtaken(prompt.as_ref());
        self.publish(left, true);
        let ended = self.turns.ended(prompt, background);
        self.publish(Some(ended), false);
    }

    /// A turn whose batch has its receipt now, or will not have it in time, is published.
    pub(super) fn advance_ended_early(&mut self, now: Now) {
        let awaited = self.flight.as_ref().is_some_and(Flight::receipt_is_awaited);
        if let Some(ended) = self.ended_early.take_if(|ended| !awaited || now.mono >= ended.until) {
            self.publish_ended(ended.prompt, ended.background);
        }
    }

    /// The state file names the session: believed as long as no hook ever did.
    pub(super) fn session_seen(&mut self, session: &SessionId) {
        if self.session.is_none() || !self.hooks_heard {
            self.bind(session);
        }
    }

    pub(super) fn turn_failed(&mut self, failure: Failure<'_>, now: Now) {
        self.evidence.hook_over(false, now);
        self.taint_look();
        let left = self.turns.overtaken(failure.prompt);
        self.publish(left, true);
        let unanswered = self.turns.failed();
        self.note_failure(failure, &unanswered, now);
    }

    pub(super) fn dialog_opened(&mut self, tool: String, now: Now) {
        let kind = match tool.as_str() {
            "AskUserQuestion" | "Elicitation" => AlertKind::Question,
            _ => AlertKind::PermissionRequest,
        };
        self.alert_about(kind, &[], Some(tool.clone()), format!("Claude asks at the terminal ({tool})"));
        self.evidence.hook_dialog(tool, now);
        self.taint_look();
    }

    pub(super) fn state_file(&mut self, state: FileState, now: Now) {
        match state {
            FileState::Busy => {
                self.note_unhooked(now);
                self.turns.busy();
            }
            FileState::Waiting(_) => self.turns.not_idle(),
            // It went on after its Stop: another hook said so, or texts were queued, and no Stop need come (Esc).
            FileState::Idle | FileState::Shell if self.evidence.outlasted_stop(now) => self.turns.busy(),
            FileState::Idle | FileState::Shell | FileState::Absent => {}
        }
        self.evidence.file_says(state, now);
        self.taint_look();
        if let Some(flight) = &mut self.flight {
            flight.agent_stirred(now.mono);
        }
    }

    /// Claude works, and no hook told: after ten minutes of that people are told.
    fn note_unhooked(&mut self, now: Now) {
        let since = *self.unhooked_since.get_or_insert(now.mono);
        if self.hooks_missed < HOOKS_MISSED && now.mono.since(since) >= HOOKS_SILENT_AFTER_MS {
            self.hooks_missed = HOOKS_MISSED;
            let what = "hooks don't come: Claude has worked, and none was heard for 10 minutes";
            self.alert(AlertKind::HooksSilent, what.to_owned());
        }
    }

    pub(super) fn advance_turns(&mut self, now: Now) {
        let receipt_awaited = self.flight.as_ref().is_some_and(Flight::was_entered);
        match self.evidence.activity(now) {
            Activity::Idle if !receipt_awaited => {
                while let Some(ended) = self.turns.idle(self.evidence.background_shell(), now.mono) {
                    self.publish(Some(ended), true);
                }
            }
            _ => self.turns.not_idle(),
        }
    }

    pub(super) fn publish(&mut self, ended: Option<Ended>, interrupted: bool) {
        if let (Some(session), Some(Ended { prompt, in_reply_to, answers })) = (self.session.clone(), ended) {
            self.measure_agent();
            self.effects.push_back(Effect::PublishTurn {
                session,
                prompt,
                in_reply_to,
                answers,
                interrupted,
            });
        }
    }
}
