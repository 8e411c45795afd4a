//! Notices on the desktop: over D-Bus where it is the freedesktop kind, by `osascript` on macOS.
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
//! | `script` | macOS: the text is an argument, never part of the script |
//!
//! Nobody waits for a bus that is not there: that is an error at once, and the next route is used.

#[cfg(not(target_os = "macos"))]
mod bus;
pub mod focus;
#[cfg(target_os = "macos")]
mod script;
pub mod text;

use super::Notice;
use focus::Focus;

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
    #[cfg(not(target_os = "macos"))]
    return bus::show(notice, focus).await;
    #[cfg(target_os = "macos")]
    {
        let _ = focus;
        script::show(notice).await
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
