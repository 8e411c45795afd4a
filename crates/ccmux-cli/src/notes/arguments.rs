//! What can be said to `notify`, `listen`, `ask`, `questions`, `answer` and `acknowledge`. Types only.

use std::ffi::OsString;

use ccmux_notify::note::{NoteKind, checked_name};
use clap::{ArgGroup, Args};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("deed").required(true).args(["message", "clear", "test"]))]
pub struct NotifyOptions {
    /// Who speaks (without it: CCMUX_AGENT_ID, the worktree's name, or system)
    #[arg(long, value_name = "ID", value_parser = parse_name)]
    pub from: Option<String>,

    /// What kind of news: complete, waiting, question, stuck, error, status (without it: status)
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub kind: Option<NoteKind>,

    /// The question that it is about
    #[arg(long, value_name = "ID", value_parser = parse_name)]
    pub question_id: Option<String>,

    /// Throw away all notes that nobody took yet
    #[arg(long)]
    pub clear: bool,

    /// Only try the route [routes.NAME]
    #[arg(long, value_name = "NAME")]
    pub test: Option<String>,

    /// Send the message to a daemon elsewhere that has tcp.listen, as three lines: complete, question, else info
    #[arg(long, value_name = "HOST:PORT", requires = "message", conflicts_with_all = ["from", "question_id"])]
    pub tcp: Option<String>,

    /// With --tcp: a file whose first line the daemon wants to hear
    #[arg(long, value_name = "FILE", requires = "tcp")]
    pub token_file: Option<std::path::PathBuf>,

    /// The message; several words are joined by blanks, a lone `-` reads it from stdin
    #[arg(value_name = "MESSAGE")]
    pub message: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct ListenOptions {
    /// Give up after that many seconds, with exit code 0 and nothing printed (without it: never)
    #[arg(short, long, value_name = "SECONDS", conflicts_with = "status")]
    pub timeout: Option<u64>,

    /// Only say whether somebody listens, and how many notes wait: exit code 0 if somebody does, 1 if nobody
    #[arg(long)]
    pub status: bool,

    /// Listen under that name, for answers to it (without it: CCMUX_AGENT_ID, the worktree's name, or system)
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct AskOptions {
    /// Wait for the answer and print it
    #[arg(short, long)]
    pub wait: bool,

    /// Give up waiting after that many seconds, with exit code 3; the question stays open
    #[arg(short, long, value_name = "SECONDS", requires = "wait")]
    pub timeout: Option<u64>,

    /// Who asks (without it: CCMUX_AGENT_ID, the worktree's name, or system)
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub from: Option<String>,

    /// The question; several words are joined by blanks, a lone `-` reads it from stdin
    #[arg(required = true, value_name = "TEXT")]
    pub text: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct QuestionsOptions {
    /// Closed ones, too
    #[arg(short, long)]
    pub all: bool,

    /// Print them as JSON, one a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct AnswerOptions {
    /// Its id, as `ccmux questions` and `ccmux listen` show it; or the five letters behind `code:` of a question of Claude's
    #[arg(value_name = "ID")]
    pub id: String,

    /// Who answers (without it: CCMUX_AGENT_ID, the worktree's name, or system)
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub from: Option<String>,

    /// The answer; several words are joined by blanks, a lone `-` reads it from stdin. To Claude: a choice's number (1,3 where
    /// several may be chosen) or words; several questions: an answer each, `;` between them
    #[arg(required = true, value_name = "TEXT")]
    pub text: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct AcknowledgeOptions {
    /// Its id
    #[arg(value_name = "ID")]
    pub id: String,

    /// Who has seen it (without it: CCMUX_AGENT_ID, the worktree's name, or system)
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub from: Option<String>,
}

/// A sender's or listener's name.
pub fn parse_name(name: &str) -> Result<String, String> {
    checked_name(name).map(str::to_owned).map_err(|error| error.to_string())
}
