//! The one batch on its way: paste, look, Enter, receipt.
//!
//! ```text
//! Pasting ─► Looking ─► Entering ─► Awaiting ─► Searching ─► Looking ...
//!    │          │ Ours: Enter          │ 5 s without a receipt     │ in the transcript: delivered
//!    │ refused  │ Foreign: hands off   ▼                           │ provably absent, box empty: back to the queue
//!    ▼          ▼                  delivered by hook               ▼ can't tell: uncertain
//!  queue      stuck
//! ```
//!
//! A batch is absent only if that is proved: nothing was typed; or ccmux itself took the text out again; or the box is empty (or
//! the agent dead), no prompt was submitted since the paste and no transcript that grew holds the text. After Enter, that is
//! proof only if no other session of the folder lives: one may stand behind the same screen (field fault 43), and a second
//! Enter would double the text. Whatever else is gone without a witness is uncertain.
//!
//! Enter is pressed only right after a look that showed our text, whole, and nothing else: in a dialog Enter approves
//! (F 15). This module knows times and facts, no texts; [`Flight::step`] answers what to do, the supervisor does it.

use ccmux_wire::id::{BatchId, MessageId, PromptId};
use ccmux_wire::receipt::Proof;

use crate::effect::Attempt;
use crate::event::{Found, Message};
use crate::now::Mono;
use crate::screen::{BoxHolds, ScreenClass, Seen};

/// A receipt comes 0.1 to 0.9 s after Enter (F 51); after this ccmux looks.
const RECEIPT_WITHIN_MS: u64 = 5_000;
/// A hook comes that soon after the state file changed, or not at all.
const HOOK_WITHIN_MS: u64 = 1_000;
/// How often Enter is pressed for one batch.
const MAX_ENTERS: u32 = 3;
/// A pasted text must show within that time.
const SHOWS_WITHIN_MS: u64 = 5_000;
/// How soon ccmux looks again at a box that is not ours alone.
const LOOK_AGAIN_MS: u64 = 500;
/// How soon ccmux looks again while a human types behind a text that was just pasted: both can be parted for a moment only.
const COLLISION_LOOK_MS: u64 = 100;
/// That long after the paste.
const COLLISION_WITHIN_MS: u64 = 10_000;
/// How often ccmux tries to take its text out again.
const MAX_TAKE_OUTS: u32 = 10;
/// The transcript follows a prompt within that time.
const LINE_FOLLOWS_WITHIN_MS: u64 = 500;
/// After that long with something else in the way, people are told.
const STUCK_AFTER_MS: u64 = 60_000;
/// How soon ccmux looks again at a batch that it called uncertain.
const STRANDED_LOOK_MS: u64 = 5_000;
/// A hook of an agent that died may still be on its way.
const LAST_HOOK_WITHIN_MS: u64 = 500;

/// What people are told, and when asked, about a batch that does not move.
const IN_THE_WAY: &str =
    "a batch was pasted, and something else than its text is on the screen: Enter is not pressed";
const FROZEN: &str = "a batch was pasted, and the agent has written nothing since: it seems to be frozen";

/// Where the batch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The order to paste is out.
    Pasting,
    /// A look is due, or its answer is.
    Looking { due: Mono },
    /// The order to press Enter is out.
    Entering,
    /// The order to take the text out is out.
    TakingOut,
    /// Enter was pressed.
    Awaiting { until: Mono },
    /// The order to search the transcript is out, or due. `last`: nothing can change any more.
    Searching { due: Mono, ordered: bool, last: bool },
}

/// What the batch needs now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// Nothing before this time, or before an event.
    Wait(Option<Mono>),
    /// A look, compared with the batch.
    Look,
    /// Enter.
    Enter,
    /// The text taken out of the box again.
    TakeOut,
    /// A search of the transcript.
    Search,
    /// People should know that something is in the way (said once).
    TellStuck(&'static str),
    /// It is over.
    Over(Outcome),
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Proved.
    Delivered(Proof, Option<PromptId>),
    /// Proved by the transcript: a human submitted it together with text of their own.
    DeliveredWithOtherText(Option<PromptId>),
    /// Provably not delivered.
    Absent {
        /// Its text had been typed.
        typed: bool,
    },
    /// It was called uncertain before and nothing more can be learned.
    Abandoned,
}

/// A batch between its paste and its receipt.
#[derive(Debug, Clone)]
pub struct Flight {
    batch: BatchId,
    messages: Vec<Message>,
    stage: Stage,
    enters: u32,
    take_outs: u32,
    pasted_at: Mono,
    in_the_way: Option<(&'static str, Mono)>,
    told_stuck: bool,
    uncertain: Option<&'static str>,
    told_uncertain: bool,
    outcome: Option<Outcome>,
    agent_gone: bool,
    press_now: bool,
    saw_empty: bool,
    take_out_now: bool,
    /// A prompt was submitted since the paste that was not this batch's alone.
    other_prompt: bool,
    interrupted: bool,
    /// Claude put it into its queue.
    pub(crate) queued: bool,
}

impl Flight {
    /// A batch whose paste is being ordered now.
    pub fn begin(batch: BatchId, messages: Vec<Message>, now: Mono) -> Self {
        Self {
            batch,
            messages,
            stage: Stage::Pasting,
            enters: 0,
            take_outs: 0,
            pasted_at: now,
            in_the_way: None,
            told_stuck: false,
            uncertain: None,
            told_uncertain: false,
            outcome: None,
            agent_gone: false,
            press_now: false,
            saw_empty: false,
            take_out_now: false,
            other_prompt: false,
            interrupted: false,
            queued: false,
        }
    }

    /// A batch that an earlier daemon left in flight: the transcript is asked before anything else.
    pub fn found(batch: BatchId, messages: Vec<Message>, now: Mono) -> Self {
        let stage = Stage::Searching { due: now, ordered: false, last: false };
        Self { stage, interrupted: true, ..Self::begin(batch, messages, now) }
    }

    /// Its number.
    pub fn batch(&self) -> BatchId {
        self.batch
    }

    /// What it was, now that it is proved absent.
    pub fn attempt(&self, typed: bool) -> Attempt {
        match typed {
            false => Attempt::Untyped,
            true if self.interrupted => Attempt::Interrupted,
            true => Attempt::Failed,
        }
    }

    /// Its messages.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Somebody dropped a message before the batch was recorded.
    pub fn forget(&mut self, message: MessageId) {
        self.messages.retain(|held| held.id != message);
    }

    /// Its messages, when it is over.
    pub fn into_messages(self) -> Vec<Message> {
        self.messages
    }

    /// Why it was called uncertain, to be told once.
    pub fn take_uncertain(&mut self) -> Option<&'static str> {
        if self.told_uncertain {
            return None;
        }
        self.told_uncertain = self.uncertain.is_some();
        self.uncertain
    }

    /// tmux took the text, or perhaps did.
    pub fn pasted(&mut self, now: Mono) {
        if self.stage == Stage::Pasting {
            self.pasted_at = now;
            self.stage = Stage::Looking { due: now };
            self.search_if_gone(now);
        }
    }

    /// Nothing was typed.
    pub fn paste_refused(&mut self) {
        if self.stage == Stage::Pasting {
            self.outcome = Some(Outcome::Absent { typed: false });
        }
    }

    /// Enter reached the agent.
    pub fn enter_pressed(&mut self, now: Mono) {
        if self.stage == Stage::Entering {
            self.enters += 1;
            self.stage = Stage::Awaiting { until: now + RECEIPT_WITHIN_MS };
            self.search_if_gone(now);
        }
    }

    /// Enter was not sent.
    pub fn enter_refused(&mut self, now: Mono) {
        if self.stage == Stage::Entering {
            self.stage = Stage::Looking { due: now + self.pause(now) };
            self.search_if_gone(now);
        }
    }

    /// The session's own hook named the batch's text; `queued`: behind a prompt whose turn runs.
    pub fn proved_by_hook(&mut self, prompt: Option<PromptId>, queued: bool) {
        self.queued = queued;
        self.outcome = Some(Outcome::Delivered(Proof::Hook, prompt));
    }

    /// The text was taken out, and the human's own stands alone: nothing of the batch was submitted.
    pub fn taken_out(&mut self) {
        if self.stage == Stage::TakingOut {
            self.outcome = Some(Outcome::Absent { typed: false });
        }
    }

    /// The box is not what it must be for that.
    pub fn take_out_refused(&mut self, now: Mono) {
        if self.stage == Stage::TakingOut {
            self.stage = Stage::Looking { due: now + self.pause(now) };
            self.search_if_gone(now);
        }
    }

    /// A prompt was submitted whose text is not the batch's alone: it may hold it.
    pub fn other_prompt_submitted(&mut self, now: Mono) {
        let is_typed = matches!(self.stage, Stage::Looking { .. } | Stage::Entering | Stage::TakingOut);
        if is_typed || self.enters > 0 {
            self.other_prompt = true;
        }
        if let Stage::Looking { .. } = self.stage {
            let due = now + LINE_FOLLOWS_WITHIN_MS;
            self.stage = Stage::Searching { due, ordered: false, last: self.agent_gone };
        }
    }

    /// The agent that had the text is gone: only the transcript can tell. `ended`: by somebody else, so that no message can
    /// be the reason.
    pub fn agent_exited(&mut self, ended: bool, now: Mono) {
        self.agent_gone = true;
        self.interrupted |= ended;
        if !matches!(self.stage, Stage::Pasting | Stage::Entering | Stage::TakingOut) {
            self.search_if_gone(now);
        }
    }

    /// The next agent runs and the order to paste is still out: that one gets the text, whoever was meant.
    pub fn agent_started(&mut self) {
        self.agent_gone &= self.stage != Stage::Pasting;
    }

    /// How far it is, for people.
    pub fn progress(&self) -> &'static str {
        match (self.uncertain.or(self.in_the_way.map(|(what, _)| what)), self.stage) {
            (Some(what), _) => what,
            (None, Stage::Pasting) => "a batch is being typed",
            (None, Stage::Looking { .. }) => "a batch was typed and is looked for in the box",
            (None, Stage::TakingOut) => {
                "a batch is taken out of the box again, since a human types behind it"
            }
            (None, Stage::Entering) => "Enter is being pressed behind a batch",
            (None, Stage::Awaiting { .. }) => "a batch was sent and its receipt is awaited",
            (None, Stage::Searching { .. }) => "the transcript is searched for a batch",
        }
    }

    /// Enter was pressed, and its receipt has not come.
    pub fn was_entered(&self) -> bool {
        self.enters > 0
    }

    /// Enter was pressed, and the receipt may still come.
    pub fn receipt_is_awaited(&self) -> bool {
        let searching = matches!(self.stage, Stage::Searching { .. }) && self.enters > 0;
        searching || matches!(self.stage, Stage::Awaiting { .. })
    }

    /// A turn ended and no hook named the batch: the transcript is asked at once.
    pub fn turn_ended(&mut self, now: Mono) {
        if let Stage::Awaiting { until } = &mut self.stage {
            *until = now;
        }
    }

    /// The agent does something after Enter: if no hook tells in a second, the transcript will.
    pub fn agent_stirred(&mut self, now: Mono) {
        if let Stage::Awaiting { until } = &mut self.stage {
            *until = (*until).min(now + HOOK_WITHIN_MS);
        }
    }

    fn search_if_gone(&mut self, now: Mono) {
        if self.agent_gone {
            self.stage = Stage::Searching { due: now + LAST_HOOK_WITHIN_MS, ordered: false, last: true };
        }
    }

    /// The answer of the transcript.
    pub fn searched(&mut self, found: Found, prompt: Option<PromptId>, now: Mono) {
        let Stage::Searching { last, ordered: true, .. } = self.stage else {
            return;
        };
        match found {
            Found::Whole => self.outcome = Some(Outcome::Delivered(Proof::Transcript, prompt)),
            Found::Within => self.outcome = Some(Outcome::DeliveredWithOtherText(prompt)),
            Found::Unreadable if last => self.give_up("its text is gone and the transcript can't be read"),
            Found::Absent | Found::AbsentHere if last => match self.doubt(found) {
                Some(why) => self.give_up(why),
                None if self.uncertain.is_none() => self.outcome = Some(Outcome::Absent { typed: true }),
                None => self.outcome = Some(Outcome::Abandoned),
            },
            Found::Absent | Found::AbsentHere | Found::Unreadable => self.stage = Stage::Looking { due: now },
        }
    }

    /// Why a text that is in no box and in no transcript may have reached a model all the same.
    fn doubt(&self, found: Found) -> Option<&'static str> {
        if self.other_prompt {
            return Some(
                "its text is gone, and another prompt was submitted since: a changed copy may be in it",
            );
        }
        if self.enters > 0 && found == Found::AbsentHere {
            return Some(
                "its text left the box after Enter; another session of this folder lives and may have it",
            );
        }
        None
    }

    /// The user may be typing behind the text: ccmux can take it out as soon as they pause.
    fn collides(&mut self, now: Mono) {
        self.obstructed(IN_THE_WAY, now);
        if !self.told_stuck {
            self.stage = Stage::Looking { due: now + self.pause(now) };
        }
    }

    /// Soon, while a human may be typing behind the text.
    fn pause(&self, now: Mono) -> u64 {
        let collides = self.enters == 0 && now.since(self.pasted_at) < COLLISION_WITHIN_MS;
        if collides { COLLISION_LOOK_MS } else { LOOK_AGAIN_MS }
    }

    fn give_up(&mut self, why: &'static str) {
        self.uncertain = Some(self.uncertain.unwrap_or(why));
        self.outcome = Some(Outcome::Abandoned);
    }

    /// The answer of a look that compared the box with this batch.
    pub fn seen(&mut self, seen: &Seen, now: Mono) {
        let Stage::Looking { .. } = self.stage else { return };
        // The user changed the text in the box: this attempt must not count against its messages.
        self.interrupted |= seen.class == ScreenClass::Draft && seen.holds == BoxHolds::Foreign;
        let typing_reaches_the_box = !seen.copy_mode && !seen.vim_normal;
        self.stage = match (seen.class, seen.holds) {
            (ScreenClass::Draft, BoxHolds::Ours) if typing_reaches_the_box => return self.ours(now),
            (ScreenClass::Draft, BoxHolds::Foreign) if self.may_take_out(seen) => return self.take_out(now),
            (ScreenClass::Ready, BoxHolds::Nothing) if seen.silent => return self.obstructed(FROZEN, now),
            (ScreenClass::Ready, BoxHolds::Nothing) if typing_reaches_the_box => return self.empty(now),
            (ScreenClass::Busy | ScreenClass::Queued, _) if self.enters > 0 => {
                Stage::Awaiting { until: now + RECEIPT_WITHIN_MS }
            }
            (ScreenClass::Draft, BoxHolds::Foreign) => return self.collides(now),
            _ => return self.obstructed(IN_THE_WAY, now),
        };
    }

    /// Nothing can be done but to look again; an empty box that was not drawn since the paste proves nothing.
    fn obstructed(&mut self, what: &'static str, now: Mono) {
        let since = self.in_the_way.map_or(now, |(_, since)| since);
        self.in_the_way = Some((what, since));
        self.saw_empty = false;
        let pause = if self.told_stuck { STRANDED_LOOK_MS } else { LOOK_AGAIN_MS };
        self.stage = Stage::Looking { due: now + pause };
    }

    fn may_take_out(&self, seen: &Seen) -> bool {
        seen.removable
            && !seen.copy_mode
            && !seen.vim_normal
            && self.enters == 0
            && self.take_outs < MAX_TAKE_OUTS
    }

    fn take_out(&mut self, now: Mono) {
        self.in_the_way = Some((IN_THE_WAY, self.in_the_way.map_or(now, |(_, since)| since)));
        self.saw_empty = false;
        self.take_out_now = true;
        self.take_outs += 1;
        self.stage = Stage::TakingOut;
    }

    fn ours(&mut self, now: Mono) {
        self.in_the_way = None;
        self.saw_empty = false;
        if self.enters < MAX_ENTERS {
            self.press_now = true;
            self.stage = Stage::Entering;
        } else {
            self.uncertain = Some(
                self.uncertain.unwrap_or("Enter was pressed 3 times and the text still stands in the box"),
            );
            self.stage = Stage::Looking { due: now + STRANDED_LOOK_MS };
        }
    }

    fn empty(&mut self, now: Mono) {
        self.in_the_way = None;
        let may_still_show = self.enters == 0 && now.since(self.pasted_at) < SHOWS_WITHIN_MS;
        // One look at an empty box is no proof that the text is gone: the screen may lag behind the keys.
        self.stage = if may_still_show || !self.saw_empty {
            Stage::Looking { due: now + LOOK_AGAIN_MS }
        } else {
            Stage::Searching { due: now, ordered: false, last: true }
        };
        self.saw_empty = true;
    }

    /// What is needed now. An order is answered once; what follows depends on the facts.
    pub fn step(&mut self, look_pending: bool, now: Mono) -> Need {
        if let Some(outcome) = self.outcome.take() {
            return Need::Over(outcome);
        }
        if std::mem::take(&mut self.press_now) {
            return Need::Enter;
        }
        if std::mem::take(&mut self.take_out_now) {
            return Need::TakeOut;
        }
        if let Some(need) = self.stuck(now) {
            return need;
        }
        match self.stage {
            Stage::Pasting | Stage::Entering | Stage::TakingOut => Need::Wait(None),
            Stage::Looking { .. } if look_pending => Need::Wait(None),
            Stage::Looking { due } if now < due => Need::Wait(Some(due)),
            Stage::Looking { .. } => Need::Look,
            Stage::Awaiting { until } if now < until => Need::Wait(Some(until)),
            Stage::Awaiting { .. } => self.search_now(now, false),
            Stage::Searching { ordered: true, .. } => Need::Wait(None),
            Stage::Searching { due, .. } if now < due => Need::Wait(Some(due)),
            Stage::Searching { last, .. } => self.search_now(now, last),
        }
    }

    fn search_now(&mut self, now: Mono, last: bool) -> Need {
        self.stage = Stage::Searching { due: now, ordered: true, last };
        Need::Search
    }

    fn stuck(&mut self, now: Mono) -> Option<Need> {
        let (what, since) = self.in_the_way?;
        if self.told_stuck || now.since(since) < STUCK_AFTER_MS {
            return None;
        }
        self.told_stuck = true;
        Some(Need::TellStuck(what))
    }
}
