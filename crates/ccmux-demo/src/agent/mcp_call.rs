//! Calls of MCP tools.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Agent;
use super::turn::Phase;
use crate::conversation::Mark;
use crate::event::Event;
use crate::mcp;
use crate::process::{Cancel, Outcome};
use crate::script::Call;

/// What begins the names of MCP tools.
pub(super) const MCP: &str = "mcp__";

impl Agent {
    /// Calls the tool in the background; [`Event::ToolDone`] tells of its end.
    pub(super) fn run_mcp(&mut self, call: Call, now: Instant) {
        // Read for each call: as good as connected for good.
        let Some(server) = mcp::Server::of_files(&self.mcp_config) else {
            return self.refuse_call(&call, "MCP is not connected");
        };
        let run = self.next_run();
        let (events, name, input) = (self.events.clone(), call.name.clone(), call.input.clone());
        std::thread::spawn(move || {
            let outcome = server.call(&name, &input);
            let _ = events.send(Event::ToolDone(run, outcome));
        });
        self.set_phase(Phase::Running { run, call, since: now }, Cancel::default());
    }

    pub(super) fn mcp_done(&mut self, call: &Call, outcome: &Outcome, took: Duration) {
        let text = outcome.stdout.as_str();
        match outcome.code {
            Some(0) => {
                self.conversation.push(Mark::Note, "Called ccmux");
                self.finish_call(call, text, false, json!([{"type": "text", "text": text}]), took);
            }
            Some(_) => self.refuse_call(call, text),
            None => {
                self.refuse_call(call, &format!("MCP server \"ccmux\" is not connected: {}", outcome.stderr))
            }
        }
    }

    pub(super) fn refuse_call(&mut self, call: &Call, problem: &str) {
        self.conversation.push(Mark::Note, "Called ccmux · failed");
        self.conversation.push(Mark::Result, problem);
        self.finish_call(call, problem, true, Value::String(format!("Error: {problem}")), Duration::ZERO);
    }
}
