//! macOS: notices by `terminal-notifier` or `osascript`, a click that shows the session's terminal.
//!
//! ```text
//! Notice ─► bubble ─ terminal-notifier -execute "touch FILE" ─ click ─► FILE ─► Focus: pane ─► window: ps, AppleScript
//!                  └ without it: osascript, and a click does nothing
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`bubble`] | one notice, and whether somebody clicks it |
//! | [`window`] | a tmux client's process → the terminal application that it runs in, raised |
//!
//! Nothing of it calls macOS itself, so that all of it is compiled and tested everywhere, with programs that stand in for
//! those of macOS. It was never run on a Mac.
use crate::program::find_absolute;

pub(super) mod bubble;
pub(super) mod window;

use std::path::PathBuf;

/// Where Homebrew puts programs; a daemon that launchd started does not have it in its `PATH`.
const BREWED: [&str; 2] = ["/opt/homebrew/bin", "/usr/local/bin"];

/// The programs that it takes.
#[derive(Debug, Clone)]
pub struct MacTools {
    /// `terminal-notifier`, where it is installed.
    pub notifier: Option<PathBuf>,
    /// Runs AppleScript.
    pub osascript: PathBuf,
    /// Lists processes.
    pub ps: PathBuf,
    /// Opens, and so raises, applications.
    pub open: PathBuf,
}

impl MacTools {
    /// This machine's; `None`: it is no Mac.
    pub fn here() -> Option<Self> {
        cfg!(target_os = "macos").then(|| Self {
            notifier: notifier_in(&std::env::var("PATH").unwrap_or_default()),
            osascript: "/usr/bin/osascript".into(),
            ps: "/bin/ps".into(),
            open: "/usr/bin/open".into(),
        })
    }
}

fn notifier_in(path: &str) -> Option<PathBuf> {
    find_absolute("terminal-notifier", &format!("{path}:{}", BREWED.join(":")))
}

#[cfg(test)]
mod tests;
