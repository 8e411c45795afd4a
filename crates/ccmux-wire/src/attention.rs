//! What waits for somebody, as `ccmux attention` shows it; and what is muted.

use serde::{Deserialize, Serialize};

/// Everything that waits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Longest first.
    pub items: Vec<WaitingItem>,
    /// What no notices come of.
    #[serde(default)]
    pub mutes: Vec<MutedUntil>,
}

impl Standing {
    /// Without what changes by itself.
    pub fn timeless(&self) -> Self {
        let mut standing = self.clone();
        standing.items.iter_mut().for_each(|item| item.next_in_ms = None);
        standing
    }
}

/// Something that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingItem {
    /// `reply`, `permission`, `question`, `subagent_reply`, `failure`, `stuck`, `message`.
    pub kind: String,
    /// Whose.
    pub session: String,
    /// Since when, in milliseconds since 1970.
    pub since_ms: i64,
    /// So many notices went out.
    pub told: usize,
    /// When the next one is due.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_in_ms: Option<u64>,
    /// Notices are put off.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub muted: bool,
    /// What it is about, in one line.
    pub what: String,
}

/// A session or a kind without notices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MutedUntil {
    /// The session's id, or the kind's word.
    pub what: String,
    /// Milliseconds since 1970.
    pub until_ms: i64,
}

/// To say nothing about a session or a kind for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MuteRequest {
    /// A kind's word, or a session's id.
    pub what: String,
    /// Seconds; 0: notices come again.
    pub for_s: u64,
}
