//! What the storm does next, from a seed: the same seed gives the same strokes. Times are measured from facts, so that
//! a blow falls where it hurts: right after the text was typed, right after Enter, while a message is being accepted.
//!
//! ```text
//! Stroke: wait for the moment "a batch was entered" ─► 17 ms more ─► kill the daemon, start it 80 ms later
//! ```
//!
//! Pure: knows no process.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;

/// A fact to wait for, told by the daemon's own log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Anytime,
    Ready,
    Accepted,
    Injected,
    Entered,
    Delivered,
    TurnPublished,
}

impl Moment {
    /// The event in the log that marks it.
    pub fn event(self) -> Option<&'static str> {
        match self {
            Self::Anytime => None,
            Self::Ready => Some("daemon.ready"),
            Self::Accepted => Some("message.accepted"),
            Self::Injected => Some("batch.injected"),
            Self::Entered => Some("batch.entered"),
            Self::Delivered => Some("batch.delivered"),
            Self::TurnPublished => Some("turn.published"),
        }
    }
}

/// What is wrong with the agent that starts next: its own switches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults(Vec<(&'static str, String)>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, value)| writeln!(f, "{name}={value}"))
    }
}

impl Faults {
    fn one(name: &'static str, value: impl ToString) -> Self {
        Self(vec![(name, value.to_string())])
    }

    fn random(dice: &mut Rng, hooks_may_fail: bool) -> Self {
        match dice.u32(0..if hooks_may_fail { 12 } else { 8 }) {
            0 | 1 => Self::default(),
            2 => Self::one("CCMUX_DEMO_SWALLOW_ENTER", dice.u32(1..=2)),
            3 => Self::one("CCMUX_DEMO_ENTER_DEAF_MS", dice.u32(50..1_000)),
            4 => Self::one("CCMUX_DEMO_HOOKS", 3),
            5 => Self::one("CCMUX_DEMO_HOOKS_DELAY_MS", dice.u32(50..1_500)),
            6 => Self::one("CCMUX_DEMO_TRANSCRIPT_DELAY_MS", dice.u32(50..1_000)),
            7 => Self::one("CCMUX_DEMO_STATE_FILE", "off"),
            8 => Self::one("CCMUX_DEMO_HOOKS", "off"),
            9 => Self::one("CCMUX_DEMO_HOOKS_DROP", "UserPromptSubmit"),
            10 => Self::one("CCMUX_DEMO_HOOKS_DROP", "Stop"),
            _ => Self::one("CCMUX_DEMO_HOOKS_DROP", "SessionStart"),
        }
    }
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blow {
    /// SIGKILL, and a new one that much later.
    KillDaemon { down: Duration },
    /// SIGKILL; the next one has these faults.
    KillAgent(Faults),
    /// SIGKILL to the tmux server; the agent goes with it.
    KillTmux(Faults),
    /// Subscribers read nothing for that long.
    StallReaders(Duration),
    /// The state directory takes nothing more for that long.
    FillDisk(Duration),
}

/// One thing that is done, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stroke {
    pub moment: Moment,
    pub pause: Duration,
    pub blow: Blow,
}

/// All strokes of a seed.
#[derive(Debug)]
pub struct Strokes {
    dice: Rng,
    /// Blows against the daemon itself are among them.
    kills: bool,
    hooks_may_fail: bool,
    /// The only moment that is waited for.
    aim: Option<Moment>,
}

impl Strokes {
    pub fn new(seed: u64, hooks_may_fail: bool) -> Self {
        Self { dice: Rng::with_seed(seed), kills: true, hooks_may_fail, aim: None }
    }

    /// All blows fall right after that moment.
    pub fn aimed_at(self, aim: Option<Moment>) -> Self {
        Self { aim, ..self }
    }

    /// The daemon is left alone from here on, everything else is not.
    pub fn sparing_the_daemon(self) -> Self {
        Self { kills: false, ..self }
    }

    fn millis(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.dice.u64(range))
    }

    fn blow(&mut self) -> Blow {
        let among = if self.kills { 0..100 } else { 88..100 };
        match self.dice.u32(among) {
            0..88 => {
                // Mostly at once, as systemd does; sometimes it takes a while.
                let down = if self.dice.u32(0..8) == 0 { 100..800 } else { 0..20 };
                Blow::KillDaemon { down: self.millis(down) }
            }
            88..94 => Blow::KillAgent(Faults::random(&mut self.dice, self.hooks_may_fail)),
            94..96 => Blow::KillTmux(Faults::random(&mut self.dice, self.hooks_may_fail)),
            96..98 => Blow::StallReaders(self.millis(500..8_000)),
            _ => Blow::FillDisk(self.millis(300..2_500)),
        }
    }

    /// Mostly right after the moment: what can go wrong there goes wrong within milliseconds.
    fn soon(&mut self, limit_ms: f64) -> Duration {
        Duration::from_secs_f64(limit_ms / 1_000.0 * self.dice.f64().powi(3))
    }

    fn moment(&mut self) -> (Moment, Duration) {
        if let Some(aim) = self.aim {
            return (aim, self.soon(30.0));
        }
        match self.dice.u32(0..20) {
            0..6 => (Moment::Anytime, self.millis(100..400)),
            6..9 => (Moment::Ready, self.millis(0..500)),
            9..11 => (Moment::Accepted, self.soon(60.0)),
            11..14 => (Moment::Injected, self.soon(300.0)),
            14..18 => (Moment::Entered, self.soon(300.0)),
            18 => (Moment::Delivered, self.soon(150.0)),
            _ => (Moment::TurnPublished, self.soon(100.0)),
        }
    }
}

impl Iterator for Strokes {
    type Item = Stroke;

    fn next(&mut self) -> Option<Stroke> {
        let (moment, pause) = self.moment();
        Some(Stroke { moment, pause, blow: self.blow() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_strokes() {
        let some = |seed| Strokes::new(seed, true).take(200).collect::<Vec<_>>();
        assert_eq!(some(7), some(7));
        assert_ne!(some(7), some(8));
    }

    #[test]
    fn every_kind_of_blow_falls_within_a_short_run() {
        let strokes: Vec<Stroke> = Strokes::new(1, true).take(400).collect();
        let count = |is: fn(&Blow) -> bool| strokes.iter().filter(|stroke| is(&stroke.blow)).count();
        assert!(count(|blow| matches!(blow, Blow::KillDaemon { .. })) > 300);
        assert!(count(|blow| matches!(blow, Blow::KillAgent(_))) > 5);
        assert!(count(|blow| matches!(blow, Blow::KillTmux(_))) > 1);
        assert!(count(|blow| matches!(blow, Blow::StallReaders(_))) > 1);
        assert!(count(|blow| matches!(blow, Blow::FillDisk(_))) > 1);
    }

    #[test]
    fn a_spared_daemon_is_not_killed() {
        let mut strokes = Strokes::new(1, true).sparing_the_daemon().take(300);
        assert!(strokes.all(|stroke| !matches!(stroke.blow, Blow::KillDaemon { .. })));
    }

    #[test]
    fn where_hooks_must_come_none_is_dropped() {
        let strokes = Strokes::new(3, false).sparing_the_daemon().take(500);
        let faults: String = strokes
            .filter_map(|stroke| match stroke.blow {
                Blow::KillAgent(faults) | Blow::KillTmux(faults) => Some(faults.to_string()),
                _ => None,
            })
            .collect();
        assert!(
            faults.contains("CCMUX_DEMO_HOOKS=3") && !faults.contains("off\n") || !faults.contains("DROP")
        );
        assert!(!faults.contains("CCMUX_DEMO_HOOKS=off") && !faults.contains("HOOKS_DROP"), "{faults}");
    }
}
