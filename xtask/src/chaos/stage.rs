//! Where the storm rages: a directory of its own with a home, a daemon, a tmux server and the demo agent in it. Nothing
//! outside is touched, and every process is ended by its pid.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::disk::Disk;
use super::strokes::Faults;

const PROGRAMS: [&str; 4] = ["ccmuxd", "ccmux", "ccmux-hook", "ccmux-demo-agent"];
/// How often the daemon's size is looked at, and how long apart, until the least counts.
const SAMPLES: u32 = 100;
const BETWEEN_SAMPLES: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The daemon's log is kept in two files of that size.
const LOG_BYTES: u64 = 8 << 20;
/// How long the agent may take to leave after its terminal is gone.
const LEAVE_LIMIT: Duration = Duration::from_secs(3);

/// What a daemon has open and how big it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    pub descriptors: usize,
    pub rss_kib: u64,
}

/// Everything that may be killed, and where it lives.
#[derive(Debug)]
pub struct Stage {
    // Before the directory that it is mounted in.
    pub disk: Disk,
    dir: TempDir,
    daemon: Option<Child>,
    events: (Sender<String>, Receiver<String>),
    pub killed_agents: BTreeSet<i32>,
    pub keep: bool,
}

impl Stage {
    /// Copies the programs, so that a build meanwhile changes nothing.
    pub fn new(binaries: &Path, daemon: &Path, mebibytes: Option<u64>) -> anyhow::Result<Self> {
        let mut builder = tempfile::Builder::new();
        let dir = builder.prefix("ccmux-chaos-").permissions(Permissions::from_mode(0o700)).tempdir();
        let dir = dir.context("can't make a temporary directory")?;
        let root = dir.path();
        for name in ["bin", "home/proj", "home/.config/ccmux", "journal", "state", "tmux"] {
            fs::create_dir_all(root.join(name)).with_context(|| format!("can't make {name}"))?;
        }
        fs::set_permissions(root.join("state"), Permissions::from_mode(0o700))
            .context("can't close state")?;
        for name in PROGRAMS {
            let from = if name == "ccmuxd" { daemon.to_owned() } else { binaries.join(name) };
            fs::copy(&from, root.join("bin").join(name))
                .with_context(|| format!("can't copy {}", from.display()))?;
        }
        let disk = Disk::at(&root.join("state"), mebibytes);
        let stage = Self {
            disk,
            dir,
            daemon: None,
            events: mpsc::channel(),
            killed_agents: BTreeSet::new(),
            keep: false,
        };
        fs::write(stage.path("home/.config/ccmux/ccmux.toml"), stage.settings())
            .context("can't write settings")?;
        Ok(stage)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn settings(&self) -> String {
        let (journal, faults) = (self.path("journal"), self.path("faults"));
        format!(
            "[proxy]\nexpect = \"\"\n\n[backoff]\ninitial = 0.2\ncap = 1\n\n[limits]\nsubscriber_bytes = 131072\n\n[agent.env]\nCCMUX_DEMO_START_MS = \"150\"\n\
             CCMUX_DEMO_JOURNAL = {journal:?}\nCCMUX_DEMO_FAULTS = {faults:?}\n"
        )
    }

    /// The agent that starts next is like that.
    pub fn set_faults(&self, faults: &Faults) -> anyhow::Result<()> {
        let beside = self.path("faults.new");
        fs::write(&beside, faults.to_string()).context("can't write the faults")?;
        fs::rename(&beside, self.path("faults")).context("can't rename the faults")
    }

    /// A program in this environment and in no other.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let at = |name: &str| self.path(name).into_os_string();
        command.env_clear().current_dir(self.path("home/proj")).stdin(Stdio::null());
        let own: [(&str, OsString); 15] = [
            ("PATH", path),
            ("HOME", at("home")),
            ("LANG", "C.UTF-8".into()),
            ("TERM", "xterm-256color".into()),
            ("TMUX_TMPDIR", at("tmux")),
            ("CCMUX_RUNTIME_DIR", at("run")),
            ("CCMUX_STATE_DIR", at("state")),
            ("CCMUX_TMUX_SOCKET", "chaos".into()),
            ("CCMUX_LOG_FILE", at("log/ccmux.log")),
            ("CCMUX_HOOK_SCRIPT", at("hook/ccmux-hook")),
            ("CCMUX_AGENT_CWD", at("home/proj")),
            ("CCMUX_AGENT_COMMAND", at("bin/ccmux-demo-agent")),
            ("CCMUX_IDLE_THRESHOLD", "0".into()),
            ("CCMUX_MCP_PORT", "0".into()),
            ("CCMUX_NOTIFICATION_ENABLED", "0".into()),
        ];
        command.envs(own);
        command
    }

    /// Starts a daemon, out of reach of the terminal's Ctrl-C. A file that may not grow must fail, not kill: the signal
    /// is ignored, which a shell passes on.
    pub fn start_daemon(&mut self) -> anyhow::Result<()> {
        self.rotate_log()?;
        let mut command = self.command("/bin/sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\""]).arg(self.path("bin/ccmuxd"));
        command.stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let mut daemon = command.spawn().context("can't start ccmuxd")?;
        self.disk.daemon_started(daemon.id())?;
        if let Some(stderr) = daemon.stderr.take() {
            listen(stderr, &self.path("daemon.log"), self.events.0.clone())?;
        }
        self.daemon = Some(daemon);
        Ok(())
    }

    fn rotate_log(&self) -> anyhow::Result<()> {
        let log = self.path("daemon.log");
        if log.metadata().is_ok_and(|found| found.len() > LOG_BYTES) {
            fs::rename(&log, self.path("daemon.log.1")).context("can't rotate the log")?;
        }
        Ok(())
    }

    pub fn daemon_pid(&self) -> u32 {
        self.daemon.as_ref().map_or(0, Child::id)
    }

    /// How the daemon ended, if it did so by itself.
    pub fn ended_by_itself(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        let Some(daemon) = &mut self.daemon else { return Ok(None) };
        let status = daemon.try_wait().context("can't look after ccmuxd")?;
        if status.is_some() {
            self.daemon = None;
        }
        Ok(status)
    }

    /// SIGKILL, and gone.
    pub fn kill_daemon(&mut self) -> anyhow::Result<()> {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().and_then(|()| daemon.wait()).context("can't kill ccmuxd")?;
        }
        Ok(())
    }

    /// Waits for an event in the daemon's log that comes from now on; false after the limit.
    pub fn wait_for_event(&mut self, event: &str, limit: Duration) -> bool {
        while self.events.1.try_recv().is_ok() {}
        let until = Instant::now() + limit;
        while let Ok(told) = self.events.1.recv_timeout(until.saturating_duration_since(Instant::now())) {
            if told == event {
                return true;
            }
        }
        false
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = self.command("tmux");
        let output = tmux.args(["-L", "chaos"]).args(arguments).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
    }

    /// The agent's pid, if it is an agent of ours.
    pub fn agent(&self) -> Option<i32> {
        let pid: i32 = self.tmux(&["display-message", "-p", "-t", "=ccmux:", "#{pane_pid}"]).parse().ok()?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        name.starts_with("ccmux-demo").then_some(pid)
    }

    /// SIGKILL; false if there was none.
    pub fn kill_agent(&mut self) -> bool {
        let Some(pid) = self.agent() else { return false };
        self.killed_agents.insert(pid);
        kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok()
    }

    /// SIGKILL to the server; the agent's terminal goes with it.
    pub fn kill_tmux(&mut self) -> bool {
        let agent = self.agent();
        let Ok(server) = self.tmux(&["display-message", "-p", "#{pid}"]).parse() else { return false };
        self.killed_agents.extend(agent);
        kill(Pid::from_raw(server), Signal::SIGKILL).is_ok()
    }

    /// The least of ten seconds: a tmux command that runs just now, or a subscriber that is let go, is no leak.
    pub fn settled_size(&self) -> Size {
        let sizes = (0..SAMPLES).map(|_| {
            thread::sleep(BETWEEN_SAMPLES);
            self.daemon_size()
        });
        sizes.min_by_key(|size| size.descriptors).unwrap_or_else(|| self.daemon_size())
    }

    fn daemon_size(&self) -> Size {
        let proc = PathBuf::from(format!("/proc/{}", self.daemon_pid()));
        let descriptors = fs::read_dir(proc.join("fd")).map_or(0, Iterator::count);
        let status = fs::read_to_string(proc.join("status")).unwrap_or_default();
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
        Size { descriptors, rss_kib: rss.and_then(|rss| rss.trim().parse().ok()).unwrap_or(0) }
    }

    /// Keeps what a person would look at, and what the policy was told lately.
    pub fn take_picture(&self, number: usize) -> anyhow::Result<()> {
        let folder = self.path(&format!("pictures/{number}"));
        fs::create_dir_all(&folder).context("can't make a folder for pictures")?;
        fs::write(folder.join("picture"), self.picture()).context("can't write a picture")?;
        for name in ["timeline.log", "timeline.log.1"] {
            // The first has no predecessor.
            let _ = fs::copy(self.path("state").join(name), folder.join(name));
        }
        Ok(())
    }

    /// What a person would look at.
    pub fn picture(&self) -> String {
        let why = self.command(self.path("bin/ccmux")).arg("why").output();
        let why = why.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let screen = self.tmux(&["capture-pane", "-p", "-t", "=ccmux:"]);
        let screen: Vec<&str> = screen.lines().filter(|line| !line.trim().is_empty()).collect();
        format!("--- ccmux why\n{}\n--- the agent's screen\n{}", why.trim_end(), screen.join("\n"))
    }
}

/// Reads the daemon's stderr: to the log, and the events to whoever waits.
fn listen(stderr: ChildStderr, log: &Path, events: Sender<String>) -> anyhow::Result<()> {
    let file = fs::OpenOptions::new().create(true).append(true).open(log);
    let mut file = file.with_context(|| format!("can't write {}", log.display()))?;
    thread::spawn(move || {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            let event = line.split_once("\"event\":\"").and_then(|(_, rest)| rest.split_once('"'));
            if let Some((event, _)) = event {
                let _ = events.send(event.to_owned());
            }
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    });
    Ok(())
}

impl Drop for Stage {
    fn drop(&mut self) {
        let agent = self.agent();
        let _ = self.kill_daemon();
        self.tmux(&["kill-server"]);
        let until = Instant::now() + LEAVE_LIMIT;
        while agent.is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists()) && Instant::now() < until {
            thread::sleep(LOOK_EVERY);
        }
        if self.keep {
            // The state directory may be a tmpfs that is about to go.
            let _ =
                Command::new("cp").arg("-a").arg(self.path("state")).arg(self.path("state-kept")).status();
            self.dir.disable_cleanup(true);
            println!(
                "kept: {} (the databases in state-kept, the log in daemon.log)",
                self.dir.path().display()
            );
        }
    }
}
