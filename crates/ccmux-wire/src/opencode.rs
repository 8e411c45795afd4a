//! What OpenCode tells: the first line of a connection from the plugin, then a line for each event.
//!
//! ```text
//! plugin → {"v":1,"type":"opencode","pid":4711,"directory":"/p","tmux":"/tmp/tmux-0/default,9,0","pane":"%3"}
//! daemon → {"ok":true}
//! plugin → {"id":"evt_…","type":"session.status","properties":{"sessionID":"ses_…","status":{"type":"busy"}}}
//! ```
//!
//! Events are not answered. The connection is the process: its end says that the process is gone.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest line of an event, in bytes.
pub const MAX_EVENT_BYTES: usize = 64 * 1024;

/// Which process, and where it is seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpencodeHello {
    /// The process that the plugin runs in.
    pub pid: u32,
    /// The project.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub directory: Option<String>,
    /// `TMUX` of its environment.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tmux: Option<String>,
    /// `TMUX_PANE` of its environment.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pane: Option<String>,
}

/// One event, as OpenCode names and shapes it; further fields are ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpencodeEvent {
    /// OpenCode's id: the same one says nothing new.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<String>,
    /// `session.status`, `permission.asked`, …; `chat.message` for the plugin's hook.
    #[serde(rename = "type")]
    pub name: String,
    /// What about.
    #[serde(default)]
    pub properties: Value,
}
