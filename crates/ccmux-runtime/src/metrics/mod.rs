//! What `GET /metrics` tells: counts and times since the daemon's start, and how things stand now.
//!
//! ```text
//! inbox ── receipts ──► Follower ─┐
//! event loop, hooks, herald ──────┼─► Metrics ──┐
//!                                 status, now ──┴─► page: Prometheus text
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`follower`] | counts what becomes of messages, and how long each leg took |
//! | [`page`] | all of it as Prometheus' text format |
//! | [`histogram`] | times in buckets |
//!
//! Nothing is polled: whoever does something counts it, and the rest is read when somebody asks. It knows no texts of messages
//! and no secrets. Labels are words of ours, or names of channels and hooks, of which a bounded number is told apart.

pub mod follower;
pub mod histogram;
pub mod page;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccmux_policy::event::{Origin, SessionFact};
use ccmux_policy::{AlertKind, Event, Mono, Now};
use ccmux_wire::channel::ChannelName;
use ccmux_wire::receipt::{MessageState, Receipt};

pub use follower::Follower;
use histogram::Histogram;
pub use page::Page;

/// So many names are told apart; a program that makes up names must not make the daemon grow.
const NAMES: usize = 100;
/// All further names. No channel can be called that.
const FURTHER: &str = "(other)";

/// What is counted. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Mutex<Counts>>);

/// Counts by a name that others choose.
#[derive(Debug, Clone, Default)]
struct ByName(BTreeMap<String, u64>);

impl ByName {
    fn add(&mut self, name: &str) {
        let known = self.0.contains_key(name) || self.0.len() < NAMES;
        *self.0.entry(if known { name } else { FURTHER }.to_owned()).or_default() += 1;
    }
}

/// Everything, behind one lock that is held for less than a microsecond.
#[derive(Debug, Clone, Default)]
struct Counts {
    /// Messages by what became of them, and channel.
    messages: BTreeMap<&'static str, ByName>,
    alerts: BTreeMap<&'static str, u64>,
    hooks: ByName,
    /// Legs of messages.
    legs: BTreeMap<&'static str, Histogram>,
    stop_to_published: Histogram,
    /// When a turn's end was heard that is not published yet.
    stopped: Option<Mono>,
    /// Receipts that came faster than they were counted.
    missed: u64,
}

impl Metrics {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message came to a state that it was not in before.
    fn reached(&self, receipt: &Receipt) {
        let mut counts = self.counts();
        counts.messages.entry(receipt.state.word()).or_default().add(receipt.channel.as_str());
        let Some(legs) = receipt.legs else { return };
        let took: &[_] = match receipt.state {
            MessageState::Delivered => {
                &[("queued", legs.queued_ms), ("typed", legs.typed_ms), ("proved", legs.proved_ms)]
            }
            MessageState::Answered => &[("answered", legs.answered_ms)],
            _ => &[],
        };
        for (leg, ms) in took {
            if let Some(ms) = ms {
                counts.legs.entry(leg).or_default().add(*ms);
            }
        }
    }

    /// A message was not taken in.
    pub fn rejected(&self, channel: &ChannelName) {
        self.counts().messages.entry("rejected").or_default().add(channel.as_str());
    }

    /// Something was told.
    pub fn alerted(&self, kind: AlertKind) {
        *self.counts().alerts.entry(kind.word()).or_default() += 1;
    }

    /// A hook spoke.
    pub fn hooked(&self, event: &str) {
        let plain =
            !event.is_empty() && event.len() <= 40 && event.bytes().all(|byte| byte.is_ascii_alphanumeric());
        self.counts().hooks.add(if plain { event } else { FURTHER });
    }

    /// Something happened: of interest is how long a turn takes from its end to its subscribers.
    pub fn happened(&self, event: &Event, now: Now) {
        match event {
            Event::Session { origin: Origin::Own, fact: SessionFact::TurnEnded { .. }, .. } => {
                self.counts().stopped.get_or_insert(now.mono);
            }
            // A Stop that brought nothing new published nothing.
            Event::Session { origin: Origin::Own, fact: SessionFact::PromptSubmitted { .. }, .. } => {
                self.counts().stopped = None;
            }
            Event::TurnPublished { .. } => {
                let mut counts = self.counts();
                if let Some(stopped) = counts.stopped.take() {
                    counts.stop_to_published.add(now.mono.since(stopped));
                }
            }
            _ => {}
        }
    }

    fn missed(&self, receipts: u64) {
        self.counts().missed += receipts;
    }
}

#[cfg(test)]
mod tests;
