//! The agent's process: how it is started, what it says about itself, how it ends.
//!
//! | module | what it does |
//! |---|---|
//! | [`version`] | asks which version would be started |
//! | [`hook_settings`] | the generated `--settings` file: hooks that this version knows |
//! | [`process`] | the running process: identity, ancestry, exit |
//! | [`state_file`] | what Claude Code publishes about itself |

pub mod hook_settings;
pub mod process;
pub mod state_file;
pub mod version;
