//! What `ccmux status --json` and `ccmux why` show.

use serde::{Deserialize, Serialize};

use crate::channel::ChannelName;
use crate::id::{Seq, SessionId};

/// The state word of the daemon, as users and tests see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateWord {
    /// The agent was started, its prompt box was not seen yet.
    Starting,
    /// An injection would be possible.
    Ready,
    /// A turn runs.
    Busy,
    /// A dialog or overlay is open.
    Dialog,
    /// Somebody's text is in the prompt box.
    Draft,
    /// A human was active within the idle threshold.
    Human,
    /// The pane is in one of tmux's modes.
    CopyMode,
    /// The screen fits no rule.
    Unknown,
    /// The agent does not run.
    Down,
    /// The agent keeps ending at once; it is started at the longest interval.
    Degraded,
    /// Held: rate limit, authentication.
    Held,
}

impl StateWord {
    /// The word as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Busy => "busy",
            Self::Dialog => "dialog",
            Self::Draft => "draft",
            Self::Human => "human",
            Self::CopyMode => "copy_mode",
            Self::Unknown => "unknown",
            Self::Down => "down",
            Self::Degraded => "degraded",
            Self::Held => "held",
        }
    }
}

/// The agent's process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStatus {
    /// Its process id; absent while it does not run.
    pub pid: Option<i32>,
    /// What its state file or `--version` said.
    pub version: Option<String>,
    /// How often it was started again.
    pub restarts: u32,
    /// How it ended the last time since the daemon was started: `with code 1`, `by signal 9`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<String>,
}

/// What waits in the inbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Messages that are accepted or in flight.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// One channel as `ccmux channels` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelStatus {
    /// Its name.
    pub name: ChannelName,
    /// `in`, `out`.
    pub direction: Direction,
    /// `open`, or why not.
    pub state: String,
}

/// A file that looks like a channel's and can't be one, by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RefusedFile {
    /// Its name in the runtime directory.
    pub file: String,
    /// `refused: `, and why.
    pub state: String,
}

/// Which way a channel's FIFO goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// `in`, `in.NAME`.
    In,
    /// `out.NAME`.
    Out,
}

/// Turns that were published since the daemon's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnsStatus {
    /// All of them.
    pub published: u64,
    /// Those that could not be completed from the transcript.
    pub partial: u64,
}

/// Where the daemon's HTTP server listens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpStatus {
    /// The port; absent while it can't be bound.
    pub port: Option<u16>,
}

/// Where the agent's pane is, for `ccmux attach`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TmuxStatus {
    /// tmux's `-L` name; absent for its default server.
    pub socket: Option<String>,
    /// The session's name.
    pub session: String,
}

/// The whole answer to `status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// One word.
    pub state: StateWord,
    /// Since when, Unix milliseconds.
    pub since: i64,
    /// A sentence about the state.
    pub reason: String,
    /// The owned session, once its SessionStart was heard.
    pub session: Option<SessionId>,
    /// The agent's process.
    pub agent: AgentStatus,
    /// What waits.
    pub queue: QueueStatus,
    /// FIFOs that are open or were refused.
    pub channels: Vec<ChannelStatus>,
    /// Files whose names are no channels' names.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub refused_files: Vec<RefusedFile>,
    /// How many read `output.sock`.
    pub subscribers: u32,
    /// What does not work: `agent`, `mcp`, `disk`.
    pub degraded: Vec<String>,
    /// The last line on `output.sock`.
    pub last_seq: Option<Seq>,
    /// What was published.
    #[serde(default)]
    pub turns: TurnsStatus,
    /// The daemon's process id.
    pub daemon_pid: i32,
    /// The daemon's version.
    pub daemon_version: String,
    /// The HTTP server.
    #[serde(default)]
    pub mcp: McpStatus,
    /// Where the agent's pane is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tmux: Option<TmuxStatus>,
}

/// Something that happened, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happened {
    /// When, Unix milliseconds.
    pub at: i64,
    /// One clause, e.g. `the turn ended`.
    pub what: String,
}

/// The answer to `why`: is the gate open, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// `open`, or `closed: <state word>: <reason>`.
    pub gate: String,
    /// What would open it.
    pub opens_when: String,
    /// Milliseconds until ccmux looks again by itself; absent if it waits for an event.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_look_ms: Option<u64>,
    /// What each witness said last: hooks, state file, screen, human; and what is disputed between them.
    pub evidence: Vec<String>,
    /// The latest past in people's words, oldest first.
    #[serde(default)]
    pub happened: Vec<Happened>,
    /// The latest events and orders, oldest first, one line each.
    pub recent: Vec<String>,
}
