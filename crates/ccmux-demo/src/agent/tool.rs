//! Tool calls: the permission for them, the dialog, and running them.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::mcp_call::MCP;
use super::turn::{INTERRUPTED, Phase};
use super::{Agent, turn};
use crate::conversation::Mark;
use crate::dialog::{Answer, Dialog};
use crate::event::{Event, RunId};
use crate::hooks::{Permission, Verdict};
use crate::process::{self, Cancel, Outcome};
use crate::script::{self, Call};
use crate::words::Word;

const BASH_LIMIT: Duration = Duration::from_secs(600);
const OUTPUT_LIMIT: usize = 30_000;
const REJECTED: &str = "The user doesn't want to proceed with this tool use. The tool use was rejected.";

/// A dialog of a tool call, with the hooks that may answer it too.
pub(super) struct Asking {
    pub run: RunId,
    pub call: Call,
    pub dialog: Dialog,
    pub since: Instant,
    pub reminded: bool,
}

impl Agent {
    pub(super) fn start_call(&mut self, call: Call) {
        let payload = self.call_payload("PreToolUse", &call).with("tool_use_id", &call.id);
        let (run, cancel) = self.fire("PreToolUse", &call.name, payload);
        self.set_phase(Phase::BeforeTool(run, call), cancel);
    }

    pub(super) fn before_tool_told(&mut self, call: Call, verdict: Verdict, now: Instant) {
        if let Some(reason) = verdict.block {
            return self.finish_call(
                &call,
                &reason,
                true,
                Value::String(format!("Error: {reason}")),
                Duration::ZERO,
            );
        }
        if self.asks(&call) { self.ask(call, now) } else { self.run_call(call, now) }
    }

    /// Some calls need a human in every mode (FINDINGS 17).
    fn asks(&self, call: &Call) -> bool {
        let always = call.always_asks || matches!(call.name.as_str(), "AskUserQuestion" | "ExitPlanMode");
        always || (self.permission_mode != "bypassPermissions" && call.name != "Agent")
    }

    /// The dialog is on the screen while the hooks run: whoever answers first wins (FINDINGS 33).
    fn ask(&mut self, call: Call, now: Instant) {
        let mut payload = self.call_payload("PermissionRequest", &call);
        if let Some(suggestion) = suggestion(&call) {
            payload = payload.with("permission_suggestions", json!([suggestion]));
        }
        let (run, cancel) = self.fire("PermissionRequest", &call.name, payload);
        let dialog = Dialog::of_call(&call, &self.cwd());
        let asking = Asking { run, call, dialog, since: now, reminded: false };
        self.set_phase(Phase::Asking(Box::new(asking)), cancel);
    }

    /// The PermissionRequest hooks are done: with an answer, or the dialog stays.
    pub(super) fn permission_told(&mut self, mut asking: Box<Asking>, verdict: Verdict, now: Instant) {
        if let Some(permission) = &verdict.permission {
            self.transcript.hook_decided(&asking.call.id, matches!(permission, Permission::Allow(_)));
        }
        match verdict.permission {
            Some(Permission::Deny { interrupt: true, .. }) => self.refuse(&asking, now),
            Some(Permission::Deny { message, .. }) => {
                let details = Value::String(format!("Error: {message}"));
                self.finish_call(&asking.call, &message, true, details, Duration::ZERO);
            }
            Some(Permission::Allow(input)) if asking.dialog.is_question() => {
                match input.and_then(|input| given_answer(&asking.call, &input["answers"])) {
                    Some(answer) => self.answer_question(&asking.call, &answer, false),
                    None => self.set_phase(Phase::Asking(asking), Cancel::default()),
                }
            }
            Some(Permission::Allow(input)) => {
                if let Some(input) = input {
                    asking.call.input = input;
                }
                self.run_call(asking.call, now);
            }
            None => self.set_phase(Phase::Asking(asking), Cancel::default()),
        }
    }

    pub(super) fn dialog(&self) -> Option<&Dialog> {
        self.overlay.as_ref().or_else(|| self.turn.as_ref().and_then(turn::Turn::dialog))
    }

    pub(super) fn dialog_mut(&mut self) -> Option<&mut Dialog> {
        if self.overlay.is_some() {
            return self.overlay.as_mut();
        }
        match self.turn.as_mut().map(|turn| &mut turn.phase) {
            Some(Phase::Asking(asking)) => Some(&mut asking.dialog),
            _ => None,
        }
    }

    /// The human has answered the dialog.
    pub(super) fn answered(&mut self, answer: &Answer, now: Instant) {
        if let Some(overlay) = self.overlay.take() {
            return self.overlay_answered(&overlay, answer);
        }
        self.cancel_turn_processes();
        let Some(turn) = self.turn.as_mut() else { return };
        let Phase::Asking(asking) = std::mem::replace(&mut turn.phase, Phase::Stepping(now)) else {
            return;
        };
        match answer {
            Answer::Typed(text) => self.answer_question(&asking.call, text, true),
            Answer::Pick(option) => match asking.dialog.label(*option).map(str::to_owned) {
                Some(label) => self.answer_question(&asking.call, &label, false),
                None if asking.dialog.agrees(*option) => self.run_call(asking.call, now),
                None => self.refuse(&asking, now),
            },
            Answer::Cancel => self.refuse(&asking, now),
        }
    }

    fn answer_question(&mut self, call: &Call, answer: &str, typed: bool) {
        let question = call.input["questions"][0]["question"].as_str().unwrap_or_default().to_owned();
        self.conversation.push(Mark::Reply, "Answered Claude's questions:");
        self.conversation.push(Mark::Result, &format!("· {question} → {answer}"));
        let result = if typed {
            format!(
                "The user answered: \"{question}\"=\"{answer}\". Read the answers carefully — they may request \
                 clarification, changes, or that you not proceed — and follow what they actually say."
            )
        } else {
            format!(
                "Your questions have been answered: \"{question}\"=\"{answer}\". You can now continue with these \
                 answers in mind."
            )
        };
        let details = json!({"questions": call.input["questions"], "answers": {question: answer}});
        self.finish_call(call, &result, false, details, Duration::ZERO);
    }

    /// No, or Esc: the turn ends, and nothing is fired.
    fn refuse(&mut self, asking: &Asking, now: Instant) {
        let Some(prompt_id) = self.turn.as_ref().map(|turn| turn.prompt_id.clone()) else {
            return;
        };
        let call = &asking.call;
        self.refuse_in_transcript(&prompt_id, call);
        self.transcript.interrupted(&prompt_id, true);
        if asking.dialog.is_question() {
            let question = call.input["questions"][0]["question"].as_str().unwrap_or_default();
            self.conversation.push(Mark::Reply, "Declined to answer Claude's questions:");
            self.conversation.push(Mark::Result, &format!("· {question}"));
        } else {
            self.conversation.push(Mark::Note, "Did not run 1 call");
            self.conversation.push(Mark::Result, &summary(call));
            self.conversation.push(Mark::Result, INTERRUPTED);
        }
        self.end_turn(now);
    }

    pub(super) fn refuse_in_transcript(&mut self, prompt_id: &str, call: &Call) {
        let details = Value::String("User rejected tool use".into());
        self.transcript.tool_result(prompt_id, &call.id, REJECTED, true, details);
    }

    fn run_call(&mut self, call: Call, now: Instant) {
        match call.name.as_str() {
            "Bash" => self.run_bash(call, now),
            "Write" => self.run_write(&call),
            "ExitPlanMode" => {
                let result = "User has approved your plan. You can now start coding.";
                self.finish_call(&call, result, false, json!({"plan": call.input["plan"]}), Duration::ZERO);
            }
            "Agent" => self.run_agent(&call, now),
            name if name.starts_with(MCP) => self.run_mcp(call, now),
            name => {
                let problem = format!("No such tool available: {name}");
                let details = Value::String(format!("Error: {problem}"));
                self.finish_call(&call, &problem, true, details, Duration::ZERO);
            }
        }
    }

    fn run_bash(&mut self, call: Call, now: Instant) {
        let (run, cancel) = (self.next_run(), Cancel::default());
        self.run_in_shell(run, call.text("command"), BASH_LIMIT, cancel.clone());
        self.set_phase(Phase::Running { run, call, since: now }, cancel);
    }

    /// Runs a line in the background; [`Event::ToolDone`] tells of its end.
    pub(super) fn run_in_shell(&self, run: RunId, line: &str, limit: Duration, cancel: Cancel) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]).current_dir(&self.paths.cwd).env("CLAUDECODE", "1");
        let events = self.events.clone();
        std::thread::spawn(move || {
            let outcome = process::run(command, Vec::new(), limit, &cancel);
            let _ = events.send(Event::ToolDone(run, outcome));
        });
    }

    pub(super) fn tool_done(&mut self, finished: RunId, outcome: &Outcome, now: Instant) {
        if self.shells.contains(&finished) {
            return self.shell_done(finished, outcome);
        }
        let Some(turn) = self.turn.as_mut() else { return };
        if !matches!(&turn.phase, Phase::Running { run, .. } if *run == finished) {
            return;
        }
        let Phase::Running { call, since, .. } = std::mem::replace(&mut turn.phase, Phase::Stepping(now))
        else {
            return;
        };
        let took = now.saturating_duration_since(since);
        if call.name.starts_with(MCP) {
            return self.mcp_done(&call, outcome, took);
        }
        let output = format!("{}{}", outcome.stdout, outcome.stderr);
        let output: String = output.trim_end().chars().take(OUTPUT_LIMIT).collect();
        if outcome.code == Some(0) {
            let details = json!({
                "stdout": outcome.stdout.trim_end(), "stderr": outcome.stderr.trim_end(),
                "interrupted": false, "isImage": false, "noOutputExpected": output.is_empty(),
            });
            self.conversation.push(Mark::Note, "Ran 1 shell command");
            self.finish_call(&call, &output, false, details, took);
        } else {
            let code =
                outcome.code.map_or("Command timed out".to_owned(), |code| format!("Exit code {code}"));
            let result = format!("{code}\n{output}").trim_end().to_owned();
            self.conversation.push(Mark::Note, "Ran 1 shell command · 1 failed");
            self.finish_call(&call, &result, true, Value::String(format!("Error: {result}")), took);
        }
    }

    fn run_write(&mut self, call: &Call) {
        let path = self.paths.cwd.join(call.text("file_path"));
        let content = call.text("content").to_owned();
        let written = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, &content));
        let shown = path.strip_prefix(&self.paths.cwd).unwrap_or(&path).display().to_string();
        self.conversation.push(Mark::Tool, &format!("Write({shown})"));
        match written {
            Ok(()) => {
                let lines = content.lines().count();
                self.conversation.push(Mark::Result, &format!("Wrote {lines} lines to {shown}"));
                let result = format!("File created successfully at: {}", path.display());
                let details = json!({
                    "type": "create", "filePath": path.to_string_lossy(), "content": content,
                    "structuredPatch": [], "originalFile": null, "userModified": false,
                });
                self.finish_call(call, &result, false, details, Duration::ZERO);
            }
            Err(e) => {
                let problem = format!("{}: {e}", path.display());
                self.conversation.push(Mark::Result, &problem);
                self.finish_call(
                    call,
                    &problem,
                    true,
                    Value::String(format!("Error: {problem}")),
                    Duration::ZERO,
                );
            }
        }
    }

    /// The call is over: its result is written and the hooks are told.
    pub(super) fn finish_call(
        &mut self,
        call: &Call,
        result: &str,
        failed: bool,
        details: Value,
        took: Duration,
    ) {
        let Some(turn) = self.turn.as_ref() else { return };
        self.transcript.tool_result(&turn.prompt_id, &call.id, result, failed, details.clone());
        let event = if failed { "PostToolUseFailure" } else { "PostToolUse" };
        let mut payload = self.call_payload(event, call);
        payload = if failed {
            payload.with("error", result).with("is_interrupt", Value::Bool(false))
        } else {
            payload.with("tool_response", details)
        };
        let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let payload = payload.with("tool_use_id", &call.id).with("duration_ms", json!(took));
        let (run, cancel) = self.fire(event, &call.name, payload);
        self.set_phase(Phase::AfterTool(run, result.to_owned()), cancel);
    }

    /// The answer to a tool's result; what was queued meanwhile goes into this turn (FINDINGS 46).
    pub(super) fn after_tool(&mut self, result: &str) {
        let queued = std::mem::take(&mut self.queue);
        for text in &queued {
            self.transcript.absorbed(text);
            self.conversation.push(Mark::Prompt, text);
        }
        let joined = queued.join("\n");
        if let Some(turn) = self.turn.as_mut() {
            turn.steps =
                if Word::stands_in(&joined) { script::of_prompt(&joined) } else { script::of_result(result) };
        }
    }

    fn call_payload(&self, event: &str, call: &Call) -> crate::payload::Payload {
        self.payload(event).with("tool_name", &call.name).with("tool_input", &call.input)
    }
}

fn given_answer(call: &Call, answers: &Value) -> Option<String> {
    let question = call.input["questions"][0]["question"].as_str()?;
    let answers = answers.as_object()?;
    let answer = answers.get(question).or_else(|| answers.values().next())?;
    answer.as_str().map(str::to_owned)
}

fn suggestion(call: &Call) -> Option<Value> {
    match call.name.as_str() {
        "Bash" => {
            let rules = json!([{"toolName": "Bash", "ruleContent": call.text("command")}]);
            Some(
                json!({"type": "addRules", "rules": rules, "behavior": "allow", "destination": "localSettings"}),
            )
        }
        "Write" => Some(json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"})),
        _ => None,
    }
}

/// A call in one line.
pub(super) fn summary(call: &Call) -> String {
    match call.name.as_str() {
        "Bash" => format!("$ {}", call.text("command")),
        "Write" => format!("Write({})", call.text("file_path")),
        name => name.to_owned(),
    }
}
