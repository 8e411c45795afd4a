//! A hook's frame → a fact of its session. One table says what each event of Claude Code means to ccmux.
//!
//! The payload is hostile until looked at: every field may be missing or of another type. Its texts (prompt, last
//! message) go where bodies go, to the comparison and to the turns; the policy hears that something happened.

use std::path::Path;
use std::time::Instant;

use ccmux_policy::Event;
use ccmux_policy::event::{Origin, SessionFact};
use ccmux_wire::hook::HookFrame;
use ccmux_wire::id::{PromptId, SessionId};
use serde_json::Value;

use super::doubles::Doubles;
use crate::agent::reset_time::reset_time;
use crate::clock::unix_ms;
use crate::turns::Turns;
use crate::workers::on_the_way::OnTheWay;

/// As much of a failure's word as anybody reads.
const MAX_ERROR_CHARS: usize = 60;
/// As much of a tool's name as anybody reads.
const MAX_TOOL_CHARS: usize = 100;

/// What hooks are turned into facts with.
#[derive(Debug, Clone)]
pub struct HookFront {
    /// Learns transcripts and last messages.
    pub turns: Turns,
    /// Knows the batch in flight.
    pub on_the_way: OnTheWay,
    /// Knows what came already.
    pub doubles: Doubles,
}

impl HookFront {
    /// Whether a frame came already; told before anybody acts on it.
    pub fn came_already(&self, frame: &HookFrame, origin: Origin) -> bool {
        let double = self.doubles.is_one(frame, origin, Instant::now());
        if double {
            tracing::debug!(event = "hook.doubled", hook = %frame.event, ?origin);
        }
        double
    }

    /// The event that a frame stands for; `None`: nothing that ccmux acts on.
    pub fn event_of(&self, frame: &HookFrame, origin: Origin) -> Option<Event> {
        let session = session_of(&frame.payload)?;
        if origin == Origin::Own {
            self.note(&session, frame);
        }
        let fact = self.fact_of(frame, origin)?;
        Some(Event::Session { session, origin, fact })
    }

    /// What the turns must know before the policy orders to publish.
    fn note(&self, session: &SessionId, frame: &HookFrame) {
        let transcript = text(&frame.payload, "transcript_path").map(Path::new);
        if let Some(transcript) = transcript {
            self.turns.note_transcript(session, transcript);
        }
        let prompt = prompt_of(frame);
        match frame.event.as_str() {
            "UserPromptSubmit" => self.turns.note_prompt(session, prompt.as_ref()),
            "StopFailure" => self.turns.note_failure(session),
            "Stop" => {
                let last_message = text(&frame.payload, "last_assistant_message");
                self.turns.note_stop(session, prompt.as_ref(), last_message, transcript);
            }
            _ => {}
        }
    }

    fn fact_of(&self, frame: &HookFrame, origin: Origin) -> Option<SessionFact> {
        let payload = &frame.payload;
        let word = |key| text(payload, key).unwrap_or("unknown").to_owned();
        Some(match frame.event.as_str() {
            "SessionStart" => SessionFact::Started { source: error_word(&word("source")) },
            "UserPromptSubmit" => SessionFact::PromptSubmitted {
                prompt: prompt_of(frame),
                batch: text(payload, "prompt")
                    .filter(|_| origin == Origin::Own)
                    .and_then(|prompt| self.on_the_way.batch_of(prompt)),
            },
            "Stop" => {
                SessionFact::TurnEnded { prompt: prompt_of(frame), background: background_tasks(payload) }
            }
            "StopFailure" => failure(frame),
            "Notification" if word("notification_type") == "auth_success" => SessionFact::LoggedIn,
            "PermissionRequest" => SessionFact::DialogOpened { tool: tool_name(&word("tool_name")) },
            "Elicitation" => SessionFact::DialogOpened { tool: "Elicitation".to_owned() },
            "SessionEnd" => SessionFact::Ended { reason: error_word(&word("reason")) },
            event => {
                tracing::debug!(event = "hook.noted", hook = event, ?origin);
                return None;
            }
        })
    }
}

/// Claude's ids are UUIDs; whatever else comes is no session, since the id becomes part of paths and of what people read.
pub(crate) fn session_of(payload: &Value) -> Option<SessionId> {
    text(payload, "session_id").filter(|id| is_id(id)).map(SessionId::new)
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= 64 && id.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

/// The text is Claude Code's own, not the model's: only when the limit ends is read from it.
fn failure(frame: &HookFrame) -> SessionFact {
    let texts = ["last_assistant_message", "error_details"].map(|key| text(&frame.payload, key));
    SessionFact::TurnFailed {
        prompt: prompt_of(frame),
        error: error_word(text(&frame.payload, "error").unwrap_or("unknown")),
        resets_at: texts.into_iter().flatten().find_map(|text| reset_time(text, unix_ms())),
    }
}

/// A word of Claude Code's; anything else is shown to people, too.
pub(crate) fn error_word(error: &str) -> String {
    error.chars().filter(|c| c.is_ascii_alphanumeric() || "_-:".contains(*c)).take(MAX_ERROR_CHARS).collect()
}

fn text<'a>(payload: &'a Value, key: &str) -> Option<&'a str> {
    payload.get(key)?.as_str()
}

/// Another program's tools may have any name: it goes to people and to the log, so it is short and harmless.
fn tool_name(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(MAX_TOOL_CHARS).collect()
}

fn prompt_of(frame: &HookFrame) -> Option<PromptId> {
    text(&frame.payload, "prompt_id").filter(|id| is_id(id)).map(PromptId::new)
}

/// Tasks that still run; a list of another form counts as none.
fn background_tasks(payload: &Value) -> u32 {
    let tasks = payload.get("background_tasks").and_then(Value::as_array);
    tasks.map_or(0, |tasks| u32::try_from(tasks.len()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use ccmux_policy::UnixMs;
    use ccmux_wire::id::BatchId;

    use super::*;
    use crate::control::recorded::hook;
    use crate::turns::TurnsSettings;
    use crate::workers::on_the_way::TextOnTheWay;

    fn front(folder: &Path) -> HookFront {
        let settings = TurnsSettings { projects_dir: folder.join("projects"), subscriber_bytes: 1 << 20 };
        let turns = Turns::open(folder, settings).unwrap().turns;
        HookFront { turns, on_the_way: OnTheWay::default(), doubles: Doubles::default() }
    }

    fn fact(name: &str) -> Option<SessionFact> {
        let folder = tempfile::tempdir().unwrap();
        match front(folder.path()).event_of(&hook(name), Origin::Own)? {
            Event::Session { fact, .. } => Some(fact),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn each_recorded_hook_becomes_its_fact() {
        let prompt = |id: &str| Some(PromptId::new(id));
        assert_eq!(fact("SessionStart.resume.json"), Some(SessionFact::Started { source: "resume".into() }));
        assert_eq!(
            fact("Stop.background.json"),
            Some(SessionFact::TurnEnded {
                prompt: prompt("47aded91-a5fa-4927-b0c1-6b618d7114e8"),
                background: 1
            })
        );
        assert_eq!(
            fact("StopFailure.json"),
            Some(SessionFact::TurnFailed {
                prompt: prompt("aa69f92f-e3f8-4c31-948f-69934ae009b5"),
                error: "unknown".into(),
                resets_at: None,
            })
        );
        let question = SessionFact::DialogOpened { tool: "AskUserQuestion".into() };
        assert_eq!(fact("PermissionRequest.AskUserQuestion.json"), Some(question));
        assert_eq!(fact("SessionEnd.clear.json"), Some(SessionFact::Ended { reason: "clear".into() }));
        let elicitation = SessionFact::DialogOpened { tool: "Elicitation".into() };
        assert_eq!(fact("Elicitation.json"), Some(elicitation));
    }

    /// Field fault 33.
    #[tokio::test]
    async fn a_usage_limit_has_the_end_that_its_text_tells() {
        let folder = tempfile::tempdir().unwrap();
        let mut frame = hook("StopFailure.json");
        frame.payload["error"] = "rate_limit".into();
        let seconds = unix_ms().0 / 1000 + 600;
        frame.payload["last_assistant_message"] = format!("Claude AI usage limit reached|{seconds}").into();
        match front(folder.path()).event_of(&frame, Origin::Own) {
            Some(Event::Session { fact: SessionFact::TurnFailed { error, resets_at, .. }, .. }) => {
                assert_eq!((error.as_str(), resets_at), ("rate_limit", Some(UnixMs(seconds * 1000))));
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_login_is_told_by_its_notification() {
        let folder = tempfile::tempdir().unwrap();
        let mut frame = hook("Notification.idle_prompt.json");
        frame.payload["notification_type"] = "auth_success".into();
        let event = front(folder.path()).event_of(&frame, Origin::Own);
        assert!(matches!(event, Some(Event::Session { fact: SessionFact::LoggedIn, .. })), "{event:?}");
    }

    #[tokio::test]
    async fn a_tools_name_is_short_and_harmless() {
        let folder = tempfile::tempdir().unwrap();
        let mut frame = hook("PermissionRequest.Bash.json");
        frame.payload["tool_name"] = format!("mcp\u{1b}[2J\n{}", "x".repeat(1000)).into();
        match front(folder.path()).event_of(&frame, Origin::Own) {
            Some(Event::Session { fact: SessionFact::DialogOpened { tool }, .. }) => {
                assert!(tool.starts_with("mcp[2Jxxx") && tool.len() == MAX_TOOL_CHARS, "{tool:?}");
            }
            other => panic!("{other:?}"),
        }
    }

    /// It stands in the timeline, which people read in a terminal.
    #[tokio::test]
    async fn a_prompt_id_of_another_form_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let mut frame = hook("Stop.background.json");
        for id in ["", "\u{1b}[2J", "a b", &"x".repeat(65)] {
            frame.payload["prompt_id"] = id.into();
            match front(folder.path()).event_of(&frame, Origin::Foreign) {
                Some(Event::Session { fact: SessionFact::TurnEnded { prompt, .. }, .. }) => {
                    assert_eq!(prompt, None, "{id:?}");
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn what_is_only_noted_becomes_no_fact() {
        for name in [
            "Notification.idle_prompt.json",
            "Notification.permission_prompt.json",
            "SubagentStart.json",
            "SubagentStop.json",
            "PreCompact.json",
        ] {
            assert_eq!(fact(name), None, "{name}");
        }
    }

    #[tokio::test]
    async fn a_prompt_that_is_the_batch_names_it_and_only_for_our_own_session() {
        let folder = tempfile::tempdir().unwrap();
        let front = front(folder.path());
        let mut frame = hook("UserPromptSubmit.json");
        frame.payload["prompt"] = "[10:00 a] hello".into();
        let text = TextOnTheWay { batch: BatchId(5), text: "[10:00 a] hello".into(), pid: 1 };
        front.on_the_way.add(text);
        let batch = |origin| match front.event_of(&frame, origin) {
            Some(Event::Session { fact: SessionFact::PromptSubmitted { batch, .. }, .. }) => batch,
            other => panic!("{other:?}"),
        };
        assert_eq!(batch(Origin::Own), Some(BatchId(5)));
        assert_eq!(batch(Origin::Foreign), None);
    }

    #[tokio::test]
    async fn a_payload_of_another_form_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        for payload in [
            Value::Null,
            "x".into(),
            serde_json::json!({"session_id": 7}),
            serde_json::json!({"session_id": "../../x\n> y"}),
            serde_json::json!([]),
        ] {
            let frame = HookFrame {
                event: "Stop".into(),
                token: None,
                claude_pid: None,
                marks: Default::default(),
                spot: None,
                payload,
            };
            assert_eq!(front(folder.path()).event_of(&frame, Origin::Own), None);
        }
    }
}
