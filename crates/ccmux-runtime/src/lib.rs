//! The hands of ccmux: everything that touches the world on the policy's orders.
//!
//! | module | what it does |
//! |---|---|
//! | [`settings`] | defaults ← files ← variables ← flags |
//! | [`runtime_dir`] | makes, checks and locks the runtime directory |
//! | [`dir_watch`] | tells that something changed in a directory |
//! | [`body`] | what the log says of a body |
//! | `plain_file` | a small file that the settings name, read without waiting for it |
//! | [`readable`] | a descriptor that a task can wait on |
//! | `disk` | whether the disk has room |
//! | `database_file` | what the two databases have in common as files |
//! | [`intake`] | finds FIFOs and reads them |
//! | [`inbox`] | the database of messages: accepted once, delivered once |
//! | [`prompt`] | message texts: sanitised, composed, cut into pieces, compared |
//! | [`screen`] | what a captured screen shows, by rules that are data |
//! | [`terminal`] | the one trait seam: what ccmux needs of a terminal |
//! | [`spots`] | where sessions can be seen that others started |
//! | [`systemd`] | what systemd is told, and what it hands over |
//! | [`tmux`] | that trait on tmux |
//! | [`afar`] | answers from afar to what Claude asks |
//! | [`agent`] | the agent's process, its launch file, settings file and state file |
//! | [`turns`] | transcripts → turns → subscribers |
//! | [`notify`] | notices to people: programs, webhooks, sounds, FIFOs |
//! | [`outlet`] | Claude's answers: whole messages into `out.*` FIFOs |
//! | [`mcp`] | the tools that Claude calls, over HTTP |
//! | [`attention`] | who is waited for, and whom to tell |
//! | [`control`] | `control.sock`: hooks and clients |
//! | [`containers`] | a directory with one socket for each container, and what it may say there |
//! | [`senders`] | three lines of older senders over TCP |
//! | [`event_loop`] | select, handle, drain, record |
//! | [`workers`] | do what the policy orders |
//! | [`metrics`] | counts and times, as `GET /metrics` tells them |
//! | [`recorder`] | events and effects as lines of a timeline |
//! | [`clock`] | the one place that reads clocks |
//! | [`setup`] | the guided first run: what is missing, what Claude asks |
//! | [`install`] | ours goes into files of the user, and comes out again |
//! | [`doctor`] | measures whether all can work, and says what to do |
//! | [`daemon`] | puts all of it together: [`daemon::run`] |
#![deny(unsafe_code)]

pub mod afar;
pub mod agent;
pub mod attention;
pub mod body;
pub mod clock;
pub mod containers;
pub mod control;
pub mod daemon;
mod database_file;
pub mod dir_watch;
#[cfg(not(target_os = "linux"))]
mod dir_watch_macos;
mod disk;
pub mod doctor;
pub mod event_loop;
pub mod inbox;
pub mod install;
pub mod intake;
#[cfg(not(target_os = "linux"))]
mod kqueue;
pub mod mcp;
pub mod metrics;
pub mod notify;
pub mod outlet;
mod plain_file;
pub mod program;
pub mod prompt;
pub mod readable;
pub mod recorder;
pub mod runtime_dir;
pub mod screen;
pub mod senders;
pub mod settings;
pub mod setup;
pub mod spots;
pub mod systemd;
pub mod terminal;
pub mod tmux;
pub mod turns;
pub mod workers;
