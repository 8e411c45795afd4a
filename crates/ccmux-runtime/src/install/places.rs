//! Where Claude Code looks for its files, and what is to be in them.
//!
//! ```text
//! settings    $CLAUDE_CONFIG_DIR/settings.json, ~/.claude/settings.json
//! state       .config.json in that directory, if it is there; else $CLAUDE_CONFIG_DIR/.claude.json, ~/.claude.json
//! ```
//!
//! (Measured with 2.1.332, by `claude mcp add --scope user`.) It knows nothing of what others have in them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::backup::Backups;
use super::edits::{Ours, Wanted, Which};
use super::{Installation, Part, Target};
use crate::agent::hook_settings::{HookSettings, HookSettingsError};
use crate::agent::mcp_entry::{McpEntry, Transport};
use crate::agent::plan::agent_environment;
use crate::agent::version::{Version, VersionError, VersionQuestion};
use crate::daemon::{DaemonError, Setting, install_hook};
use crate::settings::expand;

/// The variable that stands for the token in the file of the user, which holds no secret.
pub const TOKEN_VARIABLE: &str = "CCMUX_MCP_TOKEN";
/// Kept by the daemon where the port is any.
const PORT_FILE: &str = "mcp.port";

/// Claude Code's own files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaudeFiles {
    /// Hooks and permissions.
    pub settings: PathBuf,
    /// MCP servers of the user.
    pub state: PathBuf,
}

impl ClaudeFiles {
    /// Where they are, for a Claude Code in that environment.
    pub fn of(environment: &BTreeMap<String, String>, home: &Path) -> Self {
        let home = environment.get("HOME").map_or(home, Path::new);
        let own = environment.get("CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let directory = own.clone().unwrap_or_else(|| home.join(".claude"));
        let older = directory.join(".config.json");
        let state = match older.exists() {
            true => older,
            false => own.unwrap_or_else(|| home.to_owned()).join(".claude.json"),
        };
        Self { settings: directory.join("settings.json"), state }
    }
}

/// Asks the agent's program for its version, without planning a start: neither program nor working directory need be there.
///
/// # Errors
/// If it is not there, or does not say.
pub async fn ask_version(setting: &Setting) -> Result<Version, VersionError> {
    let command = shell_words::split(&setting.settings.agent.command).unwrap_or_default();
    let program = command.into_iter().next().unwrap_or_default();
    let environment = agent_environment(&setting.settings, setting.environment.clone());
    let environment = environment.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    VersionQuestion { environment: Some(environment), ..VersionQuestion::to(program) }.ask().await
}

/// Our part of Claude Code's own files, for that version.
///
/// # Errors
/// If the hook's path is not text.
pub fn in_claudes_files(setting: &Setting, version: &Version) -> Result<Installation, HookSettingsError> {
    let environment = agent_environment(&setting.settings, setting.environment.clone());
    let files = ClaudeFiles::of(&environment, &setting.home);
    let hook = expand(&setting.settings.hook.path, &setting.home);
    let permission_s = setting.settings.permission.hook_timeout_s();
    let settings = HookSettings { hook: &hook, version, permission_s }.to_json()?;
    Ok(Installation {
        targets: vec![
            Target { path: files.settings, part: Part::Members(Which::Settings) },
            Target { path: files.state, part: Part::Members(Which::State) },
        ],
        wanted: Wanted { settings, server: server(setting) },
        ours: Ours { hook },
        backups: backups(setting),
    })
}

/// Copies the hook to where the files say that it is, as the daemon does at each start.
///
/// # Errors
/// What the system says. Exit code 69.
pub fn copy_hook(setting: &Setting) -> Result<(), DaemonError> {
    install_hook(setting).map(drop)
}

/// Where backups are.
pub fn backups(setting: &Setting) -> Backups {
    Backups::of(&expand(&setting.settings.state_dir, &setting.home))
}

/// The entry of `mcpServers`: the generated one, but a token is never written into a file of the user. `None`: there is no
/// port yet.
fn server(setting: &Setting) -> Option<Value> {
    let (settings, home) = (&setting.settings, &setting.home);
    let (state_dir, runtime_dir) = (expand(&settings.state_dir, home), expand(&settings.runtime_dir, home));
    // Expanded by Claude Code; without the variable the server refuses, and Claude goes on.
    let variable = format!("${{{TOKEN_VARIABLE}:-}}");
    let token = (settings.mcp.auth == "token").then_some(variable.as_str());
    let port = || match settings.mcp.port {
        0 => kept_port(&state_dir),
        port => Some(port),
    };
    let client = setting.binaries.ccmuxd.with_file_name("ccmux");
    let entry = match Transport::of(&settings.mcp.entry) {
        Transport::Stdio => McpEntry::Bridge { client: &client, runtime_dir: &runtime_dir },
        Transport::Http => McpEntry::http(port()?, token),
        Transport::Sse => McpEntry::sse(port()?, token),
    };
    Some(entry.member())
}

fn kept_port(state_dir: &Path) -> Option<u16> {
    let bytes = crate::agent::record::read_bounded(&state_dir.join(PORT_FILE)).ok()?;
    std::str::from_utf8(&bytes).ok()?.trim().parse().ok().filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(variables: &[(&str, &str)]) -> ClaudeFiles {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ClaudeFiles::of(&variables.collect(), Path::new("/h"))
    }

    #[test]
    fn claudes_files_are_where_claude_looks() {
        let usual = files(&[]);
        assert_eq!(usual.settings, Path::new("/h/.claude/settings.json"));
        assert_eq!(usual.state, Path::new("/h/.claude.json"));
        let own = files(&[("HOME", "/other"), ("CLAUDE_CONFIG_DIR", "/c")]);
        assert_eq!((own.settings, own.state), ("/c/settings.json".into(), "/c/.claude.json".into()));
        assert_eq!(files(&[("CLAUDE_CONFIG_DIR", "")]), usual, "an empty one counts as none");
    }

    #[test]
    fn an_older_state_file_that_is_there_is_the_one() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".claude")).unwrap();
        let older = home.path().join(".claude/.config.json");
        std::fs::write(&older, "{}").unwrap();
        assert_eq!(ClaudeFiles::of(&BTreeMap::new(), home.path()).state, older);
    }
}
