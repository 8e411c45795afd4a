//! Programs that read a stream of ccmux as people's scripts do: `nc`, `socat`, `curl`, `ccmux tail`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::house::House;
use crate::patience::{LIMIT, wait_for};

/// A program and every line that it printed. Ends with the value.
#[derive(Debug)]
pub struct Listening {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Listening {
    /// Runs a command; what it is given on stdin ends there, so that it half-closes if that is its way.
    pub fn to(mut command: Command, stdin: &str) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (stdout, into) = (BufReader::new(child.stdout.take().unwrap()), Arc::clone(&lines));
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                into.lock().unwrap().push(line);
            }
        });
        Self { child, lines }
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Lines that are JSON, also behind `data: `.
    pub fn values(&self) -> Vec<Value> {
        let json = |line: String| serde_json::from_str(line.strip_prefix("data: ").unwrap_or(&line)).ok();
        self.lines().into_iter().filter_map(json).collect()
    }

    /// The numbers of the lines, in the order they came.
    pub fn seqs(&self) -> Vec<u64> {
        self.values().iter().filter_map(|line| line["seq"].as_u64()).collect()
    }

    /// Waits for a line that holds a text.
    pub fn wait_for(&self, text: &str) -> String {
        wait_for(LIMIT, &format!("{text:?} in {:?}", self.lines()), || {
            self.lines().into_iter().find(|line| line.contains(text))
        })
    }

    /// It does nothing any more, reading included.
    pub fn stop(&self) {
        self.signal(Signal::SIGSTOP);
    }

    pub fn go_on(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl House {
    /// `ccmux tail --json` with further arguments.
    pub fn tail(&self, arguments: &[&str]) -> Listening {
        let mut command = self.command(self.bin("ccmux"));
        command.args(["tail", "--json"]).args(arguments);
        Listening::to(command, "")
    }

    /// `curl` on `/events` with a query and further headers.
    pub fn events(&self, query: &str, headers: &[&str]) -> Listening {
        let port = self.status().mcp.port.expect("a port");
        let token = std::fs::read_to_string(self.state_dir().join("mcp.token")).unwrap();
        let mut command = self.command("curl");
        command.args(["--silent", "--no-buffer", "--fail"]);
        for header in
            headers.iter().copied().chain([format!("Authorization: Bearer {}", token.trim()).as_str()])
        {
            command.args(["--header", header]);
        }
        command.arg(format!("http://127.0.0.1:{port}/events{query}"));
        Listening::to(command, "")
    }

    /// Somebody who reads an `out.` FIFO, and never sees its end: it is open for writing, too.
    pub fn listen_to(&self, name: &str) -> Listening {
        let mut reader = self.command("sh");
        reader.args(["-c", "exec cat <> \"$0\""]).arg(self.fifo(name));
        Listening::to(reader, "")
    }
}
