//! A daemon that says canned lines on a real socket, once, and `ccmux` run against it. It knows no answer of its own: the
//! tests bring the lines.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Serves one client in a thread: reads one line, says its lines, then waits for the client to go, or hangs up.
pub struct Daemon {
    pub dir: TempDir,
    thread: JoinHandle<Value>,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Then {
    Waits,
    HangsUp,
}

pub fn runtime_dir() -> TempDir {
    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir().unwrap()
}

pub fn daemon(replies: &[Value], then: Then) -> Daemon {
    let dir = runtime_dir();
    let listener = UnixListener::bind(socket_in(&dir)).unwrap();
    let lines: String = replies.iter().map(|reply| format!("{reply}\n")).collect();
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = String::new();
        BufReader::new(&stream).read_line(&mut request).unwrap();
        let _ = stream.write_all(lines.as_bytes());
        if then == Then::Waits {
            let _ = stream.read(&mut [0]);
        }
        serde_json::from_str(&request).unwrap_or(Value::Null)
    });
    Daemon { dir, thread }
}

pub fn socket_in(dir: &TempDir) -> PathBuf {
    dir.path().join("control.sock")
}

impl Daemon {
    /// The request it read; null if nobody asked.
    pub fn heard(self) -> Value {
        drop(UnixStream::connect(socket_in(&self.dir)));
        self.thread.join().unwrap()
    }
}

pub fn ccmux(dir: &TempDir, line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccmux"));
    command
        .env_clear()
        .env("CCMUX_RUNTIME_DIR", dir.path())
        .env("TZ", "UTC")
        .env("PATH", "/nowhere")
        .args(line);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

pub fn run(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

pub fn receipt(state: &str) -> Value {
    json!({"id": "m-17", "channel": "phone", "state": state, "accepted_at": 1, "proof": "hook"})
}

pub fn status() -> Value {
    json!({"ok": true, "status": {
        "state": "busy", "since": 1_740_000_000_000_i64, "reason": "a turn runs", "session": "abc123",
        "agent": {"pid": 4711, "version": "2.1.332", "restarts": 2}, "queue": {"messages": 3, "bytes": 2048},
        "channels": [{"name": "default", "direction": "in", "state": "open"},
                     {"name": "phone", "direction": "in", "state": "refused: a symlink"}],
        "subscribers": 1, "degraded": ["mcp"], "last_seq": 7, "daemon_pid": 12, "daemon_version": "0.1.0",
        "newer": "field"}})
}
