//! A tmux server in a systemd unit of its own, for a daemon that is a unit itself.
//!
//! Started by the daemon directly, the server would live in the daemon's unit: with its sandbox, its limits and its
//! fate, and so would the agent and every command that the agent runs. Hence a transient *service* of the user's
//! manager, `ccmux-tmux-SOCKET.service`: the manager starts it, so nothing of the daemon is inherited. (A scope would not
//! do: its processes are forked off by whoever asks for it.)
//!
//! A server that answers on the socket already is used as it is, wherever it lives. Where the manager can't be asked,
//! the server is started directly, and the log says so.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use super::Tmux;
use super::client::{LIMIT, args};
use crate::terminal::TerminalError;

const SERVER_LOOK_PAUSE: Duration = Duration::from_millis(20);

/// What the server gets of the daemon's environment, besides what the manager gives it. The agent's own comes by its
/// launch file; arguments, which these become, can be read by everybody.
const VARIABLES: [&str; 8] =
    ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "SHELL", "TMUX_TMPDIR", "XDG_CONFIG_HOME"];

/// Type=exec: back when tmux runs. An agent's command that the system ends for its memory must not end the server with
/// all sessions, and a build may have many processes.
const PROPERTIES: [&str; 3] = ["Type=exec", "OOMPolicy=continue", "TasksMax=infinity"];

impl Tmux {
    /// Sees to it that a server answers, if it is to live in a unit of its own. What fails here is only logged: the
    /// command that needs the server starts one.
    pub(super) async fn ensure_server(&self) {
        if !self.settings.own_unit || self.has_server().await.unwrap_or(true) {
            return;
        }
        let unit = unit_name(self.settings.socket.as_deref());
        match self.start_unit(&unit).await {
            Ok(()) => tracing::info!(event = "tmux.unit_started", unit),
            Err(why) => {
                tracing::warn!(
                    event = "tmux.unit_failed",
                    unit,
                    why,
                    "tmux shares the daemon's unit and its sandbox"
                );
            }
        }
    }

    async fn has_server(&self) -> Result<bool, TerminalError> {
        Ok(!self.client.run("look for the server", &args(&["list-sessions"])).await?.no_server())
    }

    async fn start_unit(&self, unit: &str) -> Result<(), String> {
        let mut command = Command::new("systemd-run");
        command.args(["--user", "--quiet", "--collect", "--no-ask-password", "--unit", unit]);
        let socket = self.settings.socket.as_deref().unwrap_or(DEFAULT_SOCKET);
        command.arg(format!("--description=tmux server {socket}, started by ccmux"));
        command.args(PROPERTIES.map(|property| format!("--property={property}")));
        command.args(
            self.client.environment(&VARIABLES).map(|(name, value)| format!("--setenv={name}={value}")),
        );
        // -D: stays in the foreground, and without sessions too.
        command.arg("--").args(self.client.server_command()).arg("-D");
        run(command).await?;
        self.wait_for_server().await
    }

    async fn wait_for_server(&self) -> Result<(), String> {
        let until = Instant::now() + LIMIT;
        while Instant::now() < until {
            if self.has_server().await.map_err(|error| error.to_string())? {
                return Ok(());
            }
            sleep(SERVER_LOOK_PAUSE).await;
        }
        Err(format!("it was started, and does not answer within {} s", LIMIT.as_secs()))
    }
}

async fn run(mut command: Command) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = match timeout(LIMIT, command.output()).await {
        Ok(output) => output.map_err(|error| format!("systemd-run: {error}"))?,
        Err(_) => return Err(format!("systemd-run did not end within {} s", LIMIT.as_secs())),
    };
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// What tmux calls the server that nobody named.
const DEFAULT_SOCKET: &str = "default";

/// A socket's name may hold what a unit's may not.
fn unit_name(socket: Option<&str>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let socket: String = socket.unwrap_or(DEFAULT_SOCKET).chars().map(plain).collect();
    format!("ccmux-tmux-{socket}.service")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_socket_has_a_unit_with_a_valid_name() {
        assert_eq!(unit_name(None), "ccmux-tmux-default.service");
        assert_eq!(unit_name(Some("work")), "ccmux-tmux-work.service");
        assert_eq!(unit_name(Some("a b/c@d")), "ccmux-tmux-a_b_c_d.service");
    }
}
