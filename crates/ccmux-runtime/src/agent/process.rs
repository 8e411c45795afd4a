//! A process by its identity, not by its number alone: pid and start time.
//!
//! ```text
//! let agent = AgentProcess::open(pane.pid)?;
//! agent.exited().await;          // pidfd: no polling, no child needed
//! is_descendant(hook_pid, agent.pid(), 2)
//! ```
//!
//! macOS has kqueue in place of pidfd, and `ps` in place of `/proc`: `process_macos`.

use std::io;

use ccmux_policy::event::ExitStatus;

#[cfg(not(target_os = "linux"))]
use super::process_macos as system;
#[cfg(target_os = "linux")]
use linux as system;

/// Why a process can't be followed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There is none of that number, or it has ended.
    #[error("there is no process {pid}")]
    Gone {
        /// Its number.
        pid: i32,
    },
    /// The system said no.
    #[error("can't {what} process {pid}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Its number.
        pid: i32,
        /// The system's answer.
        source: io::Error,
    },
}

/// What ccmux has to say to the agent's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndSignal {
    /// SIGTERM: end in order.
    Terminate,
    /// SIGKILL: end at once.
    Kill,
}

/// A running process that can't be mistaken for a later one with its number.
#[derive(Debug)]
pub struct AgentProcess {
    pid: i32,
    start_time: u64,
    handle: system::Handle,
}

impl AgentProcess {
    /// Follows that process. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(pid: i32) -> Result<Self, ProcessError> {
        let handle = system::Handle::open(pid)?;
        // After the handle: had the number been used again in between, the handle would already be dead.
        let start_time = start_time(pid).ok_or(ProcessError::Gone { pid })?;
        Ok(Self { pid, start_time, handle })
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// When it was started, in the system's own units: with the number, its identity.
    pub fn start_time(&self) -> u64 {
        self.start_time
    }

    /// Returns when the process has ended; at once if it already has. How it ended is the terminal's to tell.
    pub async fn exited(&self) {
        self.handle.exited(self.pid, self.start_time).await;
    }

    /// How it ended, as long as the system still keeps that for its parent. `None`: the terminal knows, or will.
    pub fn ended_by(&self) -> Option<ExitStatus> {
        system::wait_status(self.pid, self.start_time).map(read_wait_status)
    }

    /// Sends it a signal, and never to a later process with its number.
    ///
    /// # Errors
    /// If it has ended or is not ours.
    pub fn kill(&self, signal: EndSignal) -> Result<(), ProcessError> {
        self.handle.kill(self.pid, signal)
    }
}

/// Whether that process lives and is the one that was started then.
pub fn is_same(pid: i32, started: u64) -> bool {
    start_time(pid) == Some(started)
}

/// When a living process was started: on Linux field 22 of `/proc/<pid>/stat`, clock ticks since boot. `None` if there
/// is no such process or it has ended and only waits to be collected.
pub fn start_time(pid: i32) -> Option<u64> {
    system::start_time(pid)
}

/// As waitpid(2) tells it.
fn read_wait_status(status: i32) -> ExitStatus {
    match status & 0x7f {
        0 => ExitStatus::Code((status >> 8) & 0xff),
        signal => ExitStatus::Signal(signal),
    }
}

/// How many bytes of memory it takes: its resident set, without its children.
pub fn resident_bytes(pid: i32) -> Option<u64> {
    system::resident_kib(pid).map(|kib| kib * 1024)
}

/// Whether a process was started with a variable of that value.
pub fn has_variable(pid: i32, name: &str, value: &str) -> bool {
    system::has_variable(pid, &format!("{name}={value}"))
}

/// Programs that run what they read.
const SHELLS: [&str; 14] = [
    "sh", "ash", "bash", "busybox", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "tcsh", "xonsh",
    "zsh",
];

/// Whether that process is a shell, by the file that it executes and not by a name that it gave itself; where the daemon's
/// sandbox hides that file, by what else the system says of it: one sign of a shell is enough.
pub fn is_shell(pid: i32) -> bool {
    system::programs(pid).iter().any(|program| {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        SHELLS.contains(&name.trim_end_matches(" (deleted)"))
    })
}

/// The parent of a process.
pub fn parent_of(pid: i32) -> Option<i32> {
    system::parent_of(pid)
}

/// Whether `ancestor` is a parent (1 level), or grandparent (2), ... of `pid`. A hook is the agent's child, or its
/// grandchild where a shell runs it.
pub fn is_descendant(pid: i32, ancestor: i32, levels: u8) -> bool {
    let mut current = pid;
    for _ in 0..levels {
        match parent_of(current) {
            Some(parent) if parent == ancestor => return true,
            Some(parent) if parent > 1 => current = parent,
            _ => return false,
        }
    }
    false
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsStr;
    use std::fs;
    use std::io;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    use super::{EndSignal, ProcessError};
    use crate::readable::Readable;

    #[derive(Debug)]
    pub(super) struct Handle(Readable);

    impl Handle {
        pub(super) fn open(pid: i32) -> Result<Self, ProcessError> {
            // `from_raw` panics at a negative number.
            let number = Pid::from_raw(pid.max(0)).ok_or(ProcessError::Gone { pid })?;
            let pidfd =
                pidfd_open(number, PidfdFlags::NONBLOCK).map_err(|errno| explain("follow", pid, errno))?;
            let readable = Readable::new(pidfd);
            readable.map(Self).map_err(|source| ProcessError::Io { what: "follow", pid, source })
        }

        pub(super) async fn exited(&self, pid: i32, _start_time: u64) {
            if let Err(error) = self.0.ready().await {
                tracing::warn!(event = "agent.unwatched", pid, %error);
            }
        }

        pub(super) fn kill(&self, pid: i32, signal: EndSignal) -> Result<(), ProcessError> {
            let signal = match signal {
                EndSignal::Terminate => Signal::TERM,
                EndSignal::Kill => Signal::KILL,
            };
            pidfd_send_signal(&self.0, signal).map_err(|errno| explain("signal", pid, errno))
        }
    }

    fn explain(what: &'static str, pid: i32, errno: rustix::io::Errno) -> ProcessError {
        match errno {
            rustix::io::Errno::SRCH => ProcessError::Gone { pid },
            errno => ProcessError::Io { what, pid, source: io::Error::from(errno) },
        }
    }

    pub(super) fn start_time(pid: i32) -> Option<u64> {
        let stat = read_stat(pid)?;
        let ended = matches!(field(&stat, 3)?, "Z" | "X" | "x");
        if ended { None } else { field(&stat, 22)?.parse().ok() }
    }

    /// Field 52 of a process that has ended and waits to be collected. 0 is an answer, too, where the system refuses one
    /// (proc(5)), so it counts as none.
    pub(super) fn wait_status(pid: i32, start_time: u64) -> Option<i32> {
        let stat = read_stat(pid)?;
        let is_it = field(&stat, 3)? == "Z" && field(&stat, 22)?.parse() == Ok(start_time);
        field(&stat, 52)?.parse().ok().filter(|status| is_it && *status != 0)
    }

    pub(super) fn resident_kib(pid: i32) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    }

    pub(super) fn parent_of(pid: i32) -> Option<i32> {
        field(&read_stat(pid)?, 4)?.parse().ok().filter(|parent| *parent > 0)
    }

    fn read_stat(pid: i32) -> Option<String> {
        let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) fn has_variable(pid: i32, wanted: &str) -> bool {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    }

    /// The file that it executes. In a sandbox that hides it: its first word and the name that the system gave it.
    pub(super) fn programs(pid: i32) -> Vec<PathBuf> {
        match fs::read_link(format!("/proc/{pid}/exe")) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => names(pid),
            program => program.ok().into_iter().collect(),
        }
    }

    /// Neither alone is enough: a shell can be started with any first word, and the system calls a script's shell by the
    /// script's name.
    pub(super) fn names(pid: i32) -> Vec<PathBuf> {
        let given = fs::read_to_string(format!("/proc/{pid}/comm")).ok();
        let given = given.map(|name| PathBuf::from(name.trim_end()));
        first_word(pid).into_iter().chain(given).collect()
    }

    /// Of a script's process it is the interpreter, of a login shell it begins with a `-`.
    pub(super) fn first_word(pid: i32) -> Option<PathBuf> {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let word = line.split(|byte| *byte == 0).next()?;
        Some(OsStr::from_bytes(word.strip_prefix(b"-").unwrap_or(word)).into())
    }

    /// Field `number` (3 or more, as in proc(5)). The second, the program's name in parentheses, may hold spaces and
    /// parentheses itself; nothing behind it does.
    pub(super) fn field(stat: &str, number: usize) -> Option<&str> {
        let (_, rest) = stat.rsplit_once(')')?;
        rest.split_ascii_whitespace().nth(number.checked_sub(3)?)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn sleeper() -> std::process::Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    #[tokio::test]
    async fn an_exit_is_seen_before_anybody_collects_the_process() {
        let mut child = sleeper();
        let agent = AgentProcess::open(child.id() as i32).unwrap();
        assert!(is_same(agent.pid(), agent.start_time()));
        assert!(timeout(Duration::from_millis(50), agent.exited()).await.is_err(), "it lives");
        agent.kill(EndSignal::Kill).unwrap();
        timeout(LIMIT, agent.exited()).await.unwrap();
        assert!(!is_same(agent.pid(), agent.start_time()), "a dead process is nobody");
        child.wait().unwrap();
        timeout(LIMIT, agent.exited()).await.unwrap();
        assert!(matches!(agent.kill(EndSignal::Terminate), Err(ProcessError::Gone { .. })));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn how_it_ended_is_known_until_it_is_collected_but_for_a_zero() {
        let ends = [
            ("exit 3", Some(ExitStatus::Code(3))),
            ("kill -9 $$", Some(ExitStatus::Signal(9))),
            ("exit 0", None),
        ];
        for (script, expected) in ends {
            let mut shell = Command::new("sh");
            let mut shell =
                shell.args(["-c", &format!("read line; {script}")]).stdin(Stdio::piped()).spawn().unwrap();
            let agent = AgentProcess::open(shell.id() as i32).unwrap();
            assert_eq!(agent.ended_by(), None, "it lives");
            drop(shell.stdin.take());
            timeout(LIMIT, agent.exited()).await.unwrap();
            assert_eq!(agent.ended_by(), expected, "{script}");
            let later = AgentProcess { start_time: agent.start_time() + 1, ..agent };
            assert_eq!(later.ended_by(), None, "another process of that number");
            shell.wait().unwrap();
            assert_eq!(later.ended_by(), None);
        }
    }

    #[tokio::test]
    async fn a_process_that_is_gone_is_not_followed() {
        let mut child = sleeper();
        child.kill().unwrap();
        child.wait().unwrap();
        for pid in [child.id() as i32, 0, -1] {
            assert!(matches!(AgentProcess::open(pid), Err(ProcessError::Gone { .. })), "{pid}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_shell_is_known_by_its_first_word_too() {
        let mut login = Command::new("sh");
        let mut login =
            login.arg0("-sh").args(["-c", "read line; exit"]).stdin(Stdio::piped()).spawn().unwrap();
        // Not before it is the shell.
        while linux::first_word(login.id() as i32) != Some("sh".into()) {
            std::thread::yield_now();
        }
        drop(login.stdin.take());
        login.wait().unwrap();
        assert_eq!(linux::first_word(-1), None);
    }

    /// Field fault 29. What the daemon sees in its sandbox.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_shell_under_another_first_word_or_a_scripts_name_is_a_shell_in_the_sandbox_too() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("claude");
        std::fs::write(&script, "#!/bin/sh\nread line; exit\n").unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut disguised = Command::new("sh");
        disguised.arg0("claude").args(["-c", "read line; exit"]);
        let mut started_by_its_shell = Command::new("sh");
        started_by_its_shell.args(["-c", "exec \"$0\"", script.to_str().unwrap()]);
        for mut command in [disguised, started_by_its_shell] {
            let mut shell = command.stdin(Stdio::piped()).spawn().unwrap();
            let names = || linux::names(shell.id() as i32);
            let until = std::time::Instant::now() + LIMIT;
            // Not before it is the shell; which of the two says so differs.
            while !["claude", "sh"].iter().all(|name| names().iter().any(|one| one.ends_with(name))) {
                assert!(std::time::Instant::now() < until, "{:?}", names());
                std::thread::yield_now();
            }
            drop(shell.stdin.take());
            shell.wait().unwrap();
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_shell_is_known_by_what_it_executes() {
        let mut shell = Command::new("sh");
        let mut shell =
            shell.arg0("claude").args(["-c", "read line; exit"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut sleeper = sleeper();
        assert!(is_shell(shell.id() as i32));
        assert!(!is_shell(sleeper.id() as i32) && !is_shell(-1));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }

    #[test]
    fn a_process_has_a_size_as_long_as_it_lives() {
        let own = resident_bytes(std::process::id() as i32).unwrap();
        assert!((1 << 20..1 << 40).contains(&own), "{own}");
        assert_eq!(resident_bytes(-1), None);
    }

    #[test]
    fn another_start_time_is_another_process() {
        let own = std::process::id() as i32;
        let started = start_time(own).unwrap();
        assert!(is_same(own, started));
        assert!(!is_same(own, started + 1));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_name_with_spaces_and_parentheses_shifts_no_field() {
        let stat = "7 (a) S 9 (b ) R 42 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 55271 1 1";
        assert_eq!(linux::field(stat, 3), Some("R"));
        assert_eq!(linux::field(stat, 4), Some("42"));
        assert_eq!(linux::field(stat, 22), Some("55271"));
        assert_eq!(linux::field("7 (cut off", 3), None);
    }

    #[test]
    fn ancestors_are_found_within_the_given_levels() {
        let own = std::process::id() as i32;
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 60 & echo $!; wait"]).stdout(Stdio::piped()).process_group(0);
        let mut shell = shell.spawn().unwrap();
        let grandchild: i32 = first_line(shell.stdout.take().unwrap()).parse().unwrap();
        assert!(is_descendant(shell.id() as i32, own, 1));
        assert!(!is_descendant(grandchild, own, 1));
        assert!(is_descendant(grandchild, own, 2));
        assert!(!is_descendant(own, grandchild, 2));
        let group = nix::unistd::Pid::from_raw(shell.id() as i32);
        nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL).unwrap();
        shell.wait().unwrap();
    }

    fn first_line(output: std::process::ChildStdout) -> String {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        line.trim().to_owned()
    }
}
