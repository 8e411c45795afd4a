//! Looks: when one is due, what it showed, what makes it outdated.
//!
//! How a screen is read is not known here: it comes as a class.

use ccmux_wire::id::BatchId;

use super::{BREATHE_MS, Breather, Supervisor, earlier};
use crate::effect::{AlertKind, Effect, Note};
use crate::gate::Reason;
use crate::now::Now;
use crate::screen::{ScreenClass, Seen};

/// While the agent starts, or a turn's end is awaited, ccmux looks that often.
const LOOK_WHILE_STARTING_MS: u64 = 500;
/// An agent that shows no prompt box for that long is told of.
const UNKNOWN_ALERT_AFTER_MS: u64 = 60_000;
/// Looks that fail for this long raise an alert.
const BLIND_ALERT_AFTER_MS: u64 = 30_000;
/// A dialog at the start that is there for that long waits for a person.
const START_DIALOG_AFTER_MS: u64 = 2_000;
/// Who asks for the state is shown a look not older than this.
const ASKED_LOOK_MS: u64 = 1_000;

/// A look that was ordered and not answered yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingLook {
    pub(super) look: u64,
    pub(super) batch: Option<BatchId>,
    pub(super) outdated: bool,
}

impl Supervisor {
    pub(super) fn outdate(&mut self, now: Now) {
        self.evidence.outdate(now);
        self.taint_look();
    }

    /// Our own paste makes the pane write, too: a look at a batch waits for equal captures anyway.
    pub(super) fn pane_active(&mut self, now: Now) {
        self.evidence.outdate(now);
        if self.pending_look.is_some_and(|look| look.batch.is_none()) {
            self.taint_look();
        }
        if self.evidence.is_unwitnessed() {
            self.turns.not_idle();
        }
    }

    /// A reason to look, never proof: a turn may have ended without a hook, a dialog may have opened.
    pub(super) fn pane_silent(&mut self, now: Now) {
        self.evidence.outdate(now);
        if self.box_seen && (!self.hooks_heard || self.hooks_missed > 0) {
            // What was written may have been a turn, too short for the state file to tell.
            self.turns.busy();
        }
        self.ask_for_look(now);
    }

    /// The next look is judged by the new rules, however recent the last one is.
    pub(super) fn rules_reread(&mut self, now: Now) {
        self.lift_hold("ccmux was told to try again");
        self.outdate(now);
        self.asked = true;
    }

    pub(super) fn ask_for_look(&mut self, now: Now) {
        self.asked |= self.evidence.looked_at().is_none_or(|at| now.mono.since(at) >= ASKED_LOOK_MS);
    }

    pub(super) fn taint_look(&mut self) {
        if let Some(look) = &mut self.pending_look {
            look.outdated = true;
        }
    }

    pub(super) fn screen_seen(&mut self, look: u64, seen: Seen, now: Now) {
        let Some(pending) = self.pending_look.take_if(|pending| pending.look == look) else {
            return;
        };
        (self.asked, self.blind_since, self.told_blind) = (false, None, false);
        self.note_start_dialog(&seen, now);
        self.note_box(&seen, now);
        self.note_draft(&seen, now);
        if let Some(batch) = pending.batch
            && !pending.outdated
        {
            self.in_flight(batch, now, |flight, now| flight.seen(&seen, now));
        }
        self.evidence.screen_seen(seen, pending.outdated, now);
        self.note_dispute(now);
        self.note_health(now);
    }

    pub(super) fn note_box(&mut self, seen: &Seen, now: Now) {
        self.box_seen |= matches!(seen.class, ScreenClass::Ready | ScreenClass::Draft | ScreenClass::Busy);
        if matches!(seen.class, ScreenClass::Unknown | ScreenClass::Shell) {
            let since = *self.unknown_since.get_or_insert(now.mono);
            if !self.told_unknown && now.mono.since(since) >= UNKNOWN_ALERT_AFTER_MS {
                self.told_unknown = true;
                self.alert(
                    AlertKind::UnknownScreen,
                    "the agent's screen has fitted no rule for a minute (ccmux doctor --screen tells more)"
                        .into(),
                );
            }
        } else {
            self.unknown_since = None;
            self.told_unknown = false;
        }
    }

    /// Before the first prompt box nobody may be there to see it, and nothing goes on until it is answered. One of a turn is
    /// there if the agent was adopted with it, or started with a conversation: no hook of it came to this daemon.
    fn note_start_dialog(&mut self, seen: &Seen, now: Now) {
        if self.box_seen || seen.class != ScreenClass::Dialog {
            self.dialog_since = None;
            return;
        }
        let since = *self.dialog_since.get_or_insert(now.mono);
        if now.mono.since(since) < START_DIALOG_AFTER_MS || self.told_dialog {
            return;
        }
        self.told_dialog = true;
        let which = seen.dialog.as_deref().unwrap_or("unknown");
        let (kind, when) = match which {
            "permission" | "plan" => (AlertKind::PermissionRequest, ""),
            "question" | "elicitation" => (AlertKind::Question, ""),
            _ => (AlertKind::StartDialog, " at its start"),
        };
        let waits = format!("Claude waits{when} for an answer ({which}), and gets no key from ccmux");
        self.alert(kind, format!("{waits}: {}", remedy(which)));
    }

    fn note_dispute(&mut self, now: Now) {
        if let Some((what, due)) = self.evidence.dispute()
            && now.mono >= due
            && self.told_dispute.replace(due) != Some(due)
        {
            self.effects.push_back(Effect::Note { note: Note::Dispute(what.to_owned()) });
            let waiting = self.queue.messages();
            if waiting > 0 {
                let held = format!(
                    "{waiting} messages have waited for a minute: {what} (ccmux screen shows the row)"
                );
                self.alert(AlertKind::Stuck, held);
            }
        }
    }

    pub(super) fn look_failed(&mut self, look: u64, reason: String, now: Now) {
        if self.pending_look.take_if(|pending| pending.look == look).is_some() {
            let since = *self.blind_since.get_or_insert(now.mono);
            if !self.told_blind && now.mono.since(since) >= BLIND_ALERT_AFTER_MS {
                self.told_blind = true;
                self.alert(AlertKind::Stuck, format!("the agent's screen can't be looked at ({reason})"));
            }
            self.breather =
                Some(Breather { until: now.mono + BREATHE_MS, reason: Reason::LookFailed(reason) });
        }
    }

    /// Looks for other reasons than a waiting message: the agent starts, a turn's end is awaited, somebody asks.
    pub(super) fn advance_curiosity(&mut self, now: Now) {
        if self.lifecycle.pid().is_none() || self.breather.is_some() || self.flight.is_some() {
            return;
        }
        let last = self.evidence.looked_at();
        let after = |pause| last.map_or(now.mono, |at| at + pause);
        let due = [
            self.asked.then(|| after(ASKED_LOOK_MS)),
            (!self.box_seen).then(|| after(self.starting_pause(now))),
            self.evidence.screen_must_confirm().then(|| after(LOOK_WHILE_STARTING_MS)),
            self.evidence.idle_look_at(),
            self.draft_is_due().then(|| after(ASKED_LOOK_MS)),
            self.unknown_since.filter(|_| !self.told_unknown).map(|since| since + UNKNOWN_ALERT_AFTER_MS),
            self.evidence.dispute().map(|(_, due)| due).filter(|due| self.told_dispute != Some(*due)),
        ];
        match due.into_iter().flatten().min() {
            Some(due) if due <= now.mono => self.order_look(None),
            due => self.look_at = earlier(self.look_at, due),
        }
    }

    /// Half a second at first; an agent that shows no box for a minute is looked at every 5 s.
    pub(super) fn starting_pause(&self, now: Now) -> u64 {
        let since = self.lifecycle.running_since().map_or(0, |since| now.mono.since(since));
        if since < UNKNOWN_ALERT_AFTER_MS { LOOK_WHILE_STARTING_MS } else { 10 * LOOK_WHILE_STARTING_MS }
    }

    pub(super) fn order_look(&mut self, batch: Option<BatchId>) {
        if self.pending_look.is_some() || self.breather.is_some() {
            return;
        }
        self.looks_ordered += 1;
        let look = self.looks_ordered;
        self.pending_look = Some(PendingLook { look, batch, outdated: false });
        self.effects.push_back(Effect::Look { look, batch, settled: batch.is_some() });
    }
}

/// What a person does about a dialog at the start, by its name in the screen rules.
fn remedy(dialog: &str) -> &'static str {
    match dialog {
        "login" => "log in (ccmux attach)",
        "permission" | "plan" | "question" | "elicitation" => "answer it (ccmux attach)",
        "settings error" => "mend the settings file that it names (ccmux attach)",
        "resume picker" => "choose a conversation (ccmux attach); agent.command should not hold --resume",
        _ => "answer it (ccmux attach), or stop the daemon and run `ccmuxd setup`",
    }
}
