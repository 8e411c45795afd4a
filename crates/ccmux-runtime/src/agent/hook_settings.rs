//! The generated `--settings` file: our hooks, and the permission to call our tools, in addition to the user's own; no
//! file of the user is touched.
//!
//! ```json
//! {"hooks":{"Stop":[{"hooks":[{"type":"command","command":"/home/u/.local/share/ccmux/ccmux-hook","timeout":5}]}]},
//!  "permissions":{"allow":["mcp__ccmux__send_to_channel","mcp__ccmux__list_channels"]}}
//! ```
//!
//! Claude Code stops its start with a dialog at an event name that it does not know, so the names come from a table
//! by version. A version outside the measured ones gets what all of them have.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::mcp_entry::SERVER_NAME;
use super::record::holds;
use super::version::{Release, Version};
use crate::mcp::tools;

/// Its name in the state directory.
pub const SETTINGS_FILE: &str = "claude-settings.json";

/// Seconds that Claude Code waits for a hook of ours; written out, because its own default is a minute.
const TIMEOUT_S: u32 = 5;

/// The one that may wait for somebody far away.
const WAITING: &str = "PermissionRequest";

/// What ccmux can't do without: all that a version outside the measured ones gets.
const MINIMAL: &[&str] = &["SessionStart", "UserPromptSubmit", "Stop", "PermissionRequest", "SessionEnd"];

/// Known since [`OLDEST_MEASURED`]: noted in the log.
const SINCE_2_0_76: &[&str] = &["SubagentStart", "SubagentStop", "Notification", "PreCompact"];

/// Known since [`ELICITATION_SINCE`]: without StopFailure an API error ends a turn unheard.
const SINCE_2_1_197: &[&str] = &["StopFailure", "Elicitation"];

const OLDEST_MEASURED: Release = Release::new(2, 0, 76);
const ELICITATION_SINCE: Release = Release::new(2, 1, 197);
const NEWEST_MEASURED: Release = Release::new(2, 1, 332);

/// Why the file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum HookSettingsError {
    /// A hook command is text.
    #[error("the hook's path {path:?} is not UTF-8: set CCMUX_HOOK_SCRIPT to another path")]
    NotText {
        /// The path.
        path: PathBuf,
    },
    /// The system said no.
    #[error("can't write {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// What the file is made of.
#[derive(Debug, Clone, Copy)]
pub struct HookSettings<'a> {
    /// `ccmux-hook`, absolute.
    pub hook: &'a Path,
    /// The version that will read it.
    pub version: &'a Version,
    /// Seconds that Claude Code waits for the hook that may wait for somebody far away.
    pub permission_s: u32,
}

impl HookSettings<'_> {
    /// The file's content.
    ///
    /// # Errors
    /// If the hook's path is not UTF-8.
    pub fn to_json(self) -> Result<Value, HookSettingsError> {
        let not_text = || HookSettingsError::NotText { path: self.hook.to_owned() };
        let command = shell_words::quote(self.hook.to_str().ok_or_else(not_text)?);
        let group = |event| {
            let timeout = if event == WAITING { self.permission_s } else { TIMEOUT_S };
            json!([{"hooks": [{"type": "command", "command": command, "timeout": timeout}]}])
        };
        let hooks = events_for(self.version).into_iter().map(|event| (event.to_owned(), group(event)));
        let allow = [tools::SEND, tools::LIST].map(|tool| format!("mcp__{SERVER_NAME}__{tool}"));
        Ok(json!({
            "hooks": hooks.collect::<serde_json::Map<_, _>>(),
            "permissions": {"allow": allow},
        }))
    }

    /// Writes [`SETTINGS_FILE`] with mode 0600 into that directory, in one step: a reader sees the old or the new one.
    ///
    /// # Errors
    /// If the hook's path is not UTF-8 or the system refuses.
    pub fn write_to(self, dir: &Path) -> Result<PathBuf, HookSettingsError> {
        let path = dir.join(SETTINGS_FILE);
        let text = format!("{:#}\n", self.to_json()?);
        replace(&path, text.as_bytes())
            .map_err(|source| HookSettingsError::Io { path: path.clone(), source })?;
        Ok(path)
    }
}

/// The hook events that this version knows and ccmux listens to.
pub fn events_for(version: &Version) -> Vec<&'static str> {
    let since = |first: Release, events: &'static [&'static str]| match version {
        Version::Known(release) if (first..=NEWEST_MEASURED).contains(release) => events,
        Version::Demo(_) => events,
        Version::Known(_) | Version::Unknown(_) => &[],
    };
    let newer = [since(OLDEST_MEASURED, SINCE_2_0_76), since(ELICITATION_SINCE, SINCE_2_1_197)];
    [MINIMAL, newer[0], newer[1]].concat()
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    if holds(path, content) {
        return Ok(());
    }
    let new = path.with_extension("json.new");
    // Left behind by a daemon that died here.
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn known(major: u32, minor: u32, patch: u32) -> Version {
        Version::Known(Release::new(major, minor, patch))
    }

    #[test]
    fn each_version_gets_only_events_that_it_knows() {
        for version in [known(2, 0, 75), known(2, 1, 333), known(3, 0, 0), Version::Unknown("?".into())] {
            assert_eq!(events_for(&version), MINIMAL, "{version}");
        }
        for version in [known(2, 0, 76), known(2, 1, 196)] {
            let events = events_for(&version);
            assert!(events.starts_with(MINIMAL) && events.ends_with(SINCE_2_0_76), "{version}");
        }
        for version in [known(2, 1, 197), known(2, 1, 332)] {
            assert!(events_for(&version).ends_with(SINCE_2_1_197), "{version}");
        }
    }

    #[test]
    fn a_hook_is_one_shell_command_with_a_timeout() {
        let version = known(2, 1, 332);
        let settings = HookSettings {
            hook: Path::new("/home/a b/it's/ccmux-hook"),
            version: &version,
            permission_s: 610,
        };
        let hook = settings.to_json().unwrap()["hooks"]["SessionStart"][0]["hooks"][0].clone();
        assert_eq!(hook["type"], "command");
        assert_eq!(hook["timeout"], 5);
        let timeout =
            |event: &str| settings.to_json().unwrap()["hooks"][event][0]["hooks"][0]["timeout"].clone();
        assert_eq!((timeout("PermissionRequest"), timeout("Stop")), (610.into(), 5.into()));
        let words = shell_words::split(hook["command"].as_str().unwrap()).unwrap();
        assert_eq!(words, ["/home/a b/it's/ccmux-hook"]);
    }

    #[test]
    fn our_own_tools_need_no_permission() {
        let version = known(2, 1, 332);
        let settings =
            HookSettings { hook: Path::new("/x/ccmux-hook"), version: &version, permission_s: 610 };
        let allowed = settings.to_json().unwrap()["permissions"]["allow"].clone();
        assert_eq!(allowed, json!(["mcp__ccmux__send_to_channel", "mcp__ccmux__list_channels"]));
    }

    #[test]
    fn the_file_is_private_and_replaces_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let version = known(2, 1, 332);
        let settings =
            HookSettings { hook: Path::new("/x/ccmux-hook"), version: &version, permission_s: 610 };
        fs::write(dir.path().join("claude-settings.json.new"), "half").unwrap();
        std::os::unix::fs::symlink("/nowhere", dir.path().join(SETTINGS_FILE)).unwrap();
        let path = settings.write_to(dir.path()).unwrap();
        let found = path.symlink_metadata().unwrap();
        assert!(found.is_file());
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
        let read: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(read, settings.to_json().unwrap());
        assert_eq!(dir.path().read_dir().unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_directory_that_is_missing_is_named() {
        let version = known(2, 1, 332);
        let settings = HookSettings { hook: Path::new("/x"), version: &version, permission_s: 610 };
        let error = settings.write_to(Path::new("/no/such/dir")).unwrap_err().to_string();
        assert!(error.contains("/no/such/dir"), "{error}");
    }
}
