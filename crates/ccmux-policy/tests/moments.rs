//! Field fault 19: a message that comes at any moment of a turn, on a simulated clock with an agent that behaves. Each
//! transition has its window: paste, settling look, Enter, hook, state file, Stop, idle. 1,000 moments, 2 ms apart, for each
//! set of witnesses: every message is typed and taken exactly once, and soon.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};

use ccmux_policy::event::{Event, FileState, Found, Message, Origin, SessionFact};
use ccmux_policy::screen::{BoxHolds, ScreenClass, Seen};
use ccmux_policy::{Effect, Mono, Now, PolicySettings, Supervisor, UnixMs};
use ccmux_wire::id::{BatchId, MessageId, PromptId, SessionId};

/// When the first message comes; the second comes from `FIRST_AT - 500` on.
const FIRST_AT: u64 = 2_000;
const MOMENTS: u64 = 1_000;
const MOMENT_MS: u64 = 2;
/// How long the agent and the runtime take for what they do.
const LOOK_MS: u64 = 6;
const SETTLED_LOOK_MS: u64 = 110;
const TYPING_MS: u64 = 9;
const HOOK_MS: u64 = 12;
const FILE_MS: u64 = 140;
const DRAW_MS: u64 = 30;
const SEARCH_MS: u64 = 15;
const TURN_MS: u64 = 500;
/// A message is taken that long after it came, at most. Without hooks and state file the receipt of the one before takes 5 s.
const SOON_MS: u64 = 9_000;

/// Who tells what the agent does, besides its screen.
#[derive(Debug, Clone, Copy)]
struct Witnesses {
    hooks: bool,
    file: bool,
}

/// What happens at its time.
#[derive(Debug, Clone, PartialEq)]
enum Due {
    Tell(Event),
    Answer { look: u64, batch: Option<BatchId> },
    Paste(BatchId),
    Enter(BatchId),
    Search(BatchId),
    TurnEnds(u32),
}

struct World {
    policy: Supervisor,
    witnesses: Witnesses,
    at: u64,
    due: BTreeMap<(u64, u64), Due>,
    scheduled: u64,
    in_box: Option<BatchId>,
    busy: bool,
    /// What the screen showed, and from when on it shows what is true.
    shown: (ScreenClass, u64),
    turns: u32,
    typed: BTreeMap<u64, u32>,
    batches: BTreeMap<BatchId, Vec<MessageId>>,
    taken: BTreeMap<u64, u64>,
    delivered: BTreeSet<u64>,
}

impl World {
    fn new(witnesses: Witnesses) -> Self {
        let settings = PolicySettings { idle_threshold_ms: 0, ..PolicySettings::default() };
        let mut world = Self {
            policy: Supervisor::new(settings),
            witnesses,
            at: 0,
            due: BTreeMap::new(),
            scheduled: 0,
            in_box: None,
            busy: false,
            shown: (ScreenClass::Ready, 0),
            turns: 0,
            typed: BTreeMap::new(),
            batches: BTreeMap::new(),
            taken: BTreeMap::new(),
            delivered: BTreeSet::new(),
        };
        world.tell(Event::DaemonStarted { next_batch: BatchId(1) });
        world.tell(Event::AgentFound { pid: 100, session: Some(SessionId::new("s")) });
        world.file_says(FileState::Idle, 0);
        world
    }

    fn within(&mut self, ms: u64, what: Due) {
        self.scheduled += 1;
        self.due.insert((self.at + ms, self.scheduled), what);
    }

    fn message(&mut self, id: u64, at: u64) {
        let channel = "c".parse().unwrap();
        let message = Message {
            id: MessageId(id),
            channel,
            bytes: 20,
            rows: 1,
            failures: 0,
            priority: 0,
            expires_at: None,
        };
        self.within(at - self.at, Due::Tell(Event::MessageAccepted(message)));
    }

    fn tell(&mut self, event: Event) {
        let wall = UnixMs(self.at as i64);
        self.policy.handle(event, Now { mono: Mono(self.at), wall, utc_offset_s: 0 });
        while let Some(effect) = self.policy.next_effect() {
            self.obey(effect);
        }
    }

    fn obey(&mut self, effect: Effect) {
        match effect {
            Effect::Look { look, batch, settled } => {
                let takes = if settled { SETTLED_LOOK_MS } else { LOOK_MS };
                self.within(takes, Due::Answer { look, batch });
            }
            Effect::Inject { batch, messages } => {
                messages.iter().for_each(|id| *self.typed.entry(id.0).or_default() += 1);
                self.batches.insert(batch, messages);
                self.within(TYPING_MS, Due::Paste(batch));
            }
            Effect::PressEnter { batch } => self.within(TYPING_MS, Due::Enter(batch)),
            Effect::FindInTranscript { batch } => self.within(SEARCH_MS, Due::Search(batch)),
            Effect::RecordDelivered { batch, .. } => {
                self.delivered.extend(self.batches[&batch].iter().map(|id| id.0));
            }
            Effect::RecordUncertain { batch, .. } | Effect::RecordRequeued { batch, .. } => {
                panic!("{batch} was not delivered at once, at {} ms", self.at)
            }
            _ => {}
        }
    }

    fn happens(&mut self, due: Due) {
        match due {
            Due::Tell(event) => self.tell(event),
            Due::Answer { look, batch } => {
                let seen = self.screen(batch);
                self.tell(Event::ScreenSeen { look, seen });
            }
            Due::Paste(batch) => {
                assert_eq!((self.in_box, self.busy), (None, false), "pasted in a turn or upon a text");
                self.changes(|world| world.in_box = Some(batch));
                self.tell(Event::Pasted { batch });
            }
            Due::Enter(batch) => {
                assert_eq!((self.in_box, self.busy), (Some(batch), false), "Enter for something else");
                self.submit(batch);
                self.tell(Event::EnterPressed { batch });
            }
            Due::Search(batch) => {
                let there = self.batches[&batch].iter().all(|id| self.taken.contains_key(&id.0));
                let found = if there { Found::Whole } else { Found::Absent };
                self.tell(Event::TranscriptSearched { batch, found, prompt: None, session: None });
            }
            Due::TurnEnds(turn) => self.end_turn(turn),
        }
    }

    fn submit(&mut self, batch: BatchId) {
        self.changes(|world| (world.in_box, world.busy) = (None, true));
        self.turns += 1;
        for id in &self.batches[&batch] {
            assert_eq!(self.taken.insert(id.0, self.at), None, "message {id} was taken twice");
        }
        let fact = SessionFact::PromptSubmitted { prompt: Some(self.prompt()), batch: Some(batch) };
        self.hook(fact);
        self.file_says(FileState::Busy, FILE_MS);
        self.within(TURN_MS, Due::TurnEnds(self.turns));
    }

    fn end_turn(&mut self, turn: u32) {
        assert_eq!(turn, self.turns);
        self.changes(|world| world.busy = false);
        self.hook(SessionFact::TurnEnded { prompt: Some(self.prompt()), background: 0 });
        self.file_says(FileState::Idle, FILE_MS);
    }

    fn prompt(&self) -> PromptId {
        PromptId::new(format!("p{}", self.turns))
    }

    fn hook(&mut self, fact: SessionFact) {
        if self.witnesses.hooks {
            let event = Event::Session { session: SessionId::new("s"), origin: Origin::Own, fact };
            self.within(HOOK_MS, Due::Tell(event));
        }
    }

    fn file_says(&mut self, state: FileState, after_ms: u64) {
        if self.witnesses.file {
            self.within(after_ms, Due::Tell(Event::StateFileRead { state }));
        }
    }

    /// The agent changes, and draws it a moment later.
    fn changes(&mut self, change: impl FnOnce(&mut Self)) {
        let before = self.class();
        change(self);
        self.shown = (before, self.at + DRAW_MS);
        self.within(DRAW_MS, Due::Tell(Event::PaneActive));
    }

    fn class(&self) -> ScreenClass {
        match (self.busy, self.in_box) {
            (true, _) => ScreenClass::Busy,
            (false, Some(_)) => ScreenClass::Draft,
            (false, None) => ScreenClass::Ready,
        }
    }

    fn screen(&self, batch: Option<BatchId>) -> Seen {
        let class = if self.at < self.shown.1 { self.shown.0 } else { self.class() };
        let holds = match class {
            ScreenClass::Draft if batch.is_some() && batch == self.in_box => BoxHolds::Ours,
            ScreenClass::Draft => BoxHolds::Foreign,
            _ => BoxHolds::Nothing,
        };
        Seen::plain(class, holds)
    }

    /// Lets everything happen until `done` or `limit`.
    fn run(&mut self, limit: u64, done: impl Fn(&Self) -> bool) {
        while self.at < limit && !done(self) {
            let deadline = self.policy.next_deadline().map(|deadline| deadline.0.max(self.at + 1));
            match (self.due.first_key_value().map(|(key, _)| *key), deadline) {
                (Some((at, _)), deadline) if deadline.is_none_or(|deadline| at <= deadline) => {
                    let ((at, _), due) = self.due.pop_first().unwrap();
                    self.at = at;
                    self.happens(due);
                }
                (_, Some(deadline)) => {
                    self.at = deadline;
                    self.tell(Event::DeadlinePassed);
                }
                _ => return,
            }
        }
    }
}

fn comes_at(at: u64, witnesses: Witnesses) {
    let mut world = World::new(witnesses);
    world.message(1, FIRST_AT);
    world.message(2, at);
    world.run(FIRST_AT + 4 * SOON_MS, |world| world.delivered.len() == 2);
    assert_eq!(world.delivered.len(), 2, "at {at} ms, {witnesses:?}: {:?}", world.policy.status(now(&world)));
    // Whatever else would happen: nothing is typed again.
    world.run(world.at + SOON_MS, |_| false);
    assert!(world.typed.values().all(|times| *times == 1), "at {at} ms, {witnesses:?}: {:?}", world.typed);
    let waited = world.taken[&2] - at;
    assert!(waited < SOON_MS, "at {at} ms, {witnesses:?}: taken after {waited} ms");
}

fn now(world: &World) -> Now {
    Now { mono: Mono(world.at), wall: UnixMs(world.at as i64), utc_offset_s: 0 }
}

/// Field fault 19.
#[test]
fn a_message_at_any_of_a_thousand_moments_is_typed_and_taken_exactly_once() {
    for hooks in [true, false] {
        for file in [true, false] {
            for moment in 0..MOMENTS {
                comes_at(FIRST_AT - 500 + moment * MOMENT_MS, Witnesses { hooks, file });
            }
        }
    }
}

/// Field fault 19: no edge comes, so none may be waited for.
#[test]
fn a_message_that_comes_while_the_agent_is_idle_goes_in_within_a_second() {
    for idle_ms in [0, 1, 300, 5_000, 3_600_000] {
        let mut world = World::new(Witnesses { hooks: true, file: true });
        world.message(1, FIRST_AT + idle_ms);
        world.run(FIRST_AT + idle_ms + SOON_MS, |world| !world.taken.is_empty());
        let waited = world.taken[&1] - FIRST_AT - idle_ms;
        assert!(waited < 1_000, "after {idle_ms} ms of rest it took {waited} ms");
    }
}
