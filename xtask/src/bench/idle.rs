//! Row 8: a daemon that has nothing to do, with an agent that is ready.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::Bench;
use super::baselines::Baselines;
use super::figure::{Figure, Goal};
use super::measure::Process;

/// Until what a start leaves behind is over.
const SETTLES: Duration = Duration::from_secs(12);

/// What an idle process does in a while.
struct Idle {
    mib: f64,
    wake_ups_per_s: f64,
    cpu_percent: f64,
}

fn watch(process: &Process, window: Duration) -> Idle {
    let (start, before, cpu) = (Instant::now(), process.wake_ups(), process.cpu_ms());
    thread::sleep(window);
    let seconds = start.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss)]
    let woken = (process.wake_ups() - before) as f64;
    let cpu_percent = (process.cpu_ms() - cpu) / seconds / 10.0;
    Idle { mib: process.mib(), wake_ups_per_s: woken / seconds, cpu_percent }
}

/// `idle.py`; ends when dropped.
struct Python(Child);

impl Python {
    fn start(python: &Path, folder: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(python);
        command.arg(Baselines::source("idle.py")).arg(folder).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("can't start idle.py")?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("no stdout")?;
        BufReader::new(stdout).read_line(&mut line).context("idle.py")?;
        anyhow::ensure!(line == "ready\n", "idle.py did not start");
        Ok(Self(child))
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn measure(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir().context("a temporary directory")?;
    let python = bench.baselines.python_with("mcp").map(|python| Python::start(&python, folder.path()));
    let python = python.and_then(|python| python.inspect_err(|error| eprintln!("  {error:#}")).ok());
    let house = bench.house().ready();
    let daemon = Process::of(house.daemon_pid().unsigned_abs());
    thread::sleep(SETTLES);
    let window = Duration::from_secs(if bench.short { 30 } else { 120 });
    let (ours, theirs) = thread::scope(|scope| {
        let theirs = python.as_ref().map(|python| scope.spawn(|| watch(&Process::of(python.0.id()), window)));
        (watch(&daemon, window), theirs.and_then(|thread| thread.join().ok()))
    });
    let of = |value: fn(&Idle) -> f64| theirs.as_ref().map(value);
    Ok(vec![
        Figure::new("8 idle: memory", "MiB", Goal::OfBaseline(0.2), "at most 1/5 of Python")
            .ours(ours.mib)
            .baseline(of(|idle| idle.mib)),
        Figure::new("8 idle: wake-ups", "/s", Goal::AtMost(0.1), "at most 0.1/s")
            .ours(ours.wake_ups_per_s)
            .baseline(of(|idle| idle.wake_ups_per_s))
            .note(format!("in {} s", window.as_secs())),
        Figure::new("8 idle: processor", "%", Goal::AtMost(0.05), "0.0 %")
            .ours(ours.cpu_percent)
            .baseline(of(|idle| idle.cpu_percent)),
    ])
}
