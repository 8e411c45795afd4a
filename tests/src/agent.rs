//! What can be seen of the agent: its pane, its pid, the transcripts that it writes.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::house::House;
use crate::patience::{LIMIT, WATCH, stays_quiet, wait_at_most};

impl House {
    /// The agent's screen as text.
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "=ccmux:"])
    }

    /// A format of the agent's pane.
    pub fn pane(&self, format: &str) -> String {
        self.tmux(&["display-message", "-p", "-t", "=ccmux:", format])
    }

    /// The process in the agent's pane; 0 if there is none.
    pub fn agent_pid(&self) -> i32 {
        self.pane("#{pane_pid}").parse().unwrap_or(0)
    }

    /// Keys that no client typed, as a script would send them.
    pub fn send_keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys", "-t", "=ccmux:"], keys].concat());
    }

    /// Kills the agent; its pid.
    pub fn kill_agent(&self) -> i32 {
        let pid = self.agent_pid();
        assert!(pid > 1, "there is no agent to kill");
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        pid
    }

    /// A second agent in a window of its own: the program, the arguments and the variables of the owned one, with or without
    /// its token. Its pane.
    pub fn another_agent(&self, with_token: bool) -> String {
        let read = |name: &str| fs::read(format!("/proc/{}/{name}", self.agent_pid())).unwrap();
        let split = |bytes: Vec<u8>| {
            let parts = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty());
            parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect::<Vec<_>>()
        };
        let mut command = vec!["env".to_owned(), "-i".to_owned()];
        let variables = split(read("environ")).into_iter();
        command.extend(variables.filter(|entry| with_token || !entry.starts_with("CCMUX_SESSION_TOKEN=")));
        command.extend(split(read("cmdline")));
        let proj = self.proj();
        let window = ["new-window", "-d", "-P", "-F", "#{pane_id}", "-c", proj.to_str().unwrap()];
        self.tmux(&[&window[..], &command.iter().map(String::as_str).collect::<Vec<_>>()].concat())
    }

    /// Processes in all panes of the house's server.
    pub fn pane_pids(&self) -> Vec<i32> {
        self.tmux(&["list-panes", "-a", "-F", "#{pane_pid}"])
            .lines()
            .filter_map(|line| line.parse().ok())
            .collect()
    }

    pub fn wait_for_screen(&self, text: &str) {
        self.wait_until(&format!("{text:?} on the screen"), || self.screen().contains(text));
    }

    /// Transcripts of all sessions, the oldest first.
    pub fn transcript_files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for project in fs::read_dir(self.home().join(".claude/projects")).into_iter().flatten().flatten() {
            files.extend(
                fs::read_dir(project.path()).into_iter().flatten().flatten().map(|entry| entry.path()),
            );
        }
        files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        files.sort_by_key(|path| path.metadata().and_then(|found| found.modified()).ok());
        files
    }

    /// Lines of all transcripts.
    pub fn transcript(&self) -> Vec<Value> {
        let texts =
            self.transcript_files().into_iter().map(|path| fs::read_to_string(path).unwrap_or_default());
        let lines: Vec<String> =
            texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Prompts that the agent took, in order: what its transcripts hold as the user's words.
    pub fn prompts(&self) -> Vec<String> {
        let lines = self.prompt_lines().into_iter();
        lines.filter_map(|line| line["message"]["content"].as_str().map(str::to_owned)).collect()
    }

    /// The lines of the transcripts that are prompts.
    pub fn prompt_lines(&self) -> Vec<Value> {
        let is_prompt = |line: &Value| {
            let (meta, sidechain) = (line["isMeta"] == true, line["isSidechain"] == true);
            line["type"] == "user" && !meta && !sidechain && line["message"]["content"].is_string()
        };
        self.transcript().into_iter().filter(is_prompt).collect()
    }

    /// The prompts, once there are `count`.
    pub fn wait_for_prompts(&self, count: usize) -> Vec<String> {
        let what = format!("{count} prompts");
        self.wait_for(&what, || Some(self.prompts()).filter(|prompts| prompts.len() >= count))
    }

    /// Every message that the agent got, `(channel, text)`, in order; all prompts must be ccmux's own.
    pub fn messages(&self) -> Vec<(String, String)> {
        self.prompts().iter().flat_map(|prompt| messages(prompt)).collect()
    }

    /// The messages, once there are `count`.
    pub fn wait_for_messages(&self, count: usize) -> Vec<(String, String)> {
        let found = wait_at_most(2 * LIMIT, || Some(self.messages()).filter(|found| found.len() >= count));
        found.unwrap_or_else(|| {
            panic!("{count} messages did not come, only {:?}\n{}", self.messages(), self.picture())
        })
    }

    /// Waits until the gate is closed for this reason, then sees for a while that nothing is typed.
    pub fn is_left_alone(&self, why: &str) {
        self.wait_until(&format!("the gate to say {why:?}"), || self.why().starts_with(why));
        let (screen, prompts) = (self.screen(), self.prompts().len());
        stays_quiet(WATCH, "it was not left alone", || {
            let now = self.screen();
            let touched = now != screen || self.prompts().len() != prompts;
            touched.then(|| format!("{screen}\n--- became\n{now}"))
        });
        assert!(self.why().starts_with(why), "{}", self.why());
    }

    /// Sees for a while that the agent gets no more than `count` prompts.
    pub fn gets_no_more_than(&self, count: usize) {
        stays_quiet(WATCH, "a prompt too many", || {
            Some(self.prompts()).filter(|prompts| prompts.len() > count).map(|prompts| format!("{prompts:?}"))
        });
    }

    /// The prompt that holds a text, once it is there.
    pub fn wait_for_prompt(&self, text: &str) -> String {
        self.wait_for(&format!("a prompt with {text:?}"), || {
            self.prompts().into_iter().find(|prompt| prompt.contains(text))
        })
    }
}

/// A prompt of one message without its head: `[HH:MM channel] text` is `(channel, text)`.
///
/// # Panics
/// If the head is not of that form.
pub fn parted(prompt: &str) -> (&str, &str) {
    let parts = prompt.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    let (head, text) = parts.unwrap_or_else(|| panic!("no head: {prompt:?}"));
    let (time, channel) = head.split_once(' ').unwrap_or_else(|| panic!("no channel: {prompt:?}"));
    let digits: Vec<bool> = time.chars().map(|c| c.is_ascii_digit()).collect();
    assert_eq!(digits, [true, true, false, true, true], "no time: {prompt:?}");
    (channel, text)
}

/// The messages of a prompt, `(channel, text)` each, further lines without their indent.
pub fn messages(prompt: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in prompt.split('\n') {
        match (line.strip_prefix("  "), found.last_mut()) {
            (Some(further), Some((_, text))) => {
                text.push('\n');
                text.push_str(further);
            }
            _ => {
                let (channel, text) = parted(line);
                found.push((channel.to_owned(), text.to_owned()));
            }
        }
    }
    found
}

/// A NUL-framed message, which may hold newlines.
pub fn framed(text: &str) -> String {
    format!("\0{text}\0")
}
