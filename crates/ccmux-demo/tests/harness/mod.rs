//! A demo agent in a tmux server of its own, with a home of its own, and the facts that a test waits for.

// A harness panics where a test would; clippy only knows functions marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

const AGENT: &str = env!("CARGO_BIN_EXE_ccmux-demo-agent");
/// Only how long a failing test takes.
const LIMIT: Duration = Duration::from_secs(20);
const EVENTS: [&str; 12] = [
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PermissionRequest",
    "Notification",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
];

/// One agent and its surroundings; the server ends with it.
pub struct Demo {
    directory: TempDir,
    /// The server runs: the next agent takes the place of the last one.
    started: Cell<bool>,
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

impl Demo {
    /// An agent that is ready, with hooks that record what they are told.
    pub fn ready() -> Self {
        let demo = Self::new();
        demo.start(&[], &[]);
        demo.wait_for_status("idle");
        demo
    }

    /// Everything but the agent.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let demo = Self { directory, started: Cell::new(false) };
        fs::create_dir_all(demo.cwd()).unwrap();
        let record = demo.path("events.jsonl");
        demo.script("record.sh", &format!("p=$(cat); printf '%s\\n' \"$p\" >> '{}'", record.display()));
        let hooks = EVENTS.map(|event| (event.to_owned(), hook(&demo.path("record.sh"))));
        let settings = json!({"hooks": Value::Object(hooks.into_iter().collect())});
        fs::write(demo.path("settings.json"), settings.to_string()).unwrap();
        demo
    }

    /// The user's own hook of an event, beside those that record.
    pub fn user_hook(&self, event: &str, body: &str) {
        self.script("user.sh", body);
        let settings = json!({"hooks": {event: hook(&self.path("user.sh"))}});
        fs::create_dir_all(self.config()).unwrap();
        fs::write(self.config().join("settings.json"), settings.to_string()).unwrap();
    }

    /// Starts the agent; its exit code goes to a file.
    pub fn start(&self, arguments: &[&str], environment: &[(&str, &str)]) {
        let _ = fs::remove_file(self.path("code"));
        let settings = self.path("settings.json");
        let code = format!("\"$0\" \"$@\"; echo $? > '{}'; sleep 60", self.path("code").display());
        let mut command = self.tmux_command();
        if self.started.replace(true) {
            command.args(["respawn-pane", "-k", "-t", "demo", "-c"]).arg(self.cwd());
        } else {
            command.args(["new-session", "-d", "-s", "demo", "-x", "100", "-y", "30", "-c"]).arg(self.cwd());
        }
        command.args([
            "-e",
            &format!("HOME={}", self.directory.path().display()),
            "-e",
            "CLAUDE_CONFIG_DIR=",
        ]);
        for (name, value) in environment {
            command.args(["-e", &format!("{name}={value}")]);
        }
        command.args(["sh", "-c", &code, AGENT, "--settings"]).arg(settings).args(arguments);
        let output = command.output().expect("tmux must be installed: these tests drive the agent in it");
        assert!(output.status.success(), "tmux: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Pastes a text as ccmux does.
    pub fn paste(&self, text: &str) {
        fs::write(self.path("paste"), text).unwrap();
        let file = self.path("paste").display().to_string();
        self.tmux(&["load-buffer", "-b", "in", &file]);
        self.tmux(&["paste-buffer", "-p", "-r", "-d", "-b", "in", "-t", "demo"]);
    }

    pub fn press(&self, key: &str) {
        self.tmux(&["send-keys", "-t", "demo", key]);
    }

    pub fn say(&self, prompt: &str) {
        self.paste(prompt);
        self.press("Enter");
    }

    pub fn resize(&self, columns: u32, rows: u32) {
        self.tmux(&["resize-window", "-t", "demo", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p", "-t", "demo"]).stdout).into_owned()
    }

    pub fn title(&self) -> String {
        let output = self.tmux(&["display-message", "-p", "-t", "demo", "#{pane_title}"]);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The agent's own word on its state: `status` and `waitingFor`.
    pub fn state(&self) -> Option<Value> {
        let path = fs::read_dir(self.config().join("sessions")).ok()?.flatten().next()?.path();
        serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
    }

    /// Payloads of an event that hooks were given so far.
    pub fn events(&self, event: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path("events.jsonl")).unwrap_or_default();
        let all = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        all.filter(|payload| payload["hook_event_name"] == event).collect()
    }

    /// Lines of all transcripts, by file name.
    pub fn transcript(&self) -> Vec<Value> {
        let mut lines = Vec::new();
        for project in fs::read_dir(self.config().join("projects")).into_iter().flatten().flatten() {
            for file in fs::read_dir(project.path()).into_iter().flatten().flatten() {
                let text = fs::read_to_string(file.path()).unwrap_or_default();
                lines.extend(
                    text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a whole line")),
                );
            }
        }
        lines
    }

    pub fn exit_code(&self) -> Option<i32> {
        fs::read_to_string(self.path("code")).ok()?.trim().parse().ok()
    }

    pub fn wait_for_status(&self, status: &str) {
        self.wait(&format!("status {status}"), || {
            self.state().is_some_and(|state| state["status"] == status)
        });
    }

    pub fn wait_for_screen(&self, text: &str) {
        self.wait(&format!("{text:?} on the screen"), || self.screen().contains(text));
    }

    /// The nth payload of an event, once it is there.
    pub fn wait_for_event(&self, event: &str, nth: usize) -> Value {
        self.wait(&format!("{event} number {nth}"), || self.events(event).len() >= nth);
        self.events(event).swap_remove(nth - 1)
    }

    pub fn wait_for_exit(&self) -> i32 {
        self.wait("the agent's end", || self.exit_code().is_some());
        self.exit_code().unwrap()
    }

    /// Waits for a fact; shows the screen if it does not come.
    pub fn wait(&self, what: &str, fact: impl Fn() -> bool) {
        let until = Instant::now() + LIMIT;
        while !fact() {
            assert!(
                Instant::now() < until,
                "waited in vain for {what}\nstate: {:?}\nscreen:\n{}",
                self.state(),
                self.screen()
            );
            std::thread::sleep(Duration::from_millis(15));
        }
    }

    pub fn cwd(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    fn config(&self) -> PathBuf {
        self.directory.path().join(".claude")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn script(&self, name: &str, body: &str) {
        fs::write(self.path(name), format!("#!/bin/sh\n{body}\n")).unwrap();
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        self.tmux_command()
            .args(arguments)
            .output()
            .expect("tmux must be installed: these tests drive the agent in it")
    }

    /// A server of this test alone: its socket is in our directory.
    fn tmux_command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-L", "demo", "-f", "/dev/null"]).env("TMUX_TMPDIR", self.directory.path());
        command.env_remove("TMUX").env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        command
    }
}

fn hook(script: &Path) -> Value {
    json!([{"hooks": [{"type": "command", "command": format!("sh '{}'", script.display())}]}])
}

/// Runs the agent without a terminal.
pub fn without_terminal(arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    Command::new(AGENT)
        .args(arguments)
        .env("HOME", home.path())
        .env_remove("CLAUDE_CONFIG_DIR")
        .current_dir(home.path())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}
