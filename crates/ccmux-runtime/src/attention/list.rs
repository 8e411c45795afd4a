//! What people are shown of what waits, and what they may mute.
//!
//! A typing error would mute nobody, and nobody would notice: a session must be known, or its id look like one.

use ccmux_policy::attention::{Mute, Muted};
use ccmux_wire::attention::{MutedUntil, Standing, WaitingItem};
use ccmux_wire::id::SessionId;

use super::attendant::Attendant;
use super::words::Text;
use crate::terminal::Terminal;

impl<T: Terminal> Attendant<T> {
    /// `false`: nobody knows that session.
    pub(super) fn mute(&mut self, mute: Mute) -> bool {
        let now = self.setting.clock.now();
        if let Muted::Session(session) = &mute.what
            && mute.until > now.wall
            && !self.knows(session)
        {
            return false;
        }
        self.engine.mute(mute, now);
        true
    }

    fn knows(&self, session: &SessionId) -> bool {
        looks_like_one(session.as_str())
            || self.turns.contains_key(session)
            || self.own_session().as_ref() == Some(session)
            || self.texts.keys().any(|key| key.session == *session)
    }

    pub(super) fn standing(&self) -> Standing {
        let now = self.setting.clock.now();
        let mut items: Vec<WaitingItem> = self
            .engine
            .waiting(now)
            .into_iter()
            .map(|waiting| WaitingItem {
                kind: waiting.key.kind.word().to_owned(),
                session: waiting.key.session.to_string(),
                since_ms: waiting.began.0,
                told: waiting.told,
                next_in_ms: waiting.next_in_ms,
                muted: waiting.muted,
                what: self.texts.get(&waiting.key).map(Text::line).unwrap_or_default(),
            })
            .collect();
        items.sort_by_key(|item| item.since_ms);
        let mutes = self.engine.mutes(now).into_iter().map(|Mute { what, until }| MutedUntil {
            what: match what {
                Muted::Session(session) => session.to_string(),
                Muted::Kind(kind) => kind.word().to_owned(),
            },
            until_ms: until.0,
        });
        Standing { items, mutes: mutes.collect() }
    }
}

/// Claude Code's are UUIDs, OpenCode's begin with `ses_`.
fn looks_like_one(id: &str) -> bool {
    let opencode = |rest: &str| rest.len() >= 8 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
    uuid::Uuid::try_parse(id).is_ok() || id.strip_prefix("ses_").is_some_and(opencode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_sessions_are_told_from_typing_errors() {
        for id in ["3a0964c3-e4a5-4edc-bdd0-7f47bcc84843", "ses_5d3a1b2c3d4eXYZ"] {
            assert!(looks_like_one(id), "{id}");
        }
        for id in ["replies", "permision", "ses_", "3a0964c3", ""] {
            assert!(!looks_like_one(id), "{id}");
        }
    }
}
