//! Random sequences of events, in which the world answers orders late, wrongly or doubtfully: whatever happens, no
//! message is lost or sent twice, nothing is pasted unless the last look said Ready with an empty box, and Enter is
//! pressed only when the last look says Ours.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, VecDeque};

use ccmux_policy::event::{Event, ExitStatus, FileState, Found, Message, Origin, SessionFact};
use ccmux_policy::screen::{BoxHolds, ScreenClass, Seen};
use ccmux_policy::{Effect, Mono, Now, PolicySettings, Supervisor, UnixMs};
use ccmux_wire::id::{BatchId, MessageId, PromptId, SessionId};
use proptest::prelude::*;

/// What the world does next.
#[derive(Debug, Clone)]
enum Act {
    Message(u8, u8),
    Drop(u8),
    Look(u8, u8, bool),
    AnswerTyping(u8),
    AnswerSearch(u8, bool),
    Hook(u8, bool),
    File(u8),
    AgentEnds,
    AgentStarts,
    Pane(bool),
    Freeze(bool),
    Time(u16),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0..4u8, 0..6u8).prop_map(|(channel, worth)| Act::Message(channel, worth)),
        1 => (0..20u8).prop_map(Act::Drop),
        12 => (0..7u8, 0..3u8, prop::bool::weighted(0.1)).prop_map(|(class, holds, copy)| Act::Look(class, holds, copy)),
        6 => (0..3u8).prop_map(Act::AnswerTyping),
        4 => (0..5u8, any::<bool>()).prop_map(|(found, elsewhere)| Act::AnswerSearch(found, elsewhere)),
        4 => (0..6u8, any::<bool>()).prop_map(|(fact, ours)| Act::Hook(fact, ours)),
        3 => (0..5u8).prop_map(Act::File),
        1 => Just(Act::AgentEnds),
        2 => Just(Act::AgentStarts),
        2 => any::<bool>().prop_map(Act::Pane),
        2 => any::<bool>().prop_map(Act::Freeze),
        6 => (0..7_000u16).prop_map(Act::Time),
    ]
}

/// Where a message is, as the effects say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Waiting,
    InFlight(BatchId),
    Delivered,
    Uncertain,
    Failed,
    Expired,
}

struct World {
    policy: Supervisor,
    at: u64,
    places: BTreeMap<u64, Place>,
    looks: VecDeque<(u64, Option<BatchId>)>,
    typing: VecDeque<(BatchId, bool)>,
    searches: VecDeque<BatchId>,
    last_look: Option<(Option<BatchId>, Seen)>,
    current: Option<BatchId>,
    /// The agent reads and draws nothing.
    frozen: bool,
    /// It has drawn nothing since the paste of the current batch.
    silent: bool,
    /// The batch for which Enter was pressed last, and the process that got it.
    entered_by: Option<(BatchId, i32)>,
    /// Texts that are to be taken out of the box.
    take_outs: VecDeque<BatchId>,
    last_found: Option<Found>,
    pid: i32,
    alive: bool,
    prompts: u32,
}

impl World {
    fn new() -> Self {
        let settings = PolicySettings { idle_threshold_ms: 0, ..PolicySettings::default() };
        let mut world = Self {
            policy: Supervisor::new(settings),
            at: 0,
            places: BTreeMap::new(),
            looks: VecDeque::new(),
            typing: VecDeque::new(),
            searches: VecDeque::new(),
            last_look: None,
            current: None,
            frozen: false,
            silent: false,
            entered_by: None,
            take_outs: VecDeque::new(),
            last_found: None,
            pid: 100,
            alive: true,
            prompts: 0,
        };
        world.tell(Event::DaemonStarted { next_batch: BatchId(1) });
        world.tell(Event::AgentFound { pid: 100, session: Some(SessionId::new("s")) });
        world
    }

    fn now(&self) -> Now {
        Now { mono: Mono(self.at), wall: UnixMs(self.at as i64), utc_offset_s: 0 }
    }

    fn tell(&mut self, event: Event) {
        self.policy.handle(event, self.now());
        while let Some(effect) = self.policy.next_effect() {
            self.obey(effect);
        }
    }

    fn obey(&mut self, effect: Effect) {
        match effect {
            Effect::Look { look, batch, .. } => self.looks.push_back((look, batch)),
            Effect::Inject { batch, messages } => self.inject(batch, &messages),
            Effect::PressEnter { batch } => self.press_enter(batch),
            Effect::TakeOut { batch } => self.take_out(batch),
            Effect::FindInTranscript { batch } => self.searches.push_back(batch),
            Effect::RecordDelivered { batch, .. } => self.settle(batch, Place::Delivered),
            Effect::RecordUncertain { batch, .. } => self.settle(batch, Place::Uncertain),
            Effect::RecordRequeued { batch, attempt } => {
                assert!(
                    attempt.is_untyped() || !self.silent,
                    "batch {batch} was called absent before the agent had read it"
                );
                let entered = self.entered_by.is_some_and(|(entered, _)| entered == batch);
                let is_proved = attempt.is_untyped() || !entered || self.last_found == Some(Found::Absent);
                assert!(
                    is_proved,
                    "batch {batch} left the box after Enter without a witness, and is sent again"
                );
                self.settle(batch, Place::Waiting);
            }
            Effect::RecordFailed { message, .. } => {
                assert_eq!(self.places.insert(message.0, Place::Failed), Some(Place::Waiting));
            }
            Effect::RecordExpired { message } => {
                assert_eq!(self.places.insert(message.0, Place::Expired), Some(Place::Waiting));
            }
            Effect::StartAgent { .. } => assert!(!self.alive, "a second agent was ordered"),
            _ => {}
        }
    }

    fn inject(&mut self, batch: BatchId, messages: &[MessageId]) {
        let (_, seen) = self.last_look.as_ref().expect("pasted without any look");
        assert_eq!((seen.class, seen.holds), (ScreenClass::Ready, BoxHolds::Nothing), "pasted into {seen:?}");
        assert!(!seen.copy_mode, "pasted in copy mode");
        assert!(!messages.is_empty());
        for id in messages {
            let before = self.places.insert(id.0, Place::InFlight(batch));
            assert_eq!(before, Some(Place::Waiting), "message {id} was pasted twice");
        }
        self.typing.push_back((batch, false));
        self.current = Some(batch);
        self.silent = self.frozen;
        self.last_look = None;
    }

    fn press_enter(&mut self, batch: BatchId) {
        let (asked, seen) = self.last_look.as_ref().expect("Enter without a look");
        assert_eq!(*asked, Some(batch), "Enter after a look at something else");
        assert_eq!((seen.class, seen.holds), (ScreenClass::Draft, BoxHolds::Ours), "Enter into {seen:?}");
        assert!(!seen.copy_mode);
        self.typing.push_back((batch, true));
        self.last_look = None;
    }

    fn take_out(&mut self, batch: BatchId) {
        let (asked, seen) = self.last_look.as_ref().expect("keys without a look");
        assert_eq!(*asked, Some(batch));
        assert!(seen.removable && seen.class == ScreenClass::Draft && !seen.copy_mode, "keys into {seen:?}");
        assert_ne!(self.entered_by.map(|(entered, _)| entered), Some(batch), "taken out after Enter");
        self.take_outs.push_back(batch);
        self.last_look = None;
    }

    fn answer_take_out(&mut self, done: bool) {
        let Some(batch) = self.take_outs.pop_front() else { return };
        let reason = "the box is not what it must be".to_owned();
        self.tell(if done { Event::TakenOut { batch } } else { Event::TakeOutRefused { batch, reason } });
    }

    /// Delivered may come after uncertain; nothing else changes twice.
    fn settle(&mut self, batch: BatchId, place: Place) {
        let mut any = false;
        for state in self.places.values_mut().filter(|state| **state == Place::InFlight(batch)) {
            *state = place;
            any = true;
        }
        assert!(any || place == Place::Delivered, "{place:?} for batch {batch} that is not in flight");
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Message(channel, worth) => self.message(channel, worth),
            Act::Drop(nth) => self.drop_one(nth),
            Act::Look(class, holds, copy_mode) => self.answer_look(class, holds, copy_mode),
            Act::AnswerTyping(how) => self.answer_typing(how),
            Act::AnswerSearch(found, elsewhere) => self.answer_search(found, elsewhere),
            Act::Hook(fact, ours) => self.hook(fact, ours),
            Act::File(state) => self.file(state),
            Act::AgentEnds if self.alive => {
                self.alive = false;
                self.thaw();
                self.last_look = None;
                self.tell(Event::AgentExited { pid: self.pid, status: ExitStatus::Signal(9) });
            }
            Act::AgentStarts if !self.alive => {
                self.alive = true;
                self.pid += 1;
                self.tell(Event::AgentStarted { pid: self.pid });
            }
            Act::AgentEnds | Act::AgentStarts => {}
            Act::Freeze(true) => self.frozen = true,
            Act::Freeze(false) => self.thaw(),
            Act::Pane(true) => self.tell(Event::PaneActive),
            Act::Pane(false) => self.tell(Event::PaneSilent),
            Act::Time(ms) => self.pass(u64::from(ms)),
        }
    }

    fn thaw(&mut self) {
        (self.frozen, self.silent) = (false, false);
    }

    /// Some are urgent, some are soon too old.
    fn message(&mut self, channel: u8, worth: u8) {
        let id = self.places.len() as u64 + 1;
        self.places.insert(id, Place::Waiting);
        let channel = format!("c{channel}").parse().unwrap();
        let expires_at = (worth == 0).then(|| UnixMs(self.at as i64 + 3_000));
        let (id, priority) = (MessageId(id), i32::from(worth) - 3);
        let message = Message { id, channel, bytes: 9_000, rows: 1, failures: 0, priority, expires_at };
        self.tell(Event::MessageAccepted(message));
    }

    /// The inbox lets go only of what is not in flight.
    fn drop_one(&mut self, nth: u8) {
        let mut waiting = self.places.iter_mut().filter(|(_, place)| **place == Place::Waiting);
        let Some((id, place)) = waiting.nth(nth.into()) else { return };
        *place = Place::Failed;
        let message = MessageId(*id);
        self.tell(Event::MessageDropped { message });
    }

    fn answer_look(&mut self, class: u8, holds: u8, copy_mode: bool) {
        let Some((look, batch)) = self.looks.pop_front() else {
            return;
        };
        let classes = [
            ScreenClass::Ready,
            ScreenClass::Draft,
            ScreenClass::Busy,
            ScreenClass::Queued,
            ScreenClass::Dialog,
            ScreenClass::Unknown,
            ScreenClass::Shell,
        ];
        let silent = self.silent && batch.is_some();
        let class = if silent { ScreenClass::Ready } else { classes[class as usize] };
        let holds = match (class, batch, holds) {
            (ScreenClass::Ready, ..) => BoxHolds::Nothing,
            (ScreenClass::Draft, Some(_), 0 | 1) => BoxHolds::Ours,
            (ScreenClass::Draft, ..) => BoxHolds::Foreign,
            _ => BoxHolds::Nothing,
        };
        let removable = holds == BoxHolds::Foreign && batch.is_some() && self.at.is_multiple_of(2);
        let seen = Seen { copy_mode, silent, removable, ..Seen::plain(class, holds) };
        self.last_look = Some((batch, seen.clone()));
        self.tell(Event::ScreenSeen { look, seen });
    }

    fn answer_typing(&mut self, how: u8) {
        self.answer_take_out(how == 2);
        let Some((batch, enter)) = self.typing.pop_front() else {
            return;
        };
        let reason = "the guard refused".to_owned();
        if enter && how != 0 {
            self.entered_by = Some((batch, self.pid));
        }
        self.tell(match (enter, how) {
            (false, 0) => Event::PasteRefused { batch, reason },
            (false, 1) => Event::PasteDoubtful { batch, reason },
            (false, _) => Event::Pasted { batch },
            (true, 0) => Event::EnterRefused { batch, reason },
            (true, _) => Event::EnterPressed { batch },
        });
    }

    fn answer_search(&mut self, found: u8, elsewhere: bool) {
        let Some(batch) = self.searches.pop_front() else {
            return;
        };
        let all = [Found::Whole, Found::Within, Found::Absent, Found::Unreadable, Found::AbsentHere];
        let found = all[found as usize];
        let found = if self.silent { Found::Absent } else { found };
        self.last_found = Some(found);
        // Another session may stand behind the same screen, at any time.
        let session = elsewhere.then(|| SessionId::new(format!("fork{}", self.prompts)));
        self.tell(Event::TranscriptSearched { batch, found, prompt: None, session });
    }

    fn hook(&mut self, fact: u8, ours: bool) {
        self.prompts += 1;
        let prompt = Some(PromptId::new(format!("p{}", self.prompts / 3)));
        let fact = match fact {
            0 => SessionFact::Started { source: "resume".into() },
            1 => SessionFact::PromptSubmitted { prompt, batch: self.current.filter(|_| ours) },
            2 => SessionFact::TurnEnded { prompt, background: u32::from(ours) },
            3 => SessionFact::TurnFailed {
                prompt,
                error: ["rate_limit", "overloaded", "authentication_failed"][(self.prompts % 3) as usize]
                    .into(),
                resets_at: None,
            },
            4 => SessionFact::DialogOpened { tool: "Bash".into() },
            _ => SessionFact::Ended { reason: "clear".into() },
        };
        self.tell(Event::Session { session: SessionId::new("s"), origin: Origin::Own, fact });
    }

    fn file(&mut self, state: u8) {
        let state = match state {
            0 => FileState::Idle,
            1 => FileState::Busy,
            2 => FileState::Shell,
            3 => FileState::Waiting("input needed".into()),
            _ => FileState::Absent,
        };
        self.tell(Event::StateFileRead { state });
    }

    fn pass(&mut self, ms: u64) {
        let until = self.at + ms;
        while let Some(deadline) = self.policy.next_deadline().filter(|deadline| deadline.0 <= until) {
            self.at = deadline.0.max(self.at + 1);
            self.tell(Event::DeadlinePassed);
        }
        self.at = until.max(self.at);
    }

    /// A friendly world from here on: everything that can be delivered must be.
    fn calm_down(&mut self) {
        self.thaw();
        self.tell(Event::StateFileRead { state: FileState::Idle });
        let (session, fact) = (SessionId::new("s"), SessionFact::LoggedIn);
        self.tell(Event::Session { session, origin: Origin::Own, fact });
        for _ in 0..3_000 {
            if !self.alive {
                self.act(Act::AgentStarts);
            }
            self.answer_typing(2);
            self.answer_search(2, false);
            let pasted = self.typing.is_empty() && matches!(self.looks.front(), Some((_, Some(_))));
            self.answer_look(u8::from(pasted), 0, false);
            if self.entered() {
                self.hook(1, true);
                self.hook(2, false);
            }
            self.pass(700);
            if self.places.values().all(|place| !matches!(place, Place::Waiting | Place::InFlight(_))) {
                return;
            }
        }
        let left: Vec<_> = self
            .places
            .iter()
            .filter(|(_, place)| matches!(place, Place::Waiting | Place::InFlight(_)))
            .collect();
        panic!("lost: {left:?}; the gate says {:?}", self.policy.status(self.now()));
    }

    fn entered(&self) -> bool {
        self.typing.is_empty() && self.last_look.is_none()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Field faults 1, 15, 19.
    #[test]
    fn no_message_is_lost_or_doubled_and_no_key_is_pressed_blind(acts in prop::collection::vec(act(), 1..250)) {
        let mut world = World::new();
        for act in acts {
            world.act(act);
        }
        world.calm_down();
    }
}
