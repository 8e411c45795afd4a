//! What ccmux needs of a terminal: the one trait seam of the runtime.
//!
//! [`crate::tmux::Tmux`] is the real one; tests of the injector use a fake. Every method is bounded in time (5 s) by its
//! implementation. Nothing here knows messages or policy.

use std::future::Future;
use std::path::PathBuf;

use ccmux_policy::UnixMs;
use ccmux_policy::event::ExitStatus;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::agent::tmux_server::TmuxServer;

/// What must still be true of the pane at the moment something is typed; checked by the terminal itself, in the same
/// command, so that nothing can come in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The pane's own process must be this one, alive. (And the pane must be in no mode.)
    pub pid: i32,
    /// Nobody may have touched the terminal since a look.
    pub untouched: Option<Untouched>,
}

/// What a human's key changes: the activity at once, the cursor as soon as the agent has drawn it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untouched {
    /// Column and row.
    pub cursor: (u16, u16),
    /// The clients'; `None` where it can't tell, see [`Capture::activity`].
    pub activity: Option<Activity>,
}

/// When keys, mouse or focus last came from each session that shows the pane. To be compared only; resolution: 1 s.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Activity(String);

impl Activity {
    /// As the terminal prints it; `None` if that is anything but numbers and blanks, or nothing.
    pub fn new(printed: &str) -> Option<Self> {
        let plain = printed.chars().all(|c| c.is_ascii_digit() || c == ' ');
        (plain && !printed.trim().is_empty()).then(|| Self(printed.to_owned()))
    }

    /// Before this second all of it: a key from then on changes it.
    pub fn is_before(&self, second: i64) -> bool {
        self.0.split_whitespace().all(|at| at.parse().is_ok_and(|at: i64| at < second))
    }

    /// As it was printed.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What became of an order to type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
    /// The terminal took it.
    Done,
    /// The guard did not hold; nothing was typed. The text says what was different.
    Refused(String),
}

/// Why a terminal could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TerminalError {
    /// There is no such session or pane, or no server.
    #[error("there is no pane: {0}")]
    NoPane(String),
    /// It refused or failed; nothing was typed.
    #[error("{what}: {why}")]
    Failed {
        /// What was asked.
        what: &'static str,
        /// What it said.
        why: String,
    },
    /// No answer in time: whether it was done is unknown.
    #[error("{what}: no answer within {limit_s} s")]
    Silent {
        /// What was asked.
        what: &'static str,
        /// The limit.
        limit_s: u64,
    },
}

/// The pane as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pane {
    /// The terminal's own name for it, e.g. `%0`.
    pub id: String,
    /// The pane's own process.
    pub pid: i32,
    /// How that process ended, once the terminal noticed.
    pub dead: Option<ExitStatus>,
    /// In copy mode or another mode.
    pub in_mode: bool,
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
    /// Column and row of the cursor.
    pub cursor: (u16, u16),
    /// The title that the agent set (OSC 0/2).
    pub title: String,
}

/// One look, from one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// The pane.
    pub pane: Pane,
    /// The visible rows, with SGR sequences (`capture-pane -p -e`), `\n` between them.
    pub text: String,
    /// When a client that can type was last active (1 s resolution); `None` if no such client is attached.
    pub active_at: Option<UnixMs>,
    /// The same, for a [`Guard`]; `None` if somebody was active in the second of the look, since another key in that
    /// second would not show.
    pub activity: Option<Activity>,
    /// Since when the pane has written nothing, as its watch saw it; `None` while nobody watches. A moment older than
    /// the picture may be missing.
    pub silent_since: Option<Instant>,
}

impl Capture {
    /// What must not change until a key is pressed.
    pub fn untouched(&self) -> Untouched {
        Untouched { cursor: self.pane.cursor, activity: self.activity.clone() }
    }
}

/// How to start the agent: `ccmuxd launch FILE` in the pane, in its own pid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchCommand {
    /// The program and its arguments, run without a shell.
    pub argv: Vec<String>,
    /// Where the session is made (the launcher changes directory by itself).
    pub cwd: PathBuf,
}

/// News from the pane's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaneNews {
    /// Something was written after a silence.
    Active,
    /// Nothing was written for the silence timeout.
    Silent,
}

/// A terminal that runs one agent in one pane.
pub trait Terminal: Send + Sync + 'static {
    /// The pane that was made for the agent, dead or alive; `None` if there is none, or no session at all.
    fn find(&self) -> impl Future<Output = Result<Option<Pane>, TerminalError>> + Send;

    /// The process that holds the pane, as far as it is known; there may be none.
    fn server(&self) -> Option<TmuxServer> {
        None
    }

    /// An earlier daemon's terminal was held by that process.
    fn know_server(&self, _server: TmuxServer) {}

    /// Starts the command as the pane's own process: in the session's dead pane, or in a new session. Returns the pane.
    fn respawn(&self, command: LaunchCommand) -> impl Future<Output = Result<Pane, TerminalError>> + Send;

    /// Takes a look.
    fn capture(&self) -> impl Future<Output = Result<Capture, TerminalError>> + Send;

    /// Pastes the pieces one after the other, bracketed, if the guard holds. No Enter.
    fn inject(
        &self,
        guard: Guard,
        pieces: Vec<String>,
    ) -> impl Future<Output = Result<Typed, TerminalError>> + Send;

    /// Presses Enter if the guard holds.
    fn press_enter(&self, guard: Guard) -> impl Future<Output = Result<Typed, TerminalError>> + Send;

    /// Takes a text out of the prompt box from in front of what is behind it, if the guard holds: `lines` are the graphemes of
    /// each of its lines, first to last. The cursor stands in the last line before, and at its end afterwards.
    fn take_out(
        &self,
        guard: Guard,
        lines: Vec<usize>,
    ) -> impl Future<Output = Result<Typed, TerminalError>> + Send;

    /// Presses the agent's key that puts a draft away (Ctrl-S) if the guard holds.
    fn stash_draft(&self, guard: Guard) -> impl Future<Output = Result<Typed, TerminalError>> + Send;

    /// Presses the agent's key that stops a turn (Esc) if the guard holds.
    fn press_escape(&self, guard: Guard) -> impl Future<Output = Result<Typed, TerminalError>> + Send;

    /// Presses the agent's key that empties a row of the prompt box (Ctrl-U) if the guard holds.
    fn clear_row(&self, guard: Guard) -> impl Future<Output = Result<Typed, TerminalError>> + Send;

    /// When a client that can type was last active.
    fn last_typed(&self) -> impl Future<Output = Result<Option<UnixMs>, TerminalError>> + Send;

    /// Returns once the pane has written something after that moment; not as long as nobody watches its output.
    fn wrote_after(&self, moment: Instant) -> impl Future<Output = ()> + Send;

    /// Reports output and silence of the pane until the receiver is dropped; mounts again what breaks.
    fn watch_output(&self, news: mpsc::Sender<PaneNews>) -> impl Future<Output = ()> + Send;
}
