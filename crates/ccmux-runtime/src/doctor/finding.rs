//! What a check says.
//!
//! ```text
//! {"check":"port","state":"failure","detail":"port 9876 is taken by nginx (pid 812)","remedy":"…"}
//! ```

use serde::Serialize;

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// As it should be, or not to be measured here; the detail says which.
    Ok,
    /// It works, but somebody should know.
    Warning,
    /// Something of ccmux can't work.
    Failure,
}

impl Health {
    /// The word, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}

/// One line of the doctor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which check: one of [`CHECKS`].
    pub check: &'static str,
    /// How it stands.
    pub state: Health,
    /// What was measured.
    pub detail: String,
    /// What to do; absent where nothing is to be done.
    pub remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, state: Health::Ok, detail: detail.into(), remedy: None }
    }

    pub(super) fn warning(check: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, state: Health::Warning, detail: detail.into(), remedy: Some(remedy.into()) }
    }

    pub(super) fn failure(check: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, state: Health::Failure, detail: detail.into(), remedy: Some(remedy.into()) }
    }
}

/// Every check, in the order of the report.
pub const CHECKS: [&str; 26] = [
    "daemon",
    "settings",
    "runtime_dir",
    "state_dir",
    "sockets",
    "token_file",
    "fifos",
    "disk",
    "inbox",
    "proxy",
    "no_proxy",
    "environment",
    "linger",
    "sandbox",
    "cgroup",
    "tmp",
    "clock",
    "routes",
    "port",
    "token",
    "versions",
    "tmux",
    "paste",
    "agent",
    "hooks",
    "state_file",
];
