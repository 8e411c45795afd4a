//! One line of Claude Code's transcript → what ccmux needs of it.
//!
//! ```text
//! {"type":"user","promptId":"P","uuid":"u1","message":{"content":"hello"}}          → Line::User
//! {"type":"assistant","uuid":"u2","message":{"id":"A","content":[{"type":"text"…}]}} → Line::Assistant
//! {"type":"attachment","attachment":{"type":"queued_command","prompt":"hello"}}      → Line::Queued
//! {"type":"system","subtype":"turn_duration"}                                        → Line::TurnClosed
//! anything else, also what is no JSON                                                → Line::Other
//! ```
//!
//! Knows no file, no cursor, no turn. Claude Code adds line types with every release, so nothing here is an error.

use std::borrow::Cow;

use ccmux_wire::halves;
use ccmux_wire::id::PromptId;
use serde::Deserialize;
use serde_json::Value;

/// A line of a transcript.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// What the user, a tool or Claude Code itself put before the model.
    User(UserLine),
    /// One content block of the model (a line may hold more).
    Assistant(AssistantLine),
    /// Input that Claude Code took while a turn ran: put into its queue, or into the running turn.
    Queued(String),
    /// Claude Code's own note that the turn before it has ended.
    TurnClosed,
    /// Nothing to do with turns.
    Other,
}

impl Line {
    /// When Claude Code wrote it, where that matters and is known.
    pub fn written_at(&self) -> Option<&str> {
        match self {
            Self::User(line) => line.written_at.as_deref(),
            Self::Assistant(line) => line.written_at.as_deref(),
            _ => None,
        }
    }
}

/// A `user` line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UserLine {
    /// The prompt it belongs to; absent in 2.0.76.
    pub prompt_id: Option<PromptId>,
    /// The line's own id.
    pub uuid: Option<String>,
    /// It belongs to a sub-agent.
    pub is_sidechain: bool,
    /// Claude Code wrote it, no person: a caveat, a summary, the output of a local command.
    pub synthetic: bool,
    /// It says that the user pressed Esc.
    pub interruption: bool,
    /// A Stop hook of somebody else makes the turn go on.
    pub goes_on: bool,
    /// When Claude Code wrote it, as it says.
    pub written_at: Option<String>,
    /// Claude Code says it took the text from its queue; `None` where it does not say.
    pub from_queue: Option<bool>,
    /// Its text: the content itself, or its text blocks with newlines between them.
    pub text: String,
    /// Its `tool_result` blocks.
    pub results: Vec<Value>,
}

impl UserLine {
    /// It begins a turn: somebody's words, not a tool's and not Claude Code's.
    pub fn is_prompt(&self) -> bool {
        !self.is_sidechain && !self.synthetic && !self.interruption && !self.text.trim().is_empty()
    }
}

/// An `assistant` line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AssistantLine {
    /// The line's own id.
    pub uuid: Option<String>,
    /// It belongs to a sub-agent.
    pub is_sidechain: bool,
    /// When Claude Code wrote it, as it says.
    pub written_at: Option<String>,
    /// The message that the block is part of.
    pub message_id: Option<String>,
    /// Not the model's words: Claude Code reports that the API failed.
    pub api_error: bool,
    /// Claude Code's word for that failure.
    pub error: Option<String>,
    /// The content blocks, as written.
    pub blocks: Vec<Value>,
}

impl AssistantLine {
    /// The text blocks, one behind the other.
    pub fn text(&self) -> String {
        self.blocks.iter().filter_map(block_text).collect()
    }
}

/// The text of a `text` block.
pub fn block_text(block: &Value) -> Option<&str> {
    if block.get("type")?.as_str()? == "text" { block.get("text")?.as_str() } else { None }
}

/// The fields that are read; everything else in a line is skipped without being stored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    subtype: Option<String>,
    uuid: Option<String>,
    prompt_id: Option<String>,
    prompt_source: Option<String>,
    is_sidechain: Option<bool>,
    is_meta: Option<bool>,
    is_compact_summary: Option<bool>,
    is_api_error_message: Option<bool>,
    error: Option<Value>,
    interrupted_message_id: Option<String>,
    timestamp: Option<String>,
    message: Option<RawMessage>,
    attachment: Option<RawAttachment>,
    operation: Option<String>,
    content: Option<Value>,
}

#[derive(Deserialize)]
struct RawMessage {
    id: Option<String>,
    content: Option<Value>,
}

#[derive(Deserialize)]
struct RawAttachment {
    #[serde(rename = "type")]
    kind: Option<String>,
    prompt: Option<Value>,
}

/// Reads one line (without or with its newline).
pub fn parse_line(bytes: &[u8]) -> Line {
    let Ok(raw) = serde_json::from_slice::<Raw>(bytes) else {
        return halves::mended(bytes).map_or(Line::Other, |mended| parse_line(mended.as_bytes()));
    };
    match raw.kind.as_ref() {
        "user" => Line::User(user_line(raw)),
        "assistant" => Line::Assistant(assistant_line(raw)),
        "attachment" => queued_command(raw.attachment),
        "queue-operation" if raw.operation.as_deref() == Some("enqueue") => queued_text(raw.content),
        "system" if matches!(raw.subtype.as_deref(), Some("turn_duration" | "stop_hook_summary")) => {
            Line::TurnClosed
        }
        _ => Line::Other,
    }
}

fn user_line(raw: Raw) -> UserLine {
    let (text, results) = match raw.message.and_then(|message| message.content) {
        Some(Value::String(text)) => (text, Vec::new()),
        Some(Value::Array(blocks)) => split_user_blocks(blocks),
        _ => (String::new(), Vec::new()),
    };
    UserLine {
        prompt_id: raw.prompt_id.map(PromptId::new),
        uuid: raw.uuid,
        is_sidechain: raw.is_sidechain == Some(true),
        synthetic: raw.is_meta == Some(true)
            || raw.is_compact_summary == Some(true)
            || text.starts_with("<local-command-"),
        interruption: raw.interrupted_message_id.is_some()
            || text.starts_with("[Request interrupted by user"),
        goes_on: raw.is_meta == Some(true) && text.starts_with("Stop hook feedback:"),
        from_queue: raw.prompt_source.map(|source| source == "queued"),
        written_at: raw.timestamp,
        text,
        results,
    }
}

fn split_user_blocks(blocks: Vec<Value>) -> (String, Vec<Value>) {
    let texts: Vec<&str> = blocks.iter().filter_map(block_text).collect();
    let text = texts.join("\n");
    let is_result = |block: &Value| block.get("type").and_then(Value::as_str) == Some("tool_result");
    (text, blocks.into_iter().filter(is_result).collect())
}

fn assistant_line(raw: Raw) -> AssistantLine {
    let (message_id, content) = raw.message.map_or((None, None), |message| (message.id, message.content));
    let blocks = match content {
        Some(Value::Array(blocks)) => blocks,
        Some(Value::String(text)) => vec![serde_json::json!({"type": "text", "text": text})],
        _ => Vec::new(),
    };
    AssistantLine {
        uuid: raw.uuid,
        is_sidechain: raw.is_sidechain == Some(true),
        written_at: raw.timestamp,
        message_id,
        api_error: raw.is_api_error_message == Some(true),
        error: raw.error.and_then(|error| error.as_str().map(str::to_owned)),
        blocks,
    }
}

fn queued_command(attachment: Option<RawAttachment>) -> Line {
    match attachment {
        Some(RawAttachment { kind: Some(kind), prompt }) if kind == "queued_command" => queued_text(prompt),
        _ => Line::Other,
    }
}

fn queued_text(content: Option<Value>) -> Line {
    match content {
        Some(Value::String(text)) => Line::Queued(text),
        Some(Value::Array(blocks)) => Line::Queued(split_user_blocks(blocks).0),
        _ => Line::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Line {
        parse_line(text.as_bytes())
    }

    #[test]
    fn a_prompt_is_a_user_line_with_somebodys_words() {
        let Line::User(line) = parse(
            r#"{"type":"user","promptId":"P","uuid":"u","isSidechain":false,"promptSource":"typed","message":{"role":"user","content":"hi"}}"#,
        ) else {
            panic!("no user line")
        };
        assert_eq!((line.text.as_str(), line.from_queue), ("hi", Some(false)));
        assert!(line.is_prompt());
    }

    #[test]
    fn what_claude_code_itself_puts_there_is_no_prompt() {
        for fields in [
            r#""isMeta":true,"message":{"content":"go on"}"#,
            r#""isCompactSummary":true,"message":{"content":"so far"}"#,
            r#""message":{"content":"<local-command-stdout>x</local-command-stdout>"}"#,
            r#""interruptedMessageId":"m","message":{"content":[{"type":"text","text":"[Request interrupted by user]"}]}"#,
            r#""isSidechain":true,"message":{"content":"sub-agent, do this"}"#,
            r#""message":{"content":[{"type":"tool_result","content":"x"}]}"#,
        ] {
            let Line::User(line) = parse(&format!(r#"{{"type":"user",{fields}}}"#)) else {
                panic!("{fields}")
            };
            assert!(!line.is_prompt(), "{fields}");
        }
    }

    #[test]
    fn both_forms_of_queued_input_are_read() {
        let attachment = r#"{"type":"attachment","attachment":{"type":"queued_command","prompt":"later"}}"#;
        let operation = r#"{"type":"queue-operation","operation":"enqueue","content":"later"}"#;
        for line in [attachment, operation] {
            assert_eq!(parse(line), Line::Queued("later".into()));
        }
        assert_eq!(parse(r#"{"type":"queue-operation","operation":"dequeue"}"#), Line::Other);
        assert_eq!(parse(r#"{"type":"attachment","attachment":{"type":"date","prompt":7}}"#), Line::Other);
    }

    /// A tool's long output that Claude Code cut in the middle of a character.
    #[test]
    fn a_line_with_half_a_character_is_read() {
        let line = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"cut \ud83d"}]}}"#;
        let Line::Assistant(line) = parse(line) else { panic!("no assistant line") };
        assert_eq!(line.text(), "cut \u{fffd}");
    }

    #[test]
    fn unknown_and_broken_lines_are_ignored() {
        for line in
            ["", "{", "null", "[]", "\0\0\0", r#"{"type":"tools-used"}"#, r#"{"type":7}"#, r#"{"a":1}"#]
        {
            assert_eq!(parse(line), Line::Other, "{line:?}");
        }
    }
}
