//! Row 11: a hundred sessions whose turns have ended, and nobody goes on: what watching them costs, and how late each is told.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};
use ccmux_tests::House;
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, killpg};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::json;

use super::Bench;
use super::baselines::Baselines;
use super::figure::{Figure, Goal};
use super::measure::{Process, Series, children_ms, ms_since};

const SESSIONS: usize = 100;
/// Seconds until somebody is told.
const AFTER: u64 = 12;
/// Sessions don't end their turns in one moment.
const BETWEEN: Duration = Duration::from_millis(20);
/// After the last hook, and for so long, they wait and nothing happens.
const SETTLES: Duration = Duration::from_secs(1);
const WATCHED: Duration = Duration::from_secs(8);
const LIMIT: Duration = Duration::from_secs(60);

/// What watching costs the processor, in parts of one, and how late it told.
struct Watched {
    core: f64,
    /// Milliseconds for all of a session: its hooks, the wait, the notice.
    each_ms: f64,
    late: Series,
}

pub fn measure(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let ours = ours(bench)?;
    let theirs = if Baselines::has(&["bash", "jq"]) { Some(bash()?) } else { None };
    let of = |value: fn(&Watched) -> f64| theirs.as_ref().map(value);
    Ok(vec![
        Figure::new(
            "11 100 watched sessions: processor",
            "% of a core",
            Goal::OfBaseline(0.01),
            "at most 1/100",
        )
        .ours(ours.core * 100.0)
        .baseline(of(|watched| watched.core * 100.0))
        .cpu_ms(ours.each_ms)
        .note("while they wait; CPU is of a session's hooks and notice"),
        Figure::new("11 notice after its deadline, p99", "ms", Goal::AtMost(50.0), "at most 50 ms")
            .ours(ours.late.p99())
            .baseline(of(|watched| watched.late.p99()))
            .note(format!("median {:.1} ms", ours.late.median())),
    ])
}

fn ours(bench: &Bench) -> anyhow::Result<Watched> {
    let house = bench
        .house()
        .settings(&format!(
            "[attention]\nsessions = \"all\"\n[attention.reply]\nafter = {AFTER}\nroutes = [\"out\"]\n\
             [routes.out]\ntype = \"channel\"\nchannel = \"bench\"\n"
        ))
        .ready();
    let daemon = Process::of(house.daemon_pid().unsigned_abs());
    let path = house.run_dir().join("out.bench");
    mkfifo(&path, Mode::from_bits_truncate(0o600)).context("out.bench")?;
    // With a writer of our own, so that the reader has no end.
    let _writer = open(&path, OFlag::O_RDWR)?;
    let heard = hear(BufReader::new(open(&path, OFlag::O_RDONLY)?));
    let cpu = daemon.cpu_ms();
    let mut ended = Vec::new();
    for session in 0..SESSIONS {
        ended.push(end_turn(&house, session)?);
        thread::sleep(BETWEEN);
    }
    thread::sleep(SETTLES);
    let (start, before) = (Instant::now(), daemon.cpu_ms());
    thread::sleep(WATCHED);
    let core = (daemon.cpu_ms() - before) / ms_since(start);
    let late = lateness(&heard, &ended)?;
    #[allow(clippy::cast_precision_loss)]
    let each_ms = (daemon.cpu_ms() - cpu) / SESSIONS as f64;
    Ok(Watched { core, each_ms, late })
}

fn open(path: &std::path::Path, how: OFlag) -> anyhow::Result<fs::File> {
    Ok(nix::fcntl::open(path, how | OFlag::O_CLOEXEC, Mode::empty()).context("out.bench")?.into())
}

/// What two hooks of a session say; when the second one was sent.
fn end_turn(house: &House, session: usize) -> anyhow::Result<SystemTime> {
    let mut socket = UnixStream::connect(house.run_dir().join("control.sock")).context("control.sock")?;
    let mut answers = BufReader::new(socket.try_clone()?);
    let mut sent = SystemTime::now();
    for (event, more) in [("UserPromptSubmit", json!(name(session))), ("Stop", json!([]))] {
        let payload = json!({
            "session_id": name(session), "hook_event_name": event, "prompt": more, "prompt_id": "p1", "background_tasks": [],
        });
        sent = SystemTime::now();
        writeln!(socket, "{}", json!({"v": 1, "type": "hook", "event": event, "payload": payload}))?;
        let mut answer = String::new();
        answers.read_line(&mut answer)?;
        ensure!(answer.contains("\"ok\":true"), "a hook was answered with {answer}");
    }
    Ok(sent)
}

fn name(session: usize) -> String {
    format!("session-{session:03}")
}

/// Lines, and when they came.
fn hear(lines: impl BufRead + Send + 'static) -> Receiver<(SystemTime, String)> {
    let (tell, heard) = channel();
    // Ends with what it reads, or with this process.
    thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            if tell.send((SystemTime::now(), line)).is_err() {
                return;
            }
        }
    });
    heard
}

/// How long after its deadline each session was told, by the line that names it.
fn lateness(heard: &Receiver<(SystemTime, String)>, ended: &[SystemTime]) -> anyhow::Result<Series> {
    let mut late = Series::default();
    let until = Instant::now() + LIMIT;
    for _ in ended {
        let (at, session) = loop {
            let left = until.saturating_duration_since(Instant::now());
            let (at, line) = heard.recv_timeout(left).context("not every session was told")?;
            let number =
                line.split_once("session-").and_then(|(_, number)| number.get(..3)?.parse::<usize>().ok());
            if let Some(session) = number {
                break (at, session);
            }
        };
        let deadline = ended[session % SESSIONS] + Duration::from_secs(AFTER);
        late.push_ms(at.duration_since(deadline).unwrap_or_default().as_secs_f64() * 1e3);
    }
    Ok(late)
}

/// The first design, on as many state files.
fn bash() -> anyhow::Result<Watched> {
    let folder = tempfile::tempdir().context("a temporary directory")?;
    let mut ended = Vec::new();
    for session in 0..SESSIONS {
        let now = SystemTime::now();
        let since = now.duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        ended.push(SystemTime::UNIX_EPOCH + Duration::from_secs(since));
        let state = json!({"session": name(session), "since": since});
        fs::write(folder.path().join(format!("{}.json", name(session))), state.to_string())?;
    }
    let (start, before) = (Instant::now(), children_ms()?);
    let mut child = Command::new("bash")
        .arg(Baselines::source("watch.sh"))
        .arg(folder.path())
        .arg(AFTER.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("can't start watch.sh")?;
    let heard = hear(BufReader::new(child.stdout.take().context("no stdout")?));
    let late = lateness(&heard, &ended);
    end(&mut child)?;
    let cpu = children_ms()? - before;
    Ok(Watched { core: cpu / ms_since(start), each_ms: cpu / 100.0, late: late? })
}

fn end(child: &mut Child) -> anyhow::Result<()> {
    let _ = killpg(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM);
    child.wait().context("watch.sh")?;
    Ok(())
}
