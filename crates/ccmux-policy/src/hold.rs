//! Why nothing is sent to Claude although its box is empty: the API said no in a turn, and would say no again.
//!
//! ```text
//!              a failure                    its time is over
//! no hold ───────────────────► held ───────────────────────────► on trial: one message goes in
//!    ▲                           ▲                                  │ a failure: a longer pause
//!    │ a turn ends well,         └──────────────────────────────────┤
//!    │ somebody logs in                                             │
//!    └──────────────────────────────────────────────────────────────┘
//! ```
//!
//! A usage limit is held until its reset, where that is known; what needs a person is held until one has acted. All else
//! has pauses that grow. Knows Claude Code's word for the failure and never its text.

use serde::{Deserialize, Serialize};

use ccmux_wire::id::PromptId;

use crate::now::{Mono, Now, UnixMs};

/// Pauses are doubled up to this.
const LONGEST_PAUSE_MS: u64 = 30 * 60_000;
/// A hook that fires again fires within moments.
const SAME_WITHIN_MS: u64 = 2_000;

/// What stands behind a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The plan's or the key's limit: it is reset some time.
    UsageLimit,
    /// The API does not keep up, or can't be reached.
    Trouble,
    /// Login, account or model are refused: a person has to do something.
    Refused,
}

impl Cause {
    /// By Claude Code's word; `None`: the next message may well succeed.
    fn of(error: &str) -> Option<Self> {
        match error {
            "rate_limit" => Some(Self::UsageLimit),
            "invalid_request" | "max_output_tokens" => None,
            "authentication_failed"
            | "oauth_org_not_allowed"
            | "account_on_hold"
            | "verification_required"
            | "billing_error"
            | "cloud_credential_error"
            | "model_not_found" => Some(Self::Refused),
            _ => Some(Self::Trouble),
        }
    }

    /// The pause after the n-th failure in a row (from 1); `None`: until somebody acts. Where the transcript alone tells of
    /// failures, nobody need tell that somebody acted.
    fn pause_ms(self, failure: Failure<'_>, n: u32) -> Option<u64> {
        let doubled = |first: u64, n: u32| (first << n.min(16)).min(LONGEST_PAUSE_MS);
        match self {
            Self::Refused if failure.is_read && n == 1 => Some(0),
            Self::Refused if failure.is_read => Some(doubled(60_000, n - 2)),
            Self::Refused => None,
            Self::UsageLimit => Some(doubled(60_000, n - 1)),
            // Claude Code itself tried for minutes.
            Self::Trouble if matches!(failure.error, "overloaded" | "server_error") => {
                Some(doubled(15_000, n - 1))
            }
            // One message that the API does not like must not hold up the others.
            Self::Trouble if n == 1 => Some(0),
            Self::Trouble => Some(doubled(15_000, n - 2)),
        }
    }
}

/// The failure of a turn, told by a hook or found in the transcript.
#[derive(Debug, Clone, Copy)]
pub struct Failure<'a> {
    /// Of this turn.
    pub prompt: Option<&'a PromptId>,
    /// Claude Code's word for it.
    pub error: &'a str,
    /// When the limit ends, as Claude Code says.
    pub resets_at: Option<UnixMs>,
    /// It stands in the transcript, and no hook told.
    pub is_read: bool,
}

/// A hold, as it is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// What stands behind it.
    pub cause: Cause,
    /// Failures in a row.
    pub failures: u32,
    /// It is tried again then; absent: when somebody has acted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<UnixMs>,
}

/// What a failure leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// The hold from now on.
    pub held: Option<Held>,
    /// People do not know of it yet.
    pub is_news: bool,
}

/// The hold, if there is one.
#[derive(Debug, Clone, Default)]
pub struct Hold {
    held: Option<Held>,
    until: Option<Mono>,
    failed_at: Option<Mono>,
    /// People know of it.
    told: bool,
    /// A message went in to find out.
    tried: bool,
}

impl Hold {
    /// An earlier daemon left it.
    pub fn found(&mut self, held: Held, now: Now) {
        self.set(held, now);
        self.told = true;
    }

    /// The API said no.
    pub fn failed(&mut self, failure: Failure<'_>, now: Now) -> Failed {
        self.failed_at = Some(now.mono);
        let Some(cause) = Cause::of(failure.error) else {
            return Failed { held: None, is_news: false };
        };
        let before = self.held.filter(|held| held.cause == cause);
        let failures = before.map_or(1, |held| held.failures.saturating_add(1));
        let resets_at = failure.resets_at.filter(|at| cause == Cause::UsageLimit && *at > now.wall);
        let pause = match (cause.pause_ms(failure, failures), resets_at) {
            // It says when, and is believed once: after another failure at that time it is waited for besides.
            (Some(pause), Some(at)) => {
                Some(at.0.abs_diff(now.wall.0).max(if failures > 1 { pause } else { 0 }))
            }
            (pause, _) => pause,
        };
        let until = pause.map(|pause| UnixMs(now.wall.0.saturating_add_unsigned(pause)));
        let held = Held { cause, failures, until };
        self.set(held, now);
        let is_held = self.is_closed(now);
        let was_told = self.told && before.is_some();
        self.told = was_told || is_held;
        Failed { held: Some(held).filter(|_| is_held), is_news: is_held && !was_told }
    }

    fn set(&mut self, held: Held, now: Now) {
        self.tried = false;
        self.held = Some(held);
        let left = held.until.map(|at| at.0.saturating_sub(now.wall.0).max(0).unsigned_abs());
        self.until = left.map(|left| now.mono + left);
    }

    /// A failure was told that recently: the same hook fired again.
    pub fn failed_just_now(&self, now: Now) -> bool {
        self.failed_at.is_some_and(|at| now.mono.since(at) < SAME_WITHIN_MS)
    }

    /// The API answers, or somebody acted. Says whether people know of what is over; `None`: nothing was.
    pub fn lift(&mut self) -> Option<bool> {
        self.until = None;
        let told = std::mem::take(&mut self.told);
        self.held.take().map(|_| told)
    }

    /// What is held.
    pub fn held(&self) -> Option<Held> {
        self.held
    }

    /// Nothing goes in.
    pub fn is_closed(&self, now: Now) -> bool {
        self.held.is_some() && self.until.is_none_or(|until| now.mono < until)
    }

    /// Its time is over, and nobody knows yet whether the API answers.
    pub fn is_on_trial(&self, now: Now) -> bool {
        self.held.is_some_and(|held| held.until.is_some()) && !self.is_closed(now)
    }

    /// A message goes in. Says whether it goes alone, to find out.
    pub fn tries(&mut self, now: Now) -> bool {
        self.tried = self.is_on_trial(now);
        self.tried
    }

    /// One went in, and a turn was read: not one from before that.
    pub fn is_tried(&self, now: Now) -> bool {
        self.tried && self.is_on_trial(now)
    }

    /// When it is tried again.
    pub fn tried_at(&self, now: Now) -> Option<Mono> {
        self.until.filter(|until| *until > now.mono)
    }
}

/// `until 15:04`, on the clock at the wall; with the days where there are some.
pub fn until_text(until: UnixMs, now: Now) -> String {
    let minutes = (until.0 / 1000 + i64::from(now.utc_offset_s)).div_euclid(60);
    let (hour, minute) = (minutes.div_euclid(60).rem_euclid(24), minutes.rem_euclid(60));
    let days = until.0.saturating_sub(now.wall.0) / 86_400_000;
    let days = match days {
        0 => String::new(),
        1 => ", in a day".to_owned(),
        days => format!(", in {days} days"),
    };
    format!("until {hour:02}:{minute:02}{days}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Now {
        Now { mono: Mono(ms), wall: UnixMs(ms as i64), utc_offset_s: 0 }
    }

    fn told(error: &str, resets_at: Option<UnixMs>) -> Failure<'_> {
        Failure { prompt: None, error, resets_at, is_read: false }
    }

    /// Pauses in seconds after so many failures in a row.
    fn pauses(failure: Failure<'_>, count: usize) -> Vec<Option<u64>> {
        let (mut hold, mut now) = (Hold::default(), at(0));
        let mut pause = || {
            hold.failed(failure, now);
            let until = hold.tried_at(now);
            let pause = until.map(|until| until.since(now.mono) / 1000);
            now = at(until.map_or(now.mono.0, |until| until.0) + 5_000);
            pause
        };
        (0..count).map(|_| pause()).collect()
    }

    #[test]
    fn pauses_grow_where_nobody_says_how_long_it_lasts() {
        let seconds = |list: &[u64]| list.iter().map(|s| Some(*s)).collect::<Vec<_>>();
        assert_eq!(pauses(told("rate_limit", None), 7), seconds(&[60, 120, 240, 480, 960, 1800, 1800]));
        assert_eq!(pauses(told("overloaded", None), 4), seconds(&[15, 30, 60, 120]));
        assert_eq!(
            pauses(told("unknown", None), 3),
            [None, Some(15), Some(30)],
            "one message may be to blame"
        );
        let read = Failure { is_read: true, ..told("billing_error", None) };
        assert_eq!(pauses(read, 3), [None, Some(60), Some(120)], "no hook need tell when somebody has acted");
        assert_eq!(pauses(told("invalid_request", None), 2), [None, None]);
    }

    /// Field fault 33.
    #[test]
    fn a_known_reset_is_waited_for_and_not_believed_twice() {
        let mut hold = Hold::default();
        let reset = Some(UnixMs(7_200_000));
        let first = hold.failed(told("rate_limit", reset), at(0));
        assert!(first.is_news && hold.is_closed(at(7_199_999)) && !hold.is_closed(at(7_200_000)));
        assert!(hold.is_on_trial(at(7_200_000)));
        hold.failed(told("rate_limit", Some(UnixMs(7_200_010))), at(7_200_005));
        assert_eq!(hold.tried_at(at(7_200_005)), Some(Mono(7_320_005)), "its clock is another one");
        hold.failed(told("rate_limit", Some(UnixMs(3))), at(7_400_000));
        assert_eq!(hold.tried_at(at(7_400_000)), Some(Mono(7_640_000)), "what is over says nothing");
    }

    #[test]
    fn what_needs_a_person_is_held_until_it_is_lifted_and_told_once() {
        let mut hold = Hold::default();
        assert!(hold.failed(told("authentication_failed", None), at(0)).is_news);
        assert!(!hold.failed(told("authentication_failed", None), at(9_000)).is_news);
        assert!(hold.is_closed(at(u64::MAX / 2)) && !hold.is_on_trial(at(9_000)));
        assert!(hold.lift().is_some() && hold.lift().is_none() && !hold.is_closed(at(9_000)));
    }

    #[test]
    fn times_are_told_as_on_the_clock_at_the_wall() {
        let now = Now { utc_offset_s: 7_200, ..at(0) };
        assert_eq!(until_text(UnixMs(3_600_000), now), "until 03:00");
        assert_eq!(until_text(UnixMs(3 * 86_400_000 + 60_000), now), "until 02:01, in 3 days");
    }
}
