//! Subscribers of `output.sock`: one that follows everything over all restarts with `since`, and some that read nothing
//! while they are told to stall.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// So many connect and read nothing while readers stall.
const SLEEPERS: usize = 3;

/// What the follower heard.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    pub seqs: Vec<u64>,
    pub connections: u64,
    pub let_go: u64,
    pub findings: Vec<String>,
}

/// The threads.
#[derive(Debug)]
pub struct Readers {
    heard: Arc<Mutex<Heard>>,
    stall: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub fn start(runtime_dir: &Path) -> Self {
        let socket = runtime_dir.join("output.sock");
        let follower = Follower {
            socket: socket.clone(),
            heard: Arc::default(),
            stall: Arc::default(),
            stop: Arc::default(),
        };
        let (heard, stall, stop) =
            (Arc::clone(&follower.heard), Arc::clone(&follower.stall), Arc::clone(&follower.stop));
        let (stalled, stopped) = (Arc::clone(&stall), Arc::clone(&stop));
        let threads = vec![
            thread::spawn(move || follower.run()),
            thread::spawn(move || sleep_on(&socket, &stalled, &stopped)),
        ];
        Self { heard, stall, stop, threads }
    }

    /// From now on they read, or don't.
    pub fn stall(&self, stalled: bool) {
        self.stall.store(stalled, Ordering::Relaxed);
    }

    pub fn heard(&self) -> Heard {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn stop(self) -> Heard {
        self.stop.store(true, Ordering::Relaxed);
        self.stall(false);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
        Arc::try_unwrap(self.heard)
            .map(|heard| heard.into_inner().unwrap_or_else(PoisonError::into_inner))
            .unwrap_or_default()
    }
}

struct Follower {
    socket: PathBuf,
    heard: Arc<Mutex<Heard>>,
    stall: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl Follower {
    fn run(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            if let Ok(stream) = UnixStream::connect(&self.socket) {
                // An error is a daemon that died: the next one is asked for what is missing.
                let _ = self.follow(stream);
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn follow(&self, mut stream: UnixStream) -> std::io::Result<()> {
        let since = self.note(|heard| {
            heard.connections += 1;
            heard.seqs.last().copied().unwrap_or(0)
        });
        stream.write_all(format!("{{\"since\":{since}}}\n").as_bytes())?;
        stream.set_read_timeout(Some(LOOK_EVERY))?;
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            if self.stall.load(Ordering::Relaxed) {
                thread::sleep(LOOK_EVERY);
                continue;
            }
            match reader.read_until(b'\n', &mut line) {
                Ok(0) => return Ok(()),
                Ok(_) if line.ends_with(b"\n") => {
                    self.note(|heard| heard.take(&line));
                    line.clear();
                }
                Ok(_) => return Ok(()),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn note<T>(&self, note: impl FnOnce(&mut Heard) -> T) -> T {
        note(&mut self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Heard {
    fn take(&mut self, line: &[u8]) {
        let value: Value = serde_json::from_slice(line).unwrap_or_default();
        if value.get("bye").is_some() {
            self.let_go += 1;
            return;
        }
        // What is missing there is compared with the database in the end.
        if value.get("gap").is_some() {
            return;
        }
        let last = self.seqs.last().copied().unwrap_or(0);
        match value["seq"].as_u64() {
            Some(seq) if seq > last => self.seqs.push(seq),
            Some(seq) => self.findings.push(format!("output.sock: line {seq} came after {last}")),
            None => self
                .findings
                .push(format!("output.sock: a line without a number: {}", String::from_utf8_lossy(line))),
        }
    }
}

fn sleep_on(socket: &Path, stalled: &AtomicBool, stopped: &AtomicBool) {
    let mut sleepers = Vec::new();
    while !stopped.load(Ordering::Relaxed) {
        if !stalled.load(Ordering::Relaxed) {
            sleepers.clear();
        } else if sleepers.len() < SLEEPERS {
            sleepers.extend(UnixStream::connect(socket));
        }
        thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_comes_twice_is_found() {
        let mut heard = Heard::default();
        for line in [
            r#"{"seq":1}"#,
            r#"{"seq":4}"#,
            r#"{"bye":"too slow","last_seq":4}"#,
            r#"{"gap":{"after":4,"before":6}}"#,
            r#"{"seq":4}"#,
            "?",
        ] {
            heard.take(line.as_bytes());
        }
        assert_eq!((&heard.seqs[..], heard.let_go, heard.findings.len()), (&[1, 4][..], 1, 2));
    }
}
