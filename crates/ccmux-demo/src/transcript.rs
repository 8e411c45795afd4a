//! The session's transcript: one JSON line per content block, chained by `parentUuid` (FINDINGS 39-41).
//!
//! Knows the shapes of the lines and the file; does not know what a turn is. Lines are written in the order given;
//! one that is held back (a fault switch) holds back those behind it.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::{clock, ids};

const MODEL: &str = "ccmux-demo";

/// What the model's message has in common over its blocks.
#[derive(Debug, Clone)]
pub struct Message {
    pub id: String,
    request: String,
    blocks: u32,
}

impl Default for Message {
    fn default() -> Self {
        Self { id: ids::prefixed("msg_", 20), request: ids::prefixed("req_", 16), blocks: 0 }
    }
}

/// Appends lines.
pub struct Transcript {
    pub path: PathBuf,
    session: String,
    cwd: String,
    permission_mode: String,
    /// The last line of the chain.
    parent: Option<String>,
    prompts: u64,
    lines: u64,
    begun: bool,
    waiting: VecDeque<(Instant, String)>,
}

impl Transcript {
    /// Starts (or goes on) without touching the disk: the file appears with the first prompt.
    pub fn new(path: PathBuf, session: &str, cwd: &Path, permission_mode: &str) -> Self {
        Self {
            path,
            session: session.to_owned(),
            cwd: cwd.to_string_lossy().into_owned(),
            permission_mode: permission_mode.to_owned(),
            parent: None,
            prompts: 0,
            lines: 0,
            begun: false,
            waiting: VecDeque::new(),
        }
    }

    /// Goes on after the lines there are.
    pub fn after(mut self, parent: Option<String>, prompts: u64) -> Self {
        self.parent = parent;
        self.prompts = prompts;
        self
    }

    pub fn parent(&self) -> Option<String> {
        self.parent.clone()
    }

    /// An interrupted prompt that went back into the box is no part of the chain.
    pub fn rewind(&mut self, parent: Option<String>) {
        self.parent = parent;
    }

    /// The user's prompt, with the lines that Claude puts before it.
    pub fn prompt(&mut self, prompt_id: &str, text: &str, source: &str) {
        self.prompts += 1;
        if !self.begun {
            self.begun = true;
            self.loose(json!({"type": "mode", "mode": "normal"}));
            self.loose(json!({"type": "permission-mode", "permissionMode": self.permission_mode}));
        }
        let uuid = ids::uuid();
        self.plain(&json!({
            "type": "file-history-snapshot", "messageId": uuid, "isSnapshotUpdate": false,
            "snapshot": {"messageId": uuid, "trackedFileBackups": {}, "timestamp": clock::iso()},
        }));
        let position = json!({"promptIndex": self.prompts, "turnIndex": self.prompts});
        let origin = if source == "system" { "system" } else { "human" };
        self.chained(
            &uuid,
            json!({
                "promptId": prompt_id, "type": "user", "message": {"role": "user", "content": text},
                "permissionMode": self.permission_mode, "origin": {"kind": origin},
                "promptSource": source, "turnOrigin": origin, "turnPosition": position,
            }),
            Duration::ZERO,
        );
    }

    /// One content block of the model's message.
    pub fn block(
        &mut self,
        message: &mut Message,
        block: &Value,
        stop_reason: Option<&str>,
        held_for: Duration,
    ) -> String {
        let uuid = ids::uuid();
        let usage = json!({
            "input_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
            "output_tokens": 20, "service_tier": "standard",
        });
        self.chained(&uuid, json!({
            "message": {
                "id": message.id, "type": "message", "role": "assistant", "model": MODEL, "content": [block],
                "stop_reason": stop_reason, "stop_sequence": null, "usage": usage,
            },
            "apiBlockIndex": message.blocks, "requestId": message.request, "type": "assistant",
        }), held_for);
        message.blocks += 1;
        uuid
    }

    /// An API error, said by Claude itself.
    pub fn api_error(&mut self, text: &str, error: &str, status: u16) {
        self.chained(&ids::uuid(), json!({
            "message": {
                "id": ids::uuid(), "type": "message", "role": "assistant", "model": "<synthetic>",
                "content": [{"type": "text", "text": text}], "stop_reason": "stop_sequence", "stop_sequence": "",
            },
            "type": "assistant", "error": error, "isApiErrorMessage": true, "apiErrorStatus": status,
        }), Duration::ZERO);
    }

    pub fn tool_result(&mut self, prompt_id: &str, tool: &str, content: &str, error: bool, details: Value) {
        let result =
            json!({"tool_use_id": tool, "type": "tool_result", "content": content, "is_error": error});
        let source = self.parent.clone();
        self.chained(
            &ids::uuid(),
            json!({
                "promptId": prompt_id, "type": "user", "message": {"role": "user", "content": [result]},
                "toolUseResult": details, "sourceToolAssistantUUID": source,
            }),
            Duration::ZERO,
        );
    }

    /// A hook, and not the human, decided about a call.
    pub fn hook_decided(&mut self, tool: &str, allowed: bool) {
        let decision = if allowed { "allow" } else { "deny" };
        let attachment = json!({
            "type": "hook_permission_decision", "decision": decision, "toolUseID": tool, "hookEvent": "PermissionRequest",
        });
        let line = json!({"attachment": attachment, "type": "attachment"});
        self.chained(&ids::uuid(), line, Duration::ZERO);
    }

    /// `[Request interrupted by user]`, as a line of the harness.
    pub fn interrupted(&mut self, prompt_id: &str, in_tool: bool) {
        let text = if in_tool {
            "[Request interrupted by user for tool use]"
        } else {
            "[Request interrupted by user]"
        };
        self.chained(
            &ids::uuid(),
            json!({
                "promptId": prompt_id, "type": "user", "rowSource": "harness",
                "message": {"role": "user", "content": [{"type": "text", "text": text}]},
            }),
            Duration::ZERO,
        );
    }

    /// A note of the harness to the model (a Stop hook's feedback).
    pub fn meta(&mut self, prompt_id: &str, text: &str) {
        self.chained(&ids::uuid(), json!({
            "promptId": prompt_id, "type": "user", "isMeta": true, "message": {"role": "user", "content": text},
        }), Duration::ZERO);
    }

    /// Queued texts taken into the running turn.
    pub fn absorbed(&mut self, text: &str) {
        self.queue_operation("remove", Some(text));
        self.chained(&ids::uuid(), json!({
            "type": "attachment", "renderedRole": "system",
            "attachment": {"type": "queued_command", "prompt": text, "commandMode": "prompt", "origin": {"kind": "human"}},
        }), Duration::ZERO);
    }

    pub fn queue_operation(&mut self, operation: &str, content: Option<&str>) {
        let mut line = json!({"type": "queue-operation", "operation": operation, "timestamp": clock::iso()});
        if let Some(content) = content {
            line["content"] = content.into();
        }
        self.loose(line);
    }

    pub fn stop_hook_summary(&mut self, ran: &[(String, u64)], blocked: bool) {
        let infos: Vec<Value> =
            ran.iter().map(|(command, ms)| json!({"command": command, "durationMs": ms})).collect();
        self.chained(&ids::uuid(), json!({
            "type": "system", "subtype": "stop_hook_summary", "hookCount": infos.len(), "hookInfos": infos,
            "hookErrors": [], "hookAdditionalContext": [], "preventedContinuation": false, "stopReason": "",
            "hasOutput": blocked, "level": "suggestion", "toolUseID": ids::uuid(),
        }), Duration::ZERO);
    }

    pub fn turn_duration(&mut self, took: Duration) {
        let lines = self.lines;
        self.chained(
            &ids::uuid(),
            json!({
                "type": "system", "subtype": "turn_duration", "isMeta": false, "messageCount": lines,
                "durationMs": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            }),
            Duration::ZERO,
        );
    }

    /// When the next line that is held back is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.waiting.front().map(|(due, _)| *due)
    }

    /// Writes what is due.
    pub fn write_due(&mut self, now: Instant) {
        let mut batch = String::new();
        while self.waiting.front().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, line)) = self.waiting.pop_front() {
                batch.push_str(&line);
            }
        }
        self.append(&batch);
    }

    /// Writes everything: the agent ends, or another session begins.
    pub fn finish(&mut self) {
        let batch: String = self.waiting.drain(..).map(|(_, line)| line).collect();
        self.append(&batch);
    }

    fn chained(&mut self, uuid: &str, facts: Value, held_for: Duration) {
        let mut line = Map::new();
        line.insert("parentUuid".into(), self.parent.take().into());
        line.insert("isSidechain".into(), false.into());
        if let Value::Object(facts) = facts {
            line.extend(facts);
        }
        for (key, value) in [
            ("uuid", json!(uuid)),
            ("timestamp", json!(clock::iso())),
            ("userType", json!("external")),
            ("entrypoint", json!("cli")),
            ("cwd", json!(self.cwd)),
            ("sessionId", json!(self.session)),
            ("version", json!(crate::cli::version_number())),
            ("gitBranch", json!("HEAD")),
        ] {
            line.insert(key.into(), value);
        }
        self.parent = Some(uuid.to_owned());
        self.lines += 1;
        self.push(&Value::Object(line), held_for);
    }

    /// A line outside the chain that names the session.
    fn loose(&mut self, mut line: Value) {
        line["sessionId"] = json!(self.session);
        self.plain(&line);
    }

    fn plain(&mut self, line: &Value) {
        self.push(line, Duration::ZERO);
    }

    fn push(&mut self, line: &Value, held_for: Duration) {
        let due = Instant::now() + held_for;
        self.waiting.push_back((due, format!("{line}\n")));
        self.write_due(Instant::now());
    }

    fn append(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Some(directory) = self.path.parent() {
            let _ = std::fs::create_dir_all(directory);
        }
        // One write for whole lines: a reader never sees a torn one.
        let opened = OpenOptions::new().create(true).append(true).open(&self.path);
        let _ = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_turn_is_a_chain_of_lines_one_a_block() {
        let directory = tempfile::tempdir().unwrap();
        let mut transcript =
            Transcript::new(directory.path().join("p/s.jsonl"), "s", Path::new("/x"), "default");
        assert!(!transcript.path.exists());
        transcript.prompt("P", "full: ls", "typed");
        let mut message = Message::default();
        transcript.block(
            &mut message,
            &json!({"type": "thinking", "thinking": "t"}),
            Some("tool_use"),
            Duration::ZERO,
        );
        transcript.block(
            &mut message,
            &json!({"type": "tool_use", "id": "T"}),
            Some("tool_use"),
            Duration::ZERO,
        );
        transcript.tool_result("P", "T", "out", false, json!({}));
        transcript.turn_duration(Duration::from_millis(5));
        let lines = lines(&transcript.path);
        let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
        assert_eq!(
            kinds,
            [
                "mode",
                "permission-mode",
                "file-history-snapshot",
                "user",
                "assistant",
                "assistant",
                "user",
                "system"
            ]
        );
        for pair in lines[3..].windows(2) {
            assert_eq!(pair[1]["parentUuid"], pair[0]["uuid"]);
        }
        assert_eq!(lines[5]["apiBlockIndex"], 1);
        assert_eq!(lines[4]["message"]["id"], lines[5]["message"]["id"]);
        assert_eq!((&lines[3]["promptId"], &lines[6]["promptId"]), (&json!("P"), &json!("P")));
    }

    #[test]
    fn a_line_held_back_holds_back_those_behind_it() {
        let directory = tempfile::tempdir().unwrap();
        let mut transcript =
            Transcript::new(directory.path().join("s.jsonl"), "s", Path::new("/x"), "default");
        let hour = Duration::from_secs(3600);
        transcript.block(&mut Message::default(), &json!({"type": "text"}), Some("end_turn"), hour);
        transcript.turn_duration(Duration::ZERO);
        assert!(lines(&transcript.path).is_empty());
        transcript.write_due(Instant::now() + 2 * hour);
        assert_eq!(lines(&transcript.path).len(), 2);
    }
}
