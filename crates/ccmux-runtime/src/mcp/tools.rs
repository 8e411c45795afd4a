//! `send_to_channel` and `list_channels`: what Claude can do here.
//!
//! What goes wrong with a call is a tool result that says so, never a protocol error, which Claude would not get to
//! read. The tools' descriptions name no channels: they stand at the very beginning of every request to the model, and
//! a change there makes it read the whole conversation anew.

use std::borrow::Cow;
use std::sync::Arc;

use ccmux_wire::status::{ChannelStatus, Direction};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    JsonObject, ListToolsResult, MetaObject, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

use crate::outlet::{OutletError, Outlets};

/// The tool that answers.
pub const SEND: &str = "send_to_channel";
/// The tool that lists.
pub const LIST: &str = "list_channels";

const SEND_MEANS: &str = "Send a message to the program behind a channel, as one whole message. Use it to answer a \
    `[HH:MM name]` message: the channel is that name. What you write in the conversation is not sent to anybody.";
const LIST_MEANS: &str = "List the channels that take messages now, and those that only bring them.";

/// The handler; cheap to clone, one for all connections.
#[derive(Debug, Clone)]
pub struct Tools {
    /// Writes.
    pub outlets: Outlets,
}

impl Tools {
    async fn send(&self, arguments: &JsonObject) -> Result<String, String> {
        let text = |name: &str, example: &str| match arguments.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(format!("`{name}` must be a string, e.g. {example}")),
            None => Err(format!("`{name}` is missing: give a string, e.g. {example}")),
        };
        let channel = text("channel", "\"telegram\"")?;
        let message = text("message", "\"Done.\"")?;
        let sent = self.outlets.send(&channel, message).await;
        sent.map(|()| format!("sent to {channel}")).map_err(|error: OutletError| error.to_string())
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

    fn instructions(&self) -> String {
        let names = self.outlets.names();
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        let now = match names.as_slice() {
            [] => format!("At the start no channel took messages; {LIST} tells what there is now."),
            _ => format!(
                "At the start these took messages: {}; {LIST} tells what there is now.",
                names.join(", ")
            ),
        };
        format!(
            "ccmux brings you messages from programs outside and takes your answers to them. In a prompt, a line that \
             begins with `[HH:MM name]` is a message that came in at that local time on the channel `name`; lines \
             indented by two spaces after it belong to it. Whoever sent it doesn't see this conversation: to answer, \
             call {SEND} with that channel's name. {now}"
        )
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
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("ccmux", env!("CARGO_PKG_VERSION")))
            .with_instructions(self.instructions())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![send_tool(), list_tool()]))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        match name {
            SEND => Some(send_tool()),
            LIST => Some(list_tool()),
            _ => None,
        }
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = call.arguments.unwrap_or_default();
        let done = match call.name.as_ref() {
            SEND => self.send(&arguments).await,
            LIST => Ok(self.list()),
            other => Err(format!("there is no tool {other:?}: there are {SEND} and {LIST}")),
        };
        let result = match done {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(text) => CallToolResult::error(vec![ContentBlock::text(text)]),
        };
        Ok(result.into())
    }
}

fn send_tool() -> Tool {
    let channel = json!({"type": "string", "description": "the channel's name, as in `[HH:MM name]`"});
    let message = json!({"type": "string", "description": "the text, at most 1 MiB; sent as it is"});
    let schema = json!({
        "type": "object",
        "properties": {"channel": channel, "message": message},
        "required": ["channel", "message"],
    });
    tool(SEND, SEND_MEANS, schema).with_annotations(
        ToolAnnotations::with_title("Send to channel").read_only(false).destructive(false).open_world(true),
    )
}

fn list_tool() -> Tool {
    let annotations = ToolAnnotations::with_title("List channels").read_only(true).open_world(false);
    tool(LIST, LIST_MEANS, json!({"type": "object", "properties": {}})).with_annotations(annotations)
}

fn tool(name: &'static str, means: &'static str, schema: Value) -> Tool {
    let Value::Object(schema) = schema else { return Tool::default() };
    // Claude Code would only show the name, and the model would have to look for the tool first.
    let mut meta = MetaObject::default();
    meta.insert("anthropic/alwaysLoad".to_owned(), Value::Bool(true));
    Tool::new_with_raw(name, Some(Cow::Borrowed(means)), Arc::new(schema)).with_meta(meta)
}
