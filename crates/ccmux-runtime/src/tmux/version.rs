//! Which tmux is this, and is it new enough.
//!
//! 3.2 is the oldest that has all we use: `list-panes -f`, `if-shell` with `{ }`, `source-file -`, options on a pane.
//! (3.2 lacks `pane_dead_signal`: a killed agent's end is then [`ccmux_policy::event::ExitStatus::Unknown`].)

use std::fmt;
use std::path::PathBuf;

use super::client::{Client, LIMIT};

/// The oldest tmux that does.
pub const MINIMUM_VERSION: (u32, u32) = (3, 2);

/// What `tmux -V` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TmuxVersion {
    /// As printed, e.g. `3.3a`, `next-3.6`, `openbsd-7.5`.
    pub text: String,
    /// Major and minor number; `None` where the text has none of tmux's own (`master`, `openbsd-7.5`).
    pub number: Option<(u32, u32)>,
}

impl fmt::Display for TmuxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why this tmux won't do. The caller's exit code is 69.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    /// It could not be run.
    #[error("tmux is missing: cannot run {}: {source}; install tmux {}.{} or newer", .binary.display(), MINIMUM_VERSION.0, MINIMUM_VERSION.1)]
    Missing {
        /// What was run.
        binary: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// Older than [`MINIMUM_VERSION`].
    #[error("tmux {found} is too old: install tmux {}.{} or newer", MINIMUM_VERSION.0, MINIMUM_VERSION.1)]
    TooOld {
        /// What it is.
        found: TmuxVersion,
    },
    /// It printed something else, or nothing in time.
    #[error("{} -V answered {answer:?}: is that tmux?", .binary.display())]
    Unreadable {
        /// What was run.
        binary: PathBuf,
        /// What it printed.
        answer: String,
    },
}

/// Asks, and checks.
pub(super) async fn ask(client: &Client) -> Result<TmuxVersion, VersionError> {
    let binary = client.binary().to_owned();
    let answer = match client.ask_version().await {
        Ok(Some(answer)) => answer,
        Ok(None) => format!("nothing within {} s", LIMIT.as_secs()),
        Err(source) => return Err(VersionError::Missing { binary, source }),
    };
    match parse(&answer) {
        Some(found) if is_too_old(&found) => Err(VersionError::TooOld { found }),
        Some(found) => Ok(found),
        None => Err(VersionError::Unreadable { binary, answer }),
    }
}

fn is_too_old(version: &TmuxVersion) -> bool {
    version.number.is_some_and(|number| number < MINIMUM_VERSION)
}

/// `tmux 3.3a` → 3.3; a version without a number of tmux's own is taken as a new one.
fn parse(answer: &str) -> Option<TmuxVersion> {
    let text = answer.strip_prefix("tmux ")?.trim();
    let digits = text.strip_prefix("next-").unwrap_or(text);
    Some(TmuxVersion { text: text.to_owned(), number: parse_number(digits) })
}

fn parse_number(text: &str) -> Option<(u32, u32)> {
    let (major, rest) = text.split_once('.')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((major.parse().ok()?, rest.get(..end)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_tmux_prints_them() {
        for (answer, number) in [
            ("tmux 3.3a", Some((3, 3))),
            ("tmux 3.2", Some((3, 2))),
            ("tmux 3.10-rc", Some((3, 10))),
            ("tmux next-3.6", Some((3, 6))),
            ("tmux master", None),
            ("tmux openbsd-7.5", None),
        ] {
            assert_eq!(parse(answer).expect(answer).number, number, "{answer}");
        }
        assert_eq!(parse("screen 4.9"), None);
    }

    #[test]
    fn what_is_older_than_3_2_is_too_old() {
        for (answer, too_old) in
            [("tmux 3.1c", true), ("tmux 2.9a", true), ("tmux 3.2", false), ("tmux 3.10", false)]
        {
            assert_eq!(is_too_old(&parse(answer).expect(answer)), too_old, "{answer}");
        }
    }
}
