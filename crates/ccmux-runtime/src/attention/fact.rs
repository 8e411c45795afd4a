//! A hook's frame → what it means for whoever waits. The payload is hostile until looked at: every field may be missing
//! or of another type.

use std::hash::{DefaultHasher, Hash, Hasher};

use ccmux_policy::attention::Kind;
use ccmux_wire::hook::HookFrame;
use serde_json::Value;

use super::words::{TASK_CHARS, shortened};

/// Claude Code's own prompt when a background task is done: nobody wrote it.
pub(crate) const SYNTHETIC: &str = "<task-notification>";
/// As much of a question, a tool's name or an error as a notice shows.
const MAX_CHARS: usize = 200;

/// What happened in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A prompt was taken.
    Prompted {
        /// Its beginning; `None`: Claude Code itself wrote it.
        task: Option<String>,
        /// Somebody typed it.
        by_human: bool,
    },
    /// A turn is over.
    Stopped {
        /// Which, where the version tells.
        prompt: Option<String>,
        /// Tasks that still run.
        background: usize,
    },
    /// The API failed.
    Failed {
        /// Which turn.
        prompt: Option<String>,
        /// Claude Code's word for it.
        error: String,
    },
    /// A dialog is open.
    Dialog {
        /// Permission or question.
        kind: Kind,
        /// A fingerprint of what is asked.
        subject: String,
        /// The tool, or the question.
        what: String,
    },
    /// A question has its answer.
    Answered,
    /// A sub-agent is done.
    SubagentStopped {
        /// Which.
        agent: String,
        /// What kind of agent.
        what: String,
    },
    /// The session is over.
    Ended,
}

impl Fact {
    /// `None`: nothing that anybody waits for. `ours`: the prompt is a batch of ours.
    pub fn of(frame: &HookFrame, ours: bool) -> Option<Self> {
        let payload = &frame.payload;
        let prompt = text(payload, "prompt_id").map(|id| shortened(id, MAX_CHARS));
        Some(match frame.event.as_str() {
            "UserPromptSubmit" => {
                let prompt = text(payload, "prompt").unwrap_or_default();
                let synthetic = prompt.trim_start().starts_with(SYNTHETIC);
                let task = (!synthetic).then(|| shortened(prompt, TASK_CHARS));
                Self::Prompted { task, by_human: !synthetic && !ours }
            }
            "Stop" => Self::Stopped { prompt, background: count(payload, "background_tasks") },
            "StopFailure" => Self::Failed { prompt, error: word(payload, "error") },
            "PermissionRequest" => dialog(payload),
            "Elicitation" => Self::Dialog {
                kind: Kind::Question,
                subject: fingerprint(payload, &["prompt_id", "mcp_server_name", "message"]),
                what: word(payload, "message"),
            },
            "Notification" if text(payload, "notification_type") == Some("elicitation_response") => {
                Self::Answered
            }
            // Claude Code's own, which makes a conversation shorter, is of no kind (F 32).
            "SubagentStop" if text(payload, "agent_type") == Some("") => return None,
            "SubagentStop" => {
                Self::SubagentStopped { agent: word(payload, "agent_id"), what: word(payload, "agent_type") }
            }
            "SessionEnd" => Self::Ended,
            _ => return None,
        })
    }
}

/// What a PermissionRequest is about, in an item's key.
pub(crate) fn subject_of(payload: &Value) -> String {
    fingerprint(payload, &["prompt_id", "tool_name", "tool_input"])
}

fn dialog(payload: &Value) -> Fact {
    let tool = word(payload, "tool_name");
    let subject = subject_of(payload);
    if tool != "AskUserQuestion" {
        return Fact::Dialog { kind: Kind::Permission, subject, what: tool };
    }
    let question = payload.pointer("/tool_input/questions/0/question").and_then(Value::as_str);
    let what = shortened(question.unwrap_or("(no text)"), MAX_CHARS);
    Fact::Dialog { kind: Kind::Question, subject, what }
}

fn text<'a>(payload: &'a Value, key: &str) -> Option<&'a str> {
    payload.get(key)?.as_str()
}

fn word(payload: &Value, key: &str) -> String {
    shortened(text(payload, key).unwrap_or("unknown"), MAX_CHARS)
}

fn count(payload: &Value, key: &str) -> usize {
    payload.get(key).and_then(Value::as_array).map_or(0, Vec::len)
}

/// The same ask has the same one; no text of it can be read from it.
fn fingerprint(payload: &Value, keys: &[&str]) -> String {
    let mut hasher = DefaultHasher::new();
    for key in keys {
        payload.get(key).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::recorded::hook;

    fn fact(name: &str) -> Option<Fact> {
        Fact::of(&hook(name), false)
    }

    #[test]
    fn each_recorded_hook_means_what_it_says() {
        let Some(Fact::Stopped { background, .. }) = fact("Stop.background.json") else { panic!() };
        assert_eq!(background, 1);
        let Some(Fact::Dialog { kind, what, .. }) = fact("PermissionRequest.Bash.json") else { panic!() };
        assert_eq!((kind, what.as_str()), (Kind::Permission, "Bash"));
        let Some(Fact::Dialog { kind, what, .. }) = fact("PermissionRequest.AskUserQuestion.json") else {
            panic!()
        };
        assert_eq!((kind, what.as_str()), (Kind::Question, "bypass colour?"));
        let Some(Fact::Dialog { kind, what, .. }) = fact("Elicitation.json") else { panic!() };
        assert_eq!((kind, what.as_str()), (Kind::Question, "Who are you?"));
        assert!(matches!(fact("StopFailure.json"), Some(Fact::Failed { error, .. }) if error == "unknown"));
        assert_eq!(fact("SessionEnd.clear.json"), Some(Fact::Ended));
        assert_eq!(fact("Notification.idle_prompt.json"), None);
        let [agent, what] = ["a9357d78054b39041", "general-purpose"].map(str::to_owned);
        assert_eq!(fact("SubagentStop.background.json"), Some(Fact::SubagentStopped { agent, what }));
        assert_eq!(fact("SubagentStop.json"), None, "that was /compact");
        assert_eq!(fact("PreCompact.json"), None);
    }

    #[test]
    fn a_prompt_of_claude_codes_own_is_nobodys_task() {
        let task = Some("task: say: sub-agent says hi".to_owned());
        assert_eq!(
            fact("UserPromptSubmit.json"),
            Some(Fact::Prompted { task: task.clone(), by_human: true })
        );
        let ours = Fact::of(&hook("UserPromptSubmit.json"), true);
        assert_eq!(ours, Some(Fact::Prompted { task, by_human: false }));
        let synthetic = fact("UserPromptSubmit.task-notification.json");
        assert_eq!(synthetic, Some(Fact::Prompted { task: None, by_human: false }));
    }

    #[test]
    fn two_asks_have_two_subjects_and_the_same_ask_has_one() {
        let subject = |name: &str, input: &str| {
            let mut frame = hook(name);
            frame.payload["tool_input"]["command"] = input.into();
            match Fact::of(&frame, false) {
                Some(Fact::Dialog { subject, .. }) => subject,
                other => panic!("{other:?}"),
            }
        };
        let ask = |input| subject("PermissionRequest.Bash.json", input);
        assert_eq!(ask("ls"), ask("ls"));
        assert_ne!(ask("ls"), ask("rm"));
    }

    #[test]
    fn a_payload_of_another_form_is_harmless() {
        for event in ["UserPromptSubmit", "Stop", "PermissionRequest", "SubagentStop"] {
            let payload = serde_json::json!({"prompt": 7, "background_tasks": "x", "tool_input": [], "tool_name": null});
            let frame = HookFrame {
                event: event.into(),
                token: None,
                claude_pid: None,
                marks: Default::default(),
                spot: None,
                payload,
            };
            assert!(Fact::of(&frame, false).is_some());
        }
    }
}
