//! Row 7: the agent is killed; its replacement has started. Beside supervisors of processes, and the one that looks every
//! two seconds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use ccmux_tests::House;
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::Bench;
use super::baselines::Baselines;
use super::figure::{Figure, Goal};
use super::measure::{Contestant, Sample, Series, take_turns, wait_for};
use super::turns::logged_at;

const LIMIT: Duration = Duration::from_secs(20);
/// What a supervisor may still have to do after it started the agent.
const BETWEEN: Duration = Duration::from_millis(60);

/// Where the agent (`agent.c`) notes its starts.
struct Starts(PathBuf);

impl Starts {
    /// The latest pid and start, in nanoseconds.
    fn last(&self) -> Option<(i32, i64)> {
        let text = fs::read_to_string(&self.0).ok()?;
        let line = text.rsplit('\n').nth(1).filter(|_| text.ends_with('\n'))?;
        let (pid, at) = line.split_once(' ')?;
        Some((pid.parse().ok()?, at.parse().ok()?))
    }

    fn wait_for_first(&self) -> anyhow::Result<()> {
        wait_for(LIMIT, "the first agent", || self.last()).map(drop)
    }

    /// Kills the agent; until the next one has started.
    fn kill(&self) -> anyhow::Result<Sample> {
        self.kill_at().map(|(sample, _)| sample)
    }

    /// [`Starts::kill`], and when that was.
    fn kill_at(&self) -> anyhow::Result<(Sample, SystemTime)> {
        thread::sleep(BETWEEN);
        let (pid, _) = self.last().context("there is no agent")?;
        let (killed, at) = (now_ns()?, SystemTime::now());
        kill(Pid::from_raw(pid), Signal::SIGKILL).context("can't kill the agent")?;
        let started = wait_for(LIMIT, "the next agent", || self.last().filter(|(next, _)| *next != pid))?.1;
        #[allow(clippy::cast_precision_loss)]
        let ms = (started - killed) as f64 / 1e6;
        Ok((Sample { ms, cpu_ms: None }, at))
    }
}

fn now_ns() -> anyhow::Result<i64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).context("clock_gettime")?;
    Ok(now.tv_sec() * 1_000_000_000 + now.tv_nsec())
}

/// A supervisor with an agent; ends when dropped.
struct Peer {
    starts: Starts,
    child: Child,
    /// How it is told to end, where a signal is not enough.
    end: Option<Command>,
    _dir: TempDir,
}

impl Peer {
    fn start(
        make: impl FnOnce(&Path, &mut Command) -> Option<Command>,
        program: &Path,
    ) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir().context("a temporary directory")?;
        let starts = Starts(dir.path().join("starts"));
        let mut command = Command::new(program);
        command
            .env("BENCH_STARTS", &starts.0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let end = make(dir.path(), &mut command);
        let child = command.spawn().with_context(|| format!("can't start {}", program.display()))?;
        let peer = Self { starts, child, end, _dir: dir };
        peer.starts.wait_for_first()?;
        Ok(peer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(end) = &mut self.end {
            let _ = end.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some((pid, _)) = self.starts.last() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

/// Those that can be had here.
fn peers(bench: &Bench, agent: &Path) -> Vec<(&'static str, Peer)> {
    let keep = |program: Option<PathBuf>, script: Option<&str>| {
        let script = script.map(Baselines::source);
        program.map(|program| {
            Peer::start(
                |_, command| {
                    command.args(script).arg(agent);
                    None
                },
                &program,
            )
        })
    };
    let all = [
        ("pidfd", keep(bench.baselines.compiled("keep"), None)),
        ("2 s polling", keep(Baselines::python(), Some("keep.py"))),
        ("supervisor", bench.baselines.python_with("supervisor").map(|python| supervisor(&python, agent))),
        ("pm2", bench.baselines.npm("pm2").map(|folder| pm2(&folder, agent))),
    ];
    let told =
        |name, peer: anyhow::Result<Peer>| peer.inspect_err(|error| eprintln!("  {name}: {error:#}")).ok();
    all.into_iter().filter_map(|(name, peer)| Some((name, told(name, peer?)?))).collect()
}

fn supervisor(python: &Path, agent: &Path) -> anyhow::Result<Peer> {
    let supervisord = python.with_file_name("supervisord");
    Peer::start(
        |dir, command| {
            let file = dir.join("supervisord.conf");
            let text = format!(
                "[supervisord]\nlogfile={0}/log\npidfile={0}/pid\n[program:agent]\ncommand={1}\nautorestart=true\nstartsecs=0\nstartretries=1000\n",
                dir.display(),
                agent.display()
            );
            let _ = fs::write(&file, text);
            command.arg("-n").arg("-c").arg(file);
            None
        },
        &supervisord,
    )
}

/// Its daemon is not its child: it is told to end.
fn pm2(folder: &Path, agent: &Path) -> anyhow::Result<Peer> {
    let program = folder.join("node_modules/.bin/pm2");
    Peer::start(
        |dir, command| {
            command.env("PM2_HOME", dir.join("pm2")).arg("start").arg(agent);
            command.args(["--name", "agent", "--interpreter", "none", "--max-restarts", "100000"]);
            let mut end = Command::new(&program);
            end.env("PM2_HOME", dir.join("pm2")).arg("kill").stdin(Stdio::null());
            Some(end)
        },
        &program,
    )
}

/// Ours: when the daemon logged the end, and when the next agent started.
fn ours(house: &House, starts: &Starts, seen: &mut Series) -> anyhow::Result<Sample> {
    let known = house.log_events("agent.exited").len();
    let (sample, killed) = starts.kill_at()?;
    let exited =
        house.wait_for("agent.exited in the log", || house.log_events("agent.exited").into_iter().nth(known));
    let since = logged_at(&exited)?.duration_since(killed).unwrap_or_default();
    seen.push_ms(since.as_secs_f64() * 1e3);
    Ok(sample)
}

pub fn measure(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let agent = bench.baselines.compiled("agent").context("agent.c could not be compiled")?;
    let peers = peers(bench, &agent);
    let rounds = bench.rounds(40, 15);
    let house = bench
        .house()
        .settings("[backoff]\ninitial = 0\ncap = 0\n")
        .env("CCMUX_AGENT_COMMAND", agent.display())
        .agent("BENCH_STARTS", "{dir}/starts")
        .build();
    let starts = Starts(house.path("starts"));
    house.write_settings(&format!(
        "[backoff]\ninitial = 0\ncap = 0\n\n[agent.env]\nBENCH_STARTS = {:?}\n",
        starts.0.display().to_string()
    ));
    house.start();
    starts.wait_for_first()?;
    let mut seen = Series::default();
    let mut contestants = vec![Contestant::new("ours", || ours(&house, &starts, &mut seen))];
    let (slow, quick): (Vec<_>, Vec<_>) =
        peers.iter().partition(|(name, _)| ["2 s polling", "supervisor"].contains(name));
    for (name, peer) in &quick {
        contestants.push(Contestant::new(name, || peer.starts.kill()));
    }
    let all = take_turns(rounds, &mut contestants)?;
    let names: Vec<String> = contestants.iter().map(|contestant| contestant.name.to_owned()).collect();
    drop(contestants);
    let of = |name: &str| names.iter().position(|known| *known == name).map(|at| all[at].median());
    let mut others = Vec::new();
    for (name, peer) in slow {
        let series = take_turns(bench.rounds(5, 2), &mut [Contestant::new(name, || peer.starts.kill())])?;
        others.push(format!("{name} {:.0} ms", series[0].median()));
    }
    ensure!(seen.median().is_finite(), "no end of an agent was seen");
    let ours = all[0].median();
    Ok(vec![
        Figure::new("7 killed → replacement started", "ms", Goal::OfBaseline(1.0), "below pm2")
            .ours(ours)
            .baseline(of("pm2"))
            .limit(of("pidfd"))
            .note(others.join(", ")),
        Figure::new("7 killed → its end is known, p99", "ms", Goal::AtMost(5.0), "p99 at most 5 ms")
            .ours(seen.p99())
            .note(format!("median {:.2} ms", seen.median())),
    ])
}
