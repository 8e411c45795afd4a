//! The official MCP client library, for Python: installed from PyPI once, below `target/`, and what it found out.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

use crate::binaries;
use crate::house::House;
use crate::patience::LIMIT;

/// The version that the tests are written for.
const VERSION: &str = "2.3.0";

/// The Python that has the library, installed if it is not there; or why it can't be had.
fn installed() -> Result<PathBuf, String> {
    let target = binaries::folder().parent().expect("target/<profile>").join(format!("python-mcp-{VERSION}"));
    let (python, done) = (target.join("bin/python"), target.join("installed"));
    if !done.exists() {
        // A venv can't be renamed: the first of several tests makes it, the others wait.
        let _place = lock(&target.with_extension("lock"))?;
        if !done.exists() {
            let _ = fs::remove_dir_all(&target);
            run(Command::new("python3").args(["-m", "venv"]).arg(&target))?;
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
            run(Command::new(&python).args(pip).arg(format!("mcp=={VERSION}")))?;
            fs::write(&done, "").map_err(|error| error.to_string())?;
        }
    }
    Ok(python)
}

fn lock(path: &Path) -> Result<fs::File, String> {
    let file = fs::File::create(path).map_err(|error| error.to_string())?;
    file.lock().map_err(|error| error.to_string())?;
    Ok(file)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{command:?} ({}): {said}", output.status)) }
}

/// The Python with the library; without PyPI this fails in CI and is skipped elsewhere, saying so.
pub fn or_skip() -> Option<PathBuf> {
    match installed() {
        Ok(python) => Some(python),
        Err(why) if std::env::var_os("CI").is_some() => panic!("mcp can't be installed from PyPI: {why}"),
        Err(why) => {
            println!("skipped: mcp can't be installed from PyPI ({why})");
            None
        }
    }
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
