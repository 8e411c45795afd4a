//! Runs the engine: the terminal is its own, signals and the exit code are passed on.
//!
//! Its words reach the user as they are. Where it could not start anything (125 to 127, by podman and docker alike) a hint
//! follows.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::arguments::Engine;
use super::plan::Plan;
use crate::failure::Failure;

/// From now on signals wait to be passed on.
pub fn catch() -> Result<Signals, Failure> {
    let caught = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP]);
    caught.map_err(|error| Failure::Failed(format!("can't catch signals: {error}")))
}

/// Runs it to its end; how the agent ended.
pub fn run(plan: &Plan, mut signals: Signals) -> Result<u8, Failure> {
    let command = plan.command();
    let mut engine = Command::new(&command[0]);
    engine.args(&command[1..]);
    let failed = |error: io::Error| Failure::Failed(format!("can't follow {}: {error}", command[0]));
    let mut child = engine.spawn().map_err(|error| missing(plan.engine, &error))?;
    let pid = pid_of(&child);
    let handle = signals.handle();
    let passing = thread::spawn(move || {
        for signal in signals.forever() {
            pass(signal, pid);
        }
    });
    let ended = child.wait().map_err(failed);
    handle.close();
    drop(passing.join());
    let code = code_of(ended?);
    if let Some(hint) = hint(plan, code) {
        eprintln!("ccmux: {hint}");
    }
    Ok(code)
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Keys of the terminal reach the engine by themselves.
fn pass(signal: i32, pid: Option<Pid>) {
    let signal = match signal {
        SIGTERM => Signal::TERM,
        SIGHUP => Signal::HUP,
        _ => return,
    };
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}

/// As a shell tells it.
fn code_of(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn hint(plan: &Plan, code: u8) -> Option<String> {
    let engine = plan.engine.program();
    match code {
        125 => Some(format!(
            "{engine} could not start the container; its words are above. Does `{engine} run --rm {} true` work?",
            plan.image
        )),
        126 | 127 => Some(format!(
            "the agent could not be run in the image {}: it needs `claude`, and a C library that is not older than this \
             machine's for the programs that are mounted (or a static ccmux)",
            plan.image
        )),
        _ => None,
    }
}

/// The engine is not there.
pub fn missing(engine: Engine, error: &io::Error) -> Failure {
    let (program, other) = match engine {
        Engine::Podman => ("podman", "docker"),
        Engine::Docker => ("docker", "podman"),
    };
    Failure::Failed(format!(
        "can't run {program}: {error}: install it, or take the other one: --engine {other}"
    ))
}
