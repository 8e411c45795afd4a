//! Lines of a transcript → what became of the calls that somebody was asked about. Pure: no file, no clock.
//!
//! A PermissionRequest names a tool and its input, and no call's id; the transcript has both (seen with 2.1.332):
//!
//! ```text
//! assistant  {"type":"tool_use","id":"toolu_1","name":"Read","input":{…}}         a call begins
//! attachment {"type":"hook_permission_decision","toolUseID":"toolu_1",
//!             "decision":"allow"}                                                 a hook was first
//! user       {"type":"tool_result","tool_use_id":"toolu_1","is_error":false}      it was granted
//! user       the same with "toolDenialKind":"user-rejected" beside the message    it was rejected
//! ```
//!
//! Calls that are the same to the letter are not told apart: they are settled when all of them are. What a tool is called
//! with is kept as a fingerprint only.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use ccmux_policy::attention::afar::Settled;
use ccmux_wire::halves;
use serde::Deserialize;
use serde_json::Value;

/// More calls of one turn are not remembered, but for those that are not settled.
const MOST_CALLS: usize = 4096;
/// A longer id of a call is none of Claude's.
const LONGEST_ID: usize = 128;
/// How Claude Code tells the model of a human's no; versions before `toolDenialKind` say nothing else.
const REJECTED: &str = "The user doesn't want to proceed with this tool use.";

/// A call that somebody is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Of the tool and its input.
    pub print: u64,
    /// Where the call and its result are written; a sub-agent's calls are in a file of their own.
    pub transcript: PathBuf,
}

impl Asked {
    /// Of a hook's payload; `None`: it does not name a transcript, or not as Claude Code does.
    pub fn of(payload: &Value) -> Option<Self> {
        let text = |key: &str| payload.get(key).and_then(Value::as_str);
        let main = Path::new(text("transcript_path")?);
        let transcript = match text("agent_id") {
            Some(agent) if !is_id(agent) => return None,
            Some(agent) => main.with_extension("").join("subagents").join(format!("agent-{agent}.jsonl")),
            None => main.to_owned(),
        };
        let print = print_of(text("tool_name")?, payload.get("tool_input")?);
        Some(Self { print, transcript })
    }
}

/// It becomes part of a path.
fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= 64 && id.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

fn print_of(tool: &str, input: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    (tool, input).hash(&mut hasher);
    hasher.finish()
}

#[derive(Debug, Clone, Copy)]
struct Call {
    print: u64,
    /// How, and where the line that says so begins.
    settled: Option<(Settled, u64)>,
}

/// The calls of the turn under way.
#[derive(Debug, Default)]
pub struct Calls(HashMap<String, Call>);

impl Calls {
    /// Takes the next line, which begins there.
    pub fn feed(&mut self, bytes: &[u8], start: u64) {
        let Ok(line) = serde_json::from_slice::<Line>(bytes) else {
            if let Some(mended) = halves::mended(bytes) {
                self.feed(mended.as_bytes(), start);
            }
            return;
        };
        match (line.kind.as_str(), line.attachment) {
            ("attachment", Some(attachment)) => self.decided(attachment, start),
            ("assistant", _) => self.blocks(line.message).for_each(|block| self.begun(&block)),
            ("user", _) => {
                let denied = line.tool_denial_kind.is_some();
                self.blocks(line.message).for_each(|block| self.ended(&block, denied, start));
            }
            _ => {}
        }
    }

    fn blocks(&self, message: Option<Message>) -> impl Iterator<Item = Value> + use<> {
        let blocks = match message.and_then(|message| message.content) {
            Some(Value::Array(blocks)) => blocks,
            _ => Vec::new(),
        };
        blocks.into_iter()
    }

    fn begun(&mut self, block: &Value) {
        let text = |key: &str| block.get(key).and_then(Value::as_str);
        let (Some("tool_use"), Some(id), Some(name)) = (text("type"), text("id"), text("name")) else {
            return;
        };
        if id.len() > LONGEST_ID {
            return;
        }
        let Some(input) = block.get("input") else { return };
        if self.0.len() >= MOST_CALLS {
            self.0.retain(|_, call| call.settled.is_none());
        }
        if self.0.len() < MOST_CALLS {
            let call = Call { print: print_of(name, input), settled: None };
            self.0.entry(id.to_owned()).or_insert(call);
        }
    }

    fn decided(&mut self, attachment: Attachment, start: u64) {
        if attachment.kind.as_deref() != Some("hook_permission_decision") {
            return;
        }
        let how = match attachment.decision.as_deref() {
            Some("allow") => Settled::ByHook { allowed: true },
            Some("deny") => Settled::ByHook { allowed: false },
            _ => return,
        };
        if let Some(id) = attachment.tool_use_id {
            self.settle(&id, how, start);
        }
    }

    fn ended(&mut self, block: &Value, denied: bool, start: u64) {
        let text = |key: &str| block.get(key).and_then(Value::as_str);
        let (Some("tool_result"), Some(id)) = (text("type"), text("tool_use_id")) else { return };
        let failed = block.get("is_error").and_then(Value::as_bool) == Some(true);
        let how = match failed {
            false => Settled::Granted,
            true if denied || text("content").is_some_and(|said| said.starts_with(REJECTED)) => {
                Settled::Rejected
            }
            true => Settled::Failed,
        };
        self.settle(id, how, start);
    }

    /// What is said first counts: a hook's decision comes before the result.
    fn settle(&mut self, id: &str, how: Settled, start: u64) {
        if let Some(call) = self.0.get_mut(id) {
            call.settled.get_or_insert((how, start));
        }
    }

    /// What became of the calls of that fingerprint, once all are settled; what was settled before `since` (an offset in
    /// the transcript) is none of them.
    pub fn outcome(&self, print: u64, since: u64) -> Option<Settled> {
        let is_old = |call: &Call| call.settled.is_some_and(|(_, start)| start < since);
        let mut calls = self.0.values().filter(|call| call.print == print && !is_old(call));
        let (first, _) = calls.next()?.settled?;
        calls.try_fold(first, |how, call| {
            let (other, _) = call.settled?;
            Some(if how == other { how } else { Settled::Failed })
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    message: Option<Message>,
    attachment: Option<Attachment>,
    tool_denial_kind: Option<Value>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<Value>,
}

#[derive(Deserialize)]
struct Attachment {
    #[serde(rename = "type")]
    kind: Option<String>,
    decision: Option<String>,
    #[serde(rename = "toolUseID")]
    tool_use_id: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fixture(name: &str) -> Vec<u8> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/transcripts").join(name);
        std::fs::read(path).unwrap()
    }

    /// After each line that settles something: how the two calls of a recording stand.
    fn steps(name: &str) -> Vec<[Option<Settled>; 2]> {
        let prints = ["a.txt", "b.txt"]
            .map(|file| print_of("Read", &json!({"file_path": format!("/tmp/files/{file}")})));
        let (mut calls, mut steps) = (Calls::default(), vec![[None; 2]]);
        for (number, line) in fixture(name).split(|byte| *byte == b'\n').enumerate() {
            calls.feed(line, number as u64);
            let now = prints.map(|print| calls.outcome(print, 0));
            if steps.last() != Some(&now) {
                steps.push(now);
            }
        }
        steps
    }

    const BY_HOOK: Option<Settled> = Some(Settled::ByHook { allowed: true });

    #[test]
    fn a_human_and_a_hook_that_grant_one_each_are_told_apart() {
        let granted = Some(Settled::Granted);
        let expected = [[None, None], [granted, None], [granted, BY_HOOK]];
        assert_eq!(steps("two-calls-terminal-then-hook-2.1.332.jsonl"), expected);
    }

    #[test]
    fn a_humans_no_rejects_what_is_open_and_leaves_what_was_granted() {
        let rejected = Some(Settled::Rejected);
        let expected = [[None, None], [None, BY_HOOK], [rejected, BY_HOOK]];
        assert_eq!(steps("two-calls-hook-then-rejected-2.1.332.jsonl"), expected);
        let last = steps("two-calls-rejected-2.1.332.jsonl").pop().unwrap();
        assert_eq!(last, [rejected, rejected], "one no is for all calls of the message");
    }

    fn fed(lines: &[Value]) -> Calls {
        let mut calls = Calls::default();
        lines.iter().zip(0..).for_each(|(line, start)| calls.feed(line.to_string().as_bytes(), start));
        calls
    }

    fn call(id: &str, command: &str) -> Value {
        let block = json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}});
        json!({"type": "assistant", "message": {"content": [block]}})
    }

    fn result(id: &str, failed: bool, text: &str) -> Value {
        let block = json!({"type": "tool_result", "tool_use_id": id, "is_error": failed, "content": text});
        json!({"type": "user", "message": {"content": [block]}})
    }

    fn bash(command: &str) -> u64 {
        print_of("Bash", &json!({"command": command}))
    }

    #[test]
    fn what_was_settled_before_it_was_asked_is_another_call() {
        let calls = fed(&[call("a", "ls"), result("a", false, "x"), call("b", "ls")]);
        assert_eq!(calls.outcome(bash("ls"), 0), None, "one of the two runs");
        let calls = fed(&[call("a", "ls"), result("a", false, "x")]);
        assert_eq!(calls.outcome(bash("ls"), 1), Some(Settled::Granted));
        assert_eq!(calls.outcome(bash("ls"), 2), None);
        assert_eq!(calls.outcome(bash("rm"), 0), None);
    }

    #[test]
    fn calls_that_are_the_same_are_settled_together() {
        let mut lines = vec![call("a", "ls"), call("b", "ls"), result("b", false, "x")];
        assert_eq!(fed(&lines).outcome(bash("ls"), 0), None);
        lines.push(result("a", false, "x"));
        assert_eq!(fed(&lines).outcome(bash("ls"), 0), Some(Settled::Granted));
        lines[3] = result("a", true, REJECTED);
        assert_eq!(fed(&lines).outcome(bash("ls"), 0), Some(Settled::Failed), "nobody knows which");
    }

    /// An older version says no kind: a tool that failed and a hook's no look the same.
    #[test]
    fn a_failure_does_not_say_whether_it_was_granted() {
        let outcome = |text| fed(&[call("a", "ls"), result("a", true, text)]).outcome(bash("ls"), 0);
        assert_eq!(outcome("Exit code 3"), Some(Settled::Failed));
        assert_eq!(outcome(&format!("{REJECTED} The tool use was rejected")), Some(Settled::Rejected));
    }

    #[test]
    fn lines_of_another_form_are_harmless() {
        let mut calls = fed(&[call("a", "ls")]);
        for line in [
            "",
            "{",
            "null",
            "[]",
            r#"{"type":7}"#,
            r#"{"type":"user","message":7}"#,
            r#"{"type":"user","message":{"content":[7]}}"#,
            r#"{"type":"attachment","attachment":{"type":"hook_permission_decision","decision":"ask","toolUseID":"a"}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":7}]}}"#,
        ] {
            calls.feed(line.as_bytes(), 9);
        }
        assert_eq!(calls.outcome(bash("ls"), 0), None);
    }

    #[test]
    fn a_sub_agents_call_is_looked_for_in_its_own_transcript() {
        let payload = |agent: Value| json!({"transcript_path": "/p/s.jsonl", "tool_name": "Bash", "tool_input": {"command": "ls"}, "agent_id": agent});
        let asked = |agent| Asked::of(&payload(agent)).map(|asked| asked.transcript);
        assert_eq!(asked(Value::Null), Some("/p/s.jsonl".into()));
        assert_eq!(asked("a1b2".into()), Some("/p/s/subagents/agent-a1b2.jsonl".into()));
        assert_eq!(asked("../x".into()), None);
        assert_eq!(Asked::of(&payload(Value::Null)).unwrap().print, bash("ls"));
        assert_eq!(Asked::of(&json!({"transcript_path": 7})), None);
    }
}
