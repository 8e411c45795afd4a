//! A pane with too few rows for a text: that text waits, and shorter ones of other channels go.
//!
//! A batch of many that does not fit is tried one by one. After a pause all is tried again: the pane may have grown.

use ccmux_wire::id::BatchId;

use super::Supervisor;
use crate::gate::{Gate, Reason};
use crate::now::{Mono, Now};

/// What did not fit is tried again after that.
const TRY_AGAIN_MS: u64 = 5_000;

/// The pane was too small.
#[derive(Debug)]
pub(super) struct TooSmall {
    has: u32,
    needs: u32,
    pub(super) until: Mono,
}

impl Supervisor {
    pub(super) fn pane_too_small(&mut self, batch: BatchId, has: u32, needs: u32, now: Now) {
        let flying = self.flight.as_ref().filter(|flight| flight.batch() == batch);
        let alone = flying.and_then(|flight| match flight.messages() {
            [one] => Some(one.id),
            _ => None,
        });
        if let Some(id) = alone {
            self.queue.hold(id);
        }
        let until = self.too_small.as_ref().map_or(now.mono + TRY_AGAIN_MS, |small| small.until);
        self.too_small = Some(TooSmall { has, needs, until });
        self.in_flight(batch, now, |flight, _| flight.paste_refused());
        self.outdate(now);
    }

    pub(super) fn try_small_pane(&mut self, now: Now) {
        if self.too_small.take_if(|small| small.until <= now.mono).is_some() {
            self.queue.let_go();
        }
    }

    /// Closed, if all that waits is too big for the pane.
    pub(super) fn small_pane(&self) -> Option<Gate> {
        let small = self.too_small.as_ref().filter(|_| !self.queue.is_empty() && !self.queue.has_free())?;
        let reason = Reason::TooSmall { has: small.has, needs: small.needs };
        Some(Gate::Closed { reason, look_at: Some(small.until) })
    }
}
