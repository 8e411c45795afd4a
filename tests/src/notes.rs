//! Notes between agents: a repository in a house, `ccmux notify` and `ccmux listen` in it, with or without a daemon.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::house::House;

/// A `ccmux listen` that runs; killed when dropped.
#[derive(Debug)]
pub struct Listener(Child);

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Listener {
    pub fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }

    /// Dies without a chance to do anything; what it had printed.
    pub fn kill9(mut self) -> Vec<Value> {
        let _ = kill(Pid::from_raw(self.pid()), Signal::SIGKILL);
        self.lines()
    }

    /// Its lines, once it has ended.
    pub fn notes(mut self) -> Vec<Value> {
        let lines = self.lines();
        let status = self.0.wait().unwrap();
        assert!(status.success(), "ccmux listen: {status}");
        lines
    }

    /// How it ended, if it did.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    fn lines(&mut self) -> Vec<Value> {
        let out = BufReader::new(self.0.stdout.as_mut().unwrap());
        // The last line of one that was killed may be torn.
        out.lines().map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok()).collect()
    }
}

impl House {
    /// A git repository of its own.
    pub fn repository(&self, name: &str) -> PathBuf {
        let dir = self.path(name);
        fs::create_dir_all(&dir).unwrap();
        self.git(&dir, &["init", "-q"]);
        self.git(&dir, &["commit", "-q", "--allow-empty", "-m", "begin"]);
        dir
    }

    pub fn git(&self, dir: &Path, arguments: &[&str]) -> String {
        let mut git = self.command("git");
        git.args(["-c", "user.name=x", "-c", "user.email=x@example.org"]).args(arguments).current_dir(dir);
        let output = self.run_to_end(git);
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// `ccmux` in a directory, not started.
    pub fn ccmux_in(&self, dir: &Path, arguments: &[&str]) -> Command {
        let mut command = self.command(self.bin("ccmux"));
        command.args(arguments).current_dir(dir);
        command
    }

    /// `ccmux notify` to its end.
    pub fn notify(&self, dir: &Path, arguments: &[&str]) -> Output {
        self.run_to_end(self.ccmux_in(dir, &[&["notify"], arguments].concat()))
    }

    /// `ccmux listen` in the background, once it listens or has ended.
    pub fn listen(&self, dir: &Path, arguments: &[&str]) -> Listener {
        self.listen_by(self.ccmux_in(dir, &[&["listen"], arguments].concat()))
    }

    /// [`House::listen`] by a command that is given.
    pub fn listen_by(&self, mut command: Command) -> Listener {
        let child = command.stdout(Stdio::piped()).spawn().expect("ccmux can be started");
        let mut listener = Listener(child);
        let pid = listener.pid();
        self.wait_until("a listener", || listener.has_ended() || sleeps_in_poll(pid));
        listener
    }

    /// All notes that wait, taken by one listener after the other.
    pub fn take_notes(&self, dir: &Path) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let output = self.run_to_end(self.ccmux_in(dir, &["listen", "--timeout", "0"]));
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8(output.stdout).unwrap();
            let notes: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            if notes.is_empty() {
                return all;
            }
            all.extend(notes);
        }
    }

    /// A hook input of Claude's to `ccmux-hook`, in an agent's environment; what the hook prints.
    pub fn agent_hook(&self, variables: &[(&str, &str)], input: &Value) -> String {
        let file = self.path("hook-input.json");
        fs::write(&file, input.to_string()).unwrap();
        let mut hook = self.command(self.bin("ccmux-hook"));
        hook.envs(variables.iter().copied()).stdin(fs::File::open(&file).unwrap());
        let output = self.run_to_end(hook);
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The process waits for a descriptor.
fn sleeps_in_poll(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/wchan")).is_ok_and(|place| place.contains("poll"))
        || fs::read_to_string(format!("/proc/{pid}/syscall")).is_ok_and(|call| call.starts_with("7 "))
}
