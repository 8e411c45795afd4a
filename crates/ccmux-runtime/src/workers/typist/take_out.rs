//! A human began to type just as a text was pasted: the text is taken out again from in front of theirs (field fault 46).
//!
//! ```text
//! look ─► ours, and one line behind it? ─ no ─► left alone
//!           └ yes ─► 200 ms ─► look: the same, cursor too? ─► one list of keys ─► look: the line alone? ─► taken out
//! ```
//!
//! Nothing is pressed for a box that holds anything else, and Enter never. What the keys do was measured for the versions that
//! the profile lists.

use std::time::Duration;

use ccmux_policy::Event;
use ccmux_wire::id::BatchId;
use tokio::time::sleep;
use unicode_segmentation::UnicodeSegmentation;

use super::Typist;
use crate::screen::{Screen, tail_behind};
use crate::terminal::{Capture, Guard, Terminal, TerminalError, Typed};

/// Pause without a key press that is required before ccmux presses a key.
const PAUSE: Duration = Duration::from_millis(200);
/// A longer text takes seconds to delete, in which the human goes on.
const MOST_BYTES: usize = 4 * 1024;

impl<T: Terminal> Typist<T> {
    /// What the human typed behind the text, if the text can be taken out.
    pub(super) fn removable_from(&self, text: &str, capture: &Capture, screen: &Screen) -> Option<String> {
        let agent = self.agent.borrow();
        let version = agent.as_ref().and_then(|agent| agent.version.as_deref())?;
        let can = text.len() <= MOST_BYTES && self.rules.rules().can_take_out(version);
        let is_free = !capture.pane.in_mode && !screen.vim_normal && screen.dialog.is_none();
        let found = screen.prompt_box.as_ref().filter(|_| can && is_free)?;
        tail_behind(found, text)
    }

    /// Every way ends with an answer.
    pub(super) async fn take_out(&self, batch: BatchId) -> Event {
        match self.try_take_out(batch).await {
            Ok(()) => {
                tracing::info!(event = "batch.taken_out", %batch);
                Event::TakenOut { batch }
            }
            Err(reason) => {
                tracing::debug!(event = "batch.left_in", %batch, reason);
                Event::TakeOutRefused { batch, reason }
            }
        }
    }

    async fn try_take_out(&self, batch: BatchId) -> Result<(), String> {
        let known = self.on_the_way.get(batch).ok_or("its text is not known")?;
        let before = self.behind(&known.text).await?;
        sleep(PAUSE).await;
        let after = self.behind(&known.text).await?;
        if (&before.0, before.1.pane.cursor) != (&after.0, after.1.pane.cursor) {
            return Err("somebody goes on typing".to_owned());
        }
        let lines = known.text.split('\n').map(|line| line.graphemes(true).count()).collect();
        let guard = Guard { pid: known.pid, untouched: Some(after.1.untouched()) };
        match self.terminal.take_out(guard, lines).await {
            Ok(Typed::Done) | Err(TerminalError::Silent { .. }) => {}
            Ok(Typed::Refused(reason)) => return Err(reason),
            Err(error) => return Err(error.to_string()),
        }
        self.is_left_alone(&after.0).await
    }

    async fn behind(&self, text: &str) -> Result<(String, Capture), String> {
        let (capture, screen) = self.glance().await.map_err(|error| error.to_string())?;
        let tail = self.removable_from(text, &capture, &screen);
        tail.map(|tail| (tail, capture))
            .ok_or_else(|| "the box does not hold the text and one line".to_owned())
    }

    /// The human may have gone on meanwhile: what they had typed before must stand at the beginning.
    async fn is_left_alone(&self, tail: &str) -> Result<(), String> {
        let (_, screen) = self.settled_look().await.map_err(|error| error.to_string())?;
        let squeezed = |text: &str| text.split_whitespace().collect::<String>();
        let shown = screen.prompt_box.map(|found| squeezed(&found.rows.join(" "))).unwrap_or_default();
        match shown.starts_with(&squeezed(tail)) {
            true => Ok(()),
            false => Err("the box does not show what was typed behind the text".to_owned()),
        }
    }
}
