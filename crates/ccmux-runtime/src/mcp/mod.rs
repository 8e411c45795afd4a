//! HTTP on 127.0.0.1: the tools that Claude calls, and the stream of turns and alerts. (Claude itself mostly calls by
//! `ccmux mcp`, whose calls come over `control.sock`: [`crate::control::tools`].)
//!
//! ```text
//! POST /mcp                streamable HTTP, no sessions ─┐
//! GET /sse, POST /messages MCP over server-sent events ──┼─► Guard ─┬─► Tools ─► Outlets
//! GET /events              turns and alerts ─────────────┘          └─► Feed
//! GET /metrics             counts and times, see [`crate::metrics`]
//! GET /healthz             ok
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`connections`] | how many there may be, and how long a stranger may stay |
//! | [`door`] | the port: binds it, remembers it, tells where it is |
//! | [`events`] | turns and alerts as server-sent events |
//! | [`guard`] | the checks in front of all routes: Host, Origin, token and more |
//! | [`sse`] | MCP over server-sent events, which rmcp has no server for |
//! | [`tools`] | what the tools are called, and what they do |
//! | [`server`] | the task that puts these together and tries again while the port is taken |
//!
//! Nothing here knows FIFOs, the agent or its files: [`crate::outlet`] writes, [`crate::agent::mcp_entry`] tells Claude
//! where the door is.

pub mod connections;
pub mod door;
pub mod events;
pub mod guard;
pub mod server;
pub mod sse;
#[cfg(test)]
mod tests;
pub mod tools;

pub use door::Door;
pub use server::McpServer;
pub use tools::Tools;
