//! `ccmuxd setup` with an agent that draws a start screen and writes down every key it gets: what is said, the exit
//! codes, what stays behind, and that no key comes but from the person.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);

/// Draws the file `first`; after Enter the file `then`. Keys go to the file `keys`.
const AGENT: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
case $1 in
--version) echo '2.1.332 (Claude Code)'; exit ;;
auth) cat auth; exit ;;
esac
env > env
[ -f ends ] && { cat first; exit "$(cat ends)"; }
stty -icanon -echo -icrnl min 1
cat first
while key=$(dd bs=64 count=1 2>/dev/null | od -An -tx1); do
    echo $key >> keys
    case $key in *0d*) printf '\033[2J\033[H'; cat then ;; esac
done
"#;

/// A home, an agent, and two tmux servers: the agent's, and one that is the person's terminal.
struct Place {
    dir: TempDir,
    /// Where the binaries were built, since the daemon is linked there.
    bin: TempDir,
    socket: String,
    daemon: Option<Child>,
}

impl Place {
    fn new(first: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let place = Self {
            dir: tempfile::tempdir().unwrap(),
            bin: TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
            socket: format!("ccmux-setup-{}-{count}", std::process::id()),
            daemon: None,
        };
        for folder in ["home", "agent"] {
            fs::create_dir(place.path(folder)).unwrap();
        }
        place.write("agent/agent", AGENT, 0o755);
        place.write("agent/first", first, 0o644);
        place.write("agent/then", &ready(), 0o644);
        place.write("agent/auth", r#"{"loggedIn": true}"#, 0o644);
        // A link, not a copy: a file that was just written can't be run while any other test's child still has it open.
        fs::hard_link(env!("CARGO_BIN_EXE_ccmuxd"), place.daemon_file()).unwrap();
        fs::write(place.bin.path().join("ccmux-hook"), "#!/bin/sh\n").unwrap();
        place
    }

    fn daemon_file(&self) -> PathBuf {
        self.bin.path().join("ccmuxd")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn ccmuxd(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.daemon_file());
        command.args(arguments).env_clear().stdin(Stdio::null());
        for (name, value) in self.variables() {
            command.env(name, value);
        }
        command
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.path(name).display().to_string();
        vec![
            ("PATH", std::env::var("PATH").unwrap()),
            ("LANG", "C.UTF-8".to_owned()),
            ("TERM", "xterm-256color".to_owned()),
            ("HOME", path("home")),
            ("CLAUDECODE", "1".to_owned()),
            ("CCMUX_RUNTIME_DIR", path("run")),
            ("CCMUX_STATE_DIR", path("state")),
            ("CCMUX_LOG_FILE", path("log")),
            ("CCMUX_HOOK_SCRIPT", path("hook")),
            ("CCMUX_TMUX_SOCKET", self.socket.clone()),
            ("CCMUX_AGENT_COMMAND", format!("'{}' --dangerously-skip-permissions", path("agent/agent"))),
        ]
    }

    fn setup(&self) -> Ended {
        ended(&mut self.ccmuxd(&["setup"]))
    }

    fn tmux(&self, socket: &str, arguments: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-u", "-L", socket, "-f", "/dev/null"])
            .args(arguments)
            .env_remove("TMUX")
            .output();
        String::from_utf8_lossy(&output.expect("tmux must be installed for these tests").stdout).into_owned()
    }

    fn agents(&self) -> String {
        self.tmux(&self.socket, &["list-panes", "-a", "-F", "#{session_name} #{pane_dead}"])
    }

    fn terminal(&self) -> String {
        format!("{}-person", self.socket)
    }

    /// What the person sees.
    fn sees(&self) -> String {
        self.tmux(&self.terminal(), &["capture-pane", "-p"])
    }

    fn presses(&self, keys: &[&str]) {
        self.tmux(&self.terminal(), &[&["send-keys"], keys].concat());
    }

    /// On a terminal, in a tmux that is not the agent's.
    fn person_runs_setup(&self) {
        let export = |(name, value): &(&str, String)| format!("export {name}={}; ", quoted(value));
        let exported: String = self.variables().iter().map(export).collect();
        let path = |path: PathBuf| quoted(&path.display().to_string());
        let (ccmuxd, code) = (path(self.daemon_file()), path(self.path("code")));
        let line = format!("{exported}{ccmuxd} setup; echo $? > {code}; cat");
        let size = ["new-session", "-d", "-x", "160", "-y", "48", "sh", "-c", &line];
        self.tmux(&self.terminal(), &size);
    }

    fn start_daemon(&mut self) {
        let mut daemon = self.ccmuxd(&["--set", "idle_threshold=0"]);
        daemon.stdout(Stdio::null()).stderr(Stdio::null());
        self.daemon = Some(daemon.spawn().unwrap());
        wait("the daemon's socket", || self.path("run/control.sock").exists());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        for socket in [self.socket.clone(), self.terminal()] {
            self.tmux(&socket, &["kill-server"]);
        }
    }
}

struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn ended(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Ended {
    fn has(&self, code: i32, words: &[&str]) {
        let all = format!("exit {:?}\n{}{}", self.code, self.stdout, self.stderr);
        assert_eq!(self.code, Some(code), "{all}");
        for word in words {
            assert!(all.contains(word), "{word:?} is not in:\n{all}");
        }
    }
}

fn wait(what: &str, fact: impl Fn() -> bool) {
    let begun = Instant::now();
    while !fact() {
        assert!(begun.elapsed() < LIMIT, "no {what} within {} s", LIMIT.as_secs());
        sleep(Duration::from_millis(20));
    }
}

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ccmux-runtime/tests/fixtures/screens");
    fs::read_to_string(folder.join(format!("{name}.ansi"))).unwrap()
}

/// The prompt box, as wide as the widest pane of these tests.
fn ready() -> String {
    let rule = "─".repeat(160);
    format!("{rule}\n❯\u{a0}\n{rule}\n  ⏵⏵ bypass permissions on (shift+tab to cycle)\n")
}

#[test]
fn an_agent_that_shows_its_prompt_is_ready_and_ended() {
    let place = Place::new(&ready());
    place.setup().has(
        0,
        &[
            "ok       tmux ",
            "version 2.1.332, which was measured",
            "ok       working directory",
            "ok       hook",
            "ok       runtime directory",
            "ok       state directory",
            "note     HTTP_PROXY is not set",
            "ok       started",
            "ok       Claude is ready",
        ],
    );
    assert_eq!((place.agents().as_str(), place.read("agent/keys").as_str()), ("", ""));
    assert!(place.path("home/ccmux-workspace").is_dir());
    let environment = place.read("agent/env");
    assert!(environment.contains("CCMUX_SESSION_TOKEN="), "{environment}");
    assert!(!environment.contains("CLAUDECODE="), "a parent's mark: {environment}");
}

#[test]
fn the_demo_agent_is_ready() {
    let demo = Path::new(env!("CARGO_BIN_EXE_ccmuxd")).with_file_name("ccmux-demo-agent");
    assert!(demo.is_file(), "{} is not built: cargo build --workspace", demo.display());
    let place = Place::new("");
    let ended = ended(
        place
            .ccmuxd(&["setup"])
            .env("CCMUX_AGENT_COMMAND", demo)
            .env("HTTP_PROXY", "http://u:secret@127.0.0.1:1"),
    );
    ended.has(0, &["was not measured", "ok       Claude is ready", "http://***@127.0.0.1:1"]);
    assert!(!ended.stdout.contains("secret"), "{}", ended.stdout);
    assert_eq!(place.agents(), "");
}

#[test]
fn a_dialog_is_named_and_left_to_the_person_and_no_key_is_sent() {
    for (screen, name, choice) in [
        ("dialog-trust", "look     trust dialog", "Down, Enter    Yes, I trust this folder"),
        ("dialog-bypass-accept-nonroot", "look     bypass warning dialog", "Down, Enter    Yes, I accept"),
    ] {
        let place = Place::new(&fixture(screen));
        let attach = format!("tmux -L {} attach -t ccmux", place.socket);
        let ended = place.setup();
        ended.has(1, &[name, choice, "Enter        ❯ No, exit", &attach]);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert_eq!(place.agents(), "ccmux 0\n", "left to be answered");
        assert_eq!(place.read("agent/keys"), "", "{screen}");
        // A daemon may adopt it: it knows its tools.
        assert!(place.read("state/claude-mcp.json").contains("ccmux"));
        // The person answers; the next run finds Claude ready, and ends what the first one left.
        place.tmux(&place.socket, &["send-keys", "-t", "=ccmux:", "Down", "Enter"]);
        wait("answer", || place.read("agent/keys").contains("0d"));
        place.setup().has(0, &["ok       the agent that runs", "Claude is ready"]);
        assert_eq!(place.agents(), "");
    }
}

#[test]
fn an_agent_that_the_person_started_a_daemon_for_stays() {
    let mut place = Place::new(&ready());
    place.start_daemon();
    wait("the agent", || place.agents() == "ccmux 0\n");
    place.setup().has(0, &["which ccmuxd (pid ", "ok       Claude is ready"]);
    assert_eq!(place.agents(), "ccmux 0\n");
    assert!(place.path("run/control.sock").exists(), "the daemon's own");
    assert_eq!(place.read("agent/keys"), "");
}

#[test]
fn a_dialog_in_the_daemons_session_is_told() {
    let mut place = Place::new(&fixture("dialog-trust"));
    place.start_daemon();
    wait("the agent", || place.agents() == "ccmux 0\n");
    place.setup().has(1, &["trust dialog", "attach -t ccmux"]);
    assert_eq!(place.agents(), "ccmux 0\n");
    assert_eq!(place.read("agent/keys"), "");
}

#[test]
fn last_words_come_with_a_remedy_and_the_pane_goes() {
    let place = Place::new(
        "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons\n",
    );
    place.write("agent/ends", "1", 0o644);
    place
        .setup()
        .has(1, &["the agent ended with 1", "IS_SANDBOX", "| --dangerously-skip-permissions cannot"]);
    assert_eq!(place.agents(), "");
}

#[test]
fn a_login_that_is_missing_is_told() {
    let place = Place::new(&ready());
    place.write("agent/auth", r#"{"loggedIn": false, "authMethod": "none"}"#, 0o644);
    place.setup().has(1, &["look     Claude is not logged in", "/login"]);
}

#[test]
fn what_is_missing_has_its_exit_code_and_nothing_is_started() {
    let place = Place::new(&ready());
    let with = |name: &str, value: &str| ended(place.ccmuxd(&["setup"]).env(name, value));
    with("CCMUX_AGENT_COMMAND", "no-such-agent")
        .has(69, &["missing  there is no program `no-such-agent`", "ok       tmux", "ok       hook"]);
    with("PATH", "/nowhere").has(69, &["missing  tmux is missing", "install tmux"]);
    with("CCMUX_AGENT_CWD", "~").has(78, &["agent.allow_home"]);
    with("CCMUX_IDLE_THRESHOLD", "x").has(78, &["CCMUX_IDLE_THRESHOLD"]);
    with("CCMUX_RUNTIME_DIR", "/").has(73, &["CCMUX_RUNTIME_DIR"]);
    ended(&mut place.ccmuxd(&["setup", "--bogus"])).has(2, &["--bogus"]);
    fs::remove_file(place.bin.path().join("ccmux-hook")).unwrap();
    place.setup().has(69, &["install ccmux-hook beside ccmuxd"]);
    assert_eq!((place.agents().as_str(), place.read("agent/env").as_str()), ("", ""));
}

#[test]
fn a_person_is_led_to_claude_answers_there_and_comes_back() {
    let place = Place::new(&fixture("dialog-trust"));
    place.person_runs_setup();
    wait("explanation", || place.sees().contains("Press Enter to go there"));
    assert!(place.sees().contains("trust dialog"), "{}", place.sees());
    place.presses(&["Enter"]);
    wait("Claude's terminal", || {
        place.sees().contains("Enter to confirm") && !place.sees().contains("Press Enter to go there")
    });
    assert_eq!(place.read("agent/keys"), "", "the way there is no key for Claude");
    place.presses(&["Down", "Enter"]);
    wait("the prompt", || place.sees().contains("bypass permissions on"));
    place.presses(&["C-b", "d"]);
    wait("the end", || !place.read("code").is_empty());
    assert_eq!(place.read("code"), "0\n", "{}", place.sees());
    assert!(place.sees().contains("ok       Claude is ready"), "{}", place.sees());
    let keys = place.read("agent/keys").split_whitespace().collect::<String>();
    assert!(["1b5b420d", "1b4f420d"].contains(&keys.as_str()), "{keys}");
    assert_eq!(place.agents(), "");
}

#[test]
fn a_person_may_give_up() {
    let place = Place::new(&fixture("dialog-trust"));
    place.person_runs_setup();
    wait("explanation", || place.sees().contains("q and Enter to stop"));
    place.presses(&["q", "Enter"]);
    wait("the end", || !place.read("code").is_empty());
    assert_eq!((place.read("code").as_str(), place.agents().as_str()), ("1\n", ""));
    assert_eq!(place.read("agent/keys"), "");
}

#[test]
fn an_agent_that_shows_nothing_goes_when_the_person_interrupts() {
    let place = Place::new("");
    let mut setup = place.ccmuxd(&["setup"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait("the agent", || place.agents() == "ccmux 0\n");
    kill(Pid::from_raw(setup.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(setup.wait().unwrap().code(), Some(1));
    assert_eq!(place.agents(), "");
}

#[test]
fn a_proxy_that_is_not_expected_is_told_and_the_daemon_goes_on() {
    let mut place = Place::new(&ready());
    let stderr = fs::File::create(place.path("stderr")).unwrap();
    let mut daemon = place.ccmuxd(&[]);
    daemon.env("HTTPS_PROXY", "http://u:secret@10.0.0.1:3128").stdout(Stdio::null()).stderr(stderr);
    place.daemon = Some(daemon.spawn().unwrap());
    wait("the daemon's socket", || place.path("run/control.sock").exists());
    wait("the log", || place.read("log").contains("proxy.unexpected"));
    let told = "ccmuxd: warning: HTTP_PROXY is not set, HTTPS_PROXY is http://***@10.0.0.1:3128";
    let stderr = place.read("stderr");
    assert!(stderr.contains(told) && stderr.matches("HTTPS_PROXY").count() == 1, "{stderr}");
    for file in ["stderr", "log"] {
        assert!(!place.read(file).contains("secret"), "{file}");
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
