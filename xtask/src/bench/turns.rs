//! Rows 9 and 10: from a line to Enter in the real Claude's box, and from the end of a turn to its line on `output.sock`.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use ccmux_tests::{House, Subscriber, claude};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Bench;
use super::baselines::Baselines;
use super::ear::Ear;
use super::figure::{Figure, Goal};
use super::measure::{Contestant, Sample, Series, exec, take_turns};

const MIB: u64 = 1 << 20;
/// The typist's pause between two captures that must be equal.
const SETTLE_MS: f64 = 100.0;
/// Until Claude's screen is at rest after a turn.
const REST: Duration = Duration::from_millis(700);
/// So much text in a line that fills a transcript up.
const FILLER: usize = 4000;

/// When a line of the log was written.
pub fn logged_at(event: &Value) -> anyhow::Result<SystemTime> {
    let text = event["timestamp"].as_str().context("a line without a time")?;
    Ok(OffsetDateTime::parse(text, &Rfc3339).context("a time of the log")?.into())
}

fn ms_between(from: SystemTime, to: SystemTime) -> f64 {
    to.duration_since(from).unwrap_or_default().as_secs_f64() * 1e3
}

/// Row 9.
pub fn prompts(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let claude = claude::installed_in(&bench.target).map_err(anyhow::Error::msg)?;
    let house = House::with_claude_in(bench.house(), &claude);
    house.start();
    house.wait_ready();
    let (turns, mut fifo) = (house.subscribe(), house.open_fifo("in.bench"));
    let (mut ours, mut theirs) = (Series::default(), Series::default());
    for round in 0..=bench.rounds(15, 6) {
        thread::sleep(REST);
        house.wait_ready();
        let written = SystemTime::now();
        writeln!(fifo, "say: round {round}").context("in.bench")?;
        let nth = |event: &str| house.wait_for(event, || house.log_events(event).into_iter().nth(round));
        let entered = logged_at(&nth("batch.entered"))?;
        let delivered = logged_at(&nth("batch.delivered"))?;
        turns.wait_for_turns(round + 1);
        if round > 0 {
            ours.push_ms(ms_between(written, entered));
            theirs.push_ms(ms_between(entered, delivered));
        }
    }
    let figure = |name, value, goal: f64, words| {
        Figure::new(name, "ms", Goal::AtMost(goal), words).ours(value).limit(theirs.median())
    };
    Ok(vec![
        figure(
            "9 line written → Enter sent",
            ours.median(),
            600.0,
            "p50 below 600 ms with the settle pauses",
        )
        .note("the limit is Claude's own: Enter → UserPromptSubmit"),
        figure("9 the same without the settle pause", ours.median() - SETTLE_MS, 60.0, "p50 below 60 ms")
            .note("the pause of 100 ms taken off"),
    ])
}

/// Row 10.
pub fn turns(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let house = bench.house().settings("[log]\nlevel = \"debug\"\n").ready();
    let turns = house.subscribe();
    let mut done = 0;
    let rounds = bench.rounds(60, 20);
    answer(&house, &turns, &mut done, 2)?;
    fill(&house, MIB)?;
    answer(&house, &turns, &mut done, 2)?;
    let small = answer(&house, &turns, &mut done, rounds)?;
    fill(&house, 100 * MIB)?;
    answer(&house, &turns, &mut done, 2)?;
    let big = answer(&house, &turns, &mut done, rounds)?;
    let python = Baselines::python();
    let hook = |mib| python.as_ref().map(|python| python_hook(python, mib)).transpose();
    let (python_small, python_big) = (hook(MIB)?, hook(100 * MIB)?);
    let figure = |name, series: &Series, baseline, words| {
        Figure::new(name, "ms", Goal::AtMost(20.0), words)
            .ours(series.p99())
            .baseline(baseline)
            .note(format!("median {:.2} ms", series.median()))
    };
    Ok(vec![
        figure("10 Stop hook → turn, 1 MB of transcript, p99", &small, python_small, "p99 below 20 ms"),
        figure("10 the same, 100 MB, p99", &big, python_big, "p99 below 20 ms"),
        Figure::new(
            "10 100 MB beside 1 MB, median",
            "ms",
            Goal::OfBaseline(1.5),
            "the same: at most 1.5 times",
        )
        .ours(big.median())
        .baseline(small.median()),
    ])
}

/// So many turns, one after the other, and how late each came after its hook.
fn answer(house: &House, turns: &Subscriber, done: &mut usize, count: usize) -> anyhow::Result<Series> {
    let mut series = Series::default();
    for _ in 0..count {
        house.write("in.bench", format!("say: turn {done}\n"));
        *done += 1;
        turns.wait_for_turns(*done);
    }
    let stops: Vec<Value> =
        house.log_events("hook.received").into_iter().filter(|event| event["hook"] == "Stop").collect();
    let lines: Vec<_> = turns.lines().into_iter().filter(|line| line.value.get("turn").is_some()).collect();
    for (stop, line) in stops.iter().zip(&lines).skip(*done - count) {
        series.push_ms(ms_between(logged_at(stop)?, line.wall));
    }
    Ok(series)
}

/// Lets the session's transcript grow, by lines that are no part of any turn.
fn fill(house: &House, bytes: u64) -> anyhow::Result<()> {
    let path = house.transcript_files().pop().context("there is no transcript")?;
    let file = OpenOptions::new().append(true).open(&path).context("the transcript")?;
    write_filler(file, bytes)
}

fn write_filler(file: File, bytes: u64) -> anyhow::Result<()> {
    let line =
        json!({"type": "attachment", "isSidechain": true, "text": "x".repeat(FILLER)}).to_string() + "\n";
    let mut out = BufWriter::new(file);
    for _ in 0..bytes / line.len() as u64 {
        out.write_all(line.as_bytes())?;
    }
    Ok(out.flush()?)
}

/// The first ccmux: a hook that reads all of it.
fn python_hook(python: &Path, bytes: u64) -> anyhow::Result<f64> {
    let ear = Ear::new()?;
    let transcript = ear.path("transcript.jsonl");
    write_filler(File::create(&transcript)?, bytes)?;
    let turn = [
        json!({"type": "user", "message": {"content": "say: a turn"}}),
        json!({"type": "assistant", "message": {"content": [{"type": "text", "text": "a turn"}]}}),
    ];
    let mut file = OpenOptions::new().append(true).open(&transcript)?;
    turn.iter().try_for_each(|line| writeln!(file, "{line}"))?;
    let payload = json!({"session_id": "bench", "transcript_path": transcript});
    std::fs::write(ear.path("input"), payload.to_string())?;
    let run = || -> anyhow::Result<Sample> {
        let mut command = Command::new(python);
        command.arg(Baselines::source("stop_hook.py")).env("CCMUX_RUNTIME_DIR", ear.dir());
        exec(command.stdin(File::open(ear.path("input"))?).stdout(Stdio::null()))
    };
    let rounds = if bytes > MIB { 2 } else { 10 };
    Ok(take_turns(rounds, &mut [Contestant::new("stop_hook.py", run)])?[0].median())
}
