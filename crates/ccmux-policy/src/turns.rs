//! When a turn is over, and which messages it answers.
//!
//! One prompt can make several Stops, share one, or end without any (F 28 to 32): a turn ends by a Stop of its prompt,
//! or by Claude having been idle for 2 s since without one.
//!
//! ```text
//! a daemon returns ─► open, catching up ─► idle for 300 ms ─► the known prompt's turn, then whatever ended besides
//! a prompt, busy   ─► open              ─► its Stop, or idle for 2 s ─► its turn
//! ```

use std::collections::VecDeque;

use ccmux_wire::id::{MessageId, PromptId};

use crate::now::Mono;

/// A Stop hook comes before Claude is idle; after this it does not come any more.
const STOP_WITHIN_MS: u64 = 2_000;

/// Claude is idle that long at a daemon's start: what ended before is published.
const CAUGHT_UP_WITHIN_MS: u64 = 300;

/// Number of ended prompts that are remembered.
const OVER: usize = 64;

/// Messages that were delivered into a prompt.
#[derive(Debug, Clone)]
struct Delivered {
    prompt: Option<PromptId>,
    messages: Vec<MessageId>,
    /// Claude put them into its queue while that prompt's turn ran: they join it, or make the next one (F 45, 46).
    queued: bool,
}

/// What a turn's end publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The prompt that began it.
    pub prompt: Option<PromptId>,
    /// Messages that were delivered into it.
    pub in_reply_to: Vec<MessageId>,
    /// Messages that it answers.
    pub answers: Vec<MessageId>,
}

/// The owned session's turns.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    /// A turn runs, begun by that prompt where it is known.
    open: Option<Option<PromptId>>,
    idle_since: Option<Mono>,
    /// What ended without a daemon is still to be published.
    catching_up: bool,
    delivered: Vec<Delivered>,
    unanswered: Vec<MessageId>,
    /// Prompts whose turns are over: a Stop of theirs that comes late ends nothing else.
    over: VecDeque<PromptId>,
}

impl Turns {
    /// A prompt was taken, by whatever witness. Returns the turn before it, if that never ended by itself.
    pub fn began(&mut self, prompt: Option<PromptId>) -> Option<Ended> {
        let before = self.open.take().flatten();
        let unfinished = match (&before, &prompt) {
            (Some(before), Some(prompt)) if before != prompt => Some(self.ended(Some(before.clone()), false)),
            _ => None,
        };
        self.open = Some(prompt.or(before));
        self.idle_since = None;
        unfinished
    }

    /// Messages that an earlier daemon delivered, and whose turn may have ended since: whatever is behind the cursor is
    /// published as soon as Claude is idle.
    pub fn found(&mut self, prompt: Option<PromptId>, messages: Vec<MessageId>) {
        self.open = Some(prompt.clone());
        self.catching_up = true;
        self.unanswered.extend(&messages);
        self.delivered.push(Delivered { prompt, messages, queued: false });
    }

    /// The state file says busy: a turn runs even if no hook tells.
    pub fn busy(&mut self) {
        self.open.get_or_insert(None);
        self.idle_since = None;
    }

    /// A batch became a prompt, or was queued behind it.
    pub fn delivered(
        &mut self,
        prompt: Option<PromptId>,
        messages: Vec<MessageId>,
        queued: bool,
    ) -> Option<Ended> {
        let unfinished = self.began(prompt.clone());
        self.unanswered.extend(&messages);
        self.delivered.push(Delivered { prompt, messages, queued });
        unfinished
    }

    /// The turn of that prompt runs.
    pub fn runs(&self, prompt: Option<&PromptId>) -> bool {
        prompt.is_some() && self.open.as_ref().and_then(Option::as_ref) == prompt
    }

    /// A Stop of that prompt.
    pub fn ended(&mut self, prompt: Option<PromptId>, background: bool) -> Ended {
        let own = |delivered: &Delivered| {
            let same = delivered.prompt.is_none() || prompt.is_none() || delivered.prompt == prompt;
            same && !delivered.queued
        };
        self.note_over(prompt.as_ref());
        let (mine, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.delivered).into_iter().partition(own);
        self.delivered = others;
        self.catching_up = false;
        self.idle_since = None;
        self.open = self.next_takes_queued().then(|| prompt.clone());
        let in_reply_to: Vec<MessageId> = mine.into_iter().flat_map(|delivered| delivered.messages).collect();
        Ended { prompt, in_reply_to, answers: self.take_answered(background) }
    }

    fn note_over(&mut self, prompt: Option<&PromptId>) {
        if self.over.len() == OVER {
            self.over.pop_front();
        }
        self.over.extend(prompt.filter(|prompt| !self.over.contains(prompt)).cloned());
    }

    /// What was queued belongs to the turn that ends next, or, if Claude stays idle, joined the one that ended.
    fn next_takes_queued(&mut self) -> bool {
        let queued = self.delivered.iter_mut().filter(|delivered| delivered.queued);
        queued.map(|waiting| (waiting.prompt, waiting.queued) = (None, false)).count() > 0
    }

    /// Messages of prompts that are over; those of a prompt still to end are kept.
    fn take_answered(&mut self, background: bool) -> Vec<MessageId> {
        if background {
            return Vec::new();
        }
        let waiting: Vec<MessageId> = self.delivered.iter().flat_map(|d| d.messages.clone()).collect();
        let (kept, answered) =
            std::mem::take(&mut self.unanswered).into_iter().partition(|id| waiting.contains(id));
        self.unanswered = kept;
        answered
    }

    /// The API failed: an alert, no turn; its messages are delivered, not answered. What ended without a daemon before it
    /// is published all the same, and what was queued behind it is taken next. Returns its messages: those of earlier turns
    /// whose tasks go on in the background are answered by a later end.
    pub fn failed(&mut self) -> Vec<MessageId> {
        let over = self.delivered.extract_if(.., |delivered| !delivered.queued);
        let messages: Vec<_> = over.flat_map(|delivered| delivered.messages).collect();
        self.unanswered.retain(|id| !messages.contains(id));
        self.open = (self.next_takes_queued() || self.catching_up).then_some(None);
        self.idle_since = None;
        messages
    }

    /// A later turn ended, so the open one is over: Claude runs one turn at a time. Returns it. An earlier daemon may have left
    /// it open; or a human queued a line in it and pressed Esc, and no hook named the line's prompt (field fault 43d).
    pub fn overtaken(&mut self, by: Option<&PromptId>) -> Option<Ended> {
        let is_later = by.is_some_and(|by| !self.over.contains(by));
        let left = self.open.clone().flatten().filter(|left| Some(left) != by);
        let left = left.filter(|left| self.catching_up || (is_later && !self.over.contains(left)))?;
        let catching_up = self.catching_up;
        let over = self.ended(Some(left), false);
        self.catching_up = catching_up;
        Some(over)
    }

    /// Every witness says idle. Returns the turn that ended without a Stop, once that is certain; asked again, whatever
    /// else ended without a daemon.
    pub fn idle(&mut self, background: bool, now: Mono) -> Option<Ended> {
        let prompt = self.open.clone()?;
        let since = *self.idle_since.get_or_insert(now);
        if now.since(since) < self.patience_ms() {
            return None;
        }
        let rest = self.catching_up && prompt.is_some();
        let ended = self.ended(prompt, background);
        if rest {
            (self.open, self.catching_up, self.idle_since) = (Some(None), true, Some(since));
        }
        Some(ended)
    }

    /// No Stop is awaited for what ended without a daemon.
    fn patience_ms(&self) -> u64 {
        if self.catching_up { CAUGHT_UP_WITHIN_MS } else { STOP_WITHIN_MS }
    }

    /// Something that ended without a daemon is still to be published: nothing new may come before it.
    pub fn is_catching_up(&self) -> bool {
        self.catching_up
    }

    /// Somebody is busy or nobody knows: the wait for a missing Stop starts anew.
    pub fn not_idle(&mut self) {
        self.idle_since = None;
    }

    /// The session is left: its open turn is over.
    pub fn left(&mut self) -> Option<Ended> {
        self.open.clone().map(|prompt| self.ended(prompt, false))
    }

    /// When a missing Stop will be given up.
    pub fn gives_up_at(&self) -> Option<Mono> {
        self.open.as_ref().and(self.idle_since).map(|since| since + self.patience_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(text: &str) -> Option<PromptId> {
        Some(PromptId::new(text))
    }

    #[test]
    fn a_turn_names_the_messages_of_its_own_prompt() {
        let mut turns = Turns::default();
        turns.delivered(prompt("p1"), vec![MessageId(1)], false);
        let late = turns.ended(prompt("p0"), false);
        assert_eq!((late.in_reply_to, late.answers), (vec![], vec![]), "a late Stop of the turn before");
        let own = turns.ended(prompt("p1"), false);
        assert_eq!((own.in_reply_to, own.answers), (vec![MessageId(1)], vec![MessageId(1)]));
    }

    /// Field fault 43d.
    #[test]
    fn a_stop_of_a_later_prompt_ends_the_open_turn_first_with_its_messages() {
        let mut turns = Turns::default();
        turns.delivered(prompt("p1"), vec![MessageId(1)], false);
        let left = turns.overtaken(prompt("p2").as_ref()).unwrap();
        assert_eq!(
            (left.prompt, left.in_reply_to, left.answers),
            (prompt("p1"), vec![MessageId(1)], vec![MessageId(1)])
        );
        assert_eq!(turns.ended(prompt("p2"), false).in_reply_to, []);
        turns.delivered(prompt("p3"), vec![MessageId(3)], false);
        assert_eq!(turns.overtaken(prompt("p2").as_ref()), None, "a late Stop of an earlier one");
        assert_eq!(turns.overtaken(prompt("p3").as_ref()), None, "its own");
    }

    #[test]
    fn a_message_is_answered_when_no_background_task_is_left() {
        let mut turns = Turns::default();
        turns.delivered(prompt("p1"), vec![MessageId(1)], false);
        let first = turns.ended(prompt("p1"), true);
        assert_eq!((first.in_reply_to, first.answers), (vec![MessageId(1)], vec![]));
        turns.began(prompt("p2"));
        let second = turns.ended(prompt("p2"), false);
        assert_eq!((second.in_reply_to, second.answers), (vec![], vec![MessageId(1)]));
    }

    /// Somebody types beside a sub-agent, and the API fails for them.
    #[test]
    fn a_failure_takes_no_message_of_a_turn_that_goes_on_in_the_background() {
        let mut turns = Turns::default();
        turns.delivered(prompt("p1"), vec![MessageId(1)], false);
        turns.ended(prompt("p1"), true);
        turns.delivered(prompt("p2"), vec![MessageId(2)], false);
        assert_eq!(turns.failed(), [MessageId(2)]);
        turns.began(prompt("p3"));
        assert_eq!(turns.ended(prompt("p3"), false).answers, [MessageId(1)]);
    }

    #[test]
    fn a_turn_without_a_stop_ends_after_two_idle_seconds() {
        let mut turns = Turns::default();
        turns.delivered(prompt("p1"), vec![MessageId(1)], false);
        assert_eq!(turns.idle(false, Mono(1_000)), None);
        assert_eq!(turns.gives_up_at(), Some(Mono(3_000)));
        turns.busy();
        assert_eq!(turns.idle(false, Mono(4_000)), None, "busy in between: the wait starts anew");
        assert_eq!(turns.idle(false, Mono(6_000)).unwrap().prompt, prompt("p1"));
        assert_eq!(turns.idle(false, Mono(9_000)), None, "published once");
    }
}
