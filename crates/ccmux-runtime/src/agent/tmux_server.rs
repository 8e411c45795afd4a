//! The tmux server that the agent runs in, by its identity: ccmux can ask it to recreate its socket.
//!
//! SIGUSR1 ends every process that does not expect it, so number, start time and executable are compared after the
//! process is held by a pidfd, and the signal goes through that.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::process::start_time;

/// A tmux server that can't be mistaken for a later process with its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TmuxServer {
    /// Its process.
    pub pid: i32,
    /// When that was started, in the system's own unit.
    pub start_time: u64,
    /// The file that it executes.
    pub program: PathBuf,
}

impl TmuxServer {
    /// That process, if it executes a file that is called tmux.
    pub fn of(pid: i32) -> Option<Self> {
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let is_tmux = program.file_name()?.to_string_lossy().starts_with("tmux");
        is_tmux.then_some(Self { pid, start_time: start_time(pid)?, program })
    }

    /// Whether it still lives. After an upgrade the system adds ` (deleted)` to the file's name.
    pub fn lives(&self) -> bool {
        let plain = |path: &PathBuf| path.to_string_lossy().trim_end_matches(" (deleted)").to_owned();
        Self::of(self.pid).is_some_and(|now| {
            now.start_time == self.start_time && plain(&now.program) == plain(&self.program)
        })
    }

    /// Asks the server to recreate its socket. Returns false if the server is gone or the signal could not be sent.
    #[cfg(target_os = "linux")]
    pub fn renew_socket(&self) -> bool {
        use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
        let Some(pid) = Pid::from_raw(self.pid.max(0)) else { return false };
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        // After the handle: had the number been used again in between, the handle would already be dead.
        self.lives() && pidfd_send_signal(&process, Signal::USR1).is_ok()
    }

    /// There is no handle that would make it safe.
    #[cfg(not(target_os = "linux"))]
    pub fn renew_socket(&self) -> bool {
        false
    }

    /// What a human can do where it did not help.
    pub fn remedy(&self) -> String {
        format!(
            "tmux server {0} still runs, and nobody answers on its socket: `kill -USR1 {0}` has it make the socket anew \
             (or ccmuxd was started with another TMUX_TMPDIR)",
            self.pid
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault 44.
    #[test]
    fn what_is_no_tmux_or_another_process_gets_no_signal() {
        let own = std::process::id().cast_signed();
        assert_eq!(TmuxServer::of(own), None);
        let program = std::env::current_exe().unwrap();
        let recorded = TmuxServer { pid: own, start_time: start_time(own).unwrap(), program };
        assert!(!recorded.lives() && !recorded.renew_socket(), "this test would have ended");
    }
}
