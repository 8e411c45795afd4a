//! What hooks are told of the session, and when nobody waits for their answer.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Agent, IDLE_PROMPT_AFTER};
use crate::event::{Event, RunId};
use crate::hooks::{Surroundings, Verdict};
use crate::payload::{Payload, Told};
use crate::process::Cancel;

impl Agent {
    pub(super) fn told(&self) -> Told {
        Told {
            session: self.session.clone(),
            transcript: self.transcript.path.to_string_lossy().into_owned(),
            cwd: self.cwd(),
            permission_mode: self.permission_mode.clone(),
        }
    }

    /// A payload of the turn under way, or of the last one.
    pub(super) fn payload(&self, event: &str) -> Payload {
        let prompt = self.turn.as_ref().map(|turn| turn.prompt_id.as_str()).or(self.last_prompt.as_deref());
        Payload::new(&self.told(), event, prompt)
    }

    /// Fires an event; the verdict comes as [`Event::HooksDone`], also where the fault switches drop the event.
    pub(super) fn fire(&mut self, event: &str, subject: &str, payload: Payload) -> (RunId, Cancel) {
        let run = self.next_run();
        if !self.faults.fires(event) {
            let _ = self.events.send(Event::HooksDone(run, Verdict::default()));
            return (run, Cancel::default());
        }
        let cancel = self.hooks.fire(run, event, subject, &payload.into_value(), self.surroundings());
        (run, cancel)
    }

    pub(super) fn fire_session_start(&mut self) {
        let source = self.opened.source;
        let mut payload = Payload::new(&self.told(), "SessionStart", None).with("source", source);
        payload = match source {
            "startup" => payload.with("model", "ccmux-demo"),
            "resume" => payload
                .with("seconds_since_last_response", json!(self.opened.seconds_since))
                .with("context_tokens", json!(120))
                .with("prompt_cache_likely_expired", json!(false)),
            _ => payload,
        };
        self.fire("SessionStart", source, payload);
    }

    pub(super) fn fire_session_end(&mut self, reason: &'static str, limit: Duration) {
        let payload = self.payload("SessionEnd").with("reason", reason).into_value();
        if self.faults.fires("SessionEnd") {
            self.hooks.fire_and_wait("SessionEnd", reason, &payload, self.surroundings(), limit);
        }
    }

    pub(super) fn notify(&mut self, kind: &str, message: &str) {
        let payload = Payload::new(&self.told(), "Notification", None)
            .with("message", message)
            .with("notification_type", kind);
        self.fire("Notification", kind, payload);
    }

    /// Tells that nobody answers: a dialog for 6 s, the box for 60 s.
    pub(super) fn remind(&mut self, now: Instant) {
        if let Some(tool) = self.turn.as_mut().and_then(|turn| turn.reminder_due(now)) {
            self.notify("permission_prompt", &format!("Claude needs your permission to use {tool}"));
        }
        if self.idle_since.is_some_and(|since| now >= since + IDLE_PROMPT_AFTER) {
            self.idle_since = None;
            self.notify("idle_prompt", "Claude is waiting for your input");
        }
    }

    fn surroundings(&self) -> Surroundings {
        Surroundings { cwd: self.paths.cwd.clone(), session: self.session.clone() }
    }
}
