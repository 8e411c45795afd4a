//! One start of the agent: settings file, launch file, pane. The daemon and `ccmuxd setup` both start it by this, so what
//! the one shows is what the other gets.
//!
//! ```text
//! --version ─► claude-settings.json ─► launch-<random>.json ─► tmux: ccmuxd launch FILE
//! ```

use std::path::{Path, PathBuf};

use ccmux_wire::id::SessionId;

use super::hook_settings::HookSettings;
use super::launch;
use super::mcp_entry::{McpEntry, Transport};
use super::plan::{AgentPlan, GeneratedFiles};
use super::record::AgentRecord;
use super::version::{Version, VersionQuestion};
use super::version_ahead::VersionAhead;
use crate::mcp::Door;
use crate::terminal::{LaunchCommand, Pane, Terminal};

/// What a start needs.
#[derive(Debug, Clone, Copy)]
pub struct AgentStart<'a> {
    /// How it is started.
    pub plan: &'a AgentPlan,
    /// Our hook.
    pub hook: &'a Path,
    /// Generated files go there.
    pub state_dir: &'a Path,
    /// The agent's hooks find us by it.
    pub runtime_dir: &'a Path,
    /// Its hooks prove by it that they are ours.
    pub token: &'a str,
    /// Seconds that Claude Code waits for a hook that may wait for somebody far away.
    pub permission_s: u32,
    /// `ccmuxd`, for `ccmuxd launch`.
    pub launcher: &'a Path,
    /// Where the version may have been asked already.
    pub version: &'a VersionAhead,
    /// Where Claude's tools are, and how it gets there; `None` where nobody serves them.
    pub mcp: Option<(&'a Door, Transport)>,
}

/// What was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Where.
    pub pane: Pane,
    /// What it said it is.
    pub version: Version,
    /// The session that it goes on with.
    pub resumed: Option<SessionId>,
}

impl AgentStart<'_> {
    /// Starts it in the terminal, going on with `resume` if that session ever had a conversation.
    ///
    /// # Errors
    /// What kept it from starting, in words.
    pub async fn start<T: Terminal>(
        &self,
        terminal: &T,
        resume: Option<SessionId>,
    ) -> Result<Started, String> {
        let version = self.version.answer(self.plan).await.unwrap_or_else(|error| {
            tracing::warn!(event = "agent.version_unknown", %error);
            Version::Unknown("unknown".into())
        });
        if let Some(refused) = version.refused() {
            return Err(refused);
        }
        let files = self.write_files(&version)?;
        let resumed = resume.filter(|session| self.has_conversation(session));
        let launch = self.plan.launch(&files, resumed.as_ref(), self.token, self.runtime_dir);
        let file =
            launch::write(self.state_dir, &launch).map_err(|error| format!("the launch file: {error}"))?;
        let argv = [self.launcher, &PathBuf::from("launch"), &file].map(|word| word.display().to_string());
        let command = LaunchCommand { argv: argv.to_vec(), cwd: self.plan.cwd.clone() };
        let pane = terminal.respawn(command).await.map_err(|error| error.to_string())?;
        tracing::info!(event = "agent.started", pid = pane.pid, %version, resumed = resumed.is_some());
        Ok(Started { pane, version, resumed })
    }

    fn write_files(&self, version: &Version) -> Result<GeneratedFiles, String> {
        let hooks = HookSettings { hook: self.hook, version, permission_s: self.permission_s };
        let settings = hooks.write_to(self.state_dir).map_err(|error| error.to_string())?;
        let client = self.launcher.with_file_name("ccmux");
        let entry = self.mcp.and_then(|(door, transport)| self.entry(door, transport, &client));
        let mcp = entry.map(|entry| entry.write_to(self.state_dir)).transpose();
        Ok(GeneratedFiles { settings, mcp: mcp.map_err(|error| format!("the MCP entry: {error}"))? })
    }

    /// Without the client beside us Claude goes by HTTP: better than no tools.
    fn entry<'a>(&'a self, door: &'a Door, transport: Transport, client: &'a Path) -> Option<McpEntry<'a>> {
        let token = door.token().map(|token| token.value.as_ref());
        match transport {
            Transport::Stdio if client.is_file() => {
                return Some(McpEntry::Bridge { client, runtime_dir: self.runtime_dir });
            }
            Transport::Stdio => tracing::warn!(event = "mcp.bridge_missing", client = %client.display()),
            Transport::Sse => return door.address().map(|port| McpEntry::sse(port, token)),
            Transport::Http => {}
        }
        door.address().map(|port| McpEntry::http(port, token))
    }

    /// `--resume` of a session without a transcript ends the agent with 1 (F 37).
    fn has_conversation(&self, session: &SessionId) -> bool {
        let record = AgentRecord::read(self.state_dir);
        record.session.as_ref() == Some(session) && record.transcript.is_some_and(|path| path.is_file())
    }
}

/// Asks the agent's program which version it is, in the agent's own environment.
///
/// # Errors
/// If there is no answer.
pub async fn ask_version(plan: &AgentPlan) -> Result<Version, super::version::VersionError> {
    let environment = plan.environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let question = VersionQuestion { environment: Some(environment), ..VersionQuestion::to(plan.program()) };
    question.ask().await
}
