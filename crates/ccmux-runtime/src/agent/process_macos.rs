//! A process where there is neither pidfd nor `/proc`: its end by kqueue, everything else by ps(1).
//!
//! ```text
//! exit ─► kqueue, EVFILT_PROC        start, parent, program, environment ─► ps -o ... -p PID
//! ```
//!
//! A start time is known to the second. Between the look at it and a signal the number may become another process's: that
//! window, of milliseconds, can't be closed here. ps shows the environment of the user's own processes only, and of no
//! program that belongs to the system.

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::event::{EventFilter, FilterFlag};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::process::{EndSignal, ProcessError};
use crate::kqueue::Queue;

/// Only where the queue itself fails.
const POLL: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct Handle(Queue);

impl Handle {
    pub(super) fn open(pid: i32) -> Result<Self, ProcessError> {
        let ident = usize::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(ProcessError::Gone { pid })?;
        let watch =
            |queue: Queue| queue.add(ident, EventFilter::EVFILT_PROC, FilterFlag::NOTE_EXIT).map(|()| queue);
        Queue::new().and_then(watch).map(Self).map_err(|error| explain("follow", pid, error))
    }

    pub(super) async fn exited(&self, pid: i32, started: u64) {
        while start_time(pid) == Some(started) {
            if self.0.wait().await.is_err() {
                tokio::time::sleep(POLL).await;
            }
        }
    }

    pub(super) fn kill(&self, pid: i32, signal: EndSignal) -> Result<(), ProcessError> {
        let signal = match signal {
            EndSignal::Terminate => Signal::SIGTERM,
            EndSignal::Kill => Signal::SIGKILL,
        };
        kill(Pid::from_raw(pid), signal).map_err(|errno| explain("signal", pid, errno.into()))
    }
}

fn explain(what: &'static str, pid: i32, source: io::Error) -> ProcessError {
    match source.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ESRCH) => ProcessError::Gone { pid },
        _ => ProcessError::Io { what, pid, source },
    }
}

/// Only its parent is told.
pub(super) fn wait_status(_pid: i32, _start_time: u64) -> Option<i32> {
    None
}

/// The second of its start as a number that is the same for the same second. `None` if it is gone or only waits to be
/// collected.
pub(super) fn start_time(pid: i32) -> Option<u64> {
    let line = ps(pid, &["-o", "stat=", "-o", "lstart="])?;
    let (state, start) = line.split_once(char::is_whitespace)?;
    let start = start.split_whitespace().flat_map(str::bytes);
    // FNV-1a: what is compared is only whether it is the same.
    let number = start.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (!state.starts_with('Z')).then_some(number)
}

pub(super) fn parent_of(pid: i32) -> Option<i32> {
    ps(pid, &["-o", "ppid="])?.parse().ok()
}

pub(super) fn resident_kib(pid: i32) -> Option<u64> {
    ps(pid, &["-o", "rss="])?.parse().ok()
}

/// The file that it executes; a login shell's name begins with a dash.
pub(super) fn programs(pid: i32) -> Vec<PathBuf> {
    let name = ps(pid, &["-o", "comm="]);
    name.map(|name| PathBuf::from(name.trim_start_matches('-'))).into_iter().collect()
}

pub(super) fn has_variable(pid: i32, wanted: &str) -> bool {
    ps(pid, &["-E", "-ww", "-o", "command="])
        .is_some_and(|line| line.split_whitespace().any(|word| word == wanted))
}

/// In one language and zone, so that the same start reads the same.
fn ps(pid: i32, columns: &[&str]) -> Option<String> {
    let mut command = Command::new("/bin/ps");
    command.args(columns).args(["-p", &pid.to_string()]).env("LC_ALL", "C").env("TZ", "UTC");
    let output = command.output().ok().filter(|output| output.status.success())?;
    let line = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!line.is_empty()).then_some(line)
}
