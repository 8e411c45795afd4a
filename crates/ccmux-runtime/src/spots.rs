//! Where sessions can be seen that others started: a pane of some tmux server of the user, a window of the desktop.
//!
//! ```text
//! hook of a foreign session ─ TMUX, TMUX_PANE, WINDOWID ─► Spot, checked ─► was a key pressed there? show it
//! ```
//!
//! What a hook says is hostile until checked. Our own pane is not in here: the terminal knows it.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccmux_wire::hook;
use ccmux_wire::id::SessionId;
use nix::unistd::Uid;
use serde::{Deserialize, Serialize};

use crate::tmux::Elsewhere;

/// So many sessions' spots are known at most.
const MAX_SPOTS: usize = 4096;
/// A socket's address is no longer.
const MAX_PATH_BYTES: usize = 108;

/// The number of a window, as X11 gives it: 1 to 20 digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowId(String);

impl WindowId {
    /// `None`: it is no such number.
    pub fn of(text: &str) -> Option<Self> {
        let digits = (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| Self(text.to_owned()))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where a session can be seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spot {
    /// The tmux server's socket, and the pane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pane: Option<(PathBuf, String)>,
    /// The terminal's window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowId>,
}

impl Spot {
    /// Keeps of a frame's spot what has the right form.
    pub fn of(said: &hook::Spot) -> Self {
        let pane = said.tmux.as_deref().and_then(socket_of).zip(said.pane.as_deref().and_then(pane_of));
        Self { pane, window: said.window.as_deref().and_then(WindowId::of) }
    }
}

/// `/tmp/tmux-1000/default,4711,0` → the path.
fn socket_of(variable: &str) -> Option<PathBuf> {
    let path = variable.rsplitn(3, ',').nth(2)?;
    let is_path = path.starts_with('/') && path.len() < MAX_PATH_BYTES && !path.chars().any(char::is_control);
    is_path.then(|| PathBuf::from(path))
}

/// `%` and a number.
fn pane_of(variable: &str) -> Option<String> {
    let number = variable.strip_prefix('%')?;
    let is_number = (1..=10).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| variable.to_owned())
}

/// A server that another user runs is not asked.
fn is_own_socket(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.file_type().is_socket() && found.uid() == Uid::effective().as_raw())
}

/// Clones share what is known.
#[derive(Debug, Clone, Default)]
pub struct Spots(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// Each with the number of its last hook.
    spots: BTreeMap<SessionId, (u64, Spot)>,
    hooks: u64,
}

impl Spots {
    /// A session is seen there from now on. Where too many are known, the one that was heard of least lately is forgotten:
    /// not every session says its end.
    pub fn put(&self, session: &SessionId, spot: Spot) {
        let mut known = self.known();
        known.hooks += 1;
        let number = known.hooks;
        known.spots.insert(session.clone(), (number, spot));
        if known.spots.len() > MAX_SPOTS
            && let Some(oldest) =
                known.spots.iter().min_by_key(|(_, (number, _))| *number).map(|(session, _)| session.clone())
        {
            known.spots.remove(&oldest);
        }
    }

    /// The session is over.
    pub fn remove(&self, session: &SessionId) {
        self.known().spots.remove(session);
    }

    /// Where it was seen last.
    pub fn of(&self, session: &SessionId) -> Option<Spot> {
        self.known().spots.get(session).map(|(_, spot)| spot.clone())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spot {
    /// The pane, if it is one of this user's own tmux.
    pub fn elsewhere(&self) -> Option<Elsewhere> {
        let (socket, pane) = self.pane.as_ref().filter(|(socket, _)| is_own_socket(socket))?;
        Some(Elsewhere::new(socket, pane.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(tmux: &str, pane: &str, window: &str) -> Spot {
        let [tmux, pane, window] = [tmux, pane, window].map(|text| Some(text.to_owned()));
        Spot::of(&hook::Spot { tmux, pane, window })
    }

    #[test]
    fn a_spot_keeps_only_what_has_the_right_form() {
        let good = spot("/tmp/tmux-1/a,b,4711,0", "%3", "18446744073709551615");
        assert_eq!(good.pane, Some((PathBuf::from("/tmp/tmux-1/a,b"), "%3".to_owned())));
        assert_eq!(good.window.unwrap().as_str(), "18446744073709551615");
        for (tmux, pane, window) in [
            ("tmp/x,1,0", "%3", ""),
            ("/tmp/x", "%3", "12345678901234567890\u{0}"),
            ("/tmp/x,1,0", "%", "0x1"),
            ("/tmp/x,1,0", "%3;kill-server", "-1"),
            ("/tmp/x\n,1,0", "%3", "184467440737095516150"),
            ("/tmp/x,1,0", "=ccmux:", "1 2"),
        ] {
            assert_eq!(spot(tmux, pane, window), Spot::default(), "{tmux:?} {pane:?} {window:?}");
        }
    }

    #[test]
    fn of_too_many_the_one_not_heard_of_is_forgotten() {
        let (spots, name) = (Spots::default(), |n: usize| SessionId::new(format!("s{n}")));
        for n in 0..MAX_SPOTS {
            spots.put(&name(n), Spot::default());
        }
        spots.put(&name(0), Spot::default());
        spots.put(&name(MAX_SPOTS), Spot::default());
        let known = |n| spots.of(&name(n)).is_some();
        assert_eq!((known(0), known(1), known(2), known(MAX_SPOTS)), (true, false, true, true));
        spots.remove(&name(2));
        assert!(!known(2));
    }

    #[test]
    fn only_a_socket_of_ones_own_is_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("default");
        let at = |path: &Path| Spot { pane: Some((path.to_owned(), "%0".to_owned())), window: None };
        assert!(at(&path).elsewhere().is_none(), "nothing is there");
        std::fs::write(&path, "").unwrap();
        assert!(at(&path).elsewhere().is_none(), "a file");
        std::fs::remove_file(&path).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(at(&path).elsewhere().is_some());
    }
}
