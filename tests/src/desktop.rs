//! A desktop that nobody sits at: an X server without a screen, a window manager, a session bus, and a real notification
//! daemon. All of it ends with the value.
//!
//! ```text
//! Xvfb ─ openbox, dunst, xterms        dbus-daemon ─ dunst ◄─ ccmuxd
//! ```

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::binaries;
use crate::patience::{LIMIT, run_to_end, wait_for};

/// What it is made of, with the packages of Debian.
const PROGRAMS: [(&str, &str); 7] = [
    ("Xvfb", "xvfb"),
    ("openbox", "openbox"),
    ("dbus-daemon", "dbus"),
    ("dunst", "dunst"),
    ("xterm", "xterm"),
    ("xdotool", "xdotool"),
    ("import", "imagemagick"),
];

/// Bubbles stay, a click does what they say, and markup would be seen.
const DUNST: &str = "[global]\n\
    font = Monospace 12\n\
    width = 560\n\
    height = 300\n\
    origin = top-right\n\
    offset = 10x10\n\
    markup = full\n\
    format = \"<b>%s</b>\\n%b\"\n\
    history_length = 20\n\
    mouse_left_click = do_action, close_current\n\
    [urgency_low]\ntimeout = 0\n[urgency_normal]\ntimeout = 0\n[urgency_critical]\ntimeout = 0\n";

/// The desktop.
#[derive(Debug)]
pub struct Desktop {
    dir: TempDir,
    children: Vec<Child>,
    display: String,
    bus: String,
}

impl Desktop {
    /// Without one of the programs this fails in CI and is skipped elsewhere, saying so.
    pub fn or_skip() -> Option<Self> {
        let missing: Vec<&str> = PROGRAMS
            .iter()
            .filter(|(program, _)| binaries::in_path(program).is_none())
            .map(|(_, package)| *package)
            .collect();
        if missing.is_empty() {
            return Some(Self::start());
        }
        assert!(std::env::var_os("CI").is_none(), "not installed: {}", missing.join(", "));
        println!("skipped: not installed: {}", missing.join(", "));
        None
    }

    fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("ccmux-desktop-").tempdir().unwrap();
        let mut desktop = Self { dir, children: Vec::new(), display: String::new(), bus: String::new() };
        let mut server = Command::new("Xvfb");
        server.args(["-displayfd", "1", "-screen", "0", "1280x800x24", "-nolisten", "tcp"]);
        desktop.display = format!(":{}", desktop.spawn_and_read_line(server));
        let mut bus = Command::new("dbus-daemon");
        bus.args(["--session", "--nofork", "--print-address=1", "--address"]);
        bus.arg(format!("unix:path={}/bus", desktop.dir.path().display()));
        desktop.bus = desktop.spawn_and_read_line(bus);
        let file = desktop.dir.path().join("dunstrc");
        fs::write(&file, DUNST).unwrap();
        let manager = desktop.command("openbox");
        desktop.spawn(manager);
        let mut dunst = desktop.command("dunst");
        dunst.arg("-config").arg(file);
        desktop.spawn(dunst);
        wait_for(LIMIT, "the notification daemon", || desktop.dunstctl(&["count"]));
        desktop
    }

    /// A program on this desktop.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env("DISPLAY", &self.display).env("DBUS_SESSION_BUS_ADDRESS", &self.bus);
        command.env("HOME", self.dir.path()).env_remove("XAUTHORITY").stdin(Stdio::null());
        command
    }

    /// Where the session bus is.
    pub fn bus(&self) -> &str {
        &self.bus
    }

    fn spawn(&mut self, mut command: Command) {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.children.push(command.spawn().unwrap());
    }

    fn spawn_and_read_line(&mut self, mut command: Command) -> String {
        command.env("HOME", self.dir.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.children.push(child);
        line.trim().to_owned()
    }

    /// A terminal at that place, in which a shell line runs; returns its window's number, once it is seen.
    pub fn terminal(
        &mut self,
        title: &str,
        place: &str,
        environment: &[(OsString, OsString)],
        line: &str,
    ) -> String {
        let mut xterm = self.command("xterm");
        xterm.envs(environment.iter().cloned());
        xterm.args(["-T", title, "-geometry", place, "-e", "sh", "-c", line]);
        self.spawn(xterm);
        let search = ["search", "--onlyvisible", "--name", title];
        wait_for(LIMIT, title, || {
            self.run("xdotool", &search).and_then(|ids| ids.lines().next().map(str::to_owned))
        })
    }

    /// What a program of the desktop prints; `None`: it failed.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let mut command = self.command(program);
        command.args(arguments);
        let output = run_to_end(command, LIMIT);
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn dunstctl(&self, arguments: &[&str]) -> Option<String> {
        self.run("dunstctl", arguments)
    }

    /// Bubbles that are shown.
    pub fn shown(&self) -> usize {
        self.dunstctl(&["count", "displayed"]).and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    /// Titles and bodies of bubbles that are gone, newest first.
    pub fn history(&self) -> Vec<[String; 2]> {
        let text = self.dunstctl(&["history"]).unwrap_or_default();
        let history: Value = serde_json::from_str(&text).unwrap_or_default();
        let word = |bubble: &Value, key: &str| bubble[key]["data"].as_str().unwrap_or_default().to_owned();
        let bubbles = history["data"][0].as_array().cloned().unwrap_or_default();
        bubbles.iter().map(|bubble| ["summary", "body"].map(|key| word(bubble, key))).collect()
    }

    /// Presses the left button on the uppermost bubble.
    pub fn click(&self) {
        let pressed = self.run("xdotool", &["mousemove", "1000", "40", "click", "1"]);
        assert!(pressed.is_some(), "xdotool can't click");
    }

    /// The window that has the keyboard.
    pub fn active_window(&self) -> Option<String> {
        self.run("xdotool", &["getactivewindow"])
    }

    /// A picture, kept in the target directory.
    pub fn picture(&self, name: &str) -> PathBuf {
        let dir = binaries::target().join("desktop");
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join(format!("{name}.png"));
        assert!(self.run("import", &["-window", "root", &path.display().to_string()]).is_some());
        path
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
