//! The doors of a house: FIFOs in, subscribers of output.sock.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::Mode;
use serde_json::Value;

use crate::house::House;
use crate::patience::{LIMIT, wait_for};

impl House {
    /// Makes a FIFO in the runtime directory, unless it is there.
    pub fn fifo(&self, name: &str) -> PathBuf {
        let path = self.run_dir().join(name);
        if !path.exists() {
            nix::unistd::mkfifo(&path, Mode::from_bits_truncate(0o600)).unwrap();
        }
        path
    }

    /// A FIFO for writing, once the daemon reads it.
    pub fn open_fifo(&self, name: &str) -> File {
        let path = self.fifo(name);
        let file = self.wait_for(&format!("a reader of {name}"), || {
            OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&path).ok()
        });
        fcntl(&file, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
        file
    }

    /// Writes to a FIFO as `printf > in.x` does, once the daemon reads it.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        self.open_fifo(name).write_all(bytes.as_ref()).unwrap();
    }

    /// Somebody who reads output.sock, connected.
    pub fn subscribe(&self) -> Subscriber {
        self.subscribe_with("")
    }

    /// A subscriber that writes one line first.
    pub fn subscribe_with(&self, line: &str) -> Subscriber {
        let before = self.status().subscribers;
        let mut stream = UnixStream::connect(self.run_dir().join("output.sock")).unwrap();
        stream.write_all(line.as_bytes()).unwrap();
        self.wait_until("the subscriber to be counted", || self.status().subscribers > before);
        Subscriber::reading(stream)
    }
}

/// A line of output.sock and when it came.
#[derive(Debug, Clone)]
pub struct Line {
    pub at: Instant,
    pub value: Value,
}

/// Keeps every line.
#[derive(Debug)]
pub struct Subscriber {
    stream: UnixStream,
    heard: Arc<Mutex<Heard>>,
}

#[derive(Debug, Default)]
struct Heard {
    lines: Vec<Line>,
    closed: bool,
}

impl Subscriber {
    fn reading(stream: UnixStream) -> Self {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let (reader, into) = (BufReader::new(stream.try_clone().unwrap()), Arc::clone(&heard));
        std::thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or(Value::String(line));
                into.lock().unwrap().lines.push(Line { at: Instant::now(), value });
            }
            into.lock().unwrap().closed = true;
        });
        Self { stream, heard }
    }

    /// Says that nothing more will be written, as `nc -N` does.
    pub fn half_close(&self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
    }

    pub fn leave(self) {
        self.stream.shutdown(std::net::Shutdown::Both).unwrap();
    }

    pub fn is_closed(&self) -> bool {
        self.heard.lock().unwrap().closed
    }

    pub fn lines(&self) -> Vec<Line> {
        self.heard.lock().unwrap().lines.clone()
    }

    pub fn turns(&self) -> Vec<Value> {
        self.with("turn")
    }

    pub fn alerts(&self) -> Vec<Value> {
        self.with("alert")
    }

    /// Alerts of a kind.
    pub fn alerts_of(&self, kind: &str) -> Vec<Value> {
        self.alerts().into_iter().filter(|line| line["alert"]["kind"] == kind).collect()
    }

    fn with(&self, key: &str) -> Vec<Value> {
        self.lines().into_iter().map(|line| line.value).filter(|line| line.get(key).is_some()).collect()
    }

    /// The turn whose text is exactly this.
    pub fn wait_for_text(&self, text: &str) -> Line {
        wait_for(LIMIT, &format!("a turn {text:?}"), || {
            self.lines().into_iter().find(|line| line.value.get("turn").is_some() && text_of(&line.value) == text)
        })
    }

    pub fn wait_for_turns(&self, count: usize) -> Vec<Value> {
        wait_for(LIMIT, &format!("{count} turns; there are {}", self.turns().len()), || {
            Some(self.turns()).filter(|turns| turns.len() >= count)
        })
    }

    pub fn wait_for_alert(&self, kind: &str) -> Value {
        wait_for(LIMIT, &format!("an alert {kind}"), || self.alerts_of(kind).into_iter().next())
    }
}

/// The text blocks of a turn, joined.
pub fn text_of(turn: &Value) -> String {
    let blocks = turn["turn"].as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().filter(|block| block["type"] == "text").filter_map(|block| block["text"].as_str()).collect()
}

/// The kinds of a turn's blocks, in order.
pub fn kinds_of(turn: &Value) -> Vec<String> {
    let blocks = turn["turn"].as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().filter_map(|block| block["type"].as_str().map(str::to_owned)).collect()
}
