//! Asks Claude Code whether it is logged in: `claude auth status` prints `{"loggedIn": false, ...}`, asks no server and
//! starts no session. 2.1.332 shows nothing of it on the screen for half a minute; older ones say it in the footer.

use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;
use tokio::time::timeout;

use crate::agent::plan::AgentPlan;
use crate::agent::version::{Release, Version};

/// Before it, `auth status` would be taken for a prompt.
const KNOWN_SINCE: Release = Release::new(2, 1, 197);
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    logged_in: bool,
}

/// Whether it says that nobody is logged in. What can't be asked or understood is no such answer.
pub async fn is_logged_out(plan: &AgentPlan, version: &Version) -> bool {
    match version {
        Version::Known(release) if *release >= KNOWN_SINCE => {}
        _ => return false,
    }
    let child = Command::new(plan.program())
        .args(["auth", "status"])
        .env_clear()
        .envs(&plan.environment)
        .current_dir(&plan.cwd)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    match timeout(LIMIT, child).await {
        Ok(Ok(output)) => says_no(&output.stdout),
        _ => false,
    }
}

fn says_no(answer: &[u8]) -> bool {
    serde_json::from_slice::<Answer>(answer).is_ok_and(|answer| !answer.logged_in)
}

/// Whether the screen says so.
pub fn shows_logged_out(text: &str) -> bool {
    text.lines().any(|row| row.contains("Not logged in ·") && row.contains("/login"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_no_is_a_no() {
        assert!(says_no(br#"{"loggedIn": false, "authMethod": "none", "apiProvider": "firstParty"}"#));
        for answer in [&br#"{"loggedIn": true, "authMethod": "api_key"}"#[..], b"", b"null", b"Login: no"] {
            assert!(!says_no(answer));
        }
    }

    #[test]
    fn both_wordings_are_seen() {
        assert!(shows_logged_out("  \u{23f5}  Not logged in · Run /login"));
        assert!(shows_logged_out("      Not logged in · run /login\n────"));
        assert!(!shows_logged_out("❯ am I not logged in? use /login"));
    }
}
