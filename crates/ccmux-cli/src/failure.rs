//! The ways a command ends other than well, and their exit codes, which are part of the contract.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use ccmux_wire::control::{ErrorCode, Reply};

/// Why a command did not do what it was asked. Usage (exit code 2) is clap's business.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    TimedOut(String),
    #[error("refused: {0}")]
    Refused(String),
    /// The inbox, or the queue, takes no more for now.
    #[error("refused: {0}")]
    Full(String),
    #[error("uncertain: {0}")]
    Uncertain(String),
    /// The answer is no, and was printed.
    #[error("no")]
    No,
    /// The stream ended by the daemon's wish.
    #[error("{0}")]
    LetGo(String),
    #[error("daemon not reachable at {}: {why}: {remedy}", socket.display())]
    Unreachable { socket: PathBuf, why: String, remedy: &'static str },
    /// The agent in a container ended with it; it needs no further word.
    #[error("exit code {0}")]
    Exit(u8),
    #[error("can't write the output: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// What a reply that is not ok means for the caller.
    pub fn of_reply(reply: &Reply) -> Self {
        let error = reply.error.clone().unwrap_or_else(|| "the daemon gave no reason".to_owned());
        match reply.code {
            Some(
                ErrorCode::BadFrame | ErrorCode::BadVersion | ErrorCode::NotAllowed | ErrorCode::Rejected,
            ) => Self::Refused(error),
            Some(ErrorCode::Full) => Self::Full(error),
            Some(ErrorCode::TimedOut) => Self::TimedOut(error),
            Some(ErrorCode::Uncertain) => Self::Uncertain(error),
            Some(ErrorCode::Stopping | ErrorCode::Internal) | None => Self::Failed(error),
        }
    }

    /// A reply that can't be read: mostly a daemon of another version.
    pub fn of_nonsense(error: impl Display) -> Self {
        Self::Failed(format!(
            "the daemon's answer is not understood ({error}): compare `ccmux --version` and `ccmuxd --version`"
        ))
    }

    /// Says it on stderr, in one line, and gives the exit code. Whoever closed our stdout wants no word about it.
    pub fn report(&self) -> ExitCode {
        if self.is_closed_pipe() {
            return ExitCode::SUCCESS;
        }
        if !matches!(self, Self::No | Self::Exit(_)) {
            eprintln!("ccmux: {self}");
        }
        self.exit_code().into()
    }

    /// Whether the same may be tried again.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::LetGo(_) | Self::TimedOut(_) | Self::Full(_))
    }

    fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(_) | Self::No | Self::LetGo(_) | Self::Output(_) => 1,
            Self::Exit(code) => *code,
            Self::TimedOut(_) => 3,
            Self::Refused(_) | Self::Full(_) => 4,
            Self::Uncertain(_) => 5,
            Self::Unreachable { .. } => 6,
        }
    }
}
