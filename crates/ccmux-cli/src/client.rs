//! One connection to `control.sock`: a line goes out, lines come in. Blocking, and never longer than the caller allows.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ccmux_wire::control::{Frame, Reply, Request};
use ccmux_wire::paths::{NotPrivate, control_socket};
use serde_json::Value;

use crate::failure::Failure;

/// How long the daemon may take for anything that needs no waiting for Claude.
pub const IO_LIMIT: Duration = Duration::from_secs(10);

/// It does not run, or it runs elsewhere.
const START: &str = "start ccmuxd, or name the one that runs by its -i or CCMUX_RUNTIME_DIR";

/// A daemon that was reached.
pub struct Client {
    stream: BufReader<UnixStream>,
    socket: PathBuf,
}

/// A reply as we know it, and as it came: a newer daemon may say more than we know.
pub struct Answer {
    pub reply: Reply,
    pub raw: Value,
}

impl Client {
    /// Connects to the daemon whose runtime directory this is.
    pub fn connect(dir: &Path) -> Result<Self, Failure> {
        let socket = control_socket(dir).map_err(|error| unreachable(&dir.join("control.sock"), &error))?;
        let stream = connect_within(&socket, IO_LIMIT).map_err(|error| {
            let why = error.to_string();
            Failure::Unreachable { socket: socket.clone(), why, remedy: START }
        })?;
        Ok(Self { stream: BufReader::new(stream), socket })
    }

    /// Asks one thing of the daemon and takes the answer, if it is a good one.
    pub fn ask(dir: &Path, request: Request) -> Result<Answer, Failure> {
        Self::ask_within(dir, request, IO_LIMIT)
    }

    /// [`Client::ask`], of what takes longer.
    pub fn ask_within(dir: &Path, request: Request, limit: Duration) -> Result<Answer, Failure> {
        let mut client = Self::connect(dir)?;
        client.send(request)?;
        let answer = client.answer(Some(limit))?;
        if answer.reply.ok { Ok(answer) } else { Err(Failure::of_reply(&answer.reply)) }
    }

    /// Writes a request.
    pub fn send(&mut self, request: Request) -> Result<(), Failure> {
        let mut line =
            serde_json::to_vec(&Frame::new(request)).map_err(|error| Failure::Failed(error.to_string()))?;
        line.push(b'\n');
        let stream = self.stream.get_mut();
        let written = stream.set_write_timeout(Some(IO_LIMIT)).and_then(|()| stream.write_all(&line));
        written.map_err(|error| self.lost(&error))
    }

    /// Reads one reply, be it good or bad.
    pub fn answer(&mut self, limit: Option<Duration>) -> Result<Answer, Failure> {
        let line = self.line(limit)?.ok_or_else(|| self.hung_up())?;
        let raw: Value = serde_json::from_str(&line).map_err(Failure::of_nonsense)?;
        let reply = serde_json::from_value(raw.clone()).map_err(Failure::of_nonsense)?;
        Ok(Answer { reply, raw })
    }

    /// Reads one line; `None` once the daemon has hung up.
    pub fn line(&mut self, limit: Option<Duration>) -> Result<Option<String>, Failure> {
        self.read_line(limit).map_err(|error| self.lost(&error))
    }

    /// [`Client::line`], with what the system said.
    pub fn read_line(&mut self, limit: Option<Duration>) -> io::Result<Option<String>> {
        let mut line = String::new();
        self.stream.get_mut().set_read_timeout(limit)?;
        self.stream.read_line(&mut line)?;
        Ok(Some(line).filter(|line| line.ends_with('\n')))
    }

    /// The failure for a daemon that went away.
    pub fn hung_up(&self) -> Failure {
        let why = "it hung up".to_owned();
        Failure::Unreachable { socket: self.socket.clone(), why, remedy: "start ccmuxd, or see its log" }
    }

    fn lost(&self, error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Failure::TimedOut(format!(
                "the daemon at {} did not answer in time: see its log",
                self.socket.display()
            )),
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => self.hung_up(),
            _ => Failure::Failed(format!("{}: {error}", self.socket.display())),
        }
    }
}

fn unreachable(socket: &Path, error: &NotPrivate) -> Failure {
    let (why, remedy) = match error {
        NotPrivate::Unseen { source, .. } => (source.to_string(), START),
        NotPrivate::Refused { .. } => {
            (error.to_string(), "set CCMUX_RUNTIME_DIR to the daemon's own directory")
        }
    };
    Failure::Unreachable { socket: socket.to_owned(), why, remedy }
}

/// `connect` blocks for ever on a stopped daemon with a full backlog, and std has no limit for it.
fn connect_within(socket: &Path, limit: Duration) -> io::Result<UnixStream> {
    let (connected, result) = mpsc::channel();
    let path = socket.to_owned();
    thread::spawn(move || connected.send(UnixStream::connect(path)));
    result.recv_timeout(limit).unwrap_or_else(|_| Err(io::Error::other("it takes no connection")))
}
