//! Someone is waited for: which notice is due when, and what ends the waiting before.
//!
//! ```text
//! began ─► due after the hold ─► asked: does it still wait? ─► notice ─► due after the next step ─► ... ─► told
//!            │ muted, quiet, cooling down: later   │ a key was pressed, the dialog is gone: ended
//!            └ ended (a prompt, an answer, a human): nothing is said
//! ```
//!
//! One type with verbs, like the supervisor, and beside it: [`Attention::began`], [`Attention::ended`],
//! [`Attention::human_active`], [`Attention::deadline`]; orders are in [`Attention::next_effect`]. An item costs nothing
//! until its deadline: one ordered set holds them all. It knows neither texts nor people, only keys, times, and names of
//! routes.

pub mod afar;
mod item;
pub mod opencode;
mod rules;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ccmux_wire::id::SessionId;

use crate::now::{Mono, Now, UnixMs};
use item::{Item, Standing, mono_of};
pub use item::{Key, Kind, Row, Selection, Source};
pub use rules::{Mute, Muted, QuietHours, RouteName, Rule, Rules, Step};

/// OpenCode asks even for what grants itself at once: nothing of it is told sooner than that.
const OPENCODE_FLOOR_MS: u64 = 1_000;
/// A look is answered within that time, or the notice goes out unasked.
const ANSWERED_WITHIN_MS: u64 = 6_000;

/// What the engine orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Look whether it still waits, and answer with [`Attention::answered`].
    Ask {
        /// Which item.
        key: Key,
    },
    /// Tell people.
    Notice {
        /// Which item.
        key: Key,
        /// Which of its notices, from 0.
        step: usize,
        /// Where to: the first one that works.
        routes: Vec<RouteName>,
        /// Since when it waits.
        began: UnixMs,
        /// How long that is.
        waited_ms: u64,
    },
    /// Keep the item, in place of what was kept of it before.
    Keep(Row),
    /// The item is over.
    Forget(Key),
    /// Keep these mutes, and no others.
    KeepMutes(Vec<Mute>),
    /// Keep when this was told last; `None`: that counts no more.
    KeepTold(Flurry, Option<UnixMs>),
}

/// What a look showed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answer {
    /// It waits no more: the dialog is closed, the session gone.
    pub gone: bool,
    /// When somebody last pressed a key in the session's pane, if that can be known.
    pub active_at: Option<UnixMs>,
}

/// An item, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Which.
    pub key: Key,
    /// Since when.
    pub began: UnixMs,
    /// So many notices were ordered, as far as today's settings tell.
    pub told: usize,
    /// When the next one is due.
    pub next_in_ms: Option<u64>,
    /// It is muted.
    pub muted: bool,
}

/// A kind of a session, of which one notice is enough for a while.
pub type Flurry = (Source, SessionId, Kind);

/// Knows everything that waits for somebody.
#[derive(Debug)]
pub struct Attention {
    rules: Rules,
    items: BTreeMap<Key, Item>,
    due: BTreeSet<(Mono, Key)>,
    /// What began lately, oldest first, and the same by key.
    begun: VecDeque<(Mono, Key)>,
    begun_at: BTreeMap<Key, Mono>,
    told_at: BTreeMap<Flurry, Mono>,
    mutes: Vec<Mute>,
    effects: VecDeque<Effect>,
}

impl Attention {
    /// An engine that goes on with what was kept.
    pub fn new(rules: Rules, rows: Vec<Row>, mutes: Vec<Mute>, now: Now) -> Self {
        let mut engine = Self {
            rules,
            items: BTreeMap::new(),
            due: BTreeSet::new(),
            begun: VecDeque::new(),
            begun_at: BTreeMap::new(),
            told_at: BTreeMap::new(),
            mutes,
            effects: VecDeque::new(),
        };
        rows.into_iter().for_each(|row| engine.restore(row, now));
        engine
    }

    /// What was told lately goes on cooling down.
    pub fn with_told(mut self, told: Vec<(Flurry, UnixMs)>, now: Now) -> Self {
        self.told_at.extend(told.into_iter().map(|(flurry, at)| (flurry, mono_of(at, now))));
        self
    }

    /// Other settings may be in force than when it was kept: a step that there is no more is not told.
    fn restore(&mut self, row: Row, now: Now) {
        let has_step = self.rules.of(row.key.kind).steps.len() > row.step;
        let standing = match row.due.filter(|_| has_step).map(|due| mono_of(due, now)) {
            Some(due) if row.held => Standing::Held(due),
            Some(due) => Standing::Due(due),
            None => Standing::Told,
        };
        let item = Item { began: row.began, base: mono_of(row.base, now), step: row.step, standing };
        self.put(row.key, item.released(now));
    }

    /// The next order, oldest first.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to come back although nothing happened.
    pub fn next_deadline(&self) -> Option<Mono> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Somebody is waited for from now on.
    pub fn began(&mut self, key: Key, now: Now) {
        let Some(first) = self.rules.of(key.kind).steps.first().map(|step| step.after_ms) else { return };
        let floor = if key.source == Source::Opencode { OPENCODE_FLOOR_MS } else { 0 };
        if self.began_lately(&key, now) {
            return;
        }
        match self.items.get(&key) {
            // The turn went on (a Stop hook of the user's said so) and is over again: the silence begins now.
            Some(old) if key.kind == Kind::Reply && old.step == 0 => {}
            Some(_) => return,
            None => {}
        }
        if key.kind == Kind::Reply {
            self.end_other_silences(&key);
        }
        let standing = Standing::Due(now.mono + first.max(floor));
        let item = Item { began: now.wall, base: now.mono, step: 0, standing };
        self.put(key.clone(), item);
        self.keep_row(&key, now);
    }

    /// A session is silent once at a time.
    fn end_other_silences(&mut self, key: &Key) {
        let silences = Selection::session(key.source, key.session.clone()).kind(Kind::Reply);
        for other in self.held(&silences).into_iter().filter(|other| other != key) {
            self.end(&other);
        }
    }

    /// Notes that it began; `true`: it had begun just before, so that this is the same.
    fn began_lately(&mut self, key: &Key, now: Now) -> bool {
        let window = self.rules.dedup_ms;
        while self.begun.front().is_some_and(|(at, _)| now.mono.since(*at) >= window) {
            if let Some((at, old)) = self.begun.pop_front()
                && self.begun_at.get(&old) == Some(&at)
            {
                self.begun_at.remove(&old);
            }
        }
        if self.begun_at.contains_key(key) {
            return true;
        }
        self.begun_at.insert(key.clone(), now.mono);
        self.begun.push_back((now.mono, key.clone()));
        false
    }

    /// Whatever of these waited does so no more.
    pub fn ended(&mut self, which: &Selection) {
        self.held(which).iter().for_each(|key| self.end(key));
    }

    fn held(&self, which: &Selection) -> Vec<Key> {
        let from_here = self.items.range(which.first_key()..).map(|(key, _)| key);
        let of_session =
            from_here.take_while(|key| (key.source, &key.session) == (which.source, &which.session));
        of_session.filter(|key| which.holds(key)).cloned().collect()
    }

    /// Somebody sits at the session: nobody need be called.
    pub fn human_active(&mut self, source: Source, session: &SessionId) {
        self.ended(&Selection::session(source, session.clone()));
        for kind in Kind::ALL {
            self.forget_told((source, session.clone(), kind));
        }
    }

    /// Somebody was active at the session then: they saw what was all told before. Anything else is asked about when it is
    /// due; a dialog is over when it is closed.
    pub fn pressed(&mut self, source: Source, session: &SessionId, at: UnixMs) {
        let mut seen = self.held(&Selection::session(source, session.clone()));
        let was_told = |item: &Item| item.standing == Standing::Told && item.began < at;
        seen.retain(|key| !key.kind.is_dialog() && self.items.get(key).is_some_and(was_told));
        for key in seen {
            self.end(&key);
            self.forget_told((source, session.clone(), key.kind));
        }
    }

    fn forget_told(&mut self, flurry: Flurry) {
        if self.told_at.remove(&flurry).is_some() {
            self.effects.push_back(Effect::KeepTold(flurry, None));
        }
    }

    /// Time has passed.
    pub fn deadline(&mut self, now: Now) {
        self.cool_down(now);
        while self.due.first().is_some_and(|(at, _)| *at <= now.mono) {
            let Some((_, key)) = self.due.pop_first() else { return };
            match self.items.get(&key).map(|item| item.standing) {
                Some(Standing::Due(_) | Standing::Held(_)) => self.is_due(key, now),
                Some(Standing::Asked(_)) => self.tell(key, now),
                Some(Standing::Told) | None => {}
            }
        }
    }

    /// What has cooled down is forgotten.
    fn cool_down(&mut self, now: Now) {
        let (rules, effects) = (&self.rules, &mut self.effects);
        self.told_at.retain(|flurry, at| {
            let is_warm = now.mono.since(*at) < rules.of(flurry.2).cooldown_ms;
            if !is_warm {
                effects.push_back(Effect::KeepTold(flurry.clone(), None));
            }
            is_warm
        });
    }

    /// A look was taken on the engine's order.
    pub fn answered(&mut self, key: &Key, answer: Answer, now: Now) {
        let Some(item) = self.items.get(key) else { return };
        let Standing::Asked(_) = item.standing else { return };
        if answer.gone {
            return self.end(key);
        }
        if answer.active_at.is_some_and(|at| at > item.began) {
            return self.human_active(key.source, &key.session);
        }
        match self.focus_left_ms(answer.active_at, now) {
            Some(left) => self.put_off(key.clone(), now.mono + left, now),
            None => self.tell(key.clone(), now),
        }
    }

    /// How long somebody who was active at the pane may still be looking at it.
    fn focus_left_ms(&self, active_at: Option<UnixMs>, now: Now) -> Option<u64> {
        let ago = u64::try_from(now.wall.0.saturating_sub(active_at?.0)).unwrap_or(0);
        Some(self.rules.focus_ms.saturating_sub(ago)).filter(|left| *left > 0)
    }

    fn is_due(&mut self, key: Key, now: Now) {
        let quiet = self.rules.quiet.and_then(|quiet| quiet.left_ms(now));
        let muted = self.mutes.iter().filter_map(|mute| mute.left_ms(&key, now)).max();
        if let Some(left) = quiet.max(muted) {
            return self.put_off_all(key, left, now);
        }
        if let Some(at) = self.cool_at(&key).filter(|at| *at > now.mono) {
            return self.put_off(key, at, now);
        }
        self.effects.push_back(Effect::Ask { key: key.clone() });
        self.stand(key, Standing::Asked(now.mono + ANSWERED_WITHIN_MS));
    }

    /// Only an item's first notice cools down: its further steps are wanted.
    fn cool_at(&self, key: &Key) -> Option<Mono> {
        let first = self.items.get(key).is_some_and(|item| item.step == 0);
        let told = self.told_at.get(&(key.source, key.session.clone(), key.kind)).filter(|_| first);
        told.map(|at| *at + self.rules.of(key.kind).cooldown_ms)
    }

    fn put_off(&mut self, key: Key, until: Mono, now: Now) {
        self.stand(key.clone(), Standing::Due(until));
        self.keep_row(&key, now);
    }

    /// The further steps are put off with it, or all would come at once.
    fn put_off_all(&mut self, key: Key, by_ms: u64, now: Now) {
        if let Some(item) = self.items.get_mut(&key) {
            item.base = item.base + by_ms;
        }
        self.stand(key.clone(), Standing::Held(now.mono + by_ms));
        self.keep_row(&key, now);
    }

    fn tell(&mut self, key: Key, now: Now) {
        let rule = self.rules.of(key.kind);
        let Some(item) = self.items.get_mut(&key) else { return };
        let step = item.step;
        let routes = rule.steps.get(step).map(|step| step.routes.clone()).unwrap_or_default();
        item.step += 1;
        let next = rule.steps.get(item.step).map(|next| item.base + next.after_ms);
        let standing = next.map_or(Standing::Told, |at| Standing::Due(at.max(now.mono)));
        let waited_ms = u64::try_from(now.wall.0.saturating_sub(item.began.0)).unwrap_or(0);
        let began = item.began;
        let cools_down = rule.cooldown_ms > 0;
        self.stand(key.clone(), standing);
        self.keep_row(&key, now);
        if routes.is_empty() {
            return;
        }
        if cools_down {
            let flurry = (key.source, key.session.clone(), key.kind);
            self.told_at.insert(flurry.clone(), now.mono);
            self.effects.push_back(Effect::KeepTold(flurry, Some(now.wall)));
        }
        self.effects.push_back(Effect::Notice { key, step, routes, began, waited_ms });
    }

    /// Says nothing about that session or kind until then; what falls into it is told afterwards.
    pub fn mute(&mut self, mute: Mute, now: Now) {
        if self.mutes.iter().any(|old| old.what == mute.what && old.until > mute.until) {
            self.release(now);
        }
        self.mutes.retain(|old| old.what != mute.what && old.until > now.wall);
        if mute.until > now.wall {
            self.mutes.push(mute);
        }
        self.effects.push_back(Effect::KeepMutes(self.mutes.clone()));
    }

    /// A mute ends earlier than it said: whatever is held is looked at again, and held again by what is left.
    fn release(&mut self, now: Now) {
        let is_held = |item: &Item| matches!(item.standing, Standing::Held(_));
        let held: Vec<Key> =
            self.items.iter().filter(|(_, item)| is_held(item)).map(|(key, _)| key.clone()).collect();
        for key in held {
            if let Some(item) = self.take(&key) {
                self.put(key.clone(), item.released(now));
                self.keep_row(&key, now);
            }
        }
    }

    /// What is muted now.
    pub fn mutes(&self, now: Now) -> Vec<Mute> {
        self.mutes.iter().filter(|mute| mute.until > now.wall).cloned().collect()
    }

    /// Whether it waits.
    pub fn holds(&self, key: &Key) -> bool {
        self.items.contains_key(key)
    }

    /// Everything that waits, by session.
    pub fn waiting(&self, now: Now) -> Vec<Waiting> {
        let waiting = self.items.iter().map(|(key, item)| Waiting {
            key: key.clone(),
            began: item.began,
            told: self.rules.of(key.kind).steps.iter().take(item.step).filter(|step| step.is_told()).count(),
            next_in_ms: self.next_notice_at(key, item).map(|at| at.since(now.mono)),
            muted: self.mutes.iter().any(|mute| mute.left_ms(key, now).is_some()),
        });
        waiting.collect()
    }

    /// A step without routes is none that anybody hears of.
    fn next_notice_at(&self, key: &Key, item: &Item) -> Option<Mono> {
        let due = item.due_at()?;
        let steps = self.rules.of(key.kind).steps.iter().enumerate().skip(item.step);
        let (place, step) = steps.into_iter().find(|(_, step)| step.is_told())?;
        Some(if place == item.step { due } else { due.max(item.base + step.after_ms) })
    }

    fn keep_row(&mut self, key: &Key, now: Now) {
        if let Some(item) = self.items.get(key) {
            self.effects.push_back(Effect::Keep(Row::of(key, item, now)));
        }
    }

    fn put(&mut self, key: Key, item: Item) {
        self.take(&key);
        if let Some(at) = item.due_at() {
            self.due.insert((at, key.clone()));
        }
        self.items.insert(key, item);
    }

    fn stand(&mut self, key: Key, standing: Standing) {
        if let Some(item) = self.take(&key) {
            self.put(key, Item { standing, ..item });
        }
    }

    fn take(&mut self, key: &Key) -> Option<Item> {
        let item = self.items.remove(key)?;
        if let Some(at) = item.due_at() {
            self.due.remove(&(at, key.clone()));
        }
        Some(item)
    }

    fn end(&mut self, key: &Key) {
        if self.take(key).is_some() {
            self.effects.push_back(Effect::Forget(key.clone()));
        }
    }
}
