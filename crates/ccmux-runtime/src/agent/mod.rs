//! The agent's process, and the files that it and ccmux leave for each other.
//!
//! | module | what it does |
//! |---|---|
//! | [`plan`] | works out command, environment and directories from the settings |
//! | [`launch`] | hands command line, environment and directory to the pane's own process |
//! | [`hook_settings`] | generates the `--settings` file with our hooks and permissions |
//! | [`mcp_entry`] | generates the `--mcp-config` file with our tools |
//! | [`version`] | asks the agent which version it is |
//! | [`version_ahead`] | asks it while the end of the one before is still being told |
//! | [`start`] | does all of that once: what the daemon and the guided first run start is the same |
//! | [`proxy`] | tells whether the agent's proxy variables are the expected ones |
//! | [`process`] | tells when the agent ends, and which process is which |
//! | [`state_file`] | follows what Claude Code says about itself |
//! | [`reset_time`] | reads from a failure's text when a usage limit ends |
//! | [`record`] | remembers the agent for the next daemon |

pub mod hook_settings;
pub mod launch;
pub mod mcp_entry;
pub mod plan;
pub mod process;
#[cfg(not(target_os = "linux"))]
mod process_macos;
pub mod proxy;
pub mod record;
pub mod reset_time;
pub mod start;
pub mod state_file;
pub mod tmux_server;
pub mod version;
pub mod version_ahead;
