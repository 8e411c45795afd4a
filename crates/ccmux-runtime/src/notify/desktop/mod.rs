//! Notices on the desktop: over D-Bus where it is the freedesktop kind, by `terminal-notifier` or `osascript` on macOS.
//!
//! ```text
//! Notice ─► harmless text ─► org.freedesktop.Notifications ─► bubble ─ click ─► Focus: pane, window
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`text`] | titles and bodies that no server takes for markup |
//! | `bus` | one notice over D-Bus, and whether somebody clicks it |
//! | [`focus`] | shows the session: tmux client, window, pane, and the terminal's window |
//! | [`mac`] | the same on macOS, by the programs there |
//!
//! Nobody waits for a bus that is not there: that is an error at once, and the next route is used.

#[cfg(not(target_os = "macos"))]
mod bus;
pub mod focus;
pub mod mac;
pub mod text;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::Notice;
use focus::Focus;

/// So many bubbles can be clicked at once; of more, the newest.
const MAX_OPEN: usize = 32;
/// A bubble that nobody touches for so long is not listened to any more.
const CLICKED_WITHIN: Duration = Duration::from_secs(24 * 3600);

/// Bubbles that somebody may click.
static OPEN: Mutex<VecDeque<AbortHandle>> = Mutex::new(VecDeque::new());

/// Why nothing was shown. No text of the notice is in here.
#[derive(Debug, thiserror::Error)]
pub enum DesktopError {
    /// Nothing says where the session bus is.
    #[error(
        "there is no D-Bus session bus: DBUS_SESSION_BUS_ADDRESS is not set for the daemon, and {path} is not there; \
         start the daemon in a desktop session"
    )]
    NoBus {
        /// Where it would be.
        path: String,
    },
    /// It does not answer, or refuses.
    #[error("the D-Bus session bus {address} can't be used: {why}")]
    Bus {
        /// As the environment says it.
        address: String,
        /// What the library said.
        why: String,
    },
    /// Nobody shows notices.
    #[error("no notification daemon answers on the session bus (org.freedesktop.Notifications): {why}")]
    NoServer {
        /// What the bus said.
        why: String,
    },
    /// macOS.
    #[error(transparent)]
    Script(#[from] super::program::ProgramError),
}

impl DesktopError {
    /// Another try may do better: not without a bus.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NoBus { .. } | Self::NoServer { .. } => false,
            Self::Bus { .. } | Self::Script(_) => true,
        }
    }
}

/// Shows it, once.
///
/// # Errors
/// Without somebody who shows notices.
pub(super) async fn tell(notice: &Notice, focus: &Focus) -> Result<(), DesktopError> {
    if let Some(tools) = &focus.mac {
        return mac::bubble::show(notice, focus, tools).await;
    }
    #[cfg(not(target_os = "macos"))]
    return bus::show(notice, focus).await;
    #[cfg(target_os = "macos")]
    Err(DesktopError::NoServer { why: "the programs of macOS are not known".to_owned() })
}

/// Somebody waits for a click there.
fn keep_open(listening: AbortHandle) {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|task| !task.is_finished());
    open.push_back(listening);
    while open.len() > MAX_OPEN {
        if let Some(oldest) = open.pop_front() {
            oldest.abort();
        }
    }
}

/// Whether there is a bus at all; the doctor asks.
///
/// # Errors
/// What is missing.
pub fn check(environment: impl Fn(&str) -> Option<String>) -> Result<(), DesktopError> {
    #[cfg(not(target_os = "macos"))]
    return bus::address(environment).map(drop);
    #[cfg(target_os = "macos")]
    {
        let _ = environment;
        Ok(())
    }
}
