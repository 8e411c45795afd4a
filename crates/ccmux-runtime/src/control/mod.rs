//! `control.sock`: hooks and clients, one JSON object a line, one reply line a request.
//!
//! | module | what it does |
//! |---|---|
//! | [`server`] | accepts, reads lines, checks who speaks and what they may ask |
//! | [`principal`] | who speaks: owner, own session, foreign session, container |
//! | [`hooks`] | a hook's frame → an event |
//! | [`attention`] | `attention`, `mute`, `test_route`, and hooks for whoever waits |
//! | [`gone`] | which notes and questions wait for nobody any more |
//! | [`notes`] | `notify`, and notes that hooks of agents leave for each other |
//! | [`doubles`] | events that come twice, because our hook stands in two settings files |
//! | [`requests`] | `send`, `status`, `why`, `screen`, `broadcast` |
//! | [`permission`] | `permission`: answers from afar by the client |
//! | [`interrupt`] | `interrupt` |
//! | [`questions`] | the instruction to ask through the question tool |
//! | [`reload`] | `reload`, and the signal for it |
//! | [`opencode`] | events of OpenCode's plugin |
//! | [`tools`] | `tool` and `channels`, for `ccmux mcp` |
//!
//! It decides nothing about messages or the agent; it never logs what a frame holds.

pub mod attention;
pub mod doubles;
pub mod gone;
pub mod hooks;
pub mod interrupt;
pub mod live;
pub mod notes;
mod opencode;
pub mod permission;
pub mod principal;
pub mod questions;
#[cfg(test)]
pub mod recorded;
pub mod reload;
pub mod requests;
pub mod server;
pub mod tools;

pub use server::{Control, Desk};
