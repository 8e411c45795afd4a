//! Measures the broadcast beside a bare loop of writes, in one run: what a line to many subscribers costs, what one that
//! never reads costs the others, and what memory a subscriber takes.
//!
//! ```text
//! cargo run --release -p ccmux-runtime --example broadcast [SUBSCRIBERS] [--json]
//! ```
//!
//! `--json` prints the figures as one object, for `cargo xtask bench`.
//!
//! Rounds of both take turns, so that what else the machine does falls on both. Needs two descriptors a subscriber, and one
//! for its reader: `ulimit -n`.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ccmux_runtime::turns::broadcast::{Broadcast, Broadcaster, Line, LineKind};
use ccmux_runtime::turns::store::{FILE_NAME, Store};
use ccmux_wire::id::Seq;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

/// A turn of ordinary size.
const LINE_BYTES: usize = 4096;
const LINES: u64 = 200;
const ROUNDS: usize = 10;
/// They come before the memory is looked at: what the first ones cost is the program's, whose code for them is read in then
/// (250 KiB), and whose threads take their first memory. What one more takes is asked.
const FIRST: usize = 10;
/// So much that one that never reads stays a subscriber as long as it is measured.
const LIMIT: usize = 1 << 30;

/// Readers in one thread, which count what arrives and note how late.
struct Readers {
    bytes: Arc<AtomicU64>,
    late: std::sync::mpsc::Receiver<Duration>,
}

/// Each line begins with the moment it was published at, in nanoseconds since `begin`.
fn line(begin: Instant) -> String {
    let head = format!("{:020}", begin.elapsed().as_nanos());
    head + &"x".repeat(LINE_BYTES - 21) + "\n"
}

fn read_all(streams: Vec<UnixStream>, begin: Instant) -> Readers {
    let (bytes, (tell, late)) = (Arc::new(AtomicU64::new(0)), std::sync::mpsc::channel());
    let count = Arc::clone(&bytes);
    for stream in &streams {
        stream.set_nonblocking(true).unwrap();
    }
    std::thread::spawn(move || {
        let mut buffers: Vec<Vec<u8>> = vec![Vec::new(); streams.len()];
        let mut piece = vec![0; 256 * 1024];
        loop {
            let mut idle = true;
            for (mut stream, buffer) in streams.iter().zip(&mut buffers) {
                let Ok(read) = stream.read(&mut piece) else { continue };
                if read == 0 {
                    return;
                }
                idle = false;
                buffer.extend_from_slice(&piece[..read]);
                while buffer.len() >= LINE_BYTES {
                    let at: u64 = std::str::from_utf8(&buffer[..20]).unwrap().parse().unwrap();
                    let _ = tell.send(begin.elapsed().saturating_sub(Duration::from_nanos(at)));
                    buffer.drain(..LINE_BYTES);
                }
                count.fetch_add(read as u64, Ordering::Relaxed);
            }
            if idle {
                std::thread::yield_now();
            }
        }
    });
    Readers { bytes, late }
}

impl Readers {
    fn wait_for(&self, bytes: u64) {
        while self.bytes.load(Ordering::Relaxed) < bytes {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

fn p99(mut late: Vec<Duration>) -> Duration {
    late.sort();
    late[late.len() * 99 / 100]
}

fn connect(socket: &Path, size: usize) -> Vec<UnixStream> {
    (0..size).map(|_| UnixStream::connect(socket).unwrap()).collect()
}

/// So many more.
fn subscribe(folder: &Path, broadcast: &Broadcast, more: usize) -> Vec<UnixStream> {
    let wanted = broadcast.subscribers() + more;
    let streams = connect(&folder.join("output.sock"), more);
    wait_for(broadcast, wanted);
    // They wait for a wish at first.
    std::thread::sleep(Duration::from_millis(300));
    streams
}

fn wait_for(broadcast: &Broadcast, subscribers: usize) {
    while broadcast.subscribers() != subscribers {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The bare loop: each line to each socket, one write after the other.
struct Bare {
    writers: Vec<UnixStream>,
    readers: Readers,
    sent: u64,
}

impl Bare {
    fn new(size: usize, begin: Instant) -> Self {
        let (writers, streams) = (0..size).map(|_| UnixStream::pair().unwrap()).unzip();
        Self { writers, readers: read_all(streams, begin), sent: 0 }
    }

    fn round(&mut self, begin: Instant) -> Duration {
        let start = Instant::now();
        for _ in 0..LINES {
            let line = line(begin);
            for mut writer in &self.writers {
                writer.write_all(line.as_bytes()).unwrap();
            }
        }
        self.sent += LINES * self.writers.len() as u64 * LINE_BYTES as u64;
        self.readers.wait_for(self.sent);
        start.elapsed()
    }
}

/// Ours, on a real socket.
struct Ours {
    broadcast: Broadcast,
    readers: Readers,
    size: u64,
    seq: u64,
    sent: u64,
}

impl Ours {
    fn publish(&mut self, begin: Instant) {
        self.seq += 1;
        self.broadcast.publish(&Line::new(Seq(self.seq), LineKind::Turn, line(begin)));
        self.sent += self.size * LINE_BYTES as u64;
    }

    fn round(&mut self, begin: Instant) -> Duration {
        let start = Instant::now();
        for _ in 0..LINES {
            self.publish(begin);
        }
        self.readers.wait_for(self.sent);
        start.elapsed()
    }

    /// One line after the other, each once all have the one before: how late each was for each.
    fn late(&mut self, begin: Instant) -> Vec<Duration> {
        let _ = self.readers.late.try_iter().count();
        for _ in 0..LINES {
            self.publish(begin);
            self.readers.wait_for(self.sent);
        }
        self.readers.late.try_iter().collect()
    }
}

fn serve(folder: &Path) -> (tokio::runtime::Runtime, Broadcast) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let store = Arc::new(Store::open(&folder.join(FILE_NAME), 1).unwrap().0);
    let broadcast = Broadcast::new(store, Seq(0), LIMIT);
    let _inside = runtime.enter();
    let listener = UnixListener::bind(folder.join("output.sock")).unwrap();
    let task = Broadcaster { broadcast: broadcast.clone(), listener, shutdown: CancellationToken::new() };
    runtime.spawn(task.run());
    (runtime, broadcast)
}

/// What was measured.
struct Found {
    size: usize,
    /// Lines a second.
    bare: f64,
    ours: f64,
    /// The latest of a hundred.
    all_read: Duration,
    stalled: Duration,
    /// KiB a subscriber.
    each: f64,
}

fn print(found: &Found) {
    let Found { size, bare, ours, all_read, stalled, each } = found;
    let (all_read_ms, stalled_ms) = (all_read.as_secs_f64() * 1e3, stalled.as_secs_f64() * 1e3);
    if std::env::args().any(|word| word == "--json") {
        let figures = serde_json::json!({
            "bare_per_s": bare, "ours_per_s": ours, "p99_ms": all_read_ms, "p99_stalled_ms": stalled_ms,
            "kib_each": each,
        });
        return println!("{figures}");
    }
    println!("{size} subscribers, lines of {LINE_BYTES} bytes");
    println!("bare loop   {bare:>9.0} lines/s");
    println!("broadcast   {ours:>9.0} lines/s, {:.2} of it", ours / bare);
    println!(
        "p99         {all_read:?}; with one that never reads {stalled:?}: {:.2} times",
        stalled_ms / all_read_ms
    );
    println!("memory      {each:.1} KiB a subscriber");
}

fn main() {
    let size: usize = std::env::args().nth(1).and_then(|size| size.parse().ok()).unwrap_or(100);
    let folder = std::env::temp_dir().join(format!("ccmux-broadcast-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let begin = Instant::now();
    let (runtime, broadcast) = serve(&folder);
    let first = subscribe(&folder, &broadcast, FIRST);
    let before = resident_kib();
    let streams = subscribe(&folder, &broadcast, size);
    let each = resident_kib().saturating_sub(before) as f64 / size as f64;
    drop(first);
    wait_for(&broadcast, size);
    let mut ours = Ours { broadcast, readers: read_all(streams, begin), size: size as u64, seq: 0, sent: 0 };
    let mut bare = Bare::new(size, begin);
    let (mut ours_took, mut bare_took) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..ROUNDS {
        bare_took += bare.round(begin);
        ours_took += ours.round(begin);
    }
    let (mut all_read, mut stalled) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.round(begin);
        all_read.extend(ours.late(begin));
        let _never_reads = connect(&folder.join("output.sock"), 1);
        // Its socket is full and lines wait for it before anything is measured.
        ours.round(begin);
        stalled.extend(ours.late(begin));
    }
    let (all_read, stalled) = (p99(all_read), p99(stalled));
    let per_s = |took: Duration| (ROUNDS as u64 * LINES * size as u64) as f64 / took.as_secs_f64();
    print(&Found { size, bare: per_s(bare_took), ours: per_s(ours_took), all_read, stalled, each });
    runtime.shutdown_background();
    let _ = std::fs::remove_dir_all(&folder);
}
