//! Where the demo plays: a temporary directory that stands in for the home, a daemon, and a tmux server of its own.
//! Nothing of it touches the user's own Claude, tmux or settings, and nothing of it stays.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;
use tempfile::TempDir;

/// How long the daemon may take to stop, its own limit being 5 s.
const STOP_LIMIT: Duration = Duration::from_secs(7);
/// How long the agent may hold on to its files after its terminal is gone.
const LEAVE_LIMIT: Duration = Duration::from_secs(3);
/// How often we look.
pub const LOOK_EVERY: Duration = Duration::from_millis(30);

/// The only variables that come from outside.
const KEPT: [&str; 8] = ["TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "SHELL", "TMUX_TMPDIR"];

/// The directory, the daemon, the tmux server.
pub struct Stage {
    dir: Option<TempDir>,
    root: PathBuf,
    binaries: PathBuf,
    /// Where the other programs are.
    path: OsString,
    tmux_socket: String,
    daemon: Option<Child>,
}

impl Stage {
    /// A stage without a daemon yet.
    pub fn new(binaries: &Path, path: &OsStr) -> anyhow::Result<Self> {
        let mut builder = tempfile::Builder::new();
        let dir = builder.prefix("ccmux-demo-").permissions(Permissions::from_mode(0o700)).tempdir();
        let dir = dir.context("can't make a temporary directory")?;
        let root = dir.path().to_owned();
        for name in ["home", "work"] {
            fs::create_dir(root.join(name))
                .with_context(|| format!("can't make {name} in {}", root.display()))?;
        }
        let tmux_socket = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (binaries, path) = (binaries.to_owned(), path.to_owned());
        Ok(Self { dir: Some(dir), root, binaries, path, tmux_socket, daemon: None })
    }

    /// The FIFOs and sockets.
    pub fn runtime_dir(&self) -> PathBuf {
        self.root.join("run")
    }

    /// The daemon's stderr: its log, and whatever else it has to say.
    pub fn log(&self) -> PathBuf {
        self.root.join("stderr.log")
    }

    /// Starts the daemon, out of reach of the terminal's Ctrl-C: we stop it ourselves.
    pub fn start_daemon(&mut self) -> anyhow::Result<()> {
        let log = File::create(self.log()).context("can't make the log")?;
        let mut daemon = self.command("ccmuxd");
        daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
        self.daemon = Some(daemon.spawn().context("can't start ccmuxd")?);
        Ok(())
    }

    /// Fails if the daemon ended by itself.
    pub fn check_daemon(&mut self) -> anyhow::Result<()> {
        if let Some(daemon) = &mut self.daemon
            && let Some(status) = daemon.try_wait().context("can't look after ccmuxd")?
        {
            self.daemon = None;
            bail!("ccmuxd ended by itself: {status}");
        }
        Ok(())
    }

    /// A command of the client.
    pub fn ccmux(&self, arguments: &[&str]) -> Command {
        let mut command = self.command("ccmux");
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// What `ccmux status --json` says; `None` while the daemon is not there.
    pub fn status(&self) -> Option<Value> {
        let output = self.ccmux(&["status", "--json"]).output().ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// What the agent's terminal shows.
    pub fn screen(&self) -> String {
        let output = self.ccmux(&["screen"]).output();
        output.map_or_else(
            |error| error.to_string(),
            |output| String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    }

    /// For a failure: the end of the log, why nothing moves, the screen as tmux has it.
    pub fn diagnosis(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(20)..].join("\n");
        let why = said(&mut self.ccmux(&["why"]));
        let screen = said(self.tmux().args(["capture-pane", "-p"]));
        let (why, screen) = (why.trim_end(), screen.trim_end());
        format!(
            "\n--- the daemon's log, its end\n{tail}\n--- ccmux why\n{why}\n--- the agent's screen\n{screen}"
        )
    }

    /// Takes everything away, and says so.
    ///
    /// # Errors
    /// If something could not be taken away, or the daemon did not stop well.
    pub fn clear(mut self) -> anyhow::Result<String> {
        let stopped = self.stop_daemon();
        let left = self.leave();
        let status = stopped?;
        left?;
        match status {
            Some(status) if !status.success() => bail!("ccmuxd did not stop well: {status}"),
            _ => {
                Ok("ccmuxd stopped with 0; the tmux server and the temporary directory are gone.".to_owned())
            }
        }
    }

    fn stop_daemon(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        let Some(mut daemon) = self.daemon.take() else {
            return Ok(None);
        };
        let pid = Pid::from_raw(i32::try_from(daemon.id()).context("a pid beyond all pids")?);
        // An error says that it has just ended: the wait below finds out.
        let _ = kill(pid, Signal::SIGTERM);
        let started = Instant::now();
        while started.elapsed() < STOP_LIMIT {
            if let Some(status) = daemon.try_wait()? {
                return Ok(Some(status));
            }
            thread::sleep(LOOK_EVERY);
        }
        daemon.kill().and_then(|()| daemon.wait()).context("can't kill ccmuxd")?;
        bail!("ccmuxd did not stop within {} s of SIGTERM and was killed", STOP_LIMIT.as_secs());
    }

    /// The tmux server and the directory go; the agent may still write for a moment after its terminal is gone.
    fn leave(&mut self) -> anyhow::Result<()> {
        let Some(dir) = self.dir.take() else { return Ok(()) };
        let _ = self.tmux().arg("kill-server").output();
        let _ = fs::remove_file(self.tmux_socket_path());
        let path = dir.keep();
        let started = Instant::now();
        while let Err(error) = fs::remove_dir_all(&path) {
            if started.elapsed() > LEAVE_LIMIT {
                return Err(error).with_context(|| format!("can't remove {}", path.display()));
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn tmux_socket_path(&self) -> PathBuf {
        let base = env::var_os("TMUX_TMPDIR").filter(|dir| !dir.is_empty()).unwrap_or_else(|| "/tmp".into());
        Path::new(&base).join(format!("tmux-{}", geteuid())).join(&self.tmux_socket)
    }

    fn tmux(&self) -> Command {
        let mut tmux = Command::new("tmux");
        self.furnish(&mut tmux);
        tmux.args(["-L", &self.tmux_socket]);
        tmux
    }

    fn command(&self, binary: &str) -> Command {
        let mut command = Command::new(self.binaries.join(binary));
        self.furnish(&mut command);
        command
    }

    /// The environment: nothing of the user's but where programs are and how to write letters.
    fn furnish(&self, command: &mut Command) {
        let kept = KEPT.iter().filter_map(|name| Some((name, env::var_os(name)?)));
        command.env_clear().envs(kept).current_dir(&self.root);
        if !speaks_utf8(&|name| env::var(name).ok()) {
            command.env("LC_ALL", "C.UTF-8");
        }
        let at = |name: &str| self.root.join(name).into_os_string();
        let agent = quoted(&self.binaries.join("ccmux-demo-agent").to_string_lossy());
        command.envs([
            ("PATH", self.path.clone()),
            ("HOME", at("home")),
            ("CCMUX_RUNTIME_DIR", at("run")),
            ("CCMUX_STATE_DIR", at("state")),
            ("CCMUX_LOG_FILE", at("ccmux.log")),
            ("CCMUX_HOOK_SCRIPT", at("ccmux-hook")),
            ("CCMUX_AGENT_CWD", at("work")),
            ("CCMUX_AGENT_COMMAND", agent.into()),
            ("CCMUX_TMUX_SOCKET", self.tmux_socket.clone().into()),
            ("CCMUX_IDLE_THRESHOLD", "0".into()),
            ("CCMUX_MCP_PORT", "0".into()),
            ("CCMUX_NOTIFICATION_ENABLED", "0".into()),
        ]);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let stopped = self.stop_daemon();
        if let Err(error) = stopped.and(self.leave()) {
            eprintln!("xtask: {error:#}");
        }
    }
}

fn said(command: &mut Command) -> String {
    let output = command.output();
    let text = |output: std::process::Output| [output.stdout, output.stderr].concat();
    output
        .map_or_else(|error| error.to_string(), |output| String::from_utf8_lossy(&text(output)).into_owned())
}

fn speaks_utf8(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| variable(name).filter(|value| !value.is_empty()));
    set.is_some_and(|value| value.to_lowercase().replace('-', "").contains("utf8"))
}

/// The agent's command is split like a shell does.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_leaves_nothing_behind() {
        let mut stage = Stage::new(Path::new("/nowhere"), OsStr::new("/usr/bin:/bin")).unwrap();
        let root = stage.root.clone();
        let daemon = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(daemon.id().try_into().unwrap());
        stage.daemon = Some(daemon);
        assert!(root.join("home").is_dir());
        drop(stage);
        assert!(!root.exists());
        assert!(kill(pid, None).is_err(), "the daemon still runs");
    }

    #[test]
    fn the_locale_is_the_first_that_is_set() {
        let speaks = |all: &[(&str, &str)]| {
            speaks_utf8(&|name| {
                all.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(speaks(&[("LANG", "de_DE.UTF-8")]) && speaks(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")]));
        assert!(!speaks(&[]) && !speaks(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]));
    }

    #[test]
    fn a_path_with_blanks_and_quotes_stays_one_word() {
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
    }
}
