//! The official MCP client library, for Python: installed from PyPI once, below `target/`, and what it found out.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

use crate::fetched;
use crate::house::House;
use crate::patience::LIMIT;

/// The release that the tests are written for.
const PACKAGE: &str = "mcp==2.3.0";

/// The Python with the library; without PyPI this fails in CI and is skipped elsewhere, saying so.
pub fn or_skip() -> Option<PathBuf> {
    fetched::or_skip(PACKAGE, fetched::python(PACKAGE))
}

/// How the library comes to the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Http,
    Sse,
    Stdio,
}

/// All of them.
pub const WAYS: [Way; 3] = [Way::Http, Way::Sse, Way::Stdio];

/// A program with the library that runs; ends with the value.
#[derive(Debug)]
pub struct Client {
    child: Child,
    facts: Receiver<Value>,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl House {
    /// Starts `tests/fixtures/mcp_client.py`, which does that.
    pub fn mcp_client(&self, python: &Path, way: Way, does: &[&str]) -> Client {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/mcp_client.py");
        let url = |route| format!("http://127.0.0.1:{}/{route}", self.status().mcp.port.expect("a port"));
        let (kind, target) = match way {
            Way::Http => ("http", url("mcp")),
            Way::Sse => ("sse", url("sse")),
            Way::Stdio => ("stdio", self.bin("ccmux").display().to_string()),
        };
        let token = fs::read_to_string(self.state_dir().join("mcp.token")).expect("a token");
        let mut command = self.command(python);
        command.arg(script).arg(kind).arg(target).args(does).env("MCP_TOKEN", token.trim());
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path("err")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("python can be started");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let (tell, facts) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = tell.send(serde_json::from_str(&line).unwrap_or(Value::String(line)));
            }
        });
        Client { child, facts }
    }
}

impl Client {
    /// What it tells next.
    pub fn next(&self) -> Value {
        self.facts.recv_timeout(LIMIT).expect("the client tells something")
    }

    /// Nothing is told for that time.
    pub fn is_silent_for(&self, time: Duration) -> bool {
        matches!(self.facts.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }

    /// Everything that it tells until it ends, and how it ended.
    pub fn rest(mut self) -> (Vec<Value>, ExitStatus) {
        let mut facts = Vec::new();
        while let Ok(fact) = self.facts.recv_timeout(LIMIT) {
            facts.push(fact);
        }
        (facts, self.child.wait().expect("it has ended"))
    }
}
