//! Whether a batch may be injected now, and if not, why.
//!
//! [`ask`] is a pure function of the evidence. It is asked at every event and deadline while something is queued;
//! there is no "wait for the next Stop".

use ccmux_wire::status::StateWord;

use crate::evidence::{Activity, Evidence};
use crate::hold::Cause;
use crate::now::{Mono, Now};
use crate::screen::{BoxHolds, ScreenClass, Seen};
use crate::settings::PolicySettings;

/// Claude must have been idle that long.
const SETTLE_MS: u64 = 300;
/// How soon ccmux looks again while the screen says no.
const LOOK_AGAIN_MS: u64 = 1_000;
/// How soon it looks again while Claude is busy: events come first, this is the net.
const LOOK_WHILE_BUSY_MS: u64 = 5_000;
/// tmux tells activity in whole seconds.
const ACTIVITY_RESOLUTION_MS: u64 = 1_000;

/// Finishes the sentence "closed because ...".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// the daemon is stopping
    Stopping,
    /// the agent does not run
    Down,
    /// the agent ended by itself and is not started again
    Ended,
    /// the agent keeps ending at once
    Degraded,
    /// the agent could not be started
    NotStarted {
        /// What kept it from starting.
        why: String,
        /// It keeps failing.
        degraded: bool,
    },
    /// the agent was started and its prompt box was not seen yet
    Starting,
    /// the API failed, and would fail again
    Held {
        /// Because of this.
        cause: Cause,
        /// `until 15:04`; absent: until somebody acts.
        until: Option<String>,
    },
    /// a batch is on its way; the text says how far it is
    InFlight(&'static str),
    /// a turn runs
    Busy,
    /// a dialog is open
    Dialog(String),
    /// Claude has only just become idle
    Settling,
    /// the screen was not seen since the last event
    Unseen,
    /// the pane is in copy mode
    CopyMode,
    /// somebody's text is in the prompt box
    Draft,
    /// the pane has too few rows for what waits
    TooSmall {
        /// Rows of text that the prompt box has room for.
        has: u32,
        /// Rows that the text needs.
        needs: u32,
    },
    /// the prompt box is in vim's normal mode
    VimNormal,
    /// a human was active
    Human {
        /// That many seconds ago.
        ago_s: u64,
    },
    /// the screen fits no rule
    UnknownScreen,
    /// the agent's screen is gone
    ShellScreen,
    /// the last attempt was refused by the terminal
    Refused(String),
    /// the screen can't be looked at
    LookFailed(String),
}

impl Reason {
    /// The state word it stands for.
    pub fn word(&self) -> StateWord {
        match self {
            Self::Degraded | Self::NotStarted { degraded: true, .. } => StateWord::Degraded,
            Self::Stopping | Self::Down | Self::Ended | Self::NotStarted { .. } => StateWord::Down,
            Self::Starting => StateWord::Starting,
            Self::InFlight(_) | Self::Busy | Self::Settling => StateWord::Busy,
            Self::Dialog(_) => StateWord::Dialog,
            Self::Unseen | Self::UnknownScreen | Self::ShellScreen => StateWord::Unknown,
            Self::Refused(_) | Self::LookFailed(_) => StateWord::Unknown,
            Self::CopyMode => StateWord::CopyMode,
            Self::Draft | Self::VimNormal => StateWord::Draft,
            Self::Human { .. } => StateWord::Human,
            Self::Held { .. } | Self::TooSmall { .. } => StateWord::Held,
        }
    }

    /// A sentence for people.
    pub fn sentence(&self) -> String {
        match self {
            Self::Stopping => "the daemon is stopping".into(),
            Self::Down => "the agent does not run".into(),
            Self::Ended => "the agent ended and is not started again (agent.restart_on_exit = false)".into(),
            Self::Degraded => "the agent keeps ending at once".into(),
            Self::NotStarted { why, .. } => format!("the agent could not be started: {why}"),
            Self::Starting => "the agent was started and its prompt box was not seen yet".into(),
            Self::InFlight(stage) => (*stage).into(),
            Self::Held { cause, until } => held_sentence(*cause, until.as_deref()),
            Self::Busy => "a turn runs".into(),
            Self::Dialog(which) => format!("a dialog is open ({which})"),
            Self::Settling => "Claude has only just become idle".into(),
            Self::Unseen => "the screen was not seen since the last event".into(),
            Self::CopyMode => "the pane is in copy mode".into(),
            Self::Draft => "somebody's text is in the prompt box".into(),
            Self::TooSmall { has, needs } => {
                format!(
                    "the pane is too small: its prompt box has room for {has} rows of text, the message needs {needs}"
                )
            }
            Self::VimNormal => "the prompt box is in vim's normal mode, where Enter is a motion".into(),
            Self::Human { ago_s } => format!("a human was active {ago_s} s ago"),
            Self::UnknownScreen => "the screen fits no rule".into(),
            Self::ShellScreen => "the agent's screen is gone, or a shell runs in its pane".into(),
            Self::Refused(why) => format!("the terminal refused the last attempt ({why})"),
            Self::LookFailed(why) => format!("the screen can't be looked at ({why})"),
        }
    }

    /// What would open the gate.
    pub fn opens_when(&self) -> &'static str {
        match self {
            Self::Stopping => "the daemon is started again",
            Self::Down | Self::Degraded | Self::NotStarted { .. } => "the agent is started again",
            Self::Ended => "the daemon is restarted, or agent.restart_on_exit is set and `ccmux reload` run",
            Self::Starting => "the prompt box is on the screen",
            Self::InFlight(_) => "the batch is delivered, or proved absent",
            Self::Held { cause: Cause::Refused, .. } => {
                "somebody logs in or mends the account (ccmux attach), and a turn ends well or the agent is started anew; `ccmux reload` tries it"
            }
            Self::Held { .. } => "that time has come, or a turn ends well",
            Self::Busy => "the turn ends",
            Self::Dialog(_) => "the dialog is answered or closed",
            Self::Settling => "Claude stays idle for 0.3 s",
            Self::Unseen => "the next look shows an empty prompt box",
            Self::CopyMode => "copy mode is left (press q)",
            Self::Draft => "the prompt box is emptied or sent by whoever typed there",
            Self::TooSmall { .. } => {
                "the pane has more rows (enlarge the window, or close the panes beside it)"
            }
            Self::VimNormal => "insert mode is entered (press i)",
            Self::Human { .. } => {
                "nobody was active for idle_threshold seconds, or the box stayed empty that long (a mouse types nothing)"
            }
            Self::UnknownScreen => "the screen shows a prompt box",
            Self::ShellScreen => {
                "the agent is the pane's own process (a script must exec it) and shows a prompt box"
            }
            Self::Refused(_) | Self::LookFailed(_) => "the next attempt succeeds",
        }
    }
}

fn held_sentence(cause: Cause, until: Option<&str>) -> String {
    let what = match cause {
        Cause::UsageLimit => "Claude's usage limit is reached",
        Cause::Trouble => "the API is overloaded or can't be reached",
        Cause::Refused => "the API refuses Claude's login, account or model",
    };
    format!("{what}; nothing is sent {}", until.unwrap_or("until somebody has done something about it"))
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// Inject now.
    Open,
    /// Not now.
    Closed {
        /// Because.
        reason: Reason,
        /// A look at that time may show something else; `None`: an event will tell.
        look_at: Option<Mono>,
    },
}

fn closed(reason: Reason, look_at: Option<Mono>) -> Gate {
    Gate::Closed { reason, look_at }
}

/// Asks the witnesses in order: what they do, how long, what the screen shows, who is at it. Where `look_at` is not
/// later than now, a look is due.
pub fn ask(evidence: &Evidence, settings: &PolicySettings, now: Now) -> Gate {
    match evidence.activity(now) {
        Activity::Busy => return closed(Reason::Busy, Some(net_at(evidence, now))),
        Activity::Dialog(which) => return closed(Reason::Dialog(which), Some(net_at(evidence, now))),
        Activity::Idle | Activity::Unknown => {}
    }
    if let Some(idle_since) = evidence.idle_since()
        && now.mono.since(idle_since) < SETTLE_MS
    {
        return closed(Reason::Settling, Some(idle_since + SETTLE_MS));
    }
    match evidence.fresh_look(now) {
        None => closed(Reason::Unseen, Some(now.mono)),
        Some(seen) => ask_screen(seen, evidence, settings, now),
    }
}

/// Events tell when a turn or a dialog ends; looks are the net beneath them, closer where a look already said ready.
fn net_at(evidence: &Evidence, now: Now) -> Mono {
    let ready = evidence.last_look().is_some_and(|seen| seen.class == ScreenClass::Ready);
    let pause = if ready { LOOK_AGAIN_MS } else { LOOK_WHILE_BUSY_MS };
    let look = evidence.looked_at().map_or(now.mono, |at| at + pause);
    evidence.hook_yields_at(now).map_or(look, |yields| yields.min(look))
}

fn ask_screen(seen: &Seen, evidence: &Evidence, settings: &PolicySettings, now: Now) -> Gate {
    let again = Some(now.mono + LOOK_AGAIN_MS);
    if seen.copy_mode {
        return closed(Reason::CopyMode, again);
    }
    match seen.class {
        ScreenClass::Busy | ScreenClass::Queued => return closed(Reason::Busy, again),
        ScreenClass::Dialog => {
            let which = seen.dialog.clone().unwrap_or_else(|| "on the screen".into());
            return closed(Reason::Dialog(which), again);
        }
        ScreenClass::Draft => return closed(Reason::Draft, again),
        ScreenClass::Shell => return closed(Reason::ShellScreen, again),
        ScreenClass::Unknown => return closed(Reason::UnknownScreen, again),
        ScreenClass::Ready => {}
    }
    // `press Enter to send` lingers above an emptied box: it means something only beside a text of ours.
    if seen.holds != BoxHolds::Nothing {
        return closed(Reason::Draft, again);
    }
    if seen.vim_normal {
        return closed(Reason::VimNormal, again);
    }
    match human_active(seen, evidence, settings, now) {
        Some(reason) => closed(reason, again),
        None => Gate::Open,
    }
}

/// A human who types leaves a draft. If activity goes on but the box was empty at every look for as long as
/// `idle_threshold`, it was a mouse or a focus change (F 53) and does not count.
fn human_active(seen: &Seen, evidence: &Evidence, settings: &PolicySettings, now: Now) -> Option<Reason> {
    let ago = active_ago(seen, settings, now)?;
    let since = evidence.box_empty_since();
    let only_mouse = since.is_some_and(|since| now.mono.since(since) >= settings.idle_threshold_ms);
    (!only_mouse).then_some(Reason::Human { ago_s: ago / 1000 })
}

/// Whether somebody was active after the box was first seen empty: at an open gate that was no typing.
pub fn is_only_mouse(evidence: &Evidence, settings: &PolicySettings, now: Now) -> bool {
    let empty = evidence.last_look().zip(evidence.box_empty_since());
    empty.is_some_and(|(seen, since)| {
        let ago = active_ago(seen, settings, now);
        ago.is_some_and(|ago| ago + ACTIVITY_RESOLUTION_MS < now.mono.since(since))
    })
}

/// How many ms ago a client that can type was active, if that is within `idle_threshold`.
fn active_ago(seen: &Seen, settings: &PolicySettings, now: Now) -> Option<u64> {
    let threshold = settings.idle_threshold_ms;
    let ago = now.wall.0.saturating_sub(seen.active_at?.0).max(0) as u64;
    (threshold > 0 && ago < threshold + ACTIVITY_RESOLUTION_MS).then_some(ago)
}
