//! The launch file: how the agent is started with exactly the environment it should have.
//!
//! ```text
//! daemon:  LaunchFile::write(state_dir)  ──▶  launch-<random>.json, 0600
//! pane:    ccmuxd launch FILE  ──▶  open, check, read, unlink, chdir, execve in the same pid
//! ```
//!
//! Nothing secret stands in an argument list, nothing comes from whatever environment the tmux server was once started
//! with, and no shell reads anything. It does not know what the program is.

use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SIGUSR1,
    SIGUSR2, SIGWINCH,
};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::fcntl::OFlag;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::record;
use crate::program::find;

/// More than any environment: Linux's own limit for arguments and environment is 2 MiB by default.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// What the terminal says about itself: always the pane's own, never the daemon's.
const TERMINAL_VARIABLES: [&str; 6] =
    ["TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TMUX", "TMUX_PANE"];

/// What a Claude Code sets for its children (2.1.332): an agent that found these would take itself for such a child.
const PARENT_AGENT_VARIABLES: [&str; 14] = [
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_NOTES_DIR",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_PARENT_SESSION_ID",
    "CLAUDE_EFFORT",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PID",
    "CLAUDE_PLUGIN_ROOT",
    "CLAUDE_PROJECT_DIR",
];

/// Whole families: the messaging socket and its key, the daemon's own doors and settings, systemd's calls to the daemon.
const SCRUBBED_PREFIXES: [&str; 4] = ["CLAUDE_CODE_MESSAGING_", "CCMUX_", "WATCHDOG_", "LISTEN_"];

/// systemd's and the shell's words for one process only.
const PROCESS_VARIABLES: [&str; 13] = [
    // Our own mark: an agent's, not of what is started in it.
    "CCMUX",
    "NOTIFY_SOCKET",
    "MAINPID",
    "MANAGERPID",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "SYSTEMD_EXEC_PID",
    "MEMORY_PRESSURE_WATCH",
    "MEMORY_PRESSURE_WRITE",
    "FDSTORE",
    "CREDENTIALS_DIRECTORY",
    "OLDPWD",
    "_",
];

/// Signals that a parent may have left ignored.
const RESET_SIGNALS: [i32; 14] = [
    SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGCHLD, SIGCONT, SIGTSTP, SIGTTIN,
    SIGTTOU, SIGWINCH,
];

/// How to become the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchFile {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The complete environment; the pane adds what the terminal says about itself.
    pub env: BTreeMap<String, String>,
    /// Where to start it.
    pub cwd: PathBuf,
    /// The soft limit of open files. A tmux server that the daemon started has the daemon's own, higher one, and some
    /// programs go through all descriptors that they might have.
    pub descriptors: Option<u64>,
}

/// Why the agent could not be started; printed in the pane.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The file can't be opened or read.
    #[error("cannot read the launch file {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not what the daemon wrote.
    #[error("the launch file {} is refused: {why}", .path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The working directory can't be entered.
    #[error("cannot enter the working directory {}: {source}; see agent.cwd", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No such program.
    #[error("cannot find the agent's program {program:?} in PATH ({path_variable}); see agent.command")]
    NotFound {
        /// What was looked for.
        program: String,
        /// Where.
        path_variable: String,
    },
    /// The program can't be run.
    #[error("cannot run {}: {source}; see agent.command", .program.display())]
    Exec {
        /// What was run.
        program: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl LaunchError {
    /// As shells do: 127 there is no such program, 126 it can't be run.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            _ => 126,
        }
    }
}

/// The daemon's environment without what is not the agent's: marks of a parent Claude Code, the terminal that the
/// daemon was started in, systemd's words for the daemon, `CCMUX_*`. The user's own settings (`CLAUDE_CONFIG_DIR`,
/// `CLAUDE_CODE_DISABLE_*`, `ANTHROPIC_*`, ...) stay. What is not UTF-8 can't be handed over and is left out.
pub fn scrubbed_environment(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> BTreeMap<String, String> {
    let utf8 =
        environment.into_iter().filter_map(|(name, value)| match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => Some((name, value)),
            (name, _) => {
                tracing::warn!(event = "agent.variable_dropped", ?name, why = "not UTF-8");
                None
            }
        });
    utf8.filter(|(name, _)| !is_scrubbed(name)).collect()
}

fn is_scrubbed(name: &str) -> bool {
    PARENT_AGENT_VARIABLES.contains(&name)
        || PROCESS_VARIABLES.contains(&name)
        || TERMINAL_VARIABLES.contains(&name)
        || SCRUBBED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Writes the file under a random name (0600) into `dir`, and removes those that were never read.
pub fn write(dir: &Path, launch: &LaunchFile) -> io::Result<PathBuf> {
    remove_unread(dir);
    let random = || RandomState::new().build_hasher().finish();
    let path = dir.join(format!("launch-{:016x}{:016x}.json", random(), random()));
    let bytes = serde_json::to_vec(launch)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(&path)?;
    file.write_all(&bytes)?;
    Ok(path)
}

/// Files of starts that never came to read them hold an environment: they go. One agent a state directory, so none of
/// them is waited for.
fn remove_unread(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("launch-") && name.ends_with(".json") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Becomes the agent: returns only if that fails. The file is gone afterwards, unless it was not ours.
pub fn run_launch(path: &Path) -> LaunchError {
    let launch = read_and_unlink(path);
    if let (Ok(_), Some(state_dir)) = (&launch, path.parent())
        && let Err(error) = record::note_launch(state_dir)
    {
        // The agent matters more: it is known by other signs too.
        eprintln!("ccmuxd launch: {}: {error}", state_dir.display());
    }
    match launch.and_then(|launch| become_agent(&launch)) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

fn read_and_unlink(path: &Path) -> Result<LaunchFile, LaunchError> {
    let read_error = |source| LaunchError::Read { path: path.to_owned(), source };
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).map_err(read_error)?;
    let refused = |why: String| LaunchError::Refused { path: path.to_owned(), why };
    check(&file).map_err(read_error)?.map_err(refused)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(read_error)?;
    fs::remove_file(path).map_err(read_error)?;
    serde_json::from_slice(&bytes).map_err(|error| refused(error.to_string()))
}

/// Checked on the opened descriptor, so that nothing can be put in its place.
fn check(file: &File) -> io::Result<Result<(), String>> {
    let found = file.metadata()?;
    let own = nix::unistd::geteuid().as_raw();
    let mode = found.permissions().mode() & 0o7777;
    Ok(match () {
        () if !found.is_file() => Err("it is not a regular file".to_owned()),
        () if found.uid() != own => Err(format!("it belongs to user {}", found.uid())),
        () if mode != 0o600 => Err(format!("its mode is {mode:04o}, not 0600")),
        () if found.nlink() != 1 => Err(format!("it has {} links", found.nlink())),
        () => Ok(()),
    })
}

fn become_agent(launch: &LaunchFile) -> Result<std::convert::Infallible, LaunchError> {
    let cwd = &launch.cwd;
    std::env::set_current_dir(cwd).map_err(|source| LaunchError::Directory { path: cwd.clone(), source })?;
    let (program, arguments) = launch.argv.split_first().ok_or_else(|| LaunchError::NotFound {
        program: String::new(),
        path_variable: "the command is empty".to_owned(),
    })?;
    let found = look_up(program, launch.env.get("PATH").map_or("", String::as_str))?;
    give_signals_their_defaults();
    limit_descriptors(launch.descriptors);
    let source = Command::new(&found)
        .arg0(program)
        .args(arguments)
        .env_clear()
        .envs(environment(launch, |name| std::env::var(name).ok()))
        .exec();
    Err(LaunchError::Exec { program: found, source })
}

/// Only ever lowers it: whoever started the tmux server may have had a reason for less.
fn limit_descriptors(to: Option<u64>) {
    let limit = getrlimit(Resource::Nofile);
    if let Some(to) = to.filter(|to| limit.current.is_none_or(|now| *to < now)) {
        // It can't fail: less than before is always allowed.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(to), ..limit });
    }
}

/// exec() empties the signal mask and gives SIGPIPE its default back, but leaves ignored what was ignored, as it is for
/// whatever comes from a `nohup`. A signal that is handled has its default again after exec(): so each is, until then.
fn give_signals_their_defaults() {
    let never_read = Arc::new(AtomicBool::new(false));
    for signal in RESET_SIGNALS {
        // What can't be handled can't be ignored either.
        let _ = signal_hook::flag::register(signal, Arc::clone(&never_read));
    }
}

/// The file's environment, with what the pane says about its terminal.
fn environment(launch: &LaunchFile, own: impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let mut env = launch.env.clone();
    for name in TERMINAL_VARIABLES {
        env.remove(name);
        env.extend(own(name).map(|value| (name.to_owned(), value)));
    }
    // A shell's word for where we are, which programs believe if it names the same directory.
    env.insert("PWD".to_owned(), launch.cwd.to_string_lossy().into_owned());
    env
}

/// A name with a slash is a path; others are looked for in PATH, where an empty entry is no directory to us.
fn look_up(program: &str, path_variable: &str) -> Result<PathBuf, LaunchError> {
    if program.contains('/') {
        return Ok(PathBuf::from(program));
    }
    find(program, path_variable).ok_or_else(|| LaunchError::NotFound {
        program: program.to_owned(),
        path_variable: path_variable.to_owned(),
    })
}

#[cfg(test)]
#[path = "launch_tests.rs"]
mod tests;
