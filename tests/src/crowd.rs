//! Many subscribers at once, each on a connection of its own: which lines they got, and when.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::patience::LIMIT;

/// A member only reads and counts.
const STACK_BYTES: usize = 128 * 1024;

/// Subscribers that read.
#[derive(Debug)]
pub struct Crowd {
    heard: Receiver<Heard>,
    size: usize,
}

/// A member got a line.
#[derive(Debug, Clone, Copy)]
struct Heard {
    member: usize,
    seq: u64,
    at: Instant,
}

/// How much later than the first a line came, over all members and lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    pub p50: Duration,
    pub p99: Duration,
}

impl Crowd {
    /// Connects `size` subscribers to a socket.
    pub fn new(socket: &Path, size: usize) -> Self {
        let (tell, heard) = channel();
        for member in 0..size {
            let stream = UnixStream::connect(socket).unwrap();
            let tell = tell.clone();
            let member = move || read(member, stream, &tell);
            std::thread::Builder::new().stack_size(STACK_BYTES).spawn(member).unwrap();
        }
        Self { heard, size }
    }

    /// Waits until every member has the next `lines` lines, the same and in order; panics if one is missing.
    pub fn hears(&self, lines: usize) -> Spread {
        let mut last: Vec<Option<u64>> = vec![None; self.size];
        let mut arrivals: Vec<Vec<Instant>> = vec![Vec::new(); lines];
        let mut counts = vec![0; self.size];
        for _ in 0..lines * self.size {
            let heard = self.heard.recv_timeout(LIMIT).expect("every line for every member");
            let before = last[heard.member].replace(heard.seq);
            assert!(before.is_none_or(|before| heard.seq == before + 1), "{before:?} and then {heard:?}");
            arrivals[counts[heard.member]].push(heard.at);
            counts[heard.member] += 1;
        }
        assert!(counts.iter().all(|count| *count == lines), "{counts:?}");
        assert!(last.iter().all(|seq| *seq == last[0]), "not the same lines: {last:?}");
        spread(&arrivals)
    }
}

fn read(member: usize, stream: UnixStream, tell: &Sender<Heard>) {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let heard = Heard { member, seq: seq_of(&line), at: Instant::now() };
        line.clear();
        if tell.send(heard).is_err() {
            return;
        }
    }
}

/// Every line begins with its number; reading all of it as JSON would be what is measured.
fn seq_of(line: &[u8]) -> u64 {
    let head = String::from_utf8_lossy(&line[..line.len().min(40)]).into_owned();
    let digits = head.strip_prefix("{\"seq\":").and_then(|rest| rest.split(',').next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no line: {head}"))
}

fn spread(arrivals: &[Vec<Instant>]) -> Spread {
    let mut late: Vec<Duration> = Vec::new();
    for line in arrivals {
        let first = *line.iter().min().unwrap();
        late.extend(line.iter().map(|at| at.duration_since(first)));
    }
    late.sort();
    let part = |percent: usize| late[(late.len() * percent / 100).min(late.len() - 1)];
    Spread { p50: part(50), p99: part(99) }
}

/// As many descriptors as the system allows, for this process and for the daemons that it starts.
pub fn raise_descriptors() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}
