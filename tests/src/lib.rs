//! Harness of the end-to-end tests: a daemon with an agent in a house of its own, and the facts a test waits for.
//!
//! | module | what it does |
//! |---|---|
//! | [`binaries`] | where the binaries are that were built with this test |
//! | [`house`] | a temporary directory with a home, a tmux server and a daemon; ends with everything in it |
//! | [`adapter_program`] | adapters that run beside a house, and what they say |
//! | [`agent`] | what can be seen of the agent: its pane, its pid, its transcripts |
//! | [`adapter`] | a program that reads an `out.` FIFO |
//! | [`doors`] | FIFOs and subscribers of a house |
//! | [`http`] | requests to the HTTP door, and tool calls as Claude makes them |
//! | [`inbox`] | what the inbox holds |
//! | [`metrics`] | what `/metrics` tells, read by Prometheus' own parser |
//! | [`listening`] | programs that read a stream: `nc`, `socat`, `curl`, `ccmux tail` |
//! | [`container`] | containers of a house, on bubblewrap |
//! | [`crowd`] | many subscribers at once |
//! | [`fetched`] | programs from the registries |
//! | [`human`] | somebody at the terminal: a tmux client whose keys are typed |
//! | [`desktop`] | an X server with a real notification daemon |
//! | [`claude`] | the real Claude Code CLI on a mock of the model's API |
//! | [`mcp_library`] | the official MCP client library |
//! | [`notes`] | notes between agents of a repository |
//! | [`notices`] | notices that end in a file of the house |
//! | [`proof`] | what ccmux claims of deliveries, held against the agent's transcript |
//! | [`receiver`] | services that take notices, as strict as their documents |
//! | [`systemd`] | a stand-in for systemd: notifications, the descriptor store |
//! | [`opencode`] | the real OpenCode CLI on a mock of a model's provider |
//! | [`patience`] | waiting for a fact, with a limit |
//!
//! Knows the contract and ccmux-wire, none of the daemon's insides. A test of a line in a FIFO:
//!
//! ```no_run
//! let house = ccmux_tests::House::builder().ready();
//! let turns = house.subscribe();
//! house.write("in.phone", "say: hello\n");
//! turns.wait_for_text("hello");
//! ```

// A harness panics where a test would; clippy only knows functions marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod adapter;
pub mod adapter_program;
pub mod agent;
pub mod binaries;
pub mod claude;
pub mod container;
pub mod crowd;
pub mod desktop;
pub mod doors;
pub mod fetched;
pub mod house;
pub mod http;
pub mod human;
pub mod inbox;
pub mod listening;
pub mod mcp_library;
pub mod metrics;
pub mod notes;
pub mod notices;
pub mod opencode;
pub mod patience;
pub mod proof;
pub mod receiver;
pub mod systemd;

pub use adapter_program::AdapterProgram;
pub use desktop::Desktop;
pub use doors::Subscriber;
pub use house::{House, HouseBuilder};
pub use human::Human;
pub use patience::{LIMIT, wait_for};
