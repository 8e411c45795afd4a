//! Shows a session to whoever clicked its notice: the pane in tmux, then the terminal's window.
//!
//! ```text
//! session ─► own pane | spot that its hooks told ─► tmux: client, window, pane ─► client's process ─► WINDOWID, DISPLAY
//!                                                                                xdotool | wmctrl ◄───────┘
//! ```
//!
//! The window is the one in which the tmux client runs that shows the pane; a session outside of tmux says its own. The
//! daemon itself may know no display: the client's environment says that too. Nothing here is read by a shell. On macOS it is
//! the application that the client runs in ([`mac`]).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use ccmux_wire::container::WindowId;
use ccmux_wire::id::SessionId;
use tokio::time::timeout;

use super::mac::{self, MacTools};
use crate::notify::program::run_with;
use crate::spots::{Spot, Spots};
use crate::terminal::TerminalError;
use crate::tmux::Tmux;

/// An environment is no bigger.
const MAX_ENVIRONMENT_BYTES: u64 = 256 * 1024;
/// What raises a window may take so long.
const RAISED_WITHIN: Duration = Duration::from_secs(3);
/// What says where the windows are.
const DISPLAY_VARIABLES: [&str; 2] = ["DISPLAY", "XAUTHORITY"];

/// Where sessions can be seen.
#[derive(Debug, Clone, Default)]
pub struct Focus {
    /// Our own pane.
    pub own: Option<Arc<Tmux>>,
    /// The others'.
    pub spots: Spots,
    /// How it is done on a Mac; `None`: this is none.
    pub mac: Option<MacTools>,
}

/// What was found of a session.
#[derive(Debug, Default)]
struct Seen {
    /// The process of the tmux client that shows it now.
    client: Option<i32>,
    /// The window that a session outside of tmux is in.
    said: Option<WindowId>,
}

/// A window, and how it is reached.
#[derive(Debug, PartialEq, Eq)]
struct Window {
    id: WindowId,
    display: BTreeMap<String, String>,
}

impl Focus {
    /// Shows it as far as can be; what can't is in the log.
    pub async fn show(&self, session: &str) {
        let shown = match self.select(session).await {
            Ok(seen) => self.raise(seen).await,
            Err(error) => Err(error.to_string()),
        };
        match shown {
            Ok(how) => tracing::info!(event = "notice.clicked", session, how),
            Err(error) => tracing::warn!(event = "notice.clicked", session, %error),
        }
    }

    /// Where it can be seen; `None`: in our own pane. Sessions of containers and senders bear their places in their names.
    fn spot_of(&self, session: &str) -> Option<Spot> {
        if let Some(window) = session.strip_prefix("w-") {
            let window = WindowId::try_from(window.to_owned()).ok();
            return Some(Spot { pane: None, window });
        }
        let seen = |session: &str| self.spots.of(&SessionId::new(session));
        match session.strip_prefix("c-") {
            Some(rest) => {
                let id = rest.split('-').next().unwrap_or_default();
                Some(seen(&format!("c-{id}")).unwrap_or_default())
            }
            None if session == "tcp" => Some(Spot::default()),
            None => seen(session),
        }
    }

    async fn raise(&self, seen: Seen) -> Result<String, String> {
        match (&self.mac, seen.client, window_of(seen)) {
            (Some(tools), Some(client), _) => mac::window::raise(client, tools).await,
            (None, _, Some(window)) => raise(&window).await.map(|by| format!("window raised by {by}")),
            (_, _, _) => Ok("pane selected, no window known".to_owned()),
        }
    }

    /// Selects the pane, and says by whom it is seen.
    async fn select(&self, session: &str) -> Result<Seen, TerminalError> {
        let (pane, said) = match (self.spot_of(session), &self.own) {
            (Some(spot), _) => (spot.elsewhere(), spot.window),
            (None, Some(tmux)) => (Some(tmux.own_pane().await?), None),
            (None, None) => (None, None),
        };
        match pane {
            Some(pane) => Ok(Seen { client: pane.show().await?.client, said: None }),
            None => Ok(Seen { client: None, said }),
        }
    }
}

fn window_of(seen: Seen) -> Option<Window> {
    let said = || seen.said.map(|id| Window { id, display: of_names(std::env::vars()) });
    seen.client.map_or_else(said, window_of_process)
}

/// The window that a process runs in, as its environment says.
fn window_of_process(pid: i32) -> Option<Window> {
    let mut bytes = Vec::new();
    let file = File::open(format!("/proc/{pid}/environ")).ok()?;
    file.take(MAX_ENVIRONMENT_BYTES).read_to_end(&mut bytes).ok()?;
    window_in(&bytes)
}

fn window_in(environment: &[u8]) -> Option<Window> {
    let text = String::from_utf8_lossy(environment);
    let variables = || text.split('\0').filter_map(|line| line.split_once('='));
    let (_, id) = variables().find(|(name, _)| *name == "WINDOWID")?;
    let owned = variables().map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some(Window { id: WindowId::try_from(id.to_owned()).ok()?, display: of_names(owned) })
}

fn of_names(variables: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    variables.filter(|(name, _)| DISPLAY_VARIABLES.contains(&name.as_str())).collect()
}

/// By the first program that can; says which.
async fn raise(Window { id, display }: &Window) -> Result<&'static str, String> {
    let id = id.as_str();
    // The second is for displays without a window manager.
    let ways: [&[&'static str]; 3] = [
        &["xdotool", "windowactivate", "ID"],
        &["xdotool", "windowraise", "ID", "windowfocus", "ID"],
        &["wmctrl", "-i", "-a", "ID"],
    ];
    let mut whys = Vec::new();
    for way in ways {
        let argv: Vec<String> =
            way.iter().map(|word| if *word == "ID" { id.to_owned() } else { (*word).to_owned() }).collect();
        match timeout(RAISED_WITHIN, run_with(&argv, Vec::new(), display)).await {
            Ok(Ok(())) => return Ok(way[0]),
            Ok(Err(error)) => whys.push(error.to_string()),
            Err(_) => whys.push(format!("{} hangs", way[0])),
        }
    }
    Err(format!("the window can't be raised: install xdotool or wmctrl: {}", whys.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sessions_of_containers_and_senders_are_seen_in_the_windows_they_came_from() {
        let focus = Focus::default();
        let window = WindowId::try_from("77".to_owned()).ok();
        focus.spots.put(&SessionId::new("c-k3f9"), Spot { pane: None, window });
        let cases = [
            ("c-k3f9", Some("77")),
            ("c-k3f9-0b1c", Some("77")),
            ("c-k3", None),
            ("w-41943043", Some("41943043")),
            ("w-x", None),
            ("tcp", None),
        ];
        for (session, expected) in cases {
            let found = window_of(focus.select(session).await.unwrap());
            assert_eq!(found.as_ref().map(|window| window.id.as_str()), expected, "{session}");
        }
    }

    #[test]
    fn a_window_and_its_display_are_read_from_an_environment() {
        let found = window_in(b"A=1\0WINDOWID=4194306\0DISPLAY=:7\0XAUTHORITY=/x\0HOME=/r\0").unwrap();
        assert_eq!(found.id.as_str(), "4194306");
        let names: Vec<&str> = found.display.keys().map(String::as_str).collect();
        assert_eq!(names, ["DISPLAY", "XAUTHORITY"]);
        assert_eq!(window_in(b"WINDOWID=$(reboot)\0DISPLAY=:7\0"), None);
        assert_eq!(window_in(b"DISPLAY=:7\0"), None);
    }
}
