//! A world for scenarios: OpenCode's events go in, through the engine, and notices come out as text. Nobody sits at a pane.

use std::collections::VecDeque;

use ccmux_policy::attention::opencode::{Event, Opencode, Order, Origin};
use ccmux_policy::attention::{Answer, Attention, Effect, Kind, Rules, Source};
use ccmux_policy::{Mono, Now, UnixMs};
use ccmux_wire::id::SessionId;

/// Long after the last event everything that will be told was told.
const AFTER_MS: u64 = 120_000;

/// By which way events come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Plugin,
    Stream,
    /// Each event twice, and now the one, now the other first.
    Both,
}

pub struct World {
    pub opencode: Opencode,
    pub engine: Attention,
    pub ms: u64,
    pub notices: Vec<String>,
}

impl World {
    pub fn new(rules: Rules) -> Self {
        let engine = Attention::new(rules, Vec::new(), Vec::new(), Now::default());
        Self { opencode: Opencode::default(), engine, ms: 0, notices: Vec::new() }
    }

    fn now(&self) -> Now {
        let wall = UnixMs(1_800_000_000_000 + i64::try_from(self.ms).unwrap());
        Now { mono: Mono(self.ms), wall, utc_offset_s: 0 }
    }

    /// Steps from deadline to deadline.
    pub fn until(&mut self, ms: u64) {
        self.drain();
        while let Some(at) = self.engine.next_deadline().filter(|at| at.0 <= ms) {
            self.ms = self.ms.max(at.0);
            self.engine.deadline(self.now());
            self.drain();
        }
        self.ms = ms;
    }

    pub fn hears(&mut self, origin: Origin, id: Option<&str>, session: &str, event: Event) {
        self.opencode.hear(origin, id, &SessionId::new(session), event);
        self.drain();
    }

    pub fn drain(&mut self) {
        let now = self.now();
        while let Some(order) = self.opencode.next_order() {
            match order {
                Order::Began { key, .. } => self.engine.began(key, now),
                Order::Ended(which) => self.engine.ended(&which),
                Order::HumanActive(session) => self.engine.human_active(Source::Opencode, &session),
                Order::Forget(_) => {}
            }
        }
        while let Some(effect) = self.engine.next_effect() {
            match effect {
                Effect::Ask { key } => self.engine.answered(&key, Answer::default(), now),
                Effect::Notice { key, .. } => self.notices.push(format!("{} {key}", self.ms)),
                _ => {}
            }
        }
    }
}

/// One line of a scenario.
pub struct Line {
    pub ms: u64,
    by: String,
    pub session: String,
    pub event: Event,
}

fn event(words: &mut VecDeque<&str>) -> Event {
    let verb = words.pop_front().unwrap();
    let first = words.pop_front().map(str::to_owned);
    let second = words.pop_front().map(str::to_owned);
    match verb {
        "info" => Event::Info { parent: first.as_deref().map(SessionId::new) },
        "busy" => Event::Busy,
        "retry" => Event::Retry,
        "step" => Event::Step,
        "idle" => Event::Idle,
        "asked" => Event::Asked { kind: Kind::from_word(&first.unwrap()).unwrap(), request: second.unwrap() },
        "answered" => Event::Answered { request: first.unwrap() },
        "user" => Event::UserMessage { message: first.unwrap() },
        "written" => {
            Event::Written { message: first.unwrap(), synthetic: second.as_deref() == Some("synthetic") }
        }
        "assistant" => Event::Assistant { finished: first.as_deref() == Some("finished") },
        "failed" => Event::Failed { aborted: first.as_deref() == Some("aborted") },
        "deleted" => Event::Deleted,
        other => panic!("{other} is no verb"),
    }
}

pub fn lines(scenario: &str) -> Vec<Line> {
    let path = format!("{}/tests/opencode/scenarios/{scenario}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let line = |line: &str| {
        let mut words: VecDeque<&str> = line.split(' ').collect();
        let mut next = || words.pop_front().unwrap();
        let (ms, by, session) = (next().parse().unwrap(), next().to_owned(), next().to_owned());
        Line { ms, by, session, event: event(&mut words) }
    };
    text.lines().map(line).collect()
}

/// The notices of a scenario: when, session, kind, subject.
pub fn replay(scenario: &str, way: Way, rules: &Rules) -> Vec<String> {
    let mut world = World::new(rules.clone());
    let (process, stream) = (Origin::Process(7), Origin::Stream(0));
    let lines = lines(scenario);
    let end = lines.last().unwrap().ms;
    for (number, line) in lines.into_iter().enumerate() {
        let mut by: Vec<Origin> = Vec::new();
        by.extend((way != Way::Stream && line.by != "stream").then_some(process));
        by.extend((way != Way::Plugin && line.by != "plugin").then_some(stream));
        if number % 3 == 0 {
            by.reverse();
        }
        world.until(line.ms);
        for origin in by {
            let id = Some(number.to_string()).filter(|_| line.by == "both");
            world.hears(origin, id.as_deref(), &line.session, line.event.clone());
        }
    }
    world.until(end + AFTER_MS);
    world.notices
}
