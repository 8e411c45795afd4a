//! Where events come from: which came before, and which stream is which process's.
//!
//! A server's stream does not say whose it is. Where a plugin runs in that server, every event comes by both ways: the
//! first one that does so joins them.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

/// A second copy comes within moments: so many ids are known.
const MAX_SEEN: usize = 4096;

/// Who told of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The plugin in that process.
    Process(u32),
    /// The stream of that server of the settings.
    Stream(u32),
}

/// A stream, and the process that it turned out to be of.
pub(super) type Joined = (Origin, Origin);

/// Knows connections and ids.
#[derive(Debug, Default)]
pub(super) struct Origins {
    open: BTreeMap<Origin, usize>,
    joined: BTreeMap<Origin, Origin>,
    seen: BTreeMap<String, Origin>,
    order: VecDeque<String>,
}

impl Origins {
    /// The process, where a stream's is known.
    pub(super) fn of(&self, origin: Origin) -> Origin {
        self.joined.get(&origin).copied().unwrap_or(origin)
    }

    pub(super) fn opened(&mut self, origin: Origin) {
        *self.open.entry(origin).or_default() += 1;
    }

    /// Whose last connection that was.
    pub(super) fn closed(&mut self, origin: Origin) -> Option<Origin> {
        let owner = self.of(origin);
        let is_last = |count: &mut usize| {
            *count = count.saturating_sub(1);
            *count == 0
        };
        if self.open.get_mut(&origin).is_none_or(is_last) {
            self.open.remove(&origin);
            self.joined.remove(&origin);
        }
        let has_stream = self.joined.values().any(|process| *process == owner);
        (!self.open.contains_key(&owner) && !has_stream).then_some(owner)
    }

    /// Whose it is, unless it came before; and what was joined by it.
    pub(super) fn admit(&mut self, origin: Origin, id: Option<&str>) -> (Option<Origin>, Option<Joined>) {
        let Some(id) = id else { return (Some(self.of(origin)), None) };
        let Some(first) = self.seen.get(id).copied() else {
            self.note(id, origin);
            return (Some(self.of(origin)), None);
        };
        match (first, origin) {
            (stream @ Origin::Stream(_), process @ Origin::Process(_))
            | (process @ Origin::Process(_), stream @ Origin::Stream(_)) => {
                let is_new = self.joined.insert(stream, process).is_none();
                (None, is_new.then_some((stream, process)))
            }
            (first, again) if first == again => (None, None),
            // Another process that happens to use the same id.
            _ => (Some(self.of(origin)), None),
        }
    }

    fn note(&mut self, id: &str, origin: Origin) {
        if self.order.len() == MAX_SEEN
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        self.seen.insert(id.to_owned(), origin);
        self.order.push_back(id.to_owned());
    }
}
