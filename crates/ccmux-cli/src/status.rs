//! `ccmux status`: what the daemon and the agent are doing.

use std::io::{self, Write};
use std::path::Path;

use ccmux_wire::control::Request;
use ccmux_wire::status::{AgentStatus, ChannelStatus, Direction, QueueStatus, StateWord, Status};

use crate::arguments::StatusOptions;
use crate::client::{Answer, Client};
use crate::failure::Failure;
use crate::paper::{Ink, Paper, ago, harmless, size};

pub fn run(dir: &Path, options: &StatusOptions) -> Result<(), Failure> {
    let answer = ask(dir)?;
    if options.json {
        writeln!(io::stdout(), "{}", answer.raw["status"])?;
    } else {
        io::stdout().write_all(in_words(of(&answer)?, Paper::stdout()).as_bytes())?;
    }
    Ok(())
}

/// Asks the daemon for its status.
pub fn ask(dir: &Path) -> Result<Answer, Failure> {
    Client::ask(dir, Request::Status)
}

/// The status in an answer to [`ask`].
pub fn of(answer: &Answer) -> Result<&Status, Failure> {
    answer.reply.status.as_deref().ok_or_else(|| Failure::of_nonsense("it holds no status"))
}

fn in_words(status: &Status, paper: Paper) -> String {
    let state = paper.ink(ink_of(status.state), status.state.word());
    let mut text = format!("{state} for {}: {}\n", ago(status.since), harmless(&status.reason));
    let mut row = |name: &str, value: String| {
        text.push_str(&format!("  {} {value}\n", paper.ink(Ink::Dim, &format!("{name:<11}"))));
    };
    row("session", status.session.as_ref().map_or_else(|| "none yet".to_owned(), ToString::to_string));
    row("agent", agent_in_words(&status.agent));
    row("queue", queue_in_words(status.queue));
    row("in", names(&status.channels, Direction::In));
    row("out", names(&status.channels, Direction::Out));
    row("subscribers", status.subscribers.to_string());
    row("daemon", format!("version {}, pid {}", status.daemon_version, status.daemon_pid));
    if let Some(port) = status.mcp.port {
        row("mcp", format!("port {port}"));
    }
    if !status.degraded.is_empty() {
        row("degraded", paper.ink(Ink::Red, &status.degraded.join(", ")));
    }
    text
}

fn ink_of(state: StateWord) -> Ink {
    match state {
        StateWord::Ready => Ink::Green,
        StateWord::Busy | StateWord::Starting => Ink::Cyan,
        StateWord::Down | StateWord::Degraded | StateWord::Unknown => Ink::Red,
        StateWord::Dialog | StateWord::Draft | StateWord::Human | StateWord::CopyMode | StateWord::Held => {
            Ink::Yellow
        }
    }
}

fn agent_in_words(agent: &AgentStatus) -> String {
    let pid = agent.pid.map_or_else(|| "not running".to_owned(), |pid| format!("pid {pid}"));
    let version = agent.version.as_ref().map_or_else(String::new, |version| format!("version {version}, "));
    let last =
        agent.last_exit.as_ref().map_or_else(String::new, |how| format!(", ended {how} the last time"));
    format!("{version}{pid}, started again {} times{last}", agent.restarts)
}

fn queue_in_words(queue: QueueStatus) -> String {
    match queue.messages {
        0 => "empty".to_owned(),
        messages => format!("{messages} messages, {}", size(queue.bytes)),
    }
}

fn names(channels: &[ChannelStatus], direction: Direction) -> String {
    let one = |channel: &ChannelStatus| match channel.state.as_str() {
        "open" => channel.name.to_string(),
        state => format!("{} ({})", channel.name, harmless(state)),
    };
    let names: Vec<String> =
        channels.iter().filter(|channel| channel.direction == direction).map(one).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
