//! What OpenCode's events mean for whoever waits: one state for each session of each process, its open asks by request.
//!
//! ```text
//! busy ─► ... ─► idle     with a `finish`: complete; a root's waits for its descendants, a child's is a sub-agent's
//!   ├─ asked ─► answered      each by its own id; an abort, the idle, the process's end drop them
//!   ├─ retry ─► step          the model does not answer, and does again
//!   └─ error ─► idle, idle    told once a turn; an abort is no error, and its two idles are no completions
//! ```
//!
//! The facts are those of OpenCode 1.18: an idle comes up to twice a turn, without title or parent; what looks like
//! activity (`session.updated`, an old user message sent again) is none; a prompt that OpenCode wrote itself is no human's.
//! An event may come twice: the plugin is loaded twice, or a server's stream tells it too. Knows ids and moments in their
//! order, no text and no clock: the engine beside it decides when something is told.

mod origins;
mod session;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ccmux_wire::id::SessionId;

use super::{Key, Kind, Selection, Source};
pub use origins::Origin;
use origins::Origins;
use session::Session;

/// Sessions known at most; those that were quiet for longest are forgotten first.
const MAX_SESSIONS: usize = 4096;
/// A chain of parents is never that long.
const MAX_DEPTH: usize = 16;

/// What happened in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It was made, or changed.
    Info {
        /// Whose sub-agent it is.
        parent: Option<SessionId>,
    },
    /// A turn runs.
    Busy,
    /// The model did not answer, and will be asked again.
    Retry,
    /// The model answers.
    Step,
    /// The turn is over.
    Idle,
    /// It asks for something.
    Asked {
        /// Permission or question.
        kind: Kind,
        /// Its id.
        request: String,
    },
    /// That was answered, by whomever.
    Answered {
        /// Its id.
        request: String,
    },
    /// There is a user's message, perhaps an old one again.
    UserMessage {
        /// Its id.
        message: String,
    },
    /// Who wrote it, if it is the latest.
    Written {
        /// Its id.
        message: String,
        /// OpenCode itself.
        synthetic: bool,
    },
    /// The model's message, so far.
    Assistant {
        /// It is complete, and not for calling tools, and no summary.
        finished: bool,
    },
    /// The turn failed.
    Failed {
        /// Somebody pressed Esc.
        aborted: bool,
    },
    /// It is gone.
    Deleted,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// It waits from now on; the key names the root.
    Began {
        /// Who told of it.
        origin: Origin,
        /// For the engine.
        key: Key,
        /// The session itself, perhaps a sub-agent's.
        about: SessionId,
    },
    /// It waits no more.
    Ended(Selection),
    /// Somebody wrote a prompt.
    HumanActive(SessionId),
    /// Nothing need be known of it any more.
    Forget(SessionId),
}

/// A session of a process.
type At = (Origin, SessionId);

/// Knows every session that was heard of.
#[derive(Debug, Default)]
pub struct Opencode {
    origins: Origins,
    sessions: BTreeMap<At, Session>,
    orders: VecDeque<Order>,
    heard: u64,
}

impl Opencode {
    /// The next order, oldest first.
    pub fn next_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// A process or a server's stream is connected, once more.
    pub fn opened(&mut self, origin: Origin) {
        self.origins.opened(origin);
    }

    /// What was asked before a restart, of that session of theirs.
    pub fn restored(&mut self, origin: Origin, about: &SessionId, key: &Key) {
        let session = self.session(&(origin, about.clone()));
        if *about != key.session {
            session.parent = Some(Some(key.session.clone()));
        }
        match key.kind {
            Kind::Stuck => session.retries = Some(key.session.clone()),
            kind => drop(session.ask(&key.subject, kind, key.session.clone())),
        }
    }

    /// One connection has ended; with the last one its sessions ask nothing any more. What was completed stays so: `run`
    /// ends with its turn.
    pub fn closed(&mut self, origin: Origin) {
        let Some(gone) = self.origins.closed(origin) else { return };
        let all: Vec<At> = self.sessions.keys().filter(|at| at.0 == gone).cloned().collect();
        for at in all {
            self.drop_asks(&at);
            self.forget(&at);
        }
    }

    /// Something happened. `id`: the event's; the same one again says nothing new.
    pub fn hear(&mut self, origin: Origin, id: Option<&str>, session: &SessionId, event: Event) {
        let Some(origin) = self.admit(origin, id) else { return };
        let at = (origin, session.clone());
        self.heard += 1;
        let heard = self.heard;
        self.sessions.entry(at.clone()).or_default().heard = heard;
        self.apply(&at, event);
        self.forget_quiet();
    }

    /// What a server says of itself after its stream was interrupted: which sessions are busy, and what is asked. What is
    /// asked in a session that is idle was left behind by an abort.
    pub fn reconciled(
        &mut self,
        origin: Origin,
        busy: &BTreeSet<SessionId>,
        asks: &[(SessionId, Kind, String)],
    ) {
        let origin = self.origins.of(origin);
        let known: Vec<SessionId> =
            self.sessions.keys().filter(|at| at.0 == origin).map(|at| at.1.clone()).collect();
        for session in known.into_iter().filter(|session| !busy.contains(session)) {
            self.hear(origin, None, &session, Event::Assistant { finished: false });
            self.hear(origin, None, &session, Event::Idle);
        }
        for session in busy {
            self.answered_meanwhile(&(origin, session.clone()), asks);
            self.hear(origin, None, session, Event::Busy);
        }
        for (session, kind, request) in asks.iter().filter(|ask| busy.contains(&ask.0)) {
            let asked = Event::Asked { kind: *kind, request: request.clone() };
            self.hear(origin, None, session, asked);
        }
    }

    fn answered_meanwhile(&mut self, at: &At, asks: &[(SessionId, Kind, String)]) {
        let open = self.sessions.get(at).map(|session| session.asks.clone()).unwrap_or_default();
        for request in open.into_keys().filter(|open| !asks.iter().any(|(_, _, request)| request == open)) {
            self.apply(at, Event::Answered { request });
        }
    }

    /// Whose event it is; `None`: it came before. A stream that tells what a process told is that process's.
    fn admit(&mut self, origin: Origin, id: Option<&str>) -> Option<Origin> {
        let (admitted, joined) = self.origins.admit(origin, id);
        if let Some((stream, process)) = joined {
            let of_stream: Vec<At> = self.sessions.keys().filter(|at| at.0 == stream).cloned().collect();
            for at in of_stream {
                if let Some(session) = self.sessions.remove(&at) {
                    self.sessions.entry((process, at.1)).or_insert(session);
                }
            }
        }
        admitted
    }

    fn apply(&mut self, at: &At, event: Event) {
        match event {
            Event::Info { parent } => self.introduced(at, parent),
            Event::Busy => self.busy(at),
            Event::Retry => self.retry(at),
            Event::Step => self.answers_again(at),
            Event::Idle => self.idle(at),
            Event::Asked { kind, request } => self.asked(at, kind, request),
            Event::Answered { request } => self.answered(at, request),
            Event::UserMessage { message } => self.user_message(at, message),
            Event::Written { message, synthetic } => self.written(at, &message, synthetic),
            Event::Assistant { finished } => self.session(at).finished = finished,
            Event::Failed { aborted } => self.failed(at, aborted),
            Event::Deleted => self.deleted(at),
        }
    }

    fn session(&mut self, at: &At) -> &mut Session {
        self.sessions.entry(at.clone()).or_default()
    }

    /// Whose it is may be said only after its turn: who heard nothing of its beginning is told behind its end.
    fn introduced(&mut self, at: &At, parent: Option<SessionId>) {
        let session = self.session(at);
        let is_complete = std::mem::take(&mut session.nameless) && parent.is_none();
        session.parent = Some(parent);
        if is_complete {
            self.completed(at);
        }
    }

    /// The session that started it all, as far as that is known.
    fn root(&self, at: &At) -> SessionId {
        let mut root = at.1.clone();
        for _ in 0..MAX_DEPTH {
            let session = self.sessions.get(&(at.0, root.clone()));
            match session.and_then(|session| session.parent.clone().flatten()) {
                Some(parent) => root = parent,
                None => break,
            }
        }
        root
    }

    fn is_child(&self, at: &At) -> bool {
        self.root(at) != at.1
    }

    fn busy(&mut self, at: &At) {
        let begins = self.session(at).begin();
        if !self.is_child(at) {
            self.end_turn_before(&at.1, begins);
        }
    }

    fn end_turn_before(&mut self, root: &SessionId, begins: bool) {
        self.end(root, Some(Kind::Reply), None);
        self.end(root, Some(Kind::Failure), None);
        if begins {
            self.end(root, Some(Kind::SubagentReply), None);
        }
    }

    fn retry(&mut self, at: &At) {
        self.busy(at);
        let root = self.root(at);
        if self.session(at).retries.replace(root).is_none() {
            self.began(at, Kind::Stuck, at.1.to_string());
        }
    }

    fn answers_again(&mut self, at: &At) {
        if let Some(root) = self.session(at).retries.take() {
            self.end(&root, Some(Kind::Stuck), Some(at.1.to_string()));
        }
    }

    fn idle(&mut self, at: &At) {
        self.drop_asks(at);
        let completed = self.session(at).end();
        if self.is_child(at) {
            if completed {
                self.began(at, Kind::SubagentReply, at.1.to_string());
            }
            self.child_is_done(at);
        } else if completed {
            self.completed(at);
        }
    }

    fn child_is_done(&mut self, child: &At) {
        let root = (child.0, self.root(child));
        if self.sessions.get(&root).is_some_and(|root| root.deferred) {
            self.completed(&root);
        }
    }

    /// While a descendant runs, a turn of the root's own follows: nobody is waited for. Who is not known to be a root may
    /// be a child, and waits until that is said.
    fn completed(&mut self, root: &At) {
        let runs = self
            .sessions
            .iter()
            .any(|(at, session)| at.0 == root.0 && at.1 != root.1 && session.busy && self.root(at) == root.1);
        let session = self.session(root);
        session.deferred = runs;
        session.nameless = !runs && session.parent.is_none();
        if !runs && !session.nameless {
            let turn = session.turn();
            self.began(root, Kind::Reply, turn);
        }
    }

    fn asked(&mut self, at: &At, kind: Kind, request: String) {
        let root = self.root(at);
        if self.session(at).ask(&request, kind, root) {
            self.began(at, kind, request);
        }
    }

    /// Also what was asked before a restart.
    fn answered(&mut self, at: &At, request: String) {
        let asked = self.session(at).asks.remove(&request);
        let root = asked.map_or_else(|| self.root(at), |(_, root)| root);
        self.end(&root, None, Some(request));
    }

    fn drop_asks(&mut self, at: &At) {
        self.answers_again(at);
        for (request, (kind, root)) in std::mem::take(&mut self.session(at).asks) {
            self.end(&root, Some(kind), Some(request));
        }
    }

    fn user_message(&mut self, at: &At, message: String) {
        if self.session(at).is_new(message) && !self.is_child(at) {
            self.end_turn_before(&at.1, true);
        }
    }

    /// A sub-agent's prompt is written by the agent.
    fn written(&mut self, at: &At, message: &str, synthetic: bool) {
        if self.session(at).is_written(message, synthetic) && !self.is_child(at) {
            self.orders.push_back(Order::HumanActive(at.1.clone()));
        }
    }

    /// A sub-agent's failure is for the agent that started it.
    fn failed(&mut self, at: &At, aborted: bool) {
        self.drop_asks(at);
        let is_first = self.session(at).fail();
        if is_first && !aborted && !self.is_child(at) {
            let turn = self.session(at).turn();
            self.began(at, Kind::Failure, turn);
        }
    }

    fn deleted(&mut self, at: &At) {
        self.drop_asks(at);
        let root = self.root(at);
        self.session(at).busy = false;
        if root == at.1 {
            self.end(&root, None, None);
        } else {
            self.end(&root, None, Some(at.1.to_string()));
            self.child_is_done(at);
        }
        self.forget(at);
    }

    fn forget(&mut self, at: &At) {
        self.sessions.remove(at);
        self.orders.push_back(Order::Forget(at.1.clone()));
    }

    fn forget_quiet(&mut self) {
        if self.sessions.len() > MAX_SESSIONS
            && let Some(at) = self.sessions.iter().min_by_key(|(_, session)| session.heard).map(|(at, _)| at)
        {
            let at = at.clone();
            self.drop_asks(&at);
            self.forget(&at);
        }
    }

    fn began(&mut self, at: &At, kind: Kind, subject: String) {
        let key = Key { source: Source::Opencode, session: self.root(at), kind, subject };
        self.orders.push_back(Order::Began { origin: at.0, key, about: at.1.clone() });
    }

    fn end(&mut self, session: &SessionId, kind: Option<Kind>, subject: Option<String>) {
        let (source, session) = (Source::Opencode, session.clone());
        self.orders.push_back(Order::Ended(Selection { source, session, kind, subject }));
    }
}
