//! What `ccmux run` and `ccmux container` can be told. Types only.

use std::path::PathBuf;

use ccmux_wire::container::SenderEvent;
use clap::{Args, Subcommand, ValueEnum};

/// What kind of message a sender has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EventWord {
    /// Something is done
    Complete,
    /// Somebody must decide
    Question,
    /// Anything else
    Info,
}

impl From<EventWord> for SenderEvent {
    fn from(word: EventWord) -> Self {
        match word {
            EventWord::Complete => Self::Complete,
            EventWord::Question => Self::Question,
            EventWord::Info => Self::Info,
        }
    }
}

#[derive(Debug, Args)]
pub struct RunOptions {
    /// What runs the container
    #[arg(long, value_enum, default_value_t = Engine::Podman)]
    pub engine: Engine,

    /// Another image than the one that ccmux makes; it needs `claude`
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,

    /// Print the engine's command as one line for a shell, and do nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Tell by three lines over TCP, where the daemon has tcp.listen, instead of by a socket: for macOS, where none reaches a
    /// container
    #[arg(long, value_name = "HOST:PORT")]
    pub tcp: Option<String>,

    /// With --tcp: the file whose first line the daemon wants to hear
    #[arg(long, value_name = "FILE", requires = "tcp")]
    pub token_file: Option<PathBuf>,

    /// A further argument for the engine, e.g. --engine-arg=--network=host
    #[arg(long = "engine-arg", value_name = "ARG", allow_hyphen_values = true)]
    pub engine_args: Vec<String>,

    /// Arguments for Claude Code
    #[arg(value_name = "ARGS", last = true)]
    pub arguments: Vec<String>,
}

/// What runs containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    Podman,
    Docker,
}

impl Engine {
    /// What it is called.
    pub fn program(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }
}

#[derive(Debug, Args)]
pub struct ContainerOptions {
    #[command(subcommand)]
    pub verb: ContainerVerb,
}

#[derive(Debug, Subcommand)]
pub enum ContainerVerb {
    /// List the containers that are open, and their questions
    List {
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Answer a question of a container
    Answer {
        /// Its id, as `list` shows it
        question: String,
        /// The answer; several words are joined by blanks
        #[arg(required = true, value_name = "TEXT")]
        text: Vec<String>,
    },
    /// From within a container: tell somebody
    Notify {
        /// What kind of message it is
        #[arg(long = "type", value_enum, default_value_t = EventWord::Info, value_name = "TYPE")]
        event: EventWord,
        /// The message; several words are joined by blanks
        #[arg(required = true, value_name = "TEXT")]
        message: Vec<String>,
    },
    /// From within a container: ask somebody, and print the answer
    Ask {
        /// The question; several words are joined by blanks
        #[arg(required = true, value_name = "TEXT")]
        question: Vec<String>,
        /// Wait so many seconds for the answer; 0 prints the question's id instead
        #[arg(long, default_value_t = 600, value_name = "SECONDS")]
        wait: u64,
    },
}
