//! The frame that `ccmux-hook` sends, and the reply it obeys.
//!
//! ```text
//! hook → {"v":1,"type":"hook","event":"Stop","token":"…","claude_pid":4711,"payload":{…}}
//! hook ← {"ok":true}                      exit 0, nothing printed
//! hook ← {"ok":true,"stdout":{…}}         print it, exit 0
//! hook ← {"ok":true,"wait_s":600}         stay at most that long for one more line with `stdout`
//! ```

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The variable that carries the owned session's token to its hooks.
pub const TOKEN_VARIABLE: &str = "CCMUX_SESSION_TOKEN";

/// The longest frame the daemon takes, in bytes: Claude Code's own payloads hold whole prompts.
pub const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;

/// What a hook tells the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookFrame {
    /// Claude Code's name of the event (`hook_event_name`).
    pub event: String,
    /// [`TOKEN_VARIABLE`], if the environment has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token: Option<String>,
    /// `CLAUDE_PID`, which Claude Code sets since some version after 2.1.197.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub claude_pid: Option<i32>,
    /// Which agent of several it is, if its environment tells.
    #[serde(skip_serializing_if = "AgentMarks::is_empty", default)]
    pub marks: AgentMarks,
    /// Where the session can be seen, if the environment says so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub spot: Option<Spot>,
    /// Claude Code's hook input as it came on stdin.
    pub payload: Value,
}

/// Who an agent is among others, by variables of its environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentMarks {
    /// `CCMUX_AGENT_ID`: its name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<String>,
    /// `CCMUX_AGENT_MANAGER`: the session, or the name, of the one that it works for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub manager: Option<String>,
    /// `CCMUX_AGENT_ROLE`: `primary` looks after the others.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub role: Option<String>,
    /// `CLAUDE_PROJECT_DIR`, of an agent with a name or a role: where it was started, wherever it has gone since.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub project: Option<String>,
}

impl AgentMarks {
    /// Those that these variables tell.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let [id, manager, role] =
            ["CCMUX_AGENT_ID", "CCMUX_AGENT_MANAGER", "CCMUX_AGENT_ROLE"].map(&variable);
        let project = id.as_ref().or(role.as_ref()).and_then(|_| variable("CLAUDE_PROJECT_DIR"));
        Self { id, manager, role, project }
    }

    /// It says nothing about itself.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl HookFrame {
    /// The frame for a payload, with what the environment of the hook tells.
    pub fn of(payload: Value, variable: impl Fn(&str) -> Option<String>) -> Self {
        let said = |name: &str| variable(name).filter(|value| !value.is_empty());
        Self {
            event: payload["hook_event_name"].as_str().unwrap_or_default().into(),
            token: variable(TOKEN_VARIABLE),
            claude_pid: variable("CLAUDE_PID").and_then(|pid| pid.parse().ok()),
            marks: AgentMarks::of(said),
            spot: Spot::of(said),
            payload,
        }
    }
}

/// Where a session can be seen, as the environment of its hooks tells it. Whoever uses it checks it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spot {
    /// `TMUX`: the path of the server's socket, then two numbers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tmux: Option<String>,
    /// `TMUX_PANE`: `%` and a number.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pane: Option<String>,
    /// `WINDOWID`: the number of the terminal's window, 1 to 20 digits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub window: Option<String>,
}

impl Spot {
    /// The one that these variables tell.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let spot = Self { tmux: variable("TMUX"), pane: variable("TMUX_PANE"), window: variable("WINDOWID") };
        Some(spot).filter(|spot| *spot != Self::default())
    }
}

/// What the daemon answers a hook.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HookReply {
    /// The frame was understood.
    pub ok: bool,
    /// To be printed as it is: Claude Code reads a decision from it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stdout: Option<Value>,
    /// Stay that many seconds for one more reply, then end silently.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wait_s: Option<u32>,
    /// Why not, if not `ok`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

impl HookReply {
    /// The plain answer: thank you, go.
    pub fn ok() -> Self {
        Self { ok: true, ..Self::default() }
    }
}
