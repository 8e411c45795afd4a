//! Rows 4 and 5: a line in a FIFO is committed; a new FIFO is opened. The agent never gets ready, so that nothing but intake
//! works.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use ccmux_tests::House;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use rusqlite::{Connection, OpenFlags};

use super::Bench;
use super::baselines::Baselines;
use super::figure::{Figure, Goal};
use super::measure::{Contestant, Process, Sample, Series, look_every, ms_since, take_turns, wait_for};

const LIMIT: Duration = Duration::from_secs(60);
/// What a commit writes at least: a page.
const PAGE: [u8; 4096] = [7; 4096];
/// Of seconds, that is nothing.
const SELDOM: Duration = Duration::from_millis(5);
const MANY: u64 = 100_000;
const LINE_BYTES: usize = 100;
/// What the daemon does with a FIFO that is gone is not measured.
const BETWEEN: Duration = Duration::from_millis(5);

fn house(bench: &Bench) -> House {
    let settings = "[limits]\nqueue_messages = 1000000\nqueue_bytes = 1073741824\n";
    let house = bench.house().settings(settings).agent("CCMUX_DEMO_START_MS", 86_400_000).build();
    house.start();
    house
}

/// Row 4.
pub fn commits(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let house = house(bench);
    let inbox = Inbox::open(&house.state_dir().join("inbox.db"))?;
    let daemon = Process::of(house.daemon_pid().unsigned_abs());
    let mut fifo = house.open_fifo("in.bench");
    let mut page = File::create(house.state_dir().join("page")).context("a file")?;
    let line = || {
        let before = inbox.count()?;
        let (start, cpu) = (Instant::now(), daemon.cpu_ms());
        fifo.write_all(b"a line of ordinary length, as somebody would write it by hand\n")?;
        wait_for(LIMIT, "the commit", || inbox.count().ok().filter(|count| *count > before))?;
        Ok(Sample { ms: ms_since(start), cpu_ms: Some(daemon.cpu_ms() - cpu) })
    };
    let sync = || {
        let start = Instant::now();
        page.write_all(&PAGE)?;
        page.sync_data()?;
        Ok(Sample { ms: ms_since(start), cpu_ms: None })
    };
    let mut contestants = [Contestant::new("ours", line), Contestant::new("fdatasync", sync)];
    let all = take_turns(bench.rounds(300, 100), &mut contestants)?;
    drop(contestants);
    let (many, cpu) = many_lines(&mut fifo, &inbox, &daemon)?;
    Ok(vec![
        Figure::new("4 line written → committed", "ms", Goal::OfLimit(2.0), "p50 at most 2 fdatasync")
            .ours(all[0].median())
            .limit(all[1].median())
            .cpu_ms(all[0].cpu_ms())
            .note(format!("p99 {:.1} ms, of fdatasync {:.1} ms", all[0].p99(), all[1].p99())),
        Figure::new("4 100,000 lines of 100 B", "s", Goal::AtMost(3.0), "at most 3 s")
            .ours(many / 1e3)
            .cpu_ms(cpu)
            .note(format!("{:.0} lines/s; CPU is of all lines", MANY as f64 / many * 1e3)),
    ])
}

fn many_lines(fifo: &mut File, inbox: &Inbox, daemon: &Process) -> anyhow::Result<(f64, f64)> {
    let line = format!("{}\n", "x".repeat(LINE_BYTES - 1));
    let block = line.repeat(1000);
    let before = inbox.count()?;
    let (start, cpu) = (Instant::now(), daemon.cpu_ms());
    for _ in 0..MANY / 1000 {
        fifo.write_all(block.as_bytes())?;
    }
    look_every(SELDOM, LIMIT, "100,000 commits", || {
        inbox.count().ok().filter(|count| *count >= before + MANY)
    })?;
    Ok((ms_since(start), daemon.cpu_ms() - cpu))
}

/// How many messages were ever accepted, as another connection sees it: what it sees is committed.
struct Inbox(Connection);

impl Inbox {
    fn open(path: &Path) -> anyhow::Result<Self> {
        Ok(Self(Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).context("inbox.db")?))
    }

    fn count(&self) -> rusqlite::Result<u64> {
        let mut statement = self.0.prepare_cached("SELECT coalesce(max(id), 0) FROM messages")?;
        statement.query_row([], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
    }
}

/// Row 5.
pub fn opens(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let house = house(bench);
    let elsewhere = tempfile::tempdir().context("a temporary directory")?;
    let watcher = bench
        .baselines
        .compiled("watch_open")
        .map(|program| Watcher::start(&program, None, elsewhere.path()));
    let watcher = watcher.transpose()?;
    let mut contestants = vec![Contestant::new("ours", || open(&house.run_dir()))];
    if watcher.is_some() {
        contestants.push(Contestant::new("inotify", || open(elsewhere.path())));
    }
    let all = take_turns(bench.rounds(500, 200), &mut contestants)?;
    drop(contestants);
    let polls = polls(bench.rounds(10, 3)).inspect_err(|error| eprintln!("  poll_open.py: {error:#}"));
    Ok(vec![
        Figure::new("5 mkfifo → channel open, p99", "ms", Goal::AtMost(5.0), "p99 below 5 ms")
            .ours(all[0].p99())
            .baseline(polls.ok().map(|series| series.p99()))
            .limit(all.get(1).map(Series::p99))
            .cpu_ms(None)
            .note(format!("median {:.2} ms", all[0].median())),
    ])
}

/// Makes a FIFO and waits until somebody reads it.
fn open(folder: &Path) -> anyhow::Result<Sample> {
    let path = folder.join("in.bench");
    let start = Instant::now();
    mkfifo(&path, Mode::from_bits_truncate(0o600)).context("mkfifo")?;
    let file = wait_for(LIMIT, "a reader", || {
        OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&path).ok()
    })?;
    let ms = ms_since(start);
    drop(file);
    fs::remove_file(&path).context("the FIFO")?;
    thread::sleep(BETWEEN);
    Ok(Sample { ms, cpu_ms: None })
}

/// Each FIFO has a name of its own, and comes at another moment between two looks.
fn polls(rounds: usize) -> anyhow::Result<Series> {
    let folder = tempfile::tempdir().context("a temporary directory")?;
    let python = Baselines::python().context("there is no python3")?;
    let _poller = Watcher::start(&python, Some("poll_open.py"), folder.path())?;
    let mut series = Series::default();
    for round in 0..rounds {
        let folder = folder.path().join(round.to_string());
        let path = folder.with_extension("fifo");
        thread::sleep(Duration::from_millis(fastrand::u64(0..2000)));
        let start = Instant::now();
        mkfifo(&path, Mode::from_bits_truncate(0o600)).context("mkfifo")?;
        let _writer = OpenOptions::new().write(true).open(&path).context("the FIFO")?;
        series.push_ms(ms_since(start));
    }
    Ok(series)
}

/// A program that opens FIFOs; ends when dropped.
struct Watcher(Child);

impl Watcher {
    fn start(program: &Path, script: Option<&str>, folder: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.args(script.map(Baselines::source)).arg(folder).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("can't start {}", program.display()))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).context("it did not say that it is ready")?;
        }
        Ok(Self(child))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
