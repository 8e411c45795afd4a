//! Rows 12 and 13: a note wakes the agent that listens; a notice in three lines goes over TCP. Neither needs a daemon.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;

use super::Bench;
use super::baselines::Baselines;
use super::figure::{Figure, Goal};
use super::measure::{Contestant, Sample, exec, look_every, ms_since, take_turns};

const LIMIT: Duration = Duration::from_secs(20);
/// Each look is a process.
const SELDOM: Duration = Duration::from_millis(50);
/// A listener that says it listens may still be on its way to sleep.
const FALLS_ASLEEP: Duration = Duration::from_millis(30);

/// A way to leave notes and to listen for them.
struct Notes<'a> {
    notify: Box<dyn Fn() -> Command + 'a>,
    listen: Box<dyn Fn() -> Command + 'a>,
    is_listening: Box<dyn Fn() -> bool + 'a>,
}

impl Notes<'_> {
    /// From the start of the sender until the listener has printed the note.
    fn wake(&self) -> anyhow::Result<Sample> {
        let mut listener =
            (self.listen)().stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("can't listen")?;
        let stdout = listener.stdout.take().context("no stdout")?;
        let ready = look_every(SELDOM, LIMIT, "a listener", || (self.is_listening)().then_some(()));
        thread::sleep(FALLS_ASLEEP);
        let start = Instant::now();
        let sent = ready.and_then(|()| (self.notify)().status().context("can't notify"));
        let mut line = String::new();
        if sent.is_ok() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let ms = ms_since(start);
        // One that printed must not be killed before it took the note away: the next one would print it again.
        if line.is_empty() {
            let _ = listener.kill();
        }
        listener.wait()?;
        sent?;
        ensure!(line.contains("wake up"), "the listener printed {line:?}");
        Ok(Sample { ms, cpu_ms: None })
    }
}

/// Row 12.
pub fn listener(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let ccmux = bench.binary("ccmux");
    if !says(&ccmux, &["listen", "--help"], "Usage: ccmux listen") {
        return Ok(vec![Figure::missing("12 notify → listener awake", "this ccmux has no `listen`")]);
    }
    let (repository, notes) = (repository()?, tempfile::tempdir().context("a temporary directory")?);
    let has_bash = Baselines::has(&["bash", "jq", "flock", "timeout"]);
    let theirs = has_bash.then(|| bash(notes.path())).transpose()?;
    let ours = ours(&ccmux, repository.path());
    let mut wakes = vec![Contestant::new("ours", || ours.wake())];
    let mut alone = vec![Contestant::new("ours", || exec(&mut (ours.notify)()))];
    if let Some(theirs) = &theirs {
        wakes.push(Contestant::new("bash", || theirs.wake()));
        alone.push(Contestant::new("bash", || exec(&mut (theirs.notify)())));
    }
    // First the listeners: afterwards notes lie there that a listener would print at once.
    let wakes = take_turns(bench.rounds(50, 15), &mut wakes)?;
    let alone = take_turns(bench.rounds(10, 4), &mut alone)?;
    let figure = |name, all: &[super::measure::Series], goal, words| {
        let theirs = all.get(1).map(super::measure::Series::median);
        Figure::new(name, "ms", goal, words).ours(all[0].median()).baseline(theirs).cpu_ms(all[0].cpu_ms())
    };
    Ok(vec![
        figure("12 notify → listener awake", &wakes, Goal::OfBaseline(1.0 / 3.0), "at most 1/3"),
        figure("12 notify, nobody listens", &alone, Goal::OfBaseline(0.1), "at most 1/10"),
    ])
}

fn says(program: &Path, arguments: &[&str], what: &str) -> bool {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(what))
}

fn repository() -> anyhow::Result<TempDir> {
    let folder = tempfile::tempdir().context("a temporary directory")?;
    let status = Command::new("git").args(["init", "--quiet"]).current_dir(&folder).status();
    ensure!(status.context("git is missing")?.success(), "git init failed");
    Ok(folder)
}

fn ours<'a>(ccmux: &'a Path, repository: &'a Path) -> Notes<'a> {
    let command = move |arguments: &[&str]| {
        let mut command = Command::new(ccmux);
        command.args(arguments).current_dir(repository).env("HOME", repository).stdin(Stdio::null());
        command.env("CCMUX_RUNTIME_DIR", repository.join("run")).env("CCMUX_AGENT_ID", "bench");
        command
    };
    Notes {
        notify: Box::new(move || command(&["notify", "--from", "bench", "wake up"])),
        listen: Box::new(move || command(&["listen", "--timeout", "20"])),
        is_listening: Box::new(move || {
            let status =
                command(&["listen", "--status"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        }),
    }
}

fn bash(folder: &Path) -> anyhow::Result<Notes<'_>> {
    mkfifo(&folder.join("bell"), Mode::from_bits_truncate(0o600)).context("a FIFO")?;
    fs::write(folder.join("queue.jsonl"), "")?;
    let command = move |script: &str| {
        let mut command = Command::new("bash");
        command.arg(Baselines::source(script)).arg(folder).stdin(Stdio::null()).stderr(Stdio::null());
        command
    };
    Ok(Notes {
        notify: Box::new(move || {
            let mut notify = command("notify.sh");
            notify.arg("wake up");
            notify
        }),
        listen: Box::new(move || command("listen.sh")),
        is_listening: Box::new(move || folder.join("listener.pid").exists()),
    })
}

/// Row 13: the sender, from exec to exit, to somebody who takes three lines.
pub fn tcp(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let ccmux = bench.binary("ccmux");
    if !says(&ccmux, &["notify", "--help"], "--tcp") {
        return Ok(vec![Figure::missing("13 three-line TCP notice", "this ccmux has no `notify --tcp`")]);
    }
    let listener = TcpListener::bind("127.0.0.1:0").context("a port on loopback")?;
    let address = listener.local_addr()?;
    // Ends with this process.
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let _ = BufReader::new(&stream).lines().take(3).count();
            let _ = (&stream).write_all(b"ok\n");
        }
    });
    let home = tempfile::tempdir().context("a temporary directory")?;
    let ours = || {
        let mut command = Command::new(&ccmux);
        command.args(["notify", "--tcp", &address.to_string(), "--type", "complete", "it is done"]);
        exec(command.env("HOME", home.path()).env("WINDOWID", "1").stdin(Stdio::null()).stdout(Stdio::null()))
    };
    let node = Baselines::node();
    let theirs = |node: &Path| {
        let mut command = Command::new(node);
        command.arg(Baselines::source("notice.js")).arg(address.ip().to_string());
        exec(command.args([&address.port().to_string(), "it is done"]).stdin(Stdio::null()))
    };
    let mut contestants = vec![Contestant::new("ours", ours)];
    if let Some(node) = &node {
        contestants.push(Contestant::new("node", || theirs(node)));
    }
    let all = take_turns(bench.rounds(50, 20), &mut contestants)?;
    Ok(vec![
        Figure::new("13 three-line TCP notice", "ms", Goal::OfBaseline(1.0 / 40.0), "at most 1/40 of node")
            .ours(all[0].median())
            .baseline(all.get(1).map(super::measure::Series::median))
            .cpu_ms(all[0].cpu_ms()),
    ])
}
