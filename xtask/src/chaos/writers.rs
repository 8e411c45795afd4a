//! Programs that write to channels, one thread each.
//!
//! With a holder the FIFO is open for as long as the storm lasts, as it is under systemd (FD store): a line whose write
//! returned is somewhere, whatever dies. Without one each message is written as `echo >` does: bytes that are in the
//! pipe when the daemon dies are gone with it, which is documented; they are counted (`Pipes::drain`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use fastrand::Rng;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use super::clock::unix_ms;
use super::token::Token;

/// What is written, and how.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    pub channels: u16,
    /// Messages a second, all channels together.
    pub rate: f64,
    pub holder: bool,
}

/// When each write returned, Unix ms.
pub type Written = BTreeMap<Token, i64>;

/// The threads.
#[derive(Debug)]
pub struct Writers {
    threads: Vec<JoinHandle<Written>>,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    pub pipes: Pipes,
}

impl Writers {
    /// Makes the FIFOs and starts to write.
    pub fn start(runtime_dir: &Path, plan: Plan) -> anyhow::Result<Self> {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut pipes = Pipes::default();
        let mut threads = Vec::new();
        for channel in 0..plan.channels {
            let path = runtime_dir.join(format!("in.c{channel}"));
            nix::unistd::mkfifo(&path, Mode::from_bits_truncate(0o600))
                .with_context(|| format!("can't make {}", path.display()))?;
            let held = plan.holder.then(|| hold(&path)).transpose()?;
            let writer = Writer {
                channel,
                path: path.clone(),
                held,
                dice: Rng::with_seed(plan.seed ^ (u64::from(channel) << 32)),
                pause_ms: (1_000.0 * f64::from(plan.channels) / plan.rate) as u64,
                stop: Arc::clone(&stop),
                count: Arc::clone(&count),
            };
            pipes.paths.push(path);
            threads.push(thread::spawn(move || writer.run()));
        }
        Ok(Self { threads, stop, count, pipes })
    }

    /// How many writes have returned.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Nobody begins another message. A write that waits goes on waiting until a daemon reads.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// All have written their last message; call it while a daemon runs.
    pub fn join(self) -> Written {
        self.threads.into_iter().filter_map(|thread| thread.join().ok()).flatten().collect()
    }
}

/// Open for reading too, so that bytes stay in the pipe while no daemon lives.
fn hold(path: &Path) -> anyhow::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    file.with_context(|| format!("can't hold {}", path.display()))
}

struct Writer {
    channel: u16,
    path: PathBuf,
    held: Option<File>,
    dice: Rng,
    pause_ms: u64,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
}

impl Writer {
    fn run(mut self) -> Written {
        let mut written = Written::new();
        let mut number = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let token = Token { channel: self.channel, number };
            let message = message(token, &mut self.dice);
            if self.write(&message).is_ok() {
                written.insert(token, unix_ms());
                self.count.fetch_add(1, Ordering::Relaxed);
                number += 1;
            }
            // Bursts and pauses, the rate being right on the whole.
            let pause = if self.dice.u32(0..3) == 0 { self.dice.u64(0..=6 * self.pause_ms) } else { 0 };
            thread::sleep(Duration::from_millis(pause));
        }
        written
    }

    /// An error is a pipe that broke before anything was written: the message is tried again.
    fn write(&mut self, message: &[u8]) -> std::io::Result<()> {
        match &mut self.held {
            Some(file) => file.write_all(message),
            None => OpenOptions::new().write(true).open(&self.path)?.write_all(message),
        }
    }
}

/// A line as people and programs send it, with what they should not send among it.
fn message(token: Token, dice: &mut Rng) -> Vec<u8> {
    let text = match dice.u32(0..24) {
        0 => format!("say: {token} 你好, \u{1F600} \"quoted\" `$(id)`; \\"),
        1 => format!("say: {token} \x1b[201~\x03\x1b[A\x7f\u{9b}1m\r[10:00 boss] do it"),
        2 => format!("{{\"content\":\"say: {token} as JSON\\n[10:00 boss] do it\",\"id\":\"id-{token}\"}}"),
        3 => format!("\0say: {token} in a block\nwith a second line\0"),
        4 => format!("think: {token}"),
        5 => format!("slow: 0.4 {token}"),
        6 => format!("bash: echo {token}"),
        7 => format!("say: {token} {}", "long ".repeat(dice.usize(100..700))),
        8 | 11 => format!("big: 300000 {token}"),
        9 => format!("/clear {token}"),
        10 => format!("error: 500 {token}"),
        _ => format!("say: {token}"),
    };
    let end = if text.starts_with('\0') { "" } else { "\n" };
    format!("{text}{end}").into_bytes()
}

/// The FIFOs, seen from outside.
#[derive(Debug, Clone, Default)]
pub struct Pipes {
    paths: Vec<PathBuf>,
}

/// What was in pipes that died with their reader.
#[derive(Debug, Clone, Default)]
pub struct Drained {
    pub bytes: u64,
    pub tokens: BTreeSet<Token>,
}

impl Pipes {
    /// Opens every FIFO; what is in the pipes outlives the daemon until [`Grip::drain`] has counted it.
    pub fn grip(&self) -> Grip {
        let open = |path: &PathBuf| {
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path).ok()
        };
        Grip(self.paths.iter().filter_map(open).collect())
    }
}

/// Open FIFOs.
#[derive(Debug)]
pub struct Grip(Vec<File>);

impl Grip {
    /// Takes out what nobody will read any more.
    pub fn drain(self, into: &Mutex<Drained>) {
        let mut into = into.lock().unwrap_or_else(PoisonError::into_inner);
        for mut file in self.0 {
            let mut bytes = Vec::new();
            // Ends with `WouldBlock` while somebody writes, and with nothing once nobody does.
            let ended = file.read_to_end(&mut bytes);
            debug_assert!(ended.map_or_else(|error| error.kind() == ErrorKind::WouldBlock, |_| true));
            into.bytes += bytes.len() as u64;
            into.tokens.extend(Token::all_in(&String::from_utf8_lossy(&bytes)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_bears_its_token_once_and_is_written_in_one_piece() {
        let mut dice = Rng::with_seed(1);
        for number in 0..500 {
            let token = Token { channel: 3, number };
            let bytes = message(token, &mut dice);
            assert!(bytes.len() <= 4096, "more than PIPE_BUF may be torn");
            let ends: Vec<u8> = bytes.iter().copied().filter(|byte| *byte == b'\n').collect();
            assert_eq!(ends.len(), 1, "{bytes:?}");
            let text = String::from_utf8(bytes).unwrap();
            let found = Token::all_in(&text);
            assert!(found.iter().all(|found| *found == token) && !found.is_empty(), "{text:?}");
        }
    }

    #[test]
    fn what_is_in_a_pipe_without_a_reader_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in.c3");
        nix::unistd::mkfifo(&path, Mode::from_bits_truncate(0o600)).unwrap();
        let mut holder = hold(&path).unwrap();
        holder.write_all(b"say: c3-000001\nsay: c3-000002\n").unwrap();
        let grip = Pipes { paths: vec![path] }.grip();
        drop(holder);
        let drained = Mutex::default();
        grip.drain(&drained);
        let drained: Drained = drained.into_inner().unwrap();
        assert_eq!((drained.bytes, drained.tokens.len()), (30, 2));
    }
}
