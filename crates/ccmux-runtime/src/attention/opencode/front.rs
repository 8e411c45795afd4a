//! What is known of OpenCode's sessions in words, beside what the policy knows of them: titles, tasks, panes.
//!
//! ```text
//! Said{permission.asked, "bash"} ─► policy: Began(key) ─► Step::Began(key, "Tool: bash\nSession: fix the parser")
//! ```
//!
//! It decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use ccmux_policy::UnixMs;
use ccmux_policy::attention::opencode::{Opencode, Order, Origin};
use ccmux_policy::attention::{Key, Kind, Selection};
use ccmux_wire::id::SessionId;

use super::{News, Said, Teller};
use crate::attention::words::{TASK_CHARS, Text, shortened};
use crate::spots::Spot;

/// Words are kept until there are so many: what was completed before the session went may still be told.
const MAX_SESSIONS: usize = 4096;

/// What the attendant does.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// It waits from now on.
    Began(Key, Text),
    /// It waits no more.
    Ended(Selection),
    /// Somebody is there.
    HumanActive(SessionId),
}

/// What is known of a session.
#[derive(Debug, Default)]
struct About {
    title: String,
    task: String,
    started: Option<UnixMs>,
    /// It outlives the process: who ended that pressed a key there.
    spot: Option<Spot>,
}

/// Knows them all.
#[derive(Debug, Default)]
pub struct Front {
    policy: Opencode,
    sessions: BTreeMap<SessionId, About>,
    spots: BTreeMap<Origin, Spot>,
}

impl Front {
    /// What follows from it.
    pub fn hear(&mut self, news: News, now: UnixMs) -> Vec<Step> {
        match news {
            News::Opened { origin, spot } => {
                spot.map(|spot| self.spots.insert(origin, spot));
                self.policy.opened(origin);
                Vec::new()
            }
            News::Closed(origin) => {
                self.spots.remove(&origin);
                self.policy.closed(origin);
                self.steps(&|_| None, now)
            }
            News::Said { origin, said } => self.said(origin, *said, now),
            News::Reconciled { origin, busy, asks } => {
                let busy: BTreeSet<SessionId> = busy.into_iter().collect();
                let (asks, words): (Vec<_>, BTreeMap<_, _>) = asks
                    .into_iter()
                    .map(|(session, kind, request, words)| {
                        ((session, kind, request.clone()), (request, words))
                    })
                    .unzip();
                self.policy.reconciled(origin, &busy, &asks);
                self.steps(&|key| words.get(&key.subject).cloned(), now)
            }
        }
    }

    /// What was asked before a restart, by whoever told of it then.
    pub fn restored(&mut self, key: &Key, by: &Teller) {
        self.policy.restored(by.origin, &by.about, key);
    }

    /// Where somebody sees that session.
    pub fn spot_of(&self, session: &SessionId) -> Option<&Spot> {
        self.sessions.get(session)?.spot.as_ref()
    }

    fn said(&mut self, origin: Origin, said: Said, now: UnixMs) -> Vec<Step> {
        let Said { id, session, events, detail, title, task } = said;
        let about = self.sessions.entry(session.clone()).or_default();
        if let Some(spot) = self.spots.get(&origin) {
            about.spot = Some(spot.clone());
        }
        if let Some(title) = title {
            about.title = title;
        }
        if let Some(task) = task {
            (about.task, about.started) = (task, Some(now));
        }
        let mut id = id;
        for event in events {
            self.policy.hear(origin, id.take().as_deref(), &session, event);
        }
        self.steps(&|_| detail.clone(), now)
    }

    fn steps(&mut self, detail: &dyn Fn(&Key) -> Option<String>, now: UnixMs) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some(order) = self.policy.next_order() {
            match order {
                Order::Began { key, about, origin } => {
                    let text = self.text(&key, &about, detail(&key), now);
                    let text = if ends_with_its_teller(key.kind) {
                        Text::Told { by: Teller::of(origin, &about), text: Box::new(text) }
                    } else {
                        text
                    };
                    steps.push(Step::Began(key, text));
                }
                Order::Ended(which) => steps.push(Step::Ended(which)),
                Order::HumanActive(session) => steps.push(Step::HumanActive(session)),
                Order::Forget(session) if self.sessions.len() > MAX_SESSIONS => {
                    self.sessions.remove(&session);
                }
                Order::Forget(_) => {}
            }
        }
        steps
    }

    fn text(&self, key: &Key, about: &SessionId, detail: Option<String>, now: UnixMs) -> Text {
        let what = detail.unwrap_or_else(|| "unknown".to_owned());
        let (title, first) = match key.kind {
            Kind::Reply => return self.silence(&key.session, now),
            Kind::Permission => ("Permission Needed", format!("Tool: {what}")),
            Kind::Question => ("Question", what),
            Kind::SubagentReply => ("Sub-agent Done", format!("Agent: {}", self.title(about))),
            Kind::Stuck => ("The Model Does Not Answer", format!("It is asked again and again: {what}")),
            Kind::Failure | Kind::Message => ("Turn Failed", format!("Error: {what}")),
        };
        let mut body = format!("{first}\nSession: {}", self.title(&key.session));
        if *about != key.session && key.kind != Kind::SubagentReply {
            body.push_str(&format!("\nSub-agent: {}", self.title(about)));
        }
        Text::Plain { title: format!("OpenCode - {title}"), body }
    }

    /// The silence reminder: the task is what was written, or else the session's title.
    fn silence(&self, session: &SessionId, now: UnixMs) -> Text {
        let about = self.sessions.get(session);
        let task = about.map(|about| about.task.clone()).filter(|task| !task.is_empty());
        let task = task.unwrap_or_else(|| shortened(&self.title(session), TASK_CHARS));
        let started = about.and_then(|about| about.started).unwrap_or(now);
        let seconds = u64::try_from((now.0 - started.0) / 1000).unwrap_or(0);
        Text::Silence { task, started, seconds }
    }

    /// Several sessions are told apart by it.
    fn title(&self, session: &SessionId) -> String {
        let title = self.sessions.get(session).map(|about| about.title.clone());
        title.filter(|title| !title.is_empty()).unwrap_or_else(|| session.to_string())
    }
}

/// What is complete or failed stays so.
fn ends_with_its_teller(kind: Kind) -> bool {
    kind.is_dialog() || kind == Kind::Stuck
}

#[cfg(test)]
#[path = "front_tests.rs"]
mod tests;
