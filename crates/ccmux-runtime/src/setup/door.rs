//! Asks a running daemon by its `control.sock`, like any client.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use ccmux_wire::control::{Frame, Reply, Request};
use ccmux_wire::status::Status;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(5);
/// More than any screen.
const REPLY_BYTES: u64 = 4 * 1024 * 1024;

/// The daemon's door.
#[derive(Debug)]
pub struct Door {
    /// `control.sock`.
    pub socket: PathBuf,
}

impl Door {
    /// What it says of itself and the agent.
    pub async fn status(&self) -> Result<Status, String> {
        let reply = self.ask(Request::Status).await?;
        let status = reply.status.ok_or_else(|| self.no_answer("it holds no status"))?;
        Ok(*status)
    }

    /// The agent's screen, with colours.
    pub async fn screen(&self) -> Result<String, String> {
        let reply = self.ask(Request::Screen { ansi: true }).await?;
        reply.screen.ok_or_else(|| self.no_answer("it holds no screen"))
    }

    async fn ask(&self, request: Request) -> Result<Reply, String> {
        let reply = match timeout(LIMIT, self.exchange(request)).await {
            Ok(answer) => answer.map_err(|error| self.no_answer(&error.to_string()))?,
            Err(_elapsed) => return Err(self.no_answer("nothing in time")),
        };
        if reply.ok {
            return Ok(reply);
        }
        Err(reply.error.unwrap_or_else(|| "the daemon gave no reason".to_owned()))
    }

    async fn exchange(&self, request: Request) -> io::Result<Reply> {
        let mut stream = UnixStream::connect(&self.socket).await?;
        let mut line = serde_json::to_vec(&Frame::new(request))?;
        line.push(b'\n');
        stream.write_all(&line).await?;
        let mut reply = String::new();
        BufReader::new(stream.take(REPLY_BYTES)).read_line(&mut reply).await?;
        Ok(serde_json::from_str(&reply)?)
    }

    fn no_answer(&self, why: &str) -> String {
        format!("the daemon at {} gives no answer: {why}; see its log", self.socket.display())
    }
}
