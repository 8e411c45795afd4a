//! The pane of tmux that somebody sees an OpenCode in, as its environment says: hostile until looked at.
//!
//! ```text
//! TMUX=/tmp/tmux-1000/default,4711,0  TMUX_PANE=%3   ─►   that server's socket, pane %3
//! ```

use std::path::{Path, PathBuf};

use ccmux_wire::opencode::OpencodeHello;

/// A pane of some server of the user's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// The server's socket.
    pub socket: PathBuf,
    /// `%3`
    pub pane: String,
}

impl Seat {
    /// `None`: it is in no pane, or says something else than tmux does.
    pub fn of(hello: &OpencodeHello) -> Option<Self> {
        let socket = Path::new(hello.tmux.as_deref()?.split(',').next()?);
        let number = hello.pane.as_deref()?.strip_prefix('%')?;
        let is_number =
            !number.is_empty() && number.len() < 10 && number.bytes().all(|byte| byte.is_ascii_digit());
        (socket.is_absolute() && is_number)
            .then(|| Self { socket: socket.to_owned(), pane: format!("%{number}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(tmux: &str, pane: &str) -> Option<Seat> {
        let (tmux, pane) = (Some(tmux.to_owned()), Some(pane.to_owned()));
        Seat::of(&OpencodeHello { tmux, pane, ..OpencodeHello::default() })
    }

    #[test]
    fn a_pane_is_where_tmux_says_and_nothing_else_is_one() {
        let found = seat("/tmp/tmux-0/default,4711,0", "%3").unwrap();
        assert_eq!((found.socket.as_path(), found.pane.as_str()), (Path::new("/tmp/tmux-0/default"), "%3"));
        for (tmux, pane) in
            [("default,1,0", "%3"), ("", "%3"), ("/s", "3"), ("/s", "%"), ("/s", "%3;kill-server")]
        {
            assert_eq!(seat(tmux, pane), None, "{tmux} {pane}");
        }
    }
}
