//! `[permission]`: where Claude's permissions and questions are told and answered from afar.
//!
//! ```toml
//! [permission]
//! channel = "phone"
//! allowed = ["anna"]
//! ```

use ccmux_wire::channel::ChannelName;
use serde::{Deserialize, Serialize};

use super::SettingsError;

/// Claude ends a hook that takes longer than `wait` and this.
const HOOK_MARGIN_S: u32 = 10;

/// `[permission]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PermissionSettings {
    /// NAME of `out.NAME` and `in.NAME`; empty: the terminal alone answers.
    pub channel: String,
    /// Seconds that Claude's hook waits for an answer.
    pub wait: f64,
    /// Values of `meta.sender`; empty: whoever can write to the FIFO.
    pub allowed: Vec<String>,
}

impl Default for PermissionSettings {
    fn default() -> Self {
        Self { channel: String::new(), wait: 600.0, allowed: Vec::new() }
    }
}

impl PermissionSettings {
    /// Whole seconds.
    pub fn wait_s(&self) -> u32 {
        // In range: `check` says so.
        self.wait.ceil() as u32
    }

    /// When Claude Code ends a PermissionRequest hook, in seconds.
    pub fn hook_timeout_s(&self) -> u32 {
        self.wait_s() + HOOK_MARGIN_S
    }

    pub(super) fn check(&self) -> Result<(), SettingsError> {
        let bad =
            |key: &str, why: String| Err(SettingsError::Value { key: format!("permission.{key}"), why });
        if !self.channel.is_empty()
            && let Err(error) = self.channel.parse::<ChannelName>()
        {
            return bad("channel", error.to_string());
        }
        if !(1.0..=86_400.0).contains(&self.wait) {
            return bad("wait", "give seconds from 1 to 86400".to_owned());
        }
        Ok(())
    }
}
