//! Somebody at the terminal: a tmux client of the house's session that runs in a tmux server of its own, so that keys
//! sent to that one are typed by a real client.
//!
//! ```text
//! Human::types ─ send-keys ─► outer server ─ terminal ─► tmux attach ─ keys ─► the agent's pane
//! ```

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::binaries;
use crate::house::House;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// An attached client.
#[derive(Debug)]
pub struct Human<'a> {
    house: &'a House,
    socket: String,
}

impl House {
    /// Somebody attaches; returns once tmux lists the client.
    pub fn human(&self) -> Human<'_> {
        self.attach(&[])
    }

    /// Somebody attaches and throws the others out, as `tmux attach -d` does.
    pub fn takes_over(&self) -> Human<'_> {
        self.attach(&["-d"])
    }

    /// Somebody attaches with a terminal of another size.
    pub fn human_of_size(&self, columns: u16, rows: u16) -> Human<'_> {
        self.attach_sized(&[], (columns, rows))
    }

    /// Somebody attaches who can only look.
    pub fn onlooker(&self) -> Human<'_> {
        self.attach(&["-r"])
    }

    fn attach(&self, flags: &[&str]) -> Human<'_> {
        self.attach_sized(flags, (170, 52))
    }

    fn attach_sized(&self, flags: &[&str], (columns, rows): (u16, u16)) -> Human<'_> {
        let human = Human { house: self, socket: format!("human-{}", COUNT.fetch_add(1, Ordering::Relaxed)) };
        let inner = self.env[OsStr::new("CCMUX_TMUX_SOCKET")].clone();
        let (before, size) = (self.clients(), (columns.to_string(), rows.to_string()));
        let mut outer = human.outer();
        outer.args([
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &size.0,
            "-y",
            &size.1,
            "env",
            "-u",
            "TMUX",
            "tmux",
            "-L",
        ]);
        outer.arg(inner).arg("attach-session").args(flags).args(["-t", "=ccmux"]);
        let output = self.run_to_end(outer);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let is_new = |client: &String| !before.contains(client);
        self.wait_until("the client to be attached", || self.clients().iter().any(is_new));
        human
    }

    /// A control-mode client, as monitors and tools use it.
    pub fn control_client(&self) -> ControlClient {
        let before = self.clients().len();
        let mut command = self.tmux_command();
        command.args(["-C", "attach-session", "-t", "=ccmux"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("tmux must be installed");
        let (stdin, mut stdout) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || while stdout.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {});
        self.wait_until("the client to be attached", || self.clients().len() > before);
        ControlClient { child, _stdin: stdin }
    }

    /// Clients of the house's server, as `name control readonly`.
    pub fn clients(&self) -> Vec<String> {
        let text =
            self.tmux(&["list-clients", "-F", "#{client_name} #{client_control_mode} #{client_readonly}"]);
        text.lines().map(str::to_owned).collect()
    }
}

impl Human<'_> {
    fn outer(&self) -> Command {
        let mut command = self.house.command(binaries::tmux());
        command.args(["-L", &self.socket]);
        command
    }

    /// Types a text.
    pub fn types(&self, text: &str) {
        // A `;` at the end of an argument would end tmux's command.
        let literal = text.strip_suffix(';').map_or_else(|| text.to_owned(), |head| format!("{head}\\;"));
        self.sends(&["-l", "--", &literal]);
    }

    /// Pastes a text, bracketed, as a terminal does.
    pub fn pastes(&self, text: &str) {
        self.types(&format!("\u{1b}[200~{}\u{1b}[201~", text.replace('\n', "\r")));
    }

    /// Presses a key by tmux's name of it.
    pub fn presses(&self, key: &str) {
        self.sends(&[key]);
    }

    fn sends(&self, keys: &[&str]) {
        let mut command = self.outer();
        command.arg("send-keys").args(keys);
        assert!(self.house.run_to_end(command).status.success(), "keys {keys:?}");
    }
}

impl Drop for Human<'_> {
    fn drop(&mut self) {
        let _ = self.outer().arg("kill-server").output();
    }
}

/// A client in control mode; leaves when dropped.
#[derive(Debug)]
pub struct ControlClient {
    child: Child,
    _stdin: Option<ChildStdin>,
}

impl Drop for ControlClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
