//! What is told when, and what keeps it from being told: the user's settings, as numbers.

use ccmux_wire::id::SessionId;
use serde::{Deserialize, Serialize};

use super::item::{Key, Kind};
use crate::now::{Now, UnixMs};

/// The name of a route: `[routes.NAME]`.
pub type RouteName = String;

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

/// One notice of an item: when, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Since the item began.
    pub after_ms: u64,
    /// The first one that works takes the notice.
    pub routes: Vec<RouteName>,
}

impl Step {
    /// Somebody hears of it.
    pub(super) fn is_told(&self) -> bool {
        !self.routes.is_empty()
    }
}

/// The rules of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// The notices, in order; none: the kind is off.
    pub steps: Vec<Step>,
    /// After a notice of a session, the first notice of another item of the kind waits that long.
    pub cooldown_ms: u64,
}

/// The rules of all kinds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// In the order of [`Kind::ALL`].
    pub kinds: [Rule; 7],
    /// What begins again so soon is the same: Claude may fire a hook 2 to 4 times.
    pub dedup_ms: u64,
    /// Where somebody was active at the pane so recently, a notice waits whether they act; 0: it does not.
    pub focus_ms: u64,
    /// No notices during these hours: they come afterwards, if it still waits.
    pub quiet: Option<QuietHours>,
}

impl Rules {
    /// Those of a kind.
    pub fn of(&self, kind: Kind) -> &Rule {
        &self.kinds[kind as usize]
    }
}

/// Minutes of the local day, `from` up to, not including, `to`; they may go over midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuietHours {
    /// Minute of the day.
    pub from: u16,
    /// Minute of the day.
    pub to: u16,
}

impl QuietHours {
    /// How long they last from now on; `None`: it is not quiet.
    pub(super) fn left_ms(self, now: Now) -> Option<u64> {
        let local = now.wall.0.saturating_add(i64::from(now.utc_offset_s) * 1000).rem_euclid(DAY_MS);
        let since = |minute: u16| (local - i64::from(minute) * MINUTE_MS).rem_euclid(DAY_MS);
        let length = (i64::from(self.to) - i64::from(self.from)).rem_euclid(DAY_MS / MINUTE_MS) * MINUTE_MS;
        let left = length - since(self.from);
        u64::try_from(left).ok().filter(|left| *left > 0)
    }
}

/// What a person wants no notices of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Muted {
    /// A session.
    Session(SessionId),
    /// A kind.
    Kind(Kind),
}

/// Until when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mute {
    /// What.
    pub what: Muted,
    /// The notices that fell into it come then, if it still waits.
    pub until: UnixMs,
}

impl Mute {
    pub(super) fn left_ms(&self, key: &Key, now: Now) -> Option<u64> {
        let holds = match &self.what {
            Muted::Session(session) => *session == key.session,
            Muted::Kind(kind) => *kind == key.kind,
        };
        let left = self.until.0.saturating_sub(now.wall.0);
        u64::try_from(left).ok().filter(|left| holds && *left > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hour: i64, minute: i64, utc_offset_s: i32) -> Now {
        Now { wall: UnixMs((hour * 60 + minute) * MINUTE_MS + 5 * DAY_MS), utc_offset_s, ..Now::default() }
    }

    #[test]
    fn quiet_hours_are_local_and_may_go_over_midnight() {
        let night = QuietHours { from: 22 * 60, to: 7 * 60 };
        assert_eq!(night.left_ms(at(21, 59, 0)), None);
        assert_eq!(night.left_ms(at(22, 0, 0)), Some(9 * 3_600_000));
        assert_eq!(night.left_ms(at(6, 59, 0)), Some(60_000));
        assert_eq!(night.left_ms(at(7, 0, 0)), None);
        assert_eq!(night.left_ms(at(21, 0, 7200)), Some(8 * 3_600_000), "23:00 in the zone");
        let lunch = QuietHours { from: 12 * 60, to: 13 * 60 };
        assert_eq!((lunch.left_ms(at(11, 0, 0)), lunch.left_ms(at(12, 30, 0))), (None, Some(1_800_000)));
        assert_eq!(QuietHours { from: 60, to: 60 }.left_ms(at(1, 0, 0)), None, "no hours at all");
    }

    #[test]
    fn each_kind_has_its_own_rule() {
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
            assert_eq!(Kind::from_word(kind.word()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.word());
        }
    }
}
