//! Follows what the daemon says, without blocking: its log, which it writes to stderr as JSON lines, and output.sock.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

/// Something the daemon said.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// An event in its log.
    Log(Value),
    /// A line on output.sock.
    Line(Value),
}

impl Fact {
    /// The event's name, if it is one.
    pub fn event(&self) -> Option<&str> {
        match self {
            Self::Log(event) => event.get("event").or_else(|| event["fields"].get("event"))?.as_str(),
            Self::Line(_) => None,
        }
    }

    /// A turn that answers a message of that channel.
    pub fn is_turn_for(&self, channel: &str) -> bool {
        let Self::Line(line) = self else { return false };
        let answers =
            line["in_reply_to"].as_array().is_some_and(|all| all.iter().any(|one| one["channel"] == channel));
        line.get("turn").is_some() && answers
    }
}

/// Bytes that come in pieces, taken as whole lines of JSON.
#[derive(Debug, Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8]) -> Vec<Value> {
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        // What is no JSON is for the diagnosis, not for the story.
        lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }
}

/// The log and, once subscribed, the socket.
pub struct Watch {
    log: PathBuf,
    offset: u64,
    log_lines: Lines,
    socket: Option<UnixStream>,
    socket_lines: Lines,
}

impl Watch {
    /// Follows a log from its beginning.
    pub fn new(log: PathBuf) -> Self {
        Self { log, offset: 0, log_lines: Lines::default(), socket: None, socket_lines: Lines::default() }
    }

    /// Reads output.sock from now on.
    pub fn subscribe(&mut self, socket: &Path) -> anyhow::Result<()> {
        let stream =
            UnixStream::connect(socket).with_context(|| format!("can't connect to {}", socket.display()))?;
        stream.set_nonblocking(true).context("can't make the socket non-blocking")?;
        self.socket = Some(stream);
        Ok(())
    }

    /// What was said since the last call.
    pub fn news(&mut self) -> anyhow::Result<Vec<Fact>> {
        let mut bytes = Vec::new();
        let mut log = File::open(&self.log).with_context(|| format!("can't read {}", self.log.display()))?;
        log.seek(SeekFrom::Start(self.offset))?;
        self.offset += log.read_to_end(&mut bytes)? as u64;
        let mut facts: Vec<Fact> = self.log_lines.take(&bytes).into_iter().map(Fact::Log).collect();
        if let Some(socket) = &mut self.socket {
            let lines = self.socket_lines.take(&read_what_is_there(socket)?);
            facts.extend(lines.into_iter().map(Fact::Line));
        }
        Ok(facts)
    }
}

fn read_what_is_there(socket: &mut UnixStream) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match socket.read_to_end(&mut bytes) {
        Ok(_) => anyhow::bail!("the daemon closed output.sock"),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(bytes),
        Err(error) => Err(error).context("can't read output.sock"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_in_pieces_come_out_whole_and_noise_is_skipped() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(b"{\"a\":"), [] as [Value; 0]);
        assert_eq!(lines.take(b"1}\nwarning: x\n\n{\"b\":2}\n{"), [json!({"a": 1}), json!({"b": 2})]);
        assert_eq!(lines.take(b"}\n"), [json!({})]);
    }

    #[test]
    fn a_turn_belongs_to_the_channel_it_answers() {
        let turn = Fact::Line(json!({"turn": [], "in_reply_to": [{"id": "1", "channel": "demo"}]}));
        assert!(turn.is_turn_for("demo") && !turn.is_turn_for("other"));
        assert!(!Fact::Line(json!({"alert": {}})).is_turn_for("demo"));
    }

    #[test]
    fn the_socket_is_read_without_waiting() {
        let (mut reader, mut writer) = UnixStream::pair().unwrap();
        reader.set_nonblocking(true).unwrap();
        assert_eq!(read_what_is_there(&mut reader).unwrap(), b"");
        io::Write::write_all(&mut writer, b"x\n").unwrap();
        assert_eq!(read_what_is_there(&mut reader).unwrap(), b"x\n");
        drop(writer);
        assert!(read_what_is_there(&mut reader).is_err());
    }
}
