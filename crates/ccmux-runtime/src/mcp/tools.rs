//! `send_to_channel` and `list_channels`: what Claude can do here, whichever way it asks.
//!
//! ```text
//! /mcp, /sse ──► rmcp ──► ServerHandler ──┐
//! control.sock, from `ccmux mcp` ─────────┴─► Tools::call ──► Outlets
//! ```
//!
//! What goes wrong with a call is a tool result that says so, never a protocol error, which Claude would not get to
//! read. Names and descriptions stand in [`ccmux_wire::tools`].

use std::time::Duration;

use ccmux_wire::status::{ChannelStatus, Direction};
use ccmux_wire::tools;
pub use ccmux_wire::tools::{LIST, SEND};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::body::logged;
use crate::outlet::{OutletError, Outlets};

/// A channel that is made anew in that time is no news.
const SETTLES: Duration = Duration::from_millis(500);

/// Why a tool was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// Claude can do something about it, or tell the user.
    #[error("{0}")]
    Failed(String),
    /// The daemon ends; nothing was done.
    #[error("{0}")]
    Stopping(String),
}

impl From<OutletError> for ToolError {
    fn from(error: OutletError) -> Self {
        match error {
            OutletError::Stopping => Self::Stopping(error.to_string()),
            other => Self::Failed(other.to_string()),
        }
    }
}

/// The handler; cheap to clone, one for all connections.
#[derive(Debug, Clone)]
pub struct Tools {
    /// Writes.
    pub outlets: Outlets,
    /// Whether a client is told when channels come and go: only where there is a stream anyway, since Claude Code gives up
    /// for good a server whose stream it lost for 20 s.
    pub tells_news: bool,
}

impl Tools {
    /// Does a tool; what it says is for Claude.
    ///
    /// # Errors
    /// What kept it from being done, for Claude too.
    pub async fn call(&self, name: &str, arguments: &JsonObject) -> Result<String, ToolError> {
        match name {
            SEND => self.send(arguments).await,
            LIST => Ok(self.list()),
            other => {
                Err(ToolError::Failed(format!("there is no tool {other:?}: there are {SEND} and {LIST}")))
            }
        }
    }

    async fn send(&self, arguments: &JsonObject) -> Result<String, ToolError> {
        let text = |name: &str, example: &str| match arguments.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(ToolError::Failed(format!("`{name}` must be a string, e.g. {example}"))),
            None => Err(ToolError::Failed(format!("`{name}` is missing: give a string, e.g. {example}"))),
        };
        let channel = text("channel", "\"telegram\"")?;
        let message = text("message", "\"Done.\"")?;
        if let Err(error) = self.outlets.send(&channel, message.clone()).await {
            // Neither the name nor the sentence: Claude may have written anything in the channel's place.
            tracing::info!(event = "answer.not_sent", bytes = message.len(), body = logged(&message));
            return Err(error.into());
        }
        Ok(format!("sent to {channel}"))
    }

    fn list(&self) -> String {
        let channels = self.outlets.channels();
        let lines = |direction: Direction| -> String {
            let lines = channels.iter().filter(|channel| channel.direction == direction).map(line);
            Some(lines.collect::<String>())
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| "- none\n".to_owned())
        };
        format!(
            "Channels that take messages ({SEND}):\n{}Channels that messages come from:\n{}",
            lines(Direction::Out),
            lines(Direction::In)
        )
    }

    /// Follows the channels that there are.
    pub fn changes(&self) -> ChannelChanges {
        let mut list = self.outlets.watch_channels();
        let told = list.borrow_and_update().clone();
        ChannelChanges { list, told }
    }
}

/// The channels as they were told last, and what comes after.
#[derive(Debug)]
pub struct ChannelChanges {
    list: watch::Receiver<Vec<ChannelStatus>>,
    told: Vec<ChannelStatus>,
}

impl ChannelChanges {
    /// What there is.
    pub fn now(&self) -> &[ChannelStatus] {
        &self.told
    }

    /// Waits until there are others, for good: what comes and goes within moments is not told. `None`: it never will.
    pub async fn next(&mut self) -> Option<&[ChannelStatus]> {
        loop {
            self.list.changed().await.ok()?;
            sleep(SETTLES).await;
            let now = self.list.borrow_and_update().clone();
            if now != self.told {
                self.told = now;
                return Some(&self.told);
            }
        }
    }
}

fn line(channel: &ChannelStatus) -> String {
    match channel.state.as_str() {
        "open" => format!("- {}\n", channel.name),
        state => format!("- {} ({state})\n", channel.name),
    }
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder().enable_tools().build();
        if let Some(tools) = &mut capabilities.tools {
            tools.list_changed = Some(self.tells_news);
        }
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(tools::SERVER_NAME, env!("CARGO_PKG_VERSION")))
            .with_instructions(tools::instructions(Some(&self.outlets.channels())))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(all_tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        all_tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let result = match self.call(&call.name, &call.arguments.unwrap_or_default()).await {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]),
        };
        Ok(result.into())
    }
}

/// The definitions are ours: they are tools.
fn all_tools() -> Vec<Tool> {
    tools::definitions().into_iter().filter_map(|tool| serde_json::from_value(tool).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<ChannelStatus> {
        let channel = |name: &&str| ChannelStatus {
            name: name.parse().unwrap(),
            direction: Direction::Out,
            state: "open".into(),
        };
        names.iter().map(channel).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_and_goes_within_moments_is_no_news() {
        let (sender, receiver) = watch::channel(list(&["a"]));
        let mut changes = ChannelChanges { list: receiver, told: list(&["a"]) };
        sender.send_replace(list(&[]));
        let back = async {
            sleep(SETTLES / 2).await;
            sender.send_replace(list(&["a"]));
            sleep(SETTLES * 3).await;
            sender.send_replace(list(&["a", "b"]));
        };
        let (_, news) = tokio::join!(back, changes.next());
        assert_eq!(news, Some(list(&["a", "b"]).as_slice()));
        drop(sender);
        assert_eq!(changes.next().await, None);
    }

    #[test]
    fn every_definition_is_a_tool() {
        let names: Vec<String> = all_tools().into_iter().map(|tool| tool.name.into_owned()).collect();
        assert_eq!(names, [SEND, LIST]);
        let tool = serde_json::to_value(&all_tools()[0]).unwrap();
        assert_eq!(tool, tools::definitions()[0], "nothing is lost on the way");
    }
}
