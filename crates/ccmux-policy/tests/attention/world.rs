//! A world of seconds for the attention engine: a script of what happens goes in, the notices come out as text.
//!
//! ```text
//! 0 began s1 reply p1      at second 0 a turn of s1 is over
//! 7.5 key s1               somebody presses a key in its pane; the engine learns it when it asks
//! 40 end                   the world ends
//! ```

use std::collections::{BTreeMap, BTreeSet};

use ccmux_policy::attention::{
    Answer, Attention, Effect, Flurry, Key, Kind, Mute, Muted, Row, Rules, Selection, Source,
};
use ccmux_policy::{Mono, Now, UnixMs};
use ccmux_wire::id::SessionId;

/// Noon of some day, so that quiet hours are hours.
const NOON: i64 = 20_000 * 86_400_000 + 12 * 3_600_000;

/// Everything but the engine, and the engine.
pub struct World {
    pub rules: Rules,
    pub engine: Attention,
    /// Since the world began.
    pub ms: u64,
    /// A restarted machine counts from another moment.
    boot_ms: u64,
    keys: BTreeMap<String, UnixMs>,
    gone: BTreeSet<String>,
    deaf: bool,
    pub rows: BTreeMap<Key, Row>,
    mutes: Vec<Mute>,
    told: BTreeMap<Flurry, UnixMs>,
    pub notices: Vec<String>,
    pub asked: usize,
}

impl World {
    pub fn new(rules: Rules) -> Self {
        let engine = Attention::new(rules.clone(), Vec::new(), Vec::new(), Now::default());
        Self {
            rules,
            engine,
            ms: 0,
            boot_ms: 1_000_000,
            keys: BTreeMap::new(),
            gone: BTreeSet::new(),
            deaf: false,
            rows: BTreeMap::new(),
            mutes: Vec::new(),
            told: BTreeMap::new(),
            notices: Vec::new(),
            asked: 0,
        }
    }

    pub fn now(&self) -> Now {
        let wall = UnixMs(NOON + i64::try_from(self.ms).unwrap());
        Now { mono: Mono(self.boot_ms + self.ms), wall, utc_offset_s: 0 }
    }

    /// Steps from deadline to deadline.
    pub fn until(&mut self, ms: u64) {
        self.drain();
        while let Some(at) = self.engine.next_deadline().filter(|at| at.0 <= self.boot_ms + ms) {
            self.ms = self.ms.max(at.0 - self.boot_ms);
            self.engine.deadline(self.now());
            self.drain();
        }
        self.ms = ms;
    }

    pub fn drain(&mut self) {
        while let Some(effect) = self.engine.next_effect() {
            match effect {
                Effect::Ask { key } => self.ask(&key),
                Effect::Notice { key, step, routes, waited_ms, .. } => {
                    let (at, waited) = (self.ms as f64 / 1000.0, waited_ms / 1000);
                    let what = format!("{} {}", key.session, key.kind.word());
                    let subject = key.subject;
                    self.notices
                        .push(format!("{at} {what} {subject} #{step} {} after {waited}", routes.join("|")));
                }
                Effect::Keep(row) => drop(self.rows.insert(row.key.clone(), row)),
                Effect::Forget(key) => drop(self.rows.remove(&key)),
                Effect::KeepMutes(mutes) => self.mutes = mutes,
                Effect::KeepTold(flurry, Some(at)) => drop(self.told.insert(flurry, at)),
                Effect::KeepTold(flurry, None) => drop(self.told.remove(&flurry)),
            }
        }
    }

    fn ask(&mut self, key: &Key) {
        self.asked += 1;
        if !self.deaf {
            let session = key.session.as_str();
            let gone = key.kind.is_dialog() && self.gone.contains(session);
            let answer = Answer { gone, active_at: self.keys.get(session).copied() };
            self.engine.answered(key, answer, self.now());
        }
    }

    fn selection(&self, words: &[&str]) -> Selection {
        Selection {
            source: Source::Claude,
            session: SessionId::new(words[0]),
            kind: words.get(1).map(|word| Kind::from_word(word).unwrap()),
            subject: words.get(2).map(|subject| (*subject).to_owned()),
        }
    }

    pub fn does(&mut self, verb: &str, words: &[&str]) {
        let now = self.now();
        match verb {
            "began" => self.engine.began(key(words[0], Kind::from_word(words[1]).unwrap(), words[2]), now),
            "ended" => self.engine.ended(&self.selection(words)),
            "human" => self.engine.human_active(Source::Claude, &SessionId::new(words[0])),
            "key" => drop(self.keys.insert(words[0].to_owned(), now.wall)),
            "gone" => drop(self.gone.insert(words[0].to_owned())),
            "deaf" => self.deaf = true,
            "mute" => {
                let kind = Kind::from_word(words[0]).map(Muted::Kind);
                let what = kind.unwrap_or_else(|| Muted::Session(SessionId::new(words[0])));
                let until = UnixMs(now.wall.0 + 1000 * words[1].parse::<i64>().unwrap());
                self.engine.mute(Mute { what, until }, now);
            }
            "restart" => self.restart(),
            "end" => {}
            other => panic!("{other} is no verb"),
        }
        self.drain();
    }

    pub fn run(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let at: f64 = words[0].parse().unwrap();
            self.until((at * 1000.0).round() as u64);
            self.does(words[1], &words[2..]);
        }
    }

    /// The machine boots, too: its clock begins anew.
    pub fn restart(&mut self) {
        self.boot_ms = 50;
        let rows = self.rows.values().map(|row| {
            let text = serde_json::to_string(row).unwrap();
            serde_json::from_str(&text).unwrap()
        });
        let (rows, mutes) = (rows.collect(), self.mutes.clone());
        let told = self.told.clone().into_iter().collect();
        self.engine = Attention::new(self.rules.clone(), rows, mutes, self.now()).with_told(told, self.now());
    }
}

pub fn key(session: &str, kind: Kind, subject: &str) -> Key {
    Key { source: Source::Claude, session: SessionId::new(session), kind, subject: subject.to_owned() }
}

/// The notices of a script, one a line.
pub fn notices(rules: Rules, script: &str) -> Vec<String> {
    let mut world = World::new(rules);
    world.run(script);
    world.notices
}
