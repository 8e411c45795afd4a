//! Runs a program that is told something on stdin. No shell; when whoever waits for it gives up, it ends, and what it
//! started with it.

use std::collections::BTreeMap;
use std::io;
use std::process::{ExitStatus, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

/// Why a program did not do it.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is not there, or can't be run.
    #[error("can't start {program}: {source}")]
    NotStarted {
        /// Which.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// It said that it failed.
    #[error("{program} ended with {status}")]
    Failed {
        /// Which.
        program: String,
        /// How.
        status: ExitStatus,
    },
    /// The system lost it.
    #[error("{program}: {source}")]
    Io {
        /// Which.
        program: String,
        /// What the system said.
        source: io::Error,
    },
}

/// A program with its children, which don't outlive this value.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0.id().and_then(|pid| i32::try_from(pid).ok()) {
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

/// Runs it to its end. Dropped before: it is killed.
///
/// # Errors
/// If it can't be started, or ends with anything but 0.
pub async fn run(argv: &[String], stdin: Vec<u8>) -> Result<(), ProgramError> {
    run_with(argv, stdin, &BTreeMap::new()).await
}

/// The same, with these variables more.
///
/// # Errors
/// As [`run`].
pub async fn run_with(
    argv: &[String],
    stdin: Vec<u8>,
    variables: &BTreeMap<String, String>,
) -> Result<(), ProgramError> {
    let program = argv.first().cloned().unwrap_or_default();
    let child = Command::new(&program)
        .args(argv.iter().skip(1))
        .envs(variables)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| ProgramError::NotStarted { program: program.clone(), source })?;
    let mut group = Group(child);
    if let Some(mut pipe) = group.0.stdin.take() {
        // A program that does not read is none that failed.
        let _ = pipe.write_all(&stdin).await;
    }
    let ended = group.0.wait().await;
    let status = ended.map_err(|source| ProgramError::Io { program: program.clone(), source })?;
    if status.success() { Ok(()) } else { Err(ProgramError::Failed { program, status }) }
}
