//! The texts of batches between paste and receipt.
//!
//! Policy knows a batch by its number; the box on the screen, the hook's prompt and the transcript show its text. This
//! is where the two meet. It is in memory only: after a restart the texts are read from the batches' rows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccmux_policy::UnixMs;
use ccmux_wire::id::BatchId;

use crate::prompt::same_prompt;
use crate::screen::plain_text;

/// Texts of batches that were called uncertain are kept for a late receipt; so many.
const KEPT: usize = 8;

/// A batch's text, and whom it was typed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextOnTheWay {
    /// Which batch.
    pub batch: BatchId,
    /// The whole prompt as pasted.
    pub text: Arc<str>,
    /// The agent's process that it was, or is to be, typed for.
    pub pid: i32,
}

/// All of them, oldest first. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct OnTheWay {
    texts: Arc<Mutex<Vec<TextOnTheWay>>>,
    entered: Arc<Mutex<Option<(BatchId, UnixMs)>>>,
    /// The text that was delivered last: after an interruption it may come back into the prompt box.
    delivered: Arc<Mutex<Option<Arc<str>>>>,
}

impl OnTheWay {
    fn texts(&self) -> MutexGuard<'_, Vec<TextOnTheWay>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entered(&self) -> MutexGuard<'_, Option<(BatchId, UnixMs)>> {
        self.entered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch is about to be pasted.
    pub fn add(&self, text: TextOnTheWay) {
        let mut texts = self.texts();
        texts.retain(|known| known.batch != text.batch);
        if texts.len() == KEPT {
            texts.remove(0);
        }
        texts.push(text);
    }

    /// Enter is pressed for a batch; one at a time is on its way there. `None`: it was not, after all.
    pub fn note_entered(&self, batch: BatchId, at: Option<UnixMs>) {
        *self.entered() = at.map(|at| (batch, at));
    }

    /// When Enter was last pressed for a batch, if this daemon did it.
    pub fn entered_at(&self, batch: BatchId) -> Option<UnixMs> {
        self.entered().filter(|(entered, _)| *entered == batch).map(|(_, at)| at)
    }

    /// A batch has its receipt.
    pub fn delivered(&self, batch: BatchId) {
        if let Some(known) = self.get(batch) {
            *self.delivered.lock().unwrap_or_else(PoisonError::into_inner) = Some(known.text);
        }
        self.remove(batch);
    }

    /// The text that was delivered last, if this daemon saw it.
    pub fn last_delivered(&self) -> Option<Arc<str>> {
        self.delivered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A batch was taken back.
    pub fn remove(&self, batch: BatchId) {
        self.texts().retain(|known| known.batch != batch);
    }

    /// The text of a batch.
    pub fn get(&self, batch: BatchId) -> Option<TextOnTheWay> {
        self.texts().iter().find(|known| known.batch == batch).cloned()
    }

    /// The batch whose text a prompt is, under the comparison form: the latest one.
    pub fn batch_of(&self, prompt: &str) -> Option<BatchId> {
        let texts: Vec<TextOnTheWay> = self.texts().iter().rev().cloned().collect();
        texts.into_iter().find(|known| same_prompt(&known.text, prompt)).map(|known| known.batch)
    }
}

/// The text of the human's draft while it is put away: in memory only, told to people if it does not come back.
#[derive(Debug, Clone, Default)]
pub struct PutAway(Arc<Mutex<String>>);

impl PutAway {
    /// A draft is about to be put away.
    pub fn remember(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    /// The text of the last one.
    pub fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// At most so much of a screen goes into an alert.
const SCREEN_BYTES: usize = 8 * 1024;

/// The latest screen that no rule fits, as a look saw it: shown with the alert about it.
#[derive(Debug, Clone, Default)]
pub struct NotUnderstood(Arc<Mutex<String>>);

impl NotUnderstood {
    /// A look saw this.
    pub fn remember(&self, ansi: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = plain_text(ansi);
    }

    /// Its last rows as plain text, 8 KiB of them at most: what an agent asks stands at the bottom.
    pub fn screen(&self) -> String {
        let screen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut from = screen.len().saturating_sub(SCREEN_BYTES);
        while !screen.is_char_boundary(from) {
            from += 1;
        }
        screen[from..].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(batch: u64, text: &str) -> TextOnTheWay {
        TextOnTheWay { batch: BatchId(batch), text: text.into(), pid: 1 }
    }

    #[test]
    fn a_prompt_finds_its_batch_until_the_receipt() {
        let texts = OnTheWay::default();
        texts.add(text(1, "[10:00 a] hello"));
        assert_eq!(texts.batch_of("[10:00 a] hello"), Some(BatchId(1)));
        assert_eq!(texts.batch_of("[10:00 a] hello and more"), None);
        texts.remove(BatchId(1));
        assert_eq!(texts.batch_of("[10:00 a] hello"), None);
    }

    #[test]
    fn a_screen_for_an_alert_is_plain_and_bounded() {
        let screens = NotUnderstood::default();
        screens.remember("\u{1b}[31mred\u{1b}[0m\n\n");
        assert_eq!(screens.screen(), "red");
        screens.remember(&format!("{}\nthe end", "你".repeat(4_000)));
        let shown = screens.screen();
        assert!(shown.len() <= SCREEN_BYTES && shown.ends_with("你\nthe end"), "{} bytes", shown.len());
    }

    #[test]
    fn old_texts_are_forgotten() {
        let texts = OnTheWay::default();
        (1..=20).for_each(|batch| texts.add(text(batch, &format!("text {batch}"))));
        assert_eq!(texts.get(BatchId(1)), None);
        assert_eq!(texts.batch_of("text 20"), Some(BatchId(20)));
    }
}
