//! What waits for somebody: its key, where it stands, and the row that outlives a restart.

use std::fmt;

use ccmux_wire::id::SessionId;
use serde::{Deserialize, Serialize};

use crate::now::{Mono, Now, UnixMs};

/// Which program an item comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Claude Code.
    Claude,
    /// OpenCode.
    Opencode,
    /// ccmux itself.
    Ccmux,
}

/// What kind of thing waits; each has rules of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A turn is over and nobody went on: the silence reminder.
    Reply,
    /// A tool call waits for permission.
    Permission,
    /// A question waits for an answer.
    Question,
    /// A sub-agent is done.
    SubagentReply,
    /// A turn failed, or the agent keeps ending.
    Failure,
    /// Messages can't go in, or nobody knows whether they did.
    Stuck,
    /// Somebody sent a message to a person.
    Message,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] = [
        Self::Reply,
        Self::Permission,
        Self::Question,
        Self::SubagentReply,
        Self::Failure,
        Self::Stuck,
        Self::Message,
    ];

    /// The word as in JSON and in the settings.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reply => "reply",
            Self::Permission => "permission",
            Self::Question => "question",
            Self::SubagentReply => "subagent_reply",
            Self::Failure => "failure",
            Self::Stuck => "stuck",
            Self::Message => "message",
        }
    }

    /// The kind of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// A dialog is open: a look can tell whether it still is.
    pub fn is_dialog(self) -> bool {
        matches!(self, Self::Permission | Self::Question)
    }
}

/// What waits: two items with the same key are one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Which program.
    pub source: Source,
    /// Whose.
    pub session: SessionId,
    /// What kind.
    pub kind: Kind,
    /// Which of that kind: an id or a fingerprint, never text.
    pub subject: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.session, self.kind.word(), self.subject)
    }
}

/// Which items end together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Which program.
    pub source: Source,
    /// Whose.
    pub session: SessionId,
    /// Of that kind only.
    pub kind: Option<Kind>,
    /// That one only.
    pub subject: Option<String>,
}

impl Selection {
    /// Everything of a session.
    pub fn session(source: Source, session: SessionId) -> Self {
        Self { source, session, kind: None, subject: None }
    }

    /// All of one kind.
    pub fn kind(self, kind: Kind) -> Self {
        Self { kind: Some(kind), ..self }
    }

    pub(super) fn holds(&self, key: &Key) -> bool {
        self.kind.is_none_or(|kind| kind == key.kind)
            && self.subject.as_ref().is_none_or(|subject| *subject == key.subject)
    }

    /// Before every key of the session.
    pub(super) fn first_key(&self) -> Key {
        let (source, session) = (self.source, self.session.clone());
        Key { source, session, kind: Kind::Reply, subject: String::new() }
    }
}

/// Where an item stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its next notice is due then.
    Due(Mono),
    /// The same, and that only since something is muted, or hours are quiet, until then.
    Held(Mono),
    /// The runtime was asked whether it still waits; without an answer until then it does.
    Asked(Mono),
    /// Everything was said; it still waits.
    Told,
}

/// Something that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// Since when, for people.
    pub(super) began: UnixMs,
    /// What the steps are counted from.
    pub(super) base: Mono,
    /// The next step.
    pub(super) step: usize,
    pub(super) standing: Standing,
}

impl Item {
    /// When the engine must do something about it.
    pub(super) fn due_at(&self) -> Option<Mono> {
        match self.standing {
            Standing::Due(at) | Standing::Held(at) | Standing::Asked(at) => Some(at),
            Standing::Told => None,
        }
    }
}

impl Item {
    /// What held it may be over: it is due now, and its further steps come as much earlier.
    pub(super) fn released(self, now: Now) -> Self {
        let Standing::Held(until) = self.standing else { return self };
        let base = Mono(self.base.0.saturating_sub(until.since(now.mono)));
        Self { base, standing: Standing::Due(now.mono), ..self }
    }
}

/// An item as it is kept: wall-clock times, since the other clock begins anew with the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Which.
    #[serde(flatten)]
    pub key: Key,
    /// Since when it waits.
    pub began: UnixMs,
    /// What the steps are counted from.
    pub base: UnixMs,
    /// The next step: so many are done.
    pub step: usize,
    /// When that is due; absent: all was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<UnixMs>,
    /// It would be due by now, but for a mute or quiet hours.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
}

impl Row {
    pub(super) fn of(key: &Key, item: &Item, now: Now) -> Self {
        let due = item.due_at().map(|at| wall_of(at, now));
        Self {
            key: key.clone(),
            began: item.began,
            base: wall_of(item.base, now),
            step: item.step,
            due: due.filter(|_| item.standing != Standing::Told),
            held: matches!(item.standing, Standing::Held(_)),
        }
    }
}

/// A moment on the wall clock, as far from now as on the other.
fn wall_of(at: Mono, now: Now) -> UnixMs {
    let ahead = i64::try_from(at.since(now.mono)).unwrap_or(i64::MAX);
    let behind = i64::try_from(now.mono.since(at)).unwrap_or(i64::MAX);
    UnixMs(now.wall.0.saturating_add(ahead).saturating_sub(behind))
}

/// The other way round. What lies before the machine's start is as old as the clock can say.
pub(super) fn mono_of(at: UnixMs, now: Now) -> Mono {
    let ahead = u64::try_from(at.0.saturating_sub(now.wall.0)).unwrap_or(0);
    let behind = u64::try_from(now.wall.0.saturating_sub(at.0)).unwrap_or(0);
    Mono((now.mono + ahead).0.saturating_sub(behind))
}
