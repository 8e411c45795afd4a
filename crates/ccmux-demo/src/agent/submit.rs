//! What a submitted text becomes: a turn, a queued message, a command of the agent, a shell command.

use std::time::{Duration, Instant};

use super::{Agent, Exit, HINT_SHOWN};
use crate::conversation::Mark;
use crate::dialog::{Answer, Dialog, Kind};
use crate::event::RunId;
use crate::ids;
use crate::process::{Cancel, Outcome};
use crate::prompt_box::Draft;
use crate::session::Opened;
use crate::transcript::Transcript;

const SHELL_LIMIT: Duration = Duration::from_secs(120);
/// A key that was pressed before the dialog could be seen arrives within that time, on a busy machine too.
const ON_ITS_WAY: Duration = Duration::from_millis(100);
/// What a dialog that came by itself asks for.
const APPROVED: &str = "touch APPROVED";

impl Agent {
    pub(super) fn submit(&mut self, now: Instant) {
        let draft = self.prompt.take();
        let text = draft.submitted(&ids::prefixed("", 4));
        self.hint = None;
        if text.trim().is_empty() {
            return;
        }
        self.journal.submitted(&text);
        self.swallow_left = self.faults.swallow_enter;
        // A stashed draft comes back by itself (FINDINGS 47).
        if let Some(stashed) = self.stash.take() {
            self.prompt.put(stashed);
            self.hint = Some(("draft restored", now + HINT_SHOWN));
        }
        match text.as_str() {
            "exit" | "quit" | ":q" | ":q!" | ":wq" | ":wq!" | "/exit" | "/quit" => self.quit(),
            command if command.starts_with('/') => self.command(command),
            shell if shell.starts_with('!') => self.shell(shell[1..].trim()),
            _ if self.turn.is_some() => self.enqueue(text),
            _ => self.start_turn(text, "typed", now),
        }
    }

    fn quit(&mut self) {
        self.exit.get_or_insert(Exit { code: 0, reason: "prompt_input_exit" });
    }

    /// A slash command: no UserPromptSubmit comes of it.
    fn command(&mut self, text: &str) {
        let (name, arguments) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match name {
            "/clear" | "/reset" | "/new" => self.clear(),
            "/status" => self.open_status(),
            "/mcp" => self.conversation.push(Mark::Note, "No MCP servers: the demo agent has none."),
            _ => {
                self.conversation.push(Mark::Reply, &format!("Unknown command: {name}"));
                if !arguments.trim().is_empty() {
                    self.conversation
                        .push(Mark::Reply, &format!("Args from unknown skill: {}", arguments.trim()));
                }
            }
        }
    }

    /// Another session in the same process (FINDINGS 36).
    fn clear(&mut self) {
        self.cancel_turn_processes();
        self.turn = None;
        self.queue.clear();
        self.tasks.clear();
        self.transcript.finish();
        self.fire_session_end("clear", super::LAST_HOOKS);
        self.opened = Opened::cleared();
        self.session = self.opened.session.clone();
        let path = self.paths.transcript(&self.session);
        self.transcript = Transcript::new(path, &self.session, &self.paths.cwd, &self.permission_mode);
        self.last_prompt = None;
        self.conversation.clear();
        self.show_head();
        self.conversation.push(Mark::Prompt, "/clear");
        self.fire_session_start();
    }

    fn open_status(&mut self) {
        let facts = [
            ("Version", env!("CARGO_PKG_VERSION").to_owned()),
            ("Session ID", self.session.clone()),
            ("Session kind", "interactive".to_owned()),
            ("cwd", self.cwd()),
            ("Model", "none (ccmux-demo-agent)".to_owned()),
        ];
        let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        self.overlay = Some(Dialog::new(Kind::Status(facts), &self.cwd()));
    }

    /// A dialog that nobody called for, as a sub-agent's or an MCP server's may come. Enter in it runs the command. Whoever
    /// draws opens it, and it takes keys a moment later: a key that was on its way when it was drawn is for the box.
    pub(super) fn open_due_dialog(&mut self, now: Instant) {
        if self.dialog_due.take_if(|due| now >= *due).is_some() {
            let kind = Kind::Bash { command: APPROVED.into(), about: "a dialog that came by itself".into() };
            self.overlay = Some(Dialog::new(kind, &self.cwd()));
            self.dialog_armed = Some(now + ON_ITS_WAY);
        }
    }

    /// A dialog of no turn was answered.
    pub(super) fn overlay_answered(&mut self, overlay: &Dialog, answer: &Answer) {
        if let (Kind::Bash { command, .. }, Answer::Pick(option)) = (&overlay.kind, answer)
            && overlay.agrees(*option)
        {
            self.shell(command);
        }
    }

    /// `!cmd`: runs unasked. Real Claude goes on to a turn; here the output is all.
    fn shell(&mut self, line: &str) {
        self.conversation.push(Mark::Shell, line);
        let run = self.next_run();
        self.shells.push(run);
        self.run_in_shell(run, line, SHELL_LIMIT, Cancel::default());
    }

    /// The output of a `!cmd`.
    pub(super) fn shell_done(&mut self, run: RunId, outcome: &Outcome) {
        self.shells.retain(|shell| *shell != run);
        let output = format!("{}{}", outcome.stdout, outcome.stderr);
        let shown = if output.trim().is_empty() { "(No output)" } else { output.trim_end() };
        self.conversation.push(Mark::Result, shown);
    }

    /// Waits for the running turn; the hook is told at once, with that turn's prompt id (FINDINGS 45).
    fn enqueue(&mut self, text: String) {
        let payload = self.payload("UserPromptSubmit").with("prompt", &text);
        self.fire("UserPromptSubmit", "", payload);
        self.transcript.queue_operation("enqueue", Some(&text));
        self.queue.push(text);
    }

    /// Up: what is queued comes into the box.
    pub(super) fn edit_queue(&mut self) {
        let mut texts = std::mem::take(&mut self.queue);
        for text in &texts {
            self.transcript.queue_operation("popAll", Some(text));
        }
        if !self.prompt.is_empty() {
            texts.push(self.prompt.text().to_owned());
        }
        self.prompt.put(Draft::of(&texts.join("\n")));
    }

    /// All that is queued becomes one next turn; its hook has fired already.
    pub(super) fn start_queued(&mut self, now: Instant) {
        if self.queue.is_empty() {
            return;
        }
        let texts = std::mem::take(&mut self.queue);
        self.transcript.queue_operation("dequeue", None);
        self.start_turn(texts.join("\n"), "queued", now);
    }
}
