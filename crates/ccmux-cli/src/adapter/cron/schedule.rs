//! Which occurrences are due: entries, and how far the time was dealt with. Pure: it is told the time.
//!
//! ```text
//!        missed        sent: grace            not yet
//! ───┼─────────────┼──────────────────────┼────────────►
//!   seen       now - grace               now
//! ```
//!
//! The grace is a minute, and what `--catch-up` adds to it: an adapter that is started again within the minute of an
//! occurrence leaves nothing out. A machine that slept, or a clock that was set far ahead, does not bring a flood.

use std::time::Duration;

use ccmux_wire::channel::ChannelName;
use jiff::{SignedDuration, Timestamp};

use super::crontab::Entry;

const MINUTE: SignedDuration = SignedDuration::from_secs(60);

/// A message whose time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    pub channel: ChannelName,
    pub text: String,
    pub id: String,
    pub at: Timestamp,
}

/// Entries, and up to when they were asked for.
#[derive(Debug)]
pub struct Schedule {
    entries: Vec<Entry>,
    seen: Timestamp,
    grace: SignedDuration,
}

impl Schedule {
    pub fn new(entries: Vec<Entry>, now: Timestamp, catch_up: Duration) -> Self {
        let catch_up = SignedDuration::try_from(catch_up).unwrap_or(SignedDuration::ZERO);
        let grace = MINUTE.saturating_add(catch_up);
        Self { entries, seen: back(now, grace), grace }
    }

    /// Other entries, from this minute on: what the old ones have sent of it is known by its id.
    pub fn replace(&mut self, entries: Vec<Entry>, now: Timestamp) {
        self.entries = entries;
        self.seen = self.seen.min(back(now, MINUTE));
    }

    /// What came due since the last question, in the order of time; and, if something came due too long ago, the moment
    /// before which it was left out.
    pub fn due(&mut self, now: Timestamp) -> (Vec<Due>, Option<Timestamp>) {
        let from = self.seen.max(back(now, self.grace));
        let missed = self.next_after(self.seen).is_some_and(|next| next <= from && from <= now);
        let mut due: Vec<Due> = self.entries.iter().flat_map(|entry| occurrences(entry, from, now)).collect();
        due.sort_by_key(|due| due.at);
        // A clock that was set back makes times come again: their ids are known.
        self.seen = now;
        (due, missed.then_some(from))
    }

    /// When something comes due that [`Schedule::due`] has not told yet.
    pub fn next(&self) -> Option<Timestamp> {
        self.next_after(self.seen)
    }

    fn next_after(&self, moment: Timestamp) -> Option<Timestamp> {
        self.entries.iter().filter_map(|entry| entry.next_after(moment)).min()
    }
}

/// Behind `from`, up to `to` inclusive.
fn occurrences(entry: &Entry, from: Timestamp, to: Timestamp) -> impl Iterator<Item = Due> {
    let first = entry.next_after(from);
    std::iter::successors(first, |at| entry.next_after(*at)).take_while(move |at| *at <= to).map(|at| Due {
        channel: entry.channel.clone(),
        text: entry.text.clone(),
        id: entry.id_at(at),
        at,
    })
}

fn back(moment: Timestamp, span: SignedDuration) -> Timestamp {
    moment.checked_sub(span).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests;
