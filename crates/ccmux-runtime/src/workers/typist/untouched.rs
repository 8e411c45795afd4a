//! Enter belongs to a text that nobody typed into.
//!
//! ```text
//! look (box empty) ─► paste ─► look (box holds the text) ─► Enter
//! activity A                   activity A: nobody came ──────┘ guard: still A, cursor unmoved
//!                              activity B, or A is of the look's own second, which would not show a second key:
//!                              somebody is here. A key of theirs may not be drawn yet: looks until a second went
//!                              by without another, then the box must still hold the text alone
//! ```
//!
//! tmux notes a client's activity before it hands the key on, so the guard sees a key that the agent has not read. It has
//! a resolution of a second, and counts mouse and focus: who moves the mouse all the time does not stop the text for ever.

use std::time::Duration;

use ccmux_policy::screen::BoxHolds;
use ccmux_wire::id::BatchId;
use tokio::time::{Instant, sleep};

use super::Typist;
use crate::screen::box_holds;
use crate::terminal::{Terminal, Untouched};

/// So long without activity, after the second in which it was, and what was typed before is drawn.
const QUIET: Duration = Duration::from_millis(1000);
/// With activity all the while, the last look counts.
const QUIET_WITHIN: Duration = Duration::from_secs(4);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(200);

impl<T: Terminal> Typist<T> {
    /// What Enter's guard compares, or why Enter is not pressed. `None`: there was no look at this batch.
    pub(super) async fn untouched(
        &mut self,
        batch: BatchId,
        text: &str,
    ) -> Result<Option<Untouched>, String> {
        let Some((_, seen)) = self.looked.clone().filter(|(looked, _)| *looked == batch) else {
            return Ok(None);
        };
        let pasted = self.pasted.as_ref().filter(|pasted| pasted.batch == batch);
        if pasted.is_some_and(|pasted| pasted.activity.is_some() && pasted.activity == seen.activity) {
            return Ok(Some(seen));
        }
        let seen = self.quiet_box(text).await?;
        if let Some(pasted) = self.pasted.as_mut().filter(|pasted| pasted.batch == batch) {
            pasted.activity = seen.activity.clone();
        }
        Ok(Some(seen))
    }

    /// The box that holds the text and nothing else, after nobody touched the terminal for a while.
    pub(super) async fn quiet_box(&self, text: &str) -> Result<Untouched, String> {
        let until = Instant::now() + QUIET_WITHIN;
        let (mut since, mut last) = (Instant::now(), None);
        loop {
            let (capture, screen) = self.glance().await.map_err(|error| error.to_string())?;
            if box_holds(screen.prompt_box.as_ref(), text) != BoxHolds::Ours {
                return Err("somebody came, and the box does not hold the text alone".to_owned());
            }
            let seen = capture.untouched();
            if seen.activity.is_none() || last.as_ref() != Some(&seen) {
                since = Instant::now();
            }
            if since.elapsed() >= QUIET || Instant::now() >= until {
                return Ok(seen);
            }
            last = Some(seen);
            sleep(PAUSE).await;
        }
    }
}
