//! Messages on their way: the gate is asked, a batch is injected, its flight followed to the receipt.

use ccmux_wire::id::{BatchId, MessageId, PromptId, SessionId};
use ccmux_wire::receipt::Proof;

use super::stash::Stash;
use super::{BREATHE_MS, Breather, Supervisor, earlier};
use crate::effect::{AlertKind, Attempt, Effect, Note};
use crate::event::{Found, Message};
use crate::evidence::Activity;
use crate::flight::{Flight, Need, Outcome};
use crate::gate::{self, Gate, Reason};
use crate::now::{Mono, Now};
use crate::queue::SPLIT_AFTER_FAILURES;
use crate::screen::ScreenClass;

/// Messages that wait behind somebody's draft, or behind copy mode, for that long are told of.
const HELD_ALERT_AFTER_MS: u64 = 600_000;
/// So many prompts that proved a batch are remembered: hooks fire again within moments, if they do.
const USED_PROMPTS: usize = 256;
/// So many deliveries in a row that only the transcript proved mean that hooks don't come.
pub(super) const HOOKS_MISSED: u32 = 3;

impl Supervisor {
    pub(super) fn batch_found(&mut self, batch: BatchId, messages: Vec<Message>, now: Now) {
        self.next_batch = self.next_batch.max(BatchId(batch.0 + 1));
        self.found.push_back(Flight::found(batch, messages, now.mono));
    }

    pub(super) fn in_flight(&mut self, batch: BatchId, now: Now, tell: impl FnOnce(&mut Flight, Mono)) {
        if let Some(flight) =
            self.flight.iter_mut().chain(&mut self.found).find(|flight| flight.batch() == batch)
        {
            tell(flight, now.mono);
        }
    }

    /// Another session's transcript holds it: that one stands behind the screen now.
    pub(super) fn searched(
        &mut self,
        batch: BatchId,
        (found, prompt): (Found, Option<PromptId>),
        session: Option<SessionId>,
        now: Now,
    ) {
        if let Some(session) = session.filter(|_| matches!(found, Found::Whole | Found::Within)) {
            self.bind(&session);
        }
        self.in_flight(batch, now, |flight, now| flight.searched(found, prompt, now));
    }

    pub(super) fn paste_refused(&mut self, batch: BatchId, reason: String, now: Now) {
        self.in_flight(batch, now, |flight, _| flight.paste_refused());
        self.breather = Some(Breather { until: now.mono + BREATHE_MS, reason: Reason::Refused(reason) });
        self.outdate(now);
    }

    pub(super) fn advance_flight(&mut self, now: Now) {
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
                Need::TakeOut => self.effects.push_back(Effect::TakeOut { batch }),
                Need::Search => self.effects.push_back(Effect::FindInTranscript { batch }),
                Need::TellStuck(why) => {
                    self.alert_about(AlertKind::Stuck, flight.messages(), None, why.to_owned())
                }
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

    pub(super) fn tell_uncertain(&mut self, flight: &mut Flight) {
        if let Some(why) = flight.take_uncertain() {
            let reason = why.to_owned();
            self.effects.push_back(Effect::RecordUncertain { batch: flight.batch(), reason: reason.clone() });
            self.alert_about(AlertKind::Uncertain, flight.messages(), None, reason);
        }
    }

    pub(super) fn flight_over(&mut self, flight: Flight, outcome: Outcome, now: Now) {
        let batch = flight.batch();
        match outcome {
            Outcome::Delivered(proof, prompt) => {
                self.delivered(&flight, proof, prompt);
                self.expect_draft(now);
            }
            Outcome::DeliveredWithOtherText(prompt) => {
                self.effects.push_back(Effect::Note { note: Note::SubmittedWithOtherText });
                self.delivered(&flight, Proof::Transcript, prompt);
            }
            Outcome::Abandoned => {}
            Outcome::Absent { typed } => {
                let attempt = flight.attempt(typed);
                self.effects.push_back(Effect::RecordRequeued { batch, attempt });
                self.back_to_queue(flight.into_messages(), attempt, now);
            }
        }
        self.outdate(now);
    }

    pub(super) fn delivered(&mut self, flight: &Flight, proof: Proof, prompt: Option<PromptId>) {
        let ids = flight.messages().iter().map(|message| message.id).collect();
        self.note_proof(proof);
        self.note_used(prompt.as_ref());
        self.effects.push_back(Effect::RecordDelivered {
            batch: flight.batch(),
            proof,
            prompt: prompt.clone(),
        });
        let unfinished = self.turns.delivered(prompt, ids, flight.queued);
        self.publish(unfinished, true);
    }

    fn note_used(&mut self, prompt: Option<&PromptId>) {
        if self.used_prompts.len() == USED_PROMPTS {
            self.used_prompts.pop_front();
        }
        self.used_prompts.extend(prompt.cloned());
    }

    pub(super) fn note_proof(&mut self, proof: Proof) {
        self.hooks_missed = if proof == Proof::Transcript { self.hooks_missed + 1 } else { 0 };
        if self.hooks_missed == HOOKS_MISSED {
            let what = "hooks don't come: deliveries are proved by the transcript alone";
            self.alert(AlertKind::HooksSilent, what.to_owned());
        }
    }

    pub(super) fn back_to_queue(&mut self, messages: Vec<Message>, attempt: Attempt, now: Now) {
        let alone = messages.len() == 1;
        for mut message in messages {
            if attempt == Attempt::Failed && alone && message.failures >= SPLIT_AFTER_FAILURES {
                let reason = format!("given up after {} attempts", message.failures + 1);
                self.alert_about(AlertKind::Failed, std::slice::from_ref(&message), None, reason.clone());
                self.effects.push_back(Effect::RecordFailed { message: message.id, reason });
                continue;
            }
            message.failures += u32::from(attempt == Attempt::Failed);
            // A ttl is for what was never typed.
            message.expires_at = message.expires_at.filter(|_| attempt.is_untyped());
            self.queue.insert(message, now);
        }
    }

    /// One that was on its way to be recorded is not recorded, and must not come back.
    pub(super) fn message_dropped(&mut self, message: MessageId) {
        self.queue.remove(message);
        self.flight.iter_mut().for_each(|flight| flight.forget(message));
    }

    /// What was not sent in its channel's time is not sent any more.
    pub(super) fn expire(&mut self, now: Now) {
        let expired = self.queue.take_expired(now.mono);
        if expired.is_empty() {
            return;
        }
        self.effects.extend(expired.iter().map(|message| Effect::RecordExpired { message: message.id }));
        let what = match expired.len() {
            1 => "a message was not sent within its channel's ttl".to_owned(),
            many => format!("{many} messages were not sent within their channel's ttl"),
        };
        self.alert_about(AlertKind::Expired, &expired, None, what);
    }

    pub(super) fn advance_queue(&mut self, now: Now) {
        let gate = self.ask_gate(now);
        self.note_held(&gate, now);
        if self.stash_draft(&gate, now) {
            return;
        }
        match gate {
            _ if self.stash == Stash::Ordered => {}
            Gate::Open if self.may_end_agent(now) => self.end_agent(),
            Gate::Open if !self.queue.is_empty() => self.inject(now),
            // With somebody at it, it is left alone: the next turn's end is another occasion.
            Gate::Open | Gate::Closed { reason: Reason::Human { .. } | Reason::Draft, .. }
                if self.queue.is_empty() =>
            {
                self.too_big = None;
            }
            Gate::Open => {}
            Gate::Closed { look_at: Some(at), .. } if at <= now.mono => self.order_look(None),
            Gate::Closed { look_at, .. } => self.look_at = earlier(self.look_at, look_at),
        }
    }

    /// A draft is held for ever, but not in silence.
    pub(super) fn note_held(&mut self, gate: &Gate, now: Now) {
        let why = match gate {
            Gate::Closed {
                reason: reason @ (Reason::Draft | Reason::CopyMode | Reason::VimNormal), ..
            } => reason,
            Gate::Closed { reason: Reason::Unseen, .. } => return,
            _ => {
                (self.held_since, self.told_held) = (None, false);
                return;
            }
        };
        let since = *self.held_since.get_or_insert(now.mono);
        if !self.told_held && now.mono.since(since) >= HELD_ALERT_AFTER_MS {
            self.told_held = true;
            let what =
                format!("{} messages have waited for 10 minutes: {}", self.queue.messages(), why.sentence());
            self.alert(AlertKind::Stuck, what);
        }
    }

    pub(super) fn inject(&mut self, now: Now) {
        if gate::is_only_mouse(&self.evidence, &self.settings, now) {
            self.effects.push_back(Effect::Note { note: Note::OnlyMouse });
        }
        let batch = self.next_batch;
        self.next_batch = BatchId(batch.0 + 1);
        // Whether the API answers again is found out with one message.
        let one = self.hold.tries(now) || self.too_small.is_some();
        let bytes = if one { 1 } else { self.settings.batch_bytes };
        let taken = self.queue.take_batch(bytes);
        let messages = taken.iter().map(|message| message.id).collect();
        self.effects.push_back(Effect::Inject { batch, messages });
        self.flight = Some(Flight::begin(batch, taken, now.mono));
    }

    /// The gate, with what the evidence does not know.
    pub(super) fn ask_gate(&self, now: Now) -> Gate {
        let closed = |reason| Gate::Closed { reason, look_at: None };
        if self.stopping {
            return closed(Reason::Stopping);
        }
        if self.lifecycle.pid().is_none() || self.lifecycle.is_ending() {
            return closed(match (self.lifecycle.is_ended(), self.lifecycle.is_degraded()) {
                (true, _) => Reason::Ended,
                (false, degraded) if let Some(why) = &self.start_error => {
                    Reason::NotStarted { why: why.clone(), degraded }
                }
                (false, true) => Reason::Degraded,
                (false, false) => Reason::Down,
            });
        }
        if let Some(flight) = &self.flight {
            return closed(Reason::InFlight(flight.progress()));
        }
        if let Some(reason) = self.held_reason(now) {
            return closed(reason);
        }
        if self.turns.is_catching_up() && self.evidence.activity(now) == Activity::Idle {
            return Gate::Closed { reason: Reason::Settling, look_at: self.turns.gives_up_at() };
        }
        if let Some(breather) = &self.breather {
            return Gate::Closed { reason: breather.reason.clone(), look_at: Some(breather.until) };
        }
        match gate::ask(&self.evidence, &self.settings, now) {
            Gate::Closed { reason: Reason::Unseen | Reason::UnknownScreen, look_at } if !self.box_seen => {
                Gate::Closed { reason: self.not_begun(), look_at }
            }
            Gate::Open => self.small_pane().unwrap_or(Gate::Open),
            answer => answer,
        }
    }

    /// Before the first prompt box. A dialog that stands there is the reason between two looks as well: each change of the
    /// reason is a line in the log.
    fn not_begun(&self) -> Reason {
        let dialog = self.evidence.last_look().filter(|seen| seen.class == ScreenClass::Dialog);
        dialog.and_then(|seen| seen.dialog.clone()).map_or(Reason::Starting, Reason::Dialog)
    }
}
