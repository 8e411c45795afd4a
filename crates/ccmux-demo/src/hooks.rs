//! Runs hooks as real processes and reads what they decided.
//!
//! Knows commands, payloads and the answers that Claude understands; does not know turns or the screen.
//! The hooks of one firing run side by side, as in Claude; the caller hears once, when all are done.

use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::event::{Event, RunId};
use crate::process::{self, Cancel, Outcome};
use crate::settings::{Hook, Hooks};

/// What the hooks of one firing said, taken together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// `{"decision":"block","reason"}` or exit 2: why it must not be so (or must go on).
    pub block: Option<String>,
    /// `{"continue":false,"stopReason"}`.
    pub halt: Option<String>,
    pub permission: Option<Permission>,
    /// Command and milliseconds of every hook that ran.
    pub ran: Vec<(String, u64)>,
}

/// A hook's answer to a permission request.
#[derive(Debug, Clone, PartialEq)]
pub enum Permission {
    /// With the tool's input changed, where the hook gave one.
    Allow(Option<Value>),
    Deny {
        message: String,
        interrupt: bool,
    },
}

/// What every hook process is given beside its payload.
#[derive(Debug, Clone)]
pub struct Surroundings {
    pub cwd: PathBuf,
    pub session: String,
}

/// How each hook is run: fault switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    pub times: u32,
    /// It is held back that long.
    pub delay: Duration,
}

/// Fires hooks.
pub struct HookRunner {
    pub hooks: Hooks,
    pub runs: Runs,
    pub events: Sender<Event>,
}

impl HookRunner {
    /// Starts the hooks of an event in the background. With none to run the verdict comes all the same.
    pub fn fire(
        &self,
        run: RunId,
        event: &str,
        subject: &str,
        payload: &Value,
        around: Surroundings,
    ) -> Cancel {
        let cancel = Cancel::default();
        let hooks = self.hooks.of(event, subject);
        let (events, cancelled, runs) = (self.events.clone(), cancel.clone(), self.runs);
        let input = payload.to_string().into_bytes();
        if hooks.is_empty() {
            let _ = events.send(Event::HooksDone(run, Verdict::default()));
            return cancel;
        }
        std::thread::spawn(move || {
            let verdict = run_all(&hooks, runs, &input, &around, &cancelled, Duration::MAX);
            let _ = events.send(Event::HooksDone(run, verdict));
        });
        cancel
    }

    /// Runs the hooks of an event to their end, at most so long: for the agent's last moments.
    pub fn fire_and_wait(
        &self,
        event: &str,
        subject: &str,
        payload: &Value,
        around: Surroundings,
        limit: Duration,
    ) {
        let hooks = self.hooks.of(event, subject);
        run_all(&hooks, self.runs, payload.to_string().as_bytes(), &around, &Cancel::default(), limit);
    }
}

fn run_all(
    hooks: &[Hook],
    runs: Runs,
    input: &[u8],
    around: &Surroundings,
    cancel: &Cancel,
    limit: Duration,
) -> Verdict {
    let mut threads = Vec::new();
    for hook in hooks {
        let (hook, input, around, cancel) = (hook.clone(), input.to_vec(), around.clone(), cancel.clone());
        let detached = hook.detached;
        let thread = std::thread::spawn(move || run_one(&hook, runs, &input, &around, &cancel, limit));
        if !detached {
            threads.push(thread);
        }
    }
    let mut verdict = Verdict::default();
    for (command, duration, outcome) in threads.into_iter().filter_map(|thread| thread.join().ok()) {
        let duration = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        read_outcome(&mut verdict, &command, &outcome);
        verdict.ran.push((command, duration));
    }
    verdict
}

fn run_one(
    hook: &Hook,
    runs: Runs,
    input: &[u8],
    around: &Surroundings,
    cancel: &Cancel,
    limit: Duration,
) -> (String, Duration, Outcome) {
    let started = Instant::now();
    let mut outcome = Outcome::default();
    std::thread::sleep(runs.delay.min(limit));
    for _ in 0..runs.times {
        outcome = process::run(command_of(hook, around), input.to_vec(), hook.timeout.min(limit), cancel);
    }
    (hook.command.clone(), started.elapsed(), outcome)
}

fn command_of(hook: &Hook, around: &Surroundings) -> Command {
    let project = around.cwd.to_string_lossy();
    let mut command = match &hook.arguments {
        None => {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", &hook.command]);
            shell
        }
        Some(arguments) => {
            let mut program = Command::new(&hook.command);
            program.args(arguments.iter().map(|a| a.replace("${CLAUDE_PROJECT_DIR}", &project)));
            program
        }
    };
    command
        .current_dir(&around.cwd)
        .env("CLAUDE_PID", std::process::id().to_string())
        .env("CLAUDE_CODE_SESSION_ID", &around.session)
        .env("CLAUDE_PROJECT_DIR", &around.cwd)
        .env("CLAUDECODE", "1")
        .env("CLAUDE_CODE_ENTRYPOINT", "cli");
    command
}

fn read_outcome(verdict: &mut Verdict, command: &str, outcome: &Outcome) {
    if outcome.code == Some(2) {
        verdict.block.get_or_insert_with(|| format!("[{command}]: {}", outcome.stderr.trim_end()));
        return;
    }
    if outcome.code != Some(0) {
        return;
    }
    let Ok(answer) = serde_json::from_str::<Value>(outcome.stdout.trim()) else {
        return;
    };
    if answer["decision"] == "block" {
        verdict.block.get_or_insert_with(|| text(&answer["reason"]));
    }
    if answer["continue"] == Value::Bool(false) {
        verdict.halt.get_or_insert_with(|| text(&answer["stopReason"]));
    }
    let specific = &answer["hookSpecificOutput"];
    if verdict.permission.is_none() {
        verdict.permission = permission(&specific["decision"]);
    }
    if specific["permissionDecision"] == "deny" {
        verdict.block.get_or_insert_with(|| text(&specific["permissionDecisionReason"]));
    }
}

fn permission(decision: &Value) -> Option<Permission> {
    match decision["behavior"].as_str()? {
        "allow" => Some(Permission::Allow(decision.get("updatedInput").cloned())),
        "deny" => Some(Permission::Deny {
            message: text(&decision["message"]),
            interrupt: decision["interrupt"] == Value::Bool(true),
        }),
        _ => None,
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_of(stdout: &str, stderr: &str, code: i32) -> Verdict {
        let mut verdict = Verdict::default();
        let outcome = Outcome { code: Some(code), stdout: stdout.into(), stderr: stderr.into() };
        read_outcome(&mut verdict, "cmd", &outcome);
        verdict
    }

    #[test]
    fn a_permission_is_read_from_stdout() {
        let deny = r#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","message":"no"}}}"#;
        let expected = Permission::Deny { message: "no".into(), interrupt: false };
        assert_eq!(verdict_of(deny, "", 0).permission, Some(expected));
        let allow = r#"{"hookSpecificOutput":{"decision":{"behavior":"allow","updatedInput":{"answers":{"Q":"A"}}}}}"#;
        let Some(Permission::Allow(Some(input))) = verdict_of(allow, "", 0).permission else {
            panic!("not allowed")
        };
        assert_eq!(input["answers"]["Q"], "A");
        assert_eq!(verdict_of(deny, "", 1).permission, None);
    }

    #[test]
    fn both_forms_of_a_block_are_read() {
        assert_eq!(
            verdict_of(r#"{"decision":"block","reason":"more"}"#, "", 0).block.as_deref(),
            Some("more")
        );
        assert_eq!(verdict_of("", "go on\n", 2).block.as_deref(), Some("[cmd]: go on"));
        assert_eq!(verdict_of("not json", "", 0), Verdict::default());
    }

    #[test]
    fn a_hook_gets_payload_and_environment() {
        let around = Surroundings { cwd: std::env::temp_dir(), session: "S1".into() };
        let once = Runs { times: 1, delay: Duration::ZERO };
        let mut hooks = Hooks::default();
        let line = r#"test $(cat) = {} && test $CLAUDE_CODE_SESSION_ID = S1 && test $CLAUDECODE = 1 && test -n $CLAUDE_PID && echo '{\"decision\":\"block\",\"reason\":\"ok\"}'"#;
        hooks
            .add(&format!(
                r#"{{"hooks":{{"Stop":[{{"hooks":[{{"type":"command","command":"{line}"}}]}}]}}}}"#
            ))
            .unwrap();
        let verdict = run_all(&hooks.of("Stop", ""), once, b"{}", &around, &Cancel::default(), Duration::MAX);
        assert_eq!(verdict.block.as_deref(), Some("ok"));
        assert_eq!(verdict.ran.len(), 1);
    }
}
