//! What a hook reads on stdin: the fields of the recorded payloads.

use serde_json::{Map, Value, json};

/// The session as hooks are told of it.
#[derive(Debug, Clone, Default)]
pub struct Told {
    pub session: String,
    pub transcript: String,
    pub cwd: String,
    pub permission_mode: String,
}

/// Facts of an event beside the session's own.
#[derive(Debug, Clone, Default)]
pub struct Payload(Map<String, Value>);

impl Payload {
    /// Starts with what every payload has; `prompt` is the id of the prompt it belongs to.
    pub fn new(told: &Told, event: &str, prompt: Option<&str>) -> Self {
        let mut payload = Self::default()
            .with("session_id", &told.session)
            .with("transcript_path", &told.transcript)
            .with("cwd", &told.cwd);
        if let Some(prompt) = prompt {
            payload = payload.with("prompt_id", prompt);
        }
        if says_mode(event) {
            payload = payload.with("permission_mode", &told.permission_mode);
        }
        if says_effort(event) {
            payload = payload.with("effort", json!({"level": "medium"}));
        }
        payload.with("hook_event_name", event)
    }

    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<PayloadValue>) -> Self {
        self.0.insert(key.to_owned(), value.into().0);
        self
    }

    /// Leaves the field away where there is no value.
    #[must_use]
    pub fn with_some(self, key: &str, value: Option<impl Into<PayloadValue>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}

/// Strings and JSON alike.
pub struct PayloadValue(Value);

impl From<&str> for PayloadValue {
    fn from(text: &str) -> Self {
        Self(Value::String(text.to_owned()))
    }
}

impl From<&String> for PayloadValue {
    fn from(text: &String) -> Self {
        Self(Value::String(text.clone()))
    }
}

impl From<Value> for PayloadValue {
    fn from(value: Value) -> Self {
        Self(value)
    }
}

impl From<&Value> for PayloadValue {
    fn from(value: &Value) -> Self {
        Self(value.clone())
    }
}

fn says_mode(event: &str) -> bool {
    !matches!(event, "SessionStart" | "SessionEnd" | "Notification" | "StopFailure" | "SubagentStart")
}

fn says_effort(event: &str) -> bool {
    !matches!(event, "SessionStart" | "SessionEnd" | "Notification" | "UserPromptSubmit" | "SubagentStart")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn keys(payload: Payload) -> BTreeSet<String> {
        payload.0.keys().cloned().collect()
    }

    #[test]
    fn fields_are_those_of_the_recorded_payloads() {
        let told = Told::default();
        let base = ["session_id", "transcript_path", "cwd"];
        let cases: [(&str, Option<&str>, &[&str]); 4] = [
            ("Stop", Some("p"), &["prompt_id", "permission_mode", "effort", "hook_event_name"]),
            ("UserPromptSubmit", Some("p"), &["prompt_id", "permission_mode", "hook_event_name"]),
            ("StopFailure", Some("p"), &["prompt_id", "effort", "hook_event_name"]),
            ("SessionStart", None, &["hook_event_name"]),
        ];
        for (event, prompt, rest) in cases {
            let expected: BTreeSet<String> = base.iter().chain(rest).map(|key| (*key).to_owned()).collect();
            assert_eq!(keys(Payload::new(&told, event, prompt)), expected, "{event}");
        }
    }
}
