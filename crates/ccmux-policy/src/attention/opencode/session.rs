//! One session of OpenCode's: what its turn has shown so far.

use std::collections::{BTreeMap, VecDeque};

use ccmux_wire::id::SessionId;

use crate::attention::Kind;

/// More open asks of one session are not believed.
const MAX_ASKS: usize = 64;
/// A user's message is sent again seconds later (its summary is done): so many are known.
const MAX_MESSAGES: usize = 32;

/// What is known of it.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// `None`: nobody has said; `Some(None)`: it is a root.
    pub(super) parent: Option<Option<SessionId>>,
    pub(super) busy: bool,
    /// The last message of the model in this turn is complete.
    pub(super) finished: bool,
    /// The turn's failure, or its abort, was heard of.
    failed: bool,
    /// The model does not answer: whose item says so.
    pub(super) retries: Option<SessionId>,
    /// It was complete while descendants ran.
    pub(super) deferred: bool,
    /// It was complete while nobody knew whether it is a root.
    pub(super) nameless: bool,
    /// By request, and whose item each is: a parent may be heard of later.
    pub(super) asks: BTreeMap<String, (Kind, SessionId)>,
    /// The user's messages, latest last.
    messages: VecDeque<String>,
    /// The latest one's author is known.
    is_written: bool,
    turns: u64,
    /// When, among all events.
    pub(super) heard: u64,
}

impl Session {
    /// A turn runs; `true`: it began just now.
    pub(super) fn begin(&mut self) -> bool {
        if std::mem::replace(&mut self.busy, true) {
            return false;
        }
        self.begin_turn();
        true
    }

    fn begin_turn(&mut self) {
        self.turns += 1;
        (self.finished, self.failed, self.deferred, self.nameless) = (false, false, false, false);
    }

    /// It is idle; `true`: a turn was completed by that.
    pub(super) fn end(&mut self) -> bool {
        let ran = std::mem::take(&mut self.busy);
        let finished = std::mem::take(&mut self.finished);
        ran && finished && !self.failed
    }

    /// `true`: nobody was told of the turn's failure.
    pub(super) fn fail(&mut self) -> bool {
        self.finished = false;
        !std::mem::replace(&mut self.failed, true)
    }

    /// `true`: it was not open already.
    pub(super) fn ask(&mut self, request: &str, kind: Kind, root: SessionId) -> bool {
        let has_room = self.asks.len() < MAX_ASKS;
        if !has_room || self.asks.contains_key(request) {
            return false;
        }
        self.asks.insert(request.to_owned(), (kind, root));
        true
    }

    /// Notes a user's message; `true`: it begins something new.
    pub(super) fn is_new(&mut self, message: String) -> bool {
        if self.messages.contains(&message) {
            return false;
        }
        if self.messages.len() == MAX_MESSAGES {
            self.messages.pop_front();
        }
        self.messages.push_back(message);
        self.is_written = false;
        self.begin_turn();
        true
    }

    /// `true`: a human wrote the latest message, which was not known yet.
    pub(super) fn is_written(&mut self, message: &str, synthetic: bool) -> bool {
        let is_latest = self.messages.back().is_some_and(|latest| latest == message);
        is_latest && !synthetic && !std::mem::replace(&mut self.is_written, true)
    }

    /// What names the turn, also after a restart if OpenCode said it.
    pub(super) fn turn(&self) -> String {
        self.messages.back().cloned().unwrap_or_else(|| format!("turn {}", self.turns))
    }
}
