//! What Claude is told in a container, and where its configuration of a project is kept.
//!
//! ```text
//! <state_dir>/container/told/settings.json   hooks, and the permission for our tools; mounted read-only
//! <state_dir>/container/told/mcp.json        our tools
//! <state_dir>/container/claude-NAME-HASH/    Claude's own: login, conversations; one for each project
//! ```
//!
//! Nothing is ever written into a directory that a container may write: a link there could lead anywhere.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use ccmux_wire::tools::{LIST, SEND, SERVER_NAME};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::plan::{PROGRAMS, Plan, SOCKET_DIR, TOLD};
use crate::failure::Failure;

const TELL: &str = include_str!("../../../../config/container/tell.sh");

/// Every version that was measured knows these.
const EVENTS: [&str; 5] = ["SessionStart", "UserPromptSubmit", "Stop", "PermissionRequest", "SessionEnd"];
const TIMEOUT_S: u32 = 5;

/// Where Claude's configuration of a project is kept.
pub fn config_of(place: &Path, project: &Path) -> PathBuf {
    let digest = Sha256::digest(project.as_os_str().as_bytes());
    let hash: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let name = project.file_name().unwrap_or_default().to_string_lossy();
    let name: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).take(40).collect();
    place.join(format!("claude-{name}-{hash}"))
}

/// Writes what Claude is told, and makes its directory.
pub fn write(plan: &Plan) -> Result<(), Failure> {
    let made = (|| {
        [&plan.place, &plan.told, &plan.config].into_iter().try_for_each(|dir| private(dir))?;
        if plan.is_root {
            let (uid, gid) = plan.user;
            chown(&plan.config, Some(uid), Some(gid))?;
            // Who runs in there is another user: they may read this, and pass to it by the mount alone.
            fs::set_permissions(&plan.told, Permissions::from_mode(0o755))?;
        }
        replace(&plan.told.join("tell.sh"), TELL)?;
        replace(&plan.told.join("tcp-settings.json"), &text_of(&tcp_settings()))?;
        replace(&plan.told.join("settings.json"), &text_of(&settings()))?;
        replace(&plan.told.join("mcp.json"), &text_of(&tools()))
    })();
    made.map_err(|error: io::Error| Failure::Failed(format!("{}: {error}", plan.place.display())))
}

/// Makes a directory that nobody else looks into, missing parents too.
pub fn private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Several may write the same at once.
fn replace(path: &Path, content: &str) -> io::Result<()> {
    let new = path.with_extension(format!("{}.new", std::process::id()));
    fs::write(&new, content)?;
    fs::set_permissions(&new, Permissions::from_mode(0o644))?;
    fs::rename(&new, path)
}

fn text_of(content: &Value) -> String {
    format!("{content:#}\n")
}

/// Hooks that need no program of ours.
fn tcp_settings() -> Value {
    let hook = |event: &str, message: &str| {
        let command = format!("bash {TOLD}/tell.sh {event} '{message}'");
        json!([{"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_S}]}])
    };
    json!({"hooks": {
        "Stop": hook("complete", "Claude has finished its turn"),
        "PermissionRequest": hook("question", "Claude waits for an answer"),
    }})
}

fn settings() -> Value {
    let hook = json!([{"hooks": [
        {"type": "command", "command": format!("{PROGRAMS}/ccmux-hook"), "timeout": TIMEOUT_S},
    ]}]);
    let hooks: serde_json::Map<_, _> =
        EVENTS.into_iter().map(|event| (event.to_owned(), hook.clone())).collect();
    let allow = [SEND, LIST].map(|tool| format!("mcp__{SERVER_NAME}__{tool}"));
    json!({"hooks": hooks, "permissions": {"allow": allow}})
}

fn tools() -> Value {
    json!({"mcpServers": {SERVER_NAME: {
        "type": "stdio",
        "command": format!("{PROGRAMS}/ccmux"),
        "args": ["mcp"],
        "env": {"CCMUX_RUNTIME_DIR": SOCKET_DIR},
        "alwaysLoad": true,
    }}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_project_has_a_configuration_of_its_own() {
        let of = |project: &str| config_of(Path::new("/s"), Path::new(project));
        assert_eq!(of("/a/x"), of("/a/x"));
        assert_ne!(of("/a/x"), of("/b/x"));
        let odd = of("/a/../b c,;$");
        assert_eq!(odd.parent(), Some(Path::new("/s")));
        assert!(odd.to_str().unwrap().starts_with("/s/claude-bc-"), "{}", odd.display());
    }

    #[test]
    fn hooks_and_tools_are_those_that_are_mounted() {
        let hook = settings()["hooks"]["Stop"][0]["hooks"][0].clone();
        assert_eq!((&hook["command"], &hook["timeout"]), (&json!("/opt/ccmux/bin/ccmux-hook"), &json!(5)));
        let server = tools()["mcpServers"]["ccmux"].clone();
        assert_eq!((&server["command"], &server["args"]), (&json!("/opt/ccmux/bin/ccmux"), &json!(["mcp"])));
    }
}
