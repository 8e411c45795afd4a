//! `cargo xtask bench`: what ccmux takes, beside what others take, in the same run.
//!
//! ```text
//! ROWS ─► measure ─► figures ─► a table, or --json
//!           │ ours: the release binaries, in a house of the tests
//!           │ baselines: xtask/baselines, and peers from the registries
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`figure`] | one figure, its ratio, its goal |
//! | [`mod@measure`] | taking turns, medians, the processor's share |
//! | [`baselines`] | what ccmux is measured beside |
//! | [`ear`] | stands in for the daemon |
//! | [`hook`], [`typing`], [`intake`], [`broadcast`], [`restart`], [`idle`], [`turns`], [`sessions`], [`notices`] | rows |
//! | [`soak`] | an hour of messages: does memory grow |
//!
//! Ratios hold on any machine, times don't. A goal that is missed is told and is no failure. See docs/PERFORMANCE.md.

mod baselines;
mod broadcast;
mod ear;
mod figure;
mod hook;
mod idle;
mod intake;
mod measure;
mod notices;
mod restart;
mod sessions;
mod soak;
mod turns;
mod typing;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use ccmux_tests::{House, HouseBuilder};
use serde_json::Value;

use crate::{cargo, programs};
use baselines::Baselines;
use figure::Figure;

const BINARIES: [&str; 4] = ["ccmuxd", "ccmux-cli", "ccmux-hook", "ccmux-demo"];

/// A row of docs/PERFORMANCE.md.
struct Row {
    number: u8,
    what: &'static str,
    measure: fn(&Bench) -> anyhow::Result<Vec<Figure>>,
}

const fn row(number: u8, what: &'static str, measure: fn(&Bench) -> anyhow::Result<Vec<Figure>>) -> Row {
    Row { number, what, measure }
}

/// Every row; rows that are measured together stand as one.
const ROWS: &[Row] = &[
    row(1, "hook: exec to exit, frame delivered", hook::measure),
    row(2, "a text arrives in the pane (rows 2 and 3)", typing::measure),
    row(4, "line written to a FIFO → committed", intake::commits),
    row(5, "mkfifo → channel open", intake::opens),
    row(6, "broadcast to 100 subscribers", broadcast::measure),
    row(7, "agent killed → replacement started", restart::measure),
    row(8, "idle daemon", idle::measure),
    row(9, "FIFO → Claude's UserPromptSubmit, the real Claude", turns::prompts),
    row(10, "Stop hook → turn on output.sock", turns::turns),
    row(11, "100 watched sessions", sessions::measure),
    row(12, "notify → listener awake", notices::listener),
    row(13, "three-line TCP notice", notices::tcp),
];

/// What to measure.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Fewer rounds: below 5 minutes after the build
    #[arg(long)]
    short: bool,
    /// Print one JSON array and nothing else on stdout
    #[arg(long)]
    json: bool,
    /// Measure debug binaries, which are built quickly: to work on the bench itself
    #[arg(long)]
    debug: bool,
    /// Let messages flow, 100,000 an hour, and see whether memory grows; nothing else is measured
    #[arg(long)]
    soak: bool,
    /// How long the soak takes
    #[arg(long, default_value_t = 60.0, requires = "soak")]
    minutes: f64,
    /// Exit with 1 where a goal is missed or was not measured, as CI wants it of the soak
    #[arg(long)]
    strict: bool,
    /// Rows, by their number; all without any
    rows: Vec<u8>,
}

/// What every row needs.
struct Bench {
    short: bool,
    binaries: PathBuf,
    target: PathBuf,
    baselines: Baselines,
}

impl Bench {
    /// How often something is done.
    fn rounds(&self, full: usize, short: usize) -> usize {
        if self.short { short } else { full }
    }

    fn binary(&self, name: &str) -> PathBuf {
        self.binaries.join(name)
    }

    /// A house with the release binaries.
    fn house(&self) -> HouseBuilder {
        House::builder().binaries(&self.binaries)
    }

    /// What an example of ccmux-runtime says that it measured.
    fn example(&self, name: &str, arguments: &[&str]) -> anyhow::Result<Value> {
        let mut command = Command::new(self.binaries.join("examples").join(name));
        let output = command.args(arguments).stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("can't start {name}"))?;
        ensure!(output.status.success(), "{name}: {}", output.status);
        serde_json::from_slice(&output.stdout).with_context(|| format!("{name} said no JSON"))
    }
}

/// Builds, measures, prints.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    for number in &arguments.rows {
        ensure!(ROWS.iter().any(|row| row.is(*number)), "there is no row {number}: {}", numbers());
    }
    programs::ensure_tmux()?;
    build(arguments.debug)?;
    let binaries = cargo::binaries(if arguments.debug { "debug" } else { "release" })?;
    let target = binaries.parent().context("target/release has a parent")?.to_owned();
    let baselines = Baselines::new(&target)?;
    let bench = Bench { short: arguments.short, binaries, target, baselines };
    let figures = if arguments.soak {
        soak::measure(&bench, arguments.minutes)?
    } else {
        let wanted =
            |row: &&Row| arguments.rows.is_empty() || arguments.rows.iter().any(|number| row.is(*number));
        ROWS.iter().filter(wanted).flat_map(|row| measure(row, &bench)).collect()
    };
    print(&figures, arguments.json)?;
    let open = figures.iter().filter(|figure| figure.met() != Some(true)).count();
    ensure!(!arguments.strict || open == 0, "{open} of {} goals not met", figures.len());
    Ok(())
}

impl Row {
    /// Row 3 is measured with row 2.
    fn is(&self, number: u8) -> bool {
        self.number == number || (self.number, number) == (2, 3)
    }
}

fn numbers() -> String {
    let numbers: Vec<String> = ROWS.iter().map(|row| row.number.to_string()).collect();
    numbers.join(", ")
}

/// A row that fails is told, and the others go on. The houses panic where a test would.
fn measure(row: &Row, bench: &Bench) -> Vec<Figure> {
    let start = Instant::now();
    eprintln!("{:>2} {}", row.number, row.what);
    let found = catch_unwind(AssertUnwindSafe(|| (row.measure)(bench)));
    let found = found.unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked, see above")));
    eprintln!("   {:.0} s", start.elapsed().as_secs_f64());
    found.unwrap_or_else(|error| {
        vec![Figure::missing(&format!("{} {}", row.number, row.what), &format!("{error:#}"))]
    })
}

fn build(debug: bool) -> anyhow::Result<()> {
    let profile = if debug { "dev" } else { "release" };
    let mut command = cargo::command("build");
    command.args(["--profile", profile, "--bins"]);
    command.args(BINARIES.iter().flat_map(|package| ["--package", package]));
    run_quietly(&mut command)?;
    let mut command = cargo::command("build");
    command.args(["--profile", profile, "--package", "ccmux-runtime"]);
    run_quietly(command.args(["--example", "broadcast", "--example", "typing"]))
}

/// cargo speaks on stderr; stdout is for the figures.
fn run_quietly(command: &mut Command) -> anyhow::Result<()> {
    let status = command.stdout(Stdio::null()).status().context("can't start cargo")?;
    if !status.success() {
        bail!("cargo build failed");
    }
    Ok(())
}

fn print(figures: &[Figure], json: bool) -> anyhow::Result<()> {
    if json {
        let all: Vec<Value> = figures.iter().map(Figure::to_json).collect();
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    println!("{}", figure::HEAD);
    for figure in figures {
        println!("{}", figure.to_row());
    }
    let missed = figures.iter().filter(|figure| figure.met() == Some(false)).count();
    let unknown = figures.iter().filter(|figure| figure.met().is_none()).count();
    println!("\n{} figures: {missed} goals missed, {unknown} not measured", figures.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_goals_is_there_once() {
        for number in 1..=13 {
            let rows = ROWS.iter().filter(|row| row.is(number)).count();
            assert_eq!(rows, 1, "row {number}");
        }
    }

    #[test]
    fn a_row_that_panics_is_told_and_the_others_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let baselines = Baselines::new(folder.path()).unwrap();
        let (binaries, target) = (folder.path().to_owned(), folder.path().to_owned());
        let bench = Bench { short: true, binaries, target, baselines };
        let figures = measure(&row(1, "breaks", |_| panic!("as a house does")), &bench);
        assert_eq!((figures.len(), figures[0].met()), (1, None));
        assert!(figures[0].to_json()["note"].as_str().unwrap().contains("panicked"), "{figures:?}");
    }
}
