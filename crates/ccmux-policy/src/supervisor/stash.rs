//! A draft that stays for longer than `draft.max_hold`: put away, so that messages can go in, and seen to come back.
//!
//! ```text
//! None ─► Ordered ─► Away ─► Returning ─► None       Claude itself puts a stashed draft back after the next submit (F 47)
//! ```
//!
//! Off by default: a draft is held for ever. Never with a stash already there, since a second one destroys the first.

use super::{BREATHE_MS, Breather, Supervisor};
use crate::effect::Effect;
use crate::gate::{Gate, Reason};
use crate::now::{Mono, Now};
use crate::screen::{BoxHolds, ScreenClass, Seen};

/// A draft comes back within that time after the prompt was taken, or not at all.
const COMES_BACK_WITHIN_MS: u64 = 5_000;

/// Where the human's draft is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stash {
    /// In the box, if there is one.
    #[default]
    None,
    /// The key is being pressed.
    Ordered,
    /// Put away by us.
    Away,
    /// The prompt that it made way for was taken.
    Returning {
        /// When.
        since: Mono,
    },
}

impl Supervisor {
    /// Whether the draft that closes the gate is to be put away now; orders it.
    pub(super) fn stash_draft(&mut self, gate: &Gate, now: Now) -> bool {
        let Gate::Closed { reason: Reason::Draft, .. } = gate else { return false };
        let hold = self.settings.draft_max_hold_ms;
        let long = hold > 0 && self.held_since.is_some_and(|since| now.mono.since(since) >= hold);
        let may = self.evidence.fresh_look(now).is_some_and(|seen| self.may_stash(seen, now));
        if !long || !may || self.stash != Stash::None {
            return false;
        }
        self.stash = Stash::Ordered;
        self.effects.push_back(Effect::StashDraft);
        true
    }

    fn may_stash(&self, seen: &Seen, now: Now) -> bool {
        let threshold = i64::try_from(self.settings.idle_threshold_ms).unwrap_or(i64::MAX);
        let typing = seen.active_at.is_some_and(|at| now.wall.0.saturating_sub(at.0) < threshold);
        seen.class == ScreenClass::Draft && seen.can_stash && !seen.stashed && !seen.copy_mode && !typing
    }

    /// The key was pressed, or refused.
    pub(super) fn stash_pressed(&mut self, refused: Option<String>, now: Now) {
        self.held_since = None; // A stash that did not work is tried again after as long a hold.
        match refused {
            None => self.stash = Stash::Away,
            Some(reason) => {
                self.stash = Stash::None;
                self.breather =
                    Some(Breather { until: now.mono + BREATHE_MS, reason: Reason::Refused(reason) });
            }
        }
        self.outdate(now);
    }

    /// A prompt of ours was taken: now the draft must come back.
    pub(super) fn expect_draft(&mut self, now: Now) {
        if self.stash == Stash::Away {
            self.stash = Stash::Returning { since: now.mono };
        }
    }

    /// What a look says about the draft that was put away.
    pub(super) fn note_draft(&mut self, seen: &Seen, now: Now) {
        match self.stash {
            // The key did nothing: it is still in the box.
            Stash::Away if seen.class == ScreenClass::Draft && !seen.stashed && self.flight.is_none() => {
                self.stash = Stash::None;
            }
            Stash::Returning { .. } if seen.class == ScreenClass::Draft && seen.holds != BoxHolds::Ours => {
                self.stash = Stash::None;
            }
            Stash::Returning { since } if now.mono.since(since) >= COMES_BACK_WITHIN_MS => {
                if seen.class == ScreenClass::Ready && !seen.stashed {
                    self.stash = Stash::None;
                    self.effects.push_back(Effect::TellDraftLost);
                }
            }
            _ => {}
        }
    }

    /// A draft's return is awaited.
    pub(super) fn draft_is_due(&self) -> bool {
        matches!(self.stash, Stash::Returning { .. })
    }
}
