//! The story: three ways in, and what must follow from each. Every wait has a limit, and all of it ends within a minute.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;

use super::go_on;
use super::narrator::Narrator;
use super::stage::{LOOK_EVERY, Stage};
use super::watch::{Fact, Watch};

/// All of it, after the build.
const WHOLE: Duration = Duration::from_secs(50);
/// The start of the daemon and the agent.
const START: Duration = Duration::from_secs(20);
/// One step.
const STEP: Duration = Duration::from_secs(15);

const CHANNEL: &str = "demo";
const LINE: &str = "say: Hello from a named pipe.";
const THREE_LINES: &str = "say: Three lines came\nas one message,\nand none of them was a key press.";
const QUESTION: &str = "say: The answer is 42.";

/// Tells all of it.
pub fn tell(stage: &mut Stage, narrator: &mut Narrator) -> anyhow::Result<()> {
    let watch = Watch::new(stage.log());
    let mut teller = Teller { stage, narrator, watch, seen: Vec::new(), until: Instant::now() + WHOLE };
    teller.start()?;
    teller.line_in_a_fifo()?;
    teller.three_lines_in_one_message()?;
    teller.question_and_answer()
}

struct Teller<'a> {
    stage: &'a mut Stage,
    narrator: &'a mut Narrator,
    watch: Watch,
    /// What was said in this chapter.
    seen: Vec<Fact>,
    until: Instant,
}

impl Teller<'_> {
    fn chapter(&mut self, title: &str) {
        self.seen.clear();
        self.narrator.chapter(title);
    }

    fn start(&mut self) -> anyhow::Result<()> {
        self.chapter("ccmuxd starts the agent in a tmux session of its own");
        self.narrator.command("ccmuxd");
        self.stage.start_daemon()?;
        self.wait("`ccmux status` says ready", START, |stage, _| {
            stage.status().is_some_and(|status| status["state"] == "ready")
        })?;
        self.narrator.row("ready", "the agent's prompt box was seen, empty");
        self.watch.subscribe(&self.stage.runtime_dir().join("output.sock"))
    }

    fn line_in_a_fifo(&mut self) -> anyhow::Result<()> {
        self.chapter("A line in a named pipe becomes a prompt, the finished turn comes out of a socket");
        let fifo = self.fifo();
        self.narrator.command(&format!("mkfifo {}", self.fifo_name()));
        mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR)
            .with_context(|| format!("can't make {}", fifo.display()))?;
        self.wait("the channel is open", STEP, |stage, _| {
            stage.status().is_some_and(|status| is_open(&status))
        })?;
        self.narrator.command(&format!("echo '{LINE}' > {}", self.fifo_name()));
        write(&fifo, format!("{LINE}\n").as_bytes())?;
        self.wait_for_the_turn("Hello from a named pipe.")?;
        self.show_screen();
        Ok(())
    }

    fn three_lines_in_one_message(&mut self) -> anyhow::Result<()> {
        self.chapter("Three lines in one message: NUL first, NUL last");
        let shown = THREE_LINES.replace('\n', "\\n");
        self.narrator.command(&format!("printf '\\0{shown}\\0' > {}", self.fifo_name()));
        write(&self.fifo(), format!("\0{THREE_LINES}\0").as_bytes())?;
        self.wait_for_the_turn("Three lines came")?;
        self.show_screen();
        Ok(())
    }

    fn question_and_answer(&mut self) -> anyhow::Result<()> {
        self.chapter("A program asks and waits for the answer");
        self.narrator.command(&format!("ccmux send --wait answered '{QUESTION}'"));
        let limit = STEP.as_secs().to_string();
        let mut client =
            self.stage.ccmux(&["send", "--wait", "answered", "--timeout", &limit, QUESTION]).spawn()?;
        let ended =
            self.wait("`ccmux send --wait answered` returns", STEP + Duration::from_secs(2), |_, _| {
                !matches!(client.try_wait(), Ok(None))
            });
        if ended.is_err() {
            // Whatever it waits for, it must not outlive us.
            let _ = client.kill();
        }
        let output = client.wait_with_output().context("can't wait for ccmux")?;
        ended?;
        let (answer, error) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "`ccmux send --wait answered` failed: {}", error.trim());
        ensure!(answer.contains("42"), "expected the answer on stdout, got {answer:?}");
        self.narrator.row("answer", answer.trim_end());
        Ok(())
    }

    /// The facts that must follow from a message; the others are shown where they come.
    fn wait_for_the_turn(&mut self, text: &str) -> anyhow::Result<()> {
        for event in ["message.accepted", "batch.delivered"] {
            self.wait(&format!("the log says {event}"), STEP, |_, seen| {
                seen.iter().any(|fact| fact.event() == Some(event))
            })?;
        }
        self.wait(&format!("a turn with `{text}` on output.sock"), STEP, |_, seen| {
            seen.iter().any(|fact| fact.is_turn_for(CHANNEL) && says(fact, text))
        })
    }

    /// Looks until it holds, and tells meanwhile what happens.
    fn wait(
        &mut self,
        expected: &str,
        limit: Duration,
        mut holds: impl FnMut(&Stage, &[Fact]) -> bool,
    ) -> anyhow::Result<()> {
        let until = self.until.min(Instant::now() + limit);
        loop {
            go_on()?;
            self.stage.check_daemon()?;
            for fact in self.watch.news()? {
                self.narrator.fact(&fact);
                self.seen.push(fact);
            }
            if holds(self.stage, &self.seen) {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("expected within {} s: {expected}", limit.as_secs());
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn show_screen(&self) {
        self.narrator.command("ccmux screen");
        self.narrator.screen(&self.stage.screen());
    }

    fn fifo(&self) -> std::path::PathBuf {
        self.stage.runtime_dir().join(self.fifo_name())
    }

    fn fifo_name(&self) -> String {
        format!("in.{CHANNEL}")
    }
}

fn is_open(status: &Value) -> bool {
    let is_ours = |channel: &Value| channel["name"] == CHANNEL && channel["direction"] == "in";
    status["channels"]
        .as_array()
        .is_some_and(|all| all.iter().any(|channel| is_ours(channel) && channel["state"] == "open"))
}

fn says(fact: &Fact, text: &str) -> bool {
    let Fact::Line(line) = fact else { return false };
    let blocks = line["turn"].as_array().map_or(&[][..], Vec::as_slice);
    blocks.iter().any(|block| block["text"].as_str().is_some_and(|said| said.contains(text)))
}

/// Never waits for a reader: the channel is open, so there is one.
fn write(fifo: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    let opened = options.write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(fifo);
    let written = opened.and_then(|mut fifo| fifo.write_all(bytes));
    written.with_context(|| format!("can't write to {}", fifo.display()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_our_own_open_channel_counts() {
        let status = |name: &str, state: &str| json!({"channels": [{"name": name, "direction": "in", "state": state}]});
        assert!(is_open(&status("demo", "open")));
        assert!(
            !is_open(&status("demo", "refused"))
                && !is_open(&status("default", "open"))
                && !is_open(&json!({}))
        );
    }

    #[test]
    fn a_turn_says_what_its_text_blocks_say() {
        let fact = Fact::Line(json!({"turn": [{"type": "thinking"}, {"type": "text", "text": "Hello you"}]}));
        assert!(says(&fact, "Hello") && !says(&fact, "Bye"));
    }
}
