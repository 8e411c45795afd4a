//! The guided first run: checks what a start needs, then looks at what Claude shows. No key is sent, nothing is answered:
//! the person decides in the native Claude Code.
//!
//! ```text
//! check(setting) ──steps──▶ Ground ──open──▶ Stage ──settle──▶ Seen::{Ready, Dialog, LoggedOut, Ended, ...}
//!   tmux, agent, folders       started as the daemon would, or the daemon's own session
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`checks`] | one step for each thing that a start needs |
//! | [`stage`] | the agent's pane, ours or the daemon's, looked at until it rests |
//! | [`seen`] | what was seen, in words, with what the person can do |
//! | [`dialogs`] | what the start dialogs ask, and what their choices mean |
//! | [`menu`] | the choices on a screen, and the keys to each |
//! | [`last_words`] | why an agent ended, from what it left on the screen |
//! | [`login`] | asks Claude Code whether it is logged in |
//! | [`door`] | asks a running daemon |
//! | [`mark`] | remembers the agent that an earlier run left for the person |
//!
//! The caller prints, asks the person and attaches the terminal; this module knows no terminal but the agent's.

pub mod checks;
mod dialogs;
pub(crate) mod door;
mod last_words;
mod login;
mod mark;
mod menu;
pub mod seen;
pub mod stage;

pub use checks::{Ground, Step, Verdict, check};
pub use seen::Seen;
pub use stage::Stage;
