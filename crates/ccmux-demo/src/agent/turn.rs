//! The script of a turn, from the prompt to the Stop hooks.
//!
//! ```text
//! Submitting -> Stepping -> Stopping -> (ended, or Stepping again where a Stop hook blocks)
//!                 |   ^        \-> Failing for an API error
//!                 v   |
//!   BeforeTool -> Asking -> Running -> AfterTool        (tool.rs)
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Agent;
use super::tool::Asking;
use crate::clock;
use crate::conversation::Mark;
use crate::dialog::Dialog;
use crate::event::RunId;
use crate::hooks::Verdict;
use crate::ids;
use crate::process::Cancel;
use crate::prompt_box::Draft;
use crate::script::{self, Block, Call, Step};
use crate::transcript::Message;

/// A Stop hook may make a turn go on so often.
const MOST_STOPS: u32 = 25;
const REMIND_AFTER: Duration = Duration::from_secs(6);
pub(super) const INTERRUPTED: &str = "Interrupted · What should Claude do instead?";
/// What the spinner says, and what is said when it is over.
const VERBS: [(&str, &str); 6] = [
    ("Churning", "Churned"),
    ("Cogitating", "Cogitated"),
    ("Brewing", "Brewed"),
    ("Crunching", "Crunched"),
    ("Baking", "Baked"),
    ("Cooking", "Cooked"),
];

/// What the turn is at.
pub(super) enum Phase {
    /// The UserPromptSubmit hooks run.
    Submitting(RunId),
    /// The script runs; its next step is due then.
    Stepping(Instant),
    BeforeTool(RunId, Call),
    Asking(Box<Asking>),
    Running {
        run: RunId,
        call: Call,
        since: Instant,
    },
    /// The tool's hooks run; its result is there.
    AfterTool(RunId, String),
    Stopping(RunId),
    Failing(RunId),
}

pub(super) struct Turn {
    pub prompt_id: String,
    pub prompt: String,
    source: &'static str,
    pub phase: Phase,
    pub steps: VecDeque<Step>,
    pub started: Instant,
    /// The text block under way.
    pub streamed: String,
    /// The human has seen something of the answer.
    pub output: bool,
    last_text: Option<String>,
    stops: u32,
    verb: usize,
    pub tokens: usize,
    /// End of the transcript's chain before this turn.
    parent_before: Option<String>,
    /// Number of the prompt's entry in the conversation.
    entry: usize,
    /// Stops the hooks or the tool that run.
    pub cancel: Cancel,
}

impl Turn {
    /// When the turn goes on by itself.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Stepping(due) => Some(*due),
            Phase::Asking(asking) if !asking.reminded => Some(asking.since + REMIND_AFTER),
            _ => None,
        }
    }

    pub(super) fn dialog(&self) -> Option<&Dialog> {
        match &self.phase {
            Phase::Asking(asking) => Some(&asking.dialog),
            _ => None,
        }
    }

    /// The tool of a dialog that nobody has answered for 6 s, once.
    pub(super) fn reminder_due(&mut self, now: Instant) -> Option<String> {
        let Phase::Asking(asking) = &mut self.phase else {
            return None;
        };
        let due = !asking.reminded && now >= asking.since + REMIND_AFTER;
        asking.reminded |= due;
        due.then(|| asking.call.name.clone())
    }

    pub(super) fn verbs(&self) -> (&'static str, &'static str) {
        VERBS[self.verb % VERBS.len()]
    }

    /// The processes of this run are what the turn waits for.
    fn waits_for(&self, finished: RunId) -> bool {
        match &self.phase {
            Phase::Submitting(run) | Phase::BeforeTool(run, _) | Phase::AfterTool(run, _) => *run == finished,
            Phase::Stopping(run) | Phase::Failing(run) => *run == finished,
            Phase::Asking(asking) => asking.run == finished,
            Phase::Stepping(_) | Phase::Running { .. } => false,
        }
    }
}

impl Agent {
    /// Begins a turn; what was queued, and only that, was told to the hooks before.
    pub(super) fn start_turn(&mut self, prompt: String, source: &'static str, now: Instant) {
        self.idle_since = None;
        let entry = self.conversation.end();
        if source != "system" {
            self.conversation.push(Mark::Prompt, &prompt);
        }
        let prompt_id = ids::uuid();
        self.last_prompt = Some(prompt_id.clone());
        self.turn = Some(Turn {
            prompt_id,
            prompt,
            source,
            phase: Phase::Stepping(now),
            steps: VecDeque::new(),
            started: now,
            streamed: String::new(),
            output: false,
            last_text: None,
            stops: 0,
            verb: ids::pick(VERBS.len()),
            tokens: 0,
            parent_before: self.transcript.parent(),
            entry,
            cancel: Cancel::default(),
        });
        if source == "queued" {
            return self.begin(now);
        }
        let prompt = self.turn.as_ref().map(|turn| turn.prompt.clone()).unwrap_or_default();
        let payload = self.payload("UserPromptSubmit").with("prompt", &prompt);
        let (run, cancel) = self.fire("UserPromptSubmit", "", payload);
        self.set_phase(Phase::Submitting(run), cancel);
    }

    /// The prompt is accepted: its line is written and the script runs.
    fn begin(&mut self, now: Instant) {
        let Some(turn) = self.turn.as_mut() else { return };
        self.transcript.prompt(&turn.prompt_id, &turn.prompt, turn.source);
        turn.steps = match turn.source {
            "system" => script::of_result("agent finished"),
            _ => script::of_prompt(&turn.prompt),
        };
        turn.phase = Phase::Stepping(now);
    }

    pub(super) fn set_phase(&mut self, phase: Phase, cancel: Cancel) {
        if let Some(turn) = self.turn.as_mut() {
            turn.phase = phase;
            turn.cancel = cancel;
        }
    }

    /// Does the steps that are due.
    pub(super) fn step_turn(&mut self, now: Instant) {
        while let Some(turn) = self.turn.as_mut() {
            let Phase::Stepping(due) = turn.phase else { return };
            if now < due {
                return;
            }
            match turn.steps.pop_front() {
                Some(Step::Wait(time)) => turn.phase = Phase::Stepping(due + time),
                Some(Step::Delta(text)) => {
                    turn.tokens += 1 + text.len() / 4;
                    turn.streamed.push_str(&text);
                    turn.output = true;
                }
                Some(Step::Message(blocks)) => self.finish_message(&blocks),
                Some(Step::Fail(status, text)) => self.fail(status, text),
                Some(Step::Cut) => self.cut(),
                None => self.stop(),
            }
        }
    }

    /// A message is complete: one transcript line a block.
    fn finish_message(&mut self, blocks: &[Block]) {
        let Some(turn) = self.turn.as_mut() else { return };
        let call = blocks
            .iter()
            .find_map(|block| if let Block::Call(call) = block { Some(call.clone()) } else { None });
        let (reason, held_for) = match call {
            Some(_) => ("tool_use", Duration::ZERO),
            None => ("end_turn", self.faults.transcript_delay),
        };
        let mut message = Message::default();
        let mut said = String::new();
        for block in blocks {
            self.transcript.block(&mut message, &block.as_json(), Some(reason), held_for);
            if let Block::Text(text) = block {
                said.push_str(text);
            }
        }
        turn.streamed.clear();
        turn.output = true;
        turn.tokens += 20;
        if !said.is_empty() {
            self.conversation.push(Mark::Reply, &said);
            turn.last_text = Some(said);
        }
        if let Some(call) = call {
            self.start_call(call);
        }
    }

    /// The script is at its end.
    fn stop(&mut self) {
        let Some(turn) = self.turn.as_ref() else { return };
        let (active, text) = (turn.stops > 0, turn.last_text.clone());
        let payload = self
            .payload("Stop")
            .with("stop_hook_active", Value::Bool(active))
            .with_some("last_assistant_message", text.map(Value::String))
            .with("background_tasks", self.tasks_as_json())
            .with("session_crons", json!([]));
        let (run, cancel) = self.fire("Stop", "", payload);
        self.set_phase(Phase::Stopping(run), cancel);
    }

    /// An API error: StopFailure instead of Stop.
    fn fail(&mut self, status: u16, text: String) {
        let error = match status {
            401 | 403 => "authentication_failed",
            429 => "rate_limit",
            500.. => "server_error",
            _ => "unknown",
        };
        let text = if text.is_empty() { format!("API Error: {status} mock error {status}") } else { text };
        self.transcript.api_error(&text, error, status);
        self.conversation.push(Mark::Failure, &text);
        let payload = self.payload("StopFailure").with("error", error).with("last_assistant_message", &text);
        let (run, cancel) = self.fire("StopFailure", error, payload);
        self.set_phase(Phase::Failing(run), cancel);
    }

    /// The stream broke: a Stop without a last message (FINDINGS 27).
    fn cut(&mut self) {
        if let Some(turn) = self.turn.as_mut() {
            turn.streamed.clear();
            turn.last_text = None;
        }
        let note =
            "Streaming response ended before any complete data was received. Retrying without streaming.";
        self.conversation.push(Mark::Failure, note);
    }

    /// Hooks have run: the turn goes on where it waited for them.
    pub(super) fn hooks_done(&mut self, run: RunId, verdict: Verdict, now: Instant) {
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.waits_for(run)) else {
            return;
        };
        match std::mem::replace(&mut turn.phase, Phase::Stepping(now)) {
            Phase::Submitting(_) => self.submit_told(verdict, now),
            Phase::BeforeTool(_, call) => self.before_tool_told(call, verdict, now),
            Phase::Asking(asking) => self.permission_told(asking, verdict, now),
            Phase::AfterTool(_, result) => self.after_tool(&result),
            Phase::Stopping(_) => self.stop_told(&verdict, now),
            Phase::Failing(_) => self.end_turn(now),
            Phase::Stepping(_) | Phase::Running { .. } => {}
        }
    }

    fn submit_told(&mut self, verdict: Verdict, now: Instant) {
        let Some(reason) = verdict.block.or(verdict.halt) else {
            return self.begin(now);
        };
        self.conversation.push(Mark::Note, &format!("UserPromptSubmit operation blocked by hook:\n{reason}"));
        self.end_turn(now);
    }

    fn stop_told(&mut self, verdict: &Verdict, now: Instant) {
        let Some(turn) = self.turn.as_mut() else { return };
        let again = verdict.block.as_ref().filter(|_| turn.stops < MOST_STOPS);
        if !verdict.ran.is_empty() {
            self.transcript.stop_hook_summary(&verdict.ran, again.is_some());
        }
        let Some(reason) = again else {
            return self.complete_turn(verdict.halt.as_deref(), now);
        };
        turn.stops += 1;
        let feedback = format!("Stop hook feedback:\n{reason}");
        turn.steps = script::of_prompt(&feedback);
        self.transcript.meta(&turn.prompt_id, &feedback);
        self.conversation.push(Mark::Detail, &format!("Stop hook error: {reason}"));
    }

    fn complete_turn(&mut self, halt: Option<&str>, now: Instant) {
        let Some(turn) = self.turn.as_ref() else { return };
        let took = now.saturating_duration_since(turn.started);
        self.transcript.turn_duration(took);
        let done = format!("{} for {}s · done {}", turn.verbs().1, took.as_secs(), clock::short());
        if let Some(halt) = halt {
            self.conversation.push(Mark::Detail, &format!("Stop hook: {halt}"));
        }
        self.conversation.push(Mark::Done, &done);
        self.end_turn(now);
    }

    pub(super) fn end_turn(&mut self, now: Instant) {
        self.turn = None;
        self.idle_since = Some(now);
        self.start_queued(now);
    }

    /// Esc: no Stop hook comes (FINDINGS 28). Before any output the prompt goes back into the box (48).
    pub(super) fn interrupt(&mut self, now: Instant) {
        self.cancel_turn_processes();
        let Some(turn) = self.turn.take() else { return };
        let untouched =
            !turn.output && turn.source == "typed" && self.queue.is_empty() && self.prompt.is_empty();
        if untouched {
            self.conversation.take_back(turn.entry);
            self.transcript.rewind(turn.parent_before);
            self.prompt.put(Draft::of(&turn.prompt));
        } else {
            self.cut_short(&turn);
        }
        self.end_turn(now);
    }

    fn cut_short(&mut self, turn: &Turn) {
        if !turn.streamed.is_empty() {
            let block = Block::Text(turn.streamed.clone());
            self.transcript.block(&mut Message::default(), &block.as_json(), None, Duration::ZERO);
            self.conversation.push(Mark::Reply, &turn.streamed);
        }
        let call = match &turn.phase {
            Phase::BeforeTool(_, call) | Phase::Running { call, .. } => Some(call),
            Phase::Asking(asking) => Some(&asking.call),
            _ => None,
        };
        if let Some(call) = call {
            self.refuse_in_transcript(&turn.prompt_id, call);
        }
        self.transcript.interrupted(&turn.prompt_id, call.is_some());
        self.conversation.push(Mark::Result, INTERRUPTED);
    }

    /// Stops the hooks and the tool of the turn.
    pub(super) fn cancel_turn_processes(&mut self) {
        if let Some(turn) = &self.turn {
            turn.cancel.cancel();
        }
    }
}
