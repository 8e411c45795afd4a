//! Claude's tools: what they are called and what they mean, for both servers that offer them (the daemon over HTTP, and
//! `ccmux mcp` over stdio), and the frames by which the second has them done by the first.
//!
//! ```text
//! bridge → {"v":1,"type":"tool","name":"send_to_channel","arguments":{"channel":"phone","message":"hi"}}
//! bridge ← {"ok":true,"tool":{"text":"sent to phone"}}
//! bridge ← {"ok":true,"tool":{"text":"nobody is listening on …","is_error":true}}
//! bridge ← {"ok":false,"code":"stopping","error":"…"}        nothing was done; ask the next daemon
//! ```
//!
//! The descriptions name no channels: they stand at the very beginning of every request to the model, and a change there
//! makes it read the whole conversation anew. It does nothing, and knows no MCP library.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::channel::ChannelName;
use crate::status::{ChannelStatus, Direction};

/// The tool that answers.
pub const SEND: &str = "send_to_channel";
/// The tool that lists.
pub const LIST: &str = "list_channels";
/// What Claude Code calls the server; its tools are `mcp__ccmux__...` in permission rules.
pub const SERVER_NAME: &str = "ccmux";

const SEND_MEANS: &str = "Send a message to the program behind a channel, as one whole message. Use it to answer a \
    `[HH:MM name]` message: the channel is that name. What you write in the conversation is not sent to anybody.";
const LIST_MEANS: &str = "List the channels that take messages now, and those that only bring them.";

/// A tool that Claude wants done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// [`SEND`] or [`LIST`].
    pub name: String,
    /// As Claude gave them.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// [`crate::hook::TOKEN_VARIABLE`], if the environment has it: the caller belongs to our agent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token: Option<String>,
}

/// What became of it, for Claude to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDone {
    /// A sentence, or a list.
    pub text: String,
    /// It was not done, and the text says why.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_error: bool,
}

/// A line of the stream `channels`: all channels that there are now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelsLine {
    /// As in `ccmux channels`.
    pub channels: Vec<ChannelStatus>,
}

/// The names of the channels that take messages now.
pub fn takers(channels: &[ChannelStatus]) -> Vec<ChannelName> {
    let takes = |channel: &&ChannelStatus| channel.direction == Direction::Out && channel.state == "open";
    channels.iter().filter(takes).map(|channel| channel.name.clone()).collect()
}

/// Both tools, as MCP's `tools/list` shows them.
pub fn definitions() -> [Value; 2] {
    let channel = json!({"type": "string", "description": "the channel's name, as in `[HH:MM name]`"});
    let message = json!({"type": "string", "description": "the text, at most 1 MiB; sent as it is"});
    // Claude Code would only show the name, and the model would have to look for the tool first.
    let meta = json!({"anthropic/alwaysLoad": true});
    let send = json!({
        "name": SEND,
        "description": SEND_MEANS,
        "inputSchema": {
            "type": "object",
            "properties": {"channel": channel, "message": message},
            "required": ["channel", "message"],
        },
        "annotations": {
            "title": "Send to channel", "readOnlyHint": false, "destructiveHint": false, "openWorldHint": true,
        },
        "_meta": meta,
    });
    let list = json!({
        "name": LIST,
        "description": LIST_MEANS,
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"title": "List channels", "readOnlyHint": true, "openWorldHint": false},
        "_meta": meta,
    });
    [send, list]
}

/// What the model is told at the start of a session. `channels` is `None` while the daemon is away.
pub fn instructions(channels: Option<&[ChannelStatus]>) -> String {
    let now = match channels.map(takers) {
        None => format!("At the start ccmux did not run yet; {LIST} tells which channels there are now."),
        Some(names) if names.is_empty() => {
            format!("At the start no channel took messages; {LIST} tells what there is now.")
        }
        Some(names) => {
            let names: Vec<&str> = names.iter().map(ChannelName::as_str).collect();
            format!("At the start these took messages: {}; {LIST} tells what there is now.", names.join(", "))
        }
    };
    format!(
        "ccmux brings you messages from programs outside and takes your answers to them. In a prompt, a line that \
         begins with `[HH:MM name]` is a message that came in at that local time on the channel `name`; lines \
         indented by two spaces after it belong to it. Whoever sent it doesn't see this conversation: to answer, \
         call {SEND} with that channel's name. {now}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(name: &str, direction: Direction, state: &str) -> ChannelStatus {
        ChannelStatus { name: name.parse().unwrap(), direction, state: state.to_owned() }
    }

    #[test]
    fn the_instructions_name_the_channels_that_take_messages_now() {
        let channels = [
            channel("phone", Direction::Out, "open"),
            channel("file", Direction::Out, "refused: a regular file"),
            channel("mail", Direction::In, "open"),
        ];
        let text = instructions(Some(&channels));
        assert!(text.contains("[HH:MM name]") && text.contains("took messages: phone;"), "{text}");
        assert!(instructions(Some(&[])).contains("no channel took messages"));
        assert!(instructions(None).contains("did not run yet"));
    }

    #[test]
    fn the_definitions_are_the_same_whatever_channels_there_are_and_always_loaded() {
        for tool in definitions() {
            assert_eq!(tool["_meta"]["anthropic/alwaysLoad"], true);
            assert_eq!(tool["inputSchema"]["type"], "object");
        }
    }

    #[test]
    fn a_result_that_is_no_error_says_nothing_of_errors() {
        let done = ToolDone { text: "sent to x".into(), is_error: false };
        assert_eq!(serde_json::to_string(&done).unwrap(), r#"{"text":"sent to x"}"#);
    }
}
