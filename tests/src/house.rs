//! A house: temporary directory, home, runtime and state directory, tmux server, daemon. All of it ends with the value,
//! also when a test panics. Every process is ended by its pid, the tmux server by its own socket's name.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ccmux_wire::receipt::Receipt;
use ccmux_wire::status::{StateWord, Status};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::patience::{self, LIMIT, wait_at_most};
use crate::{binaries, claude};

/// How much of a log is shown when a test fails.
const TAIL_LINES: usize = 40;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// What a house is to be like; [`HouseBuilder::build`] makes it, [`HouseBuilder::ready`] also starts the daemon.
#[derive(Debug, Default)]
pub struct HouseBuilder {
    variables: Vec<(String, String)>,
    without: Vec<String>,
    settings: String,
    agent: Vec<(String, String)>,
    home_as_cwd: bool,
    files: Vec<(String, String, u32)>,
    binaries: Option<PathBuf>,
}

impl HouseBuilder {
    /// One more variable, or another value, for the daemon. `{dir}` is the house's directory.
    pub fn env(mut self, name: &str, value: impl ToString) -> Self {
        self.variables.push((name.to_owned(), value.to_string()));
        self
    }

    /// One more variable for the agent alone, where its fault switches come from: the daemon keeps its own `CCMUX_*` back.
    pub fn agent(mut self, name: &str, value: impl ToString) -> Self {
        self.agent.push((name.to_owned(), value.to_string()));
        self
    }

    /// Without a variable that is there by default.
    pub fn env_remove(mut self, name: &str) -> Self {
        self.without.push(name.to_owned());
        self
    }

    /// Text of `~/.config/ccmux/ccmux.toml`.
    pub fn settings(mut self, text: &str) -> Self {
        text.clone_into(&mut self.settings);
        self
    }

    /// The home folder is the working directory.
    pub fn in_home(mut self) -> Self {
        self.home_as_cwd = true;
        self
    }

    /// One more file, by its path in the house.
    pub fn file(mut self, name: &str, text: &str, mode: u32) -> Self {
        self.files.push((name.to_owned(), text.to_owned(), mode));
        self
    }

    /// With the binaries of another folder than the test's own.
    pub fn binaries(mut self, folder: &Path) -> Self {
        self.binaries = Some(folder.to_owned());
        self
    }

    /// The house, nothing started.
    pub fn build(self) -> House {
        let dir = tempfile::Builder::new().prefix("ccmux-e2e-").tempdir().expect("a temporary directory");
        let bin = self.binaries.clone().unwrap_or_else(binaries::folder);
        let socket = format!("e2e-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut house = House {
            dir,
            bin,
            socket,
            env: BTreeMap::new(),
            daemon: Mutex::new(None),
            mock: Mutex::new(None),
        };
        fs::create_dir_all(house.proj()).unwrap();
        fs::create_dir_all(house.path("tmux")).unwrap();
        for (name, text, mode) in &self.files {
            fs::write(house.path(name), text).unwrap();
            fs::set_permissions(house.path(name), fs::Permissions::from_mode(*mode)).unwrap();
        }
        house.write_settings(&self.settings_text());
        house.env = house.default_env();
        if self.home_as_cwd {
            house.env.insert("CCMUX_AGENT_CWD".into(), house.home().into());
        }
        let dir = house.dir.path().display().to_string();
        for (name, value) in self.variables {
            house.env.insert(name.into(), value.replace("{dir}", &dir).into());
        }
        for name in self.without {
            house.env.remove(&OsString::from(name));
        }
        house
    }

    fn settings_text(&self) -> String {
        let mut text = self.settings.clone();
        if !self.agent.is_empty() {
            text.push_str("\n[agent.env]\n");
        }
        for (name, value) in &self.agent {
            text.push_str(&format!("{name} = {value:?}\n"));
        }
        text
    }

    /// The house with a daemon that says it is ready.
    pub fn ready(self) -> House {
        let house = self.build();
        house.start();
        house.wait_ready();
        house
    }
}

/// A daemon with an agent, and everything around it.
#[derive(Debug)]
pub struct House {
    dir: TempDir,
    bin: PathBuf,
    socket: String,
    pub(crate) env: BTreeMap<OsString, OsString>,
    daemon: Mutex<Option<Child>>,
    pub(crate) mock: Mutex<Option<claude::Mock>>,
}

impl House {
    /// With the demo agent, `idle_threshold = 0`.
    pub fn builder() -> HouseBuilder {
        HouseBuilder::default()
    }

    fn default_env(&self) -> BTreeMap<OsString, OsString> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut search: Vec<PathBuf> = vec![self.bin.clone()];
        search.extend(std::env::split_paths(&path));
        let mut env: BTreeMap<OsString, OsString> = BTreeMap::new();
        let mut set = |name: &str, value: OsString| drop(env.insert(name.into(), value));
        set("PATH", std::env::join_paths(search).unwrap());
        set("HOME", self.home().into());
        set("LANG", "C.UTF-8".into());
        set("TERM", "xterm-256color".into());
        set("TMUX_TMPDIR", self.path("tmux").into());
        set("CCMUX_RUNTIME_DIR", self.run_dir().into());
        set("CCMUX_STATE_DIR", self.state_dir().into());
        set("CCMUX_TMUX_SOCKET", self.socket.clone().into());
        set("CCMUX_TMUX_SESSION", "ccmux".into());
        set("CCMUX_MCP_PORT", "0".into());
        set("CCMUX_LOG_FILE", self.path("ccmux.log").into());
        set("CCMUX_IDLE_THRESHOLD", "0".into());
        set("CCMUX_HOOK_SCRIPT", self.path("hook/ccmux-hook").into());
        set("CCMUX_AGENT_CWD", self.proj().into());
        set("CCMUX_AGENT_COMMAND", self.bin.join("ccmux-demo-agent").into());
        env
    }

    /// A path in the house.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// The agent's working directory.
    pub fn proj(&self) -> PathBuf {
        self.path("home/proj")
    }

    pub fn run_dir(&self) -> PathBuf {
        self.path("run")
    }

    pub fn state_dir(&self) -> PathBuf {
        self.path("state")
    }

    pub fn bin(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }

    pub(crate) fn set_env(&mut self, name: &str, value: impl Into<OsString>) {
        self.env.insert(name.into(), value.into());
    }

    /// Without a variable that is there by default.
    pub fn env_remove(&mut self, name: &str) {
        self.env.remove(&OsString::from(name));
    }

    /// Writes `~/.config/ccmux/ccmux.toml`.
    pub fn write_settings(&self, text: &str) {
        let folder = self.home().join(".config/ccmux");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("ccmux.toml"), text).unwrap();
    }

    /// Any program in the house's environment.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().envs(&self.env).current_dir(self.home()).stdin(Stdio::null());
        command
    }

    /// Starts the daemon and waits until clients can connect.
    pub fn start(&self) {
        self.start_with(&[]);
    }

    /// [`House::start`] with arguments and further variables.
    pub fn start_with(&self, variables: &[(&str, &str)]) {
        let mut command = self.command(self.bin("ccmuxd"));
        command.envs(variables.iter().copied());
        self.start_command(command);
    }

    /// Starts the daemon by a command that becomes it.
    pub(crate) fn start_command(&self, mut command: Command) {
        let log = |name| OpenOptions::new().create(true).append(true).open(self.path(name)).unwrap();
        command.stdout(log("out")).stderr(log("err"));
        let child = command.spawn().expect("ccmuxd can be started");
        let pid = child.id().cast_signed();
        if let Some(mut old) = self.daemon.lock().unwrap().replace(child) {
            let _ = old.wait();
        }
        self.wait_for("a daemon that answers", || {
            assert!(self.exit_status().is_none(), "ccmuxd ended at once: {}", tail(&self.path("err")));
            self.try_status().filter(|status| status.daemon_pid == pid)
        });
    }

    /// Waits until the daemon says that a message would go in at once.
    pub fn wait_ready(&self) {
        self.wait_for_state(StateWord::Ready);
    }

    pub fn wait_for_state(&self, state: StateWord) {
        self.wait_until(&format!("state {}", state.word()), || self.state() == Some(state));
    }

    /// Runs `ccmuxd` to its end, for starts that are refused.
    pub fn run_daemon(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(self.bin("ccmuxd"));
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.run_to_end(command)
    }

    /// Runs a command that must end within the limit, and so must whatever it started that has its stdout or stderr.
    pub fn run_to_end(&self, command: Command) -> Output {
        patience::run_to_end(command, LIMIT)
    }

    pub fn daemon_pid(&self) -> i32 {
        self.daemon.lock().unwrap().as_ref().expect("the daemon was started").id().cast_signed()
    }

    /// How the daemon ended, if it did.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.daemon.lock().unwrap().as_mut()?.try_wait().unwrap()
    }

    /// SIGTERM, and how it ended.
    pub fn stop(&self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.wait_for("the daemon's end", || self.exit_status())
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.daemon_pid()), signal).unwrap();
    }

    /// The daemon dies without a chance to do anything.
    pub fn kill9(&self) {
        self.signal(Signal::SIGKILL);
        self.wait_for("the daemon's death", || self.exit_status());
    }

    /// `ccmux` with arguments.
    pub fn ccmux(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(self.bin("ccmux"));
        command.args(arguments);
        self.run_to_end(command)
    }

    /// Standard output of `ccmux`, which must succeed.
    pub fn ccmux_ok(&self, arguments: &[&str]) -> String {
        let output = self.ccmux(arguments);
        assert!(output.status.success(), "ccmux {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// `ccmux send` in the background, for messages that are answered late.
    pub fn send_in_background(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(self.bin("ccmux"));
        command.arg("send").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("ccmux can be started")
    }

    /// Sends and waits for a state; the receipt.
    pub fn send(&self, wait: &str, text: &str) -> Receipt {
        let said = self.ccmux_ok(&["send", "--json", "--wait", wait, "--timeout", "30", "--", text]);
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    pub fn try_status(&self) -> Option<Status> {
        let output = self.command(self.bin("ccmux")).args(["status", "--json"]).output().ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }

    pub fn status(&self) -> Status {
        self.wait_for("a status", || self.try_status())
    }

    pub fn state(&self) -> Option<StateWord> {
        self.try_status().map(|status| status.state)
    }

    /// What `ccmux why` says.
    pub fn why(&self) -> String {
        self.ccmux_ok(&["why"])
    }

    /// Lines of the daemon's log file with this event.
    pub fn log_events(&self, event: &str) -> Vec<Value> {
        let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
        let files = fs::read_dir(self.dir.path()).unwrap().flatten().map(|entry| entry.path());
        let logs = files.filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ccmux.log"))
        });
        let text: String = logs.map(read).collect();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["event"] == event).collect()
    }

    /// Waits for a fact; shows what the house looks like if it does not come.
    pub fn wait_for<T>(&self, what: &str, fact: impl FnMut() -> Option<T>) -> T {
        self.wait_within(LIMIT, what, fact)
    }

    pub fn wait_until(&self, what: &str, mut fact: impl FnMut() -> bool) {
        self.wait_for(what, || fact().then_some(()));
    }

    pub fn wait_within<T>(&self, limit: Duration, what: &str, fact: impl FnMut() -> Option<T>) -> T {
        match wait_at_most(limit, fact) {
            Some(found) => found,
            None => panic!("waited {} s in vain for {what}\n{}", limit.as_secs(), self.picture()),
        }
    }

    /// What a person would look at when something is wrong.
    pub fn picture(&self) -> String {
        let why = self.command(self.bin("ccmux")).arg("why").output();
        let why =
            why.map(|output| String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned());
        let screen = self.screen();
        let screen: Vec<&str> = screen.lines().filter(|line| !line.trim().is_empty()).collect();
        format!(
            "--- why\n{}\n--- screen\n{}\n--- stderr of the daemon\n{}",
            why.unwrap_or_default(),
            screen.join("\n"),
            tail(&self.path("err"))
        )
    }

    /// tmux on the house's own server.
    pub fn tmux(&self, arguments: &[&str]) -> String {
        let output = self.tmux_command().args(arguments).output();
        let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        said.unwrap_or_default().trim_end_matches('\n').to_owned()
    }

    /// A tmux client of the house's own server.
    pub fn tmux_command(&self) -> Command {
        let mut command = self.command(binaries::tmux());
        command.args(["-L", &self.socket]);
        command
    }
}

/// The end of a text file.
pub fn tail(path: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// Standard error, which must be one line.
pub fn one_line(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // The log goes to stderr too, as JSON; but what is said is not said twice.
    assert!(!said.contains("daemon.refused"), "{said}");
    let plain: Vec<&str> = said.lines().filter(|line| !line.starts_with('{')).collect();
    assert_eq!(plain.len(), 1, "not one clear line: {said}");
    plain[0].to_owned()
}

/// A process exists and is no zombie.
pub fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

impl Drop for House {
    fn drop(&mut self) {
        let agents = self.pane_pids();
        if let Some(mut daemon) = self.daemon.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take() {
            end(&mut daemon);
        }
        let _ = self.tmux_command().arg("kill-server").output();
        for pid in agents {
            // They write into the house while they end: it must outlive them.
            if wait_at_most(Duration::from_secs(3), || (!is_alive(pid)).then_some(())).is_none() {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        self.mock.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if std::env::var_os("CCMUX_KEEP").is_some() {
            self.dir.disable_cleanup(true);
            eprintln!("kept: {}", self.dir.path().display());
        }
    }
}

/// SIGTERM, and SIGKILL for what does not heed it.
fn end(child: &mut Child) {
    let pid = Pid::from_raw(child.id().cast_signed());
    if child.try_wait().ok().flatten().is_some() {
        return;
    }
    let _ = kill(pid, Signal::SIGCONT);
    let _ = kill(pid, Signal::SIGTERM);
    if wait_at_most(Duration::from_secs(7), || child.try_wait().ok().flatten()).is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
}
