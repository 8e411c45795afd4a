//! Background tasks: a sub-agent that goes on after the leader's Stop, and the prompt that tells of its end.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Agent;
use crate::conversation::Mark;
use crate::event::RunId;
use crate::ids;
use crate::script::{self, Block, Call, Step};

/// A sub-agent that runs beside the conversation (FINDINGS 32).
#[derive(Debug, Clone)]
pub(super) struct BackgroundTask {
    id: String,
    tool_use: String,
    description: String,
    answer: String,
    pub due: Instant,
    told: Told,
}

/// How far the SubagentStop hooks of a task are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    NotYet,
    Running(RunId),
    Done,
}

impl BackgroundTask {
    /// When the task has something to do by itself.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (!matches!(self.told, Told::Running(_))).then_some(self.due)
    }
}

impl Agent {
    pub(super) fn run_agent(&mut self, call: &Call, now: Instant) {
        let (work, answer) = work_of(call.text("prompt"));
        let task = BackgroundTask {
            id: ids::prefixed("a", 17),
            tool_use: call.id.clone(),
            description: call.text("description").to_owned(),
            answer,
            due: now + work.max(Duration::from_millis(300)),
            told: Told::NotYet,
        };
        let payload =
            self.payload("SubagentStart").with("agent_id", &task.id).with("agent_type", "general-purpose");
        self.fire("SubagentStart", "general-purpose", payload);
        let details = json!({
            "isAsync": true, "status": "async_launched", "agentId": task.id,
            "description": task.description, "prompt": call.input["prompt"],
        });
        let result = format!("Async agent launched successfully.\nagentId: {}", task.id);
        self.tasks.push(task);
        self.finish_call(call, &result, false, details, Duration::ZERO);
    }

    /// A task that is done is told first to the hooks, then by a prompt of its own; both once no turn runs.
    pub(super) fn finish_tasks(&mut self, now: Instant) {
        if self.turn.is_some() {
            return;
        }
        let Some(at) = self.tasks.iter().position(|task| now >= task.due) else {
            return;
        };
        match self.tasks[at].told {
            Told::NotYet => {
                let run = self.fire_subagent_stop(at);
                self.tasks[at].told = Told::Running(run);
            }
            Told::Running(_) => {}
            Told::Done => {
                let task = self.tasks.remove(at);
                self.conversation.push(Mark::Reply, &format!("Agent \"{}\" finished", task.description));
                self.start_turn(notification(&task), "system", now);
            }
        }
    }

    /// The hooks of a task's end are done, if it is they.
    pub(super) fn task_told(&mut self, run: RunId) {
        for task in self.tasks.iter_mut().filter(|task| task.told == Told::Running(run)) {
            task.told = Told::Done;
        }
    }

    fn fire_subagent_stop(&mut self, at: usize) -> RunId {
        let task = self.tasks[at].clone();
        let directory = self.transcript.path.with_extension("").join("subagents");
        let path = directory.join(format!("agent-{}.jsonl", task.id));
        let payload = self
            .payload("SubagentStop")
            .with("agent_id", &task.id)
            .with("agent_type", "general-purpose")
            .with("stop_hook_active", Value::Bool(false))
            .with("agent_transcript_path", &path.to_string_lossy().into_owned())
            .with("last_assistant_message", &task.answer)
            .with("background_tasks", self.tasks_as_json())
            .with("session_crons", json!([]));
        self.fire("SubagentStop", "general-purpose", payload).0
    }

    pub(super) fn tasks_as_json(&self) -> Value {
        let task = |task: &BackgroundTask| {
            json!({
                "id": task.id, "type": "subagent", "status": "running",
                "description": task.description, "agent_type": "general-purpose",
            })
        };
        self.tasks.iter().map(task).collect()
    }
}

fn notification(task: &BackgroundTask) -> String {
    format!(
        "<task-notification>\n<task-id>{}</task-id>\n<tool-use-id>{}</tool-use-id>\n<status>completed</status>\n\
         <summary>Agent \"{}\" finished</summary>\n<result>{}</result>\n</task-notification>",
        task.id, task.tool_use, task.description, task.answer
    )
}

/// How long a sub-agent works on a prompt, and what it answers.
fn work_of(prompt: &str) -> (Duration, String) {
    let mut work = Duration::ZERO;
    let mut answer = String::new();
    for step in script::of_prompt(prompt) {
        match step {
            Step::Wait(time) => work += time,
            Step::Message(blocks) => {
                answer = blocks
                    .iter()
                    .filter_map(|b| if let Block::Text(t) = b { Some(t.as_str()) } else { None })
                    .collect();
            }
            _ => {}
        }
    }
    (work, answer)
}
