//! `cargo xtask chaos`: the promise under violence. Messages flow while the daemon, the agent and the tmux server are
//! killed, the disk is full, subscribers stall and the agent misbehaves; then everything is counted.
//!
//! ```text
//! strokes (from the seed) ─► storm ─► stage: ccmuxd, tmux, ccmux-demo-agent
//!                              │        ▲ writers: FIFOs      ▼ readers: output.sock
//!                              ▼        journal: what the agent's terminal really got
//!            ledger: written = accepted = taken, once and in order ─► report, exit code
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`strokes`], [`token`] | what is done next; what a message is known by |
//! | [`stage`], [`disk`] | what is killed; what is filled |
//! | [`writers`], [`readers`] | programs at the doors |
//! | [`quiet`] | when the storm has passed |
//! | [`journal`], [`keys`] | what the agents say; which bytes may reach a terminal |
//! | [`records`] | what ccmux says, read from its databases |
//! | [`ledger`] | the account |
//! | [`report`] | figures for people |
//!
//! The daemon is never asked whether it did well: the writers know what they wrote, the agent's journal and transcripts
//! what arrived. With `--sabotage` the daemon is built so that it breaks the promise, and the command fails unless that is
//! found.

mod clock;
mod disk;
mod journal;
mod keys;
mod ledger;
mod quiet;
mod readers;
mod records;
mod report;
mod stage;
mod storm;
mod strokes;
mod token;
mod writers;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::{cargo, programs};
use ledger::Verdict;
use stage::Stage;
use storm::{Storm, Weather};
use writers::Plan;

const PACKAGES: [&str; 4] = ["ccmuxd", "ccmux-cli", "ccmux-hook", "ccmux-demo"];
/// The state directory's tmpfs: for the short form, and what a thousand kills need more.
const DISK_MIB: u64 = 128;
const DISK_MIB_PER_KILO_KILL: u64 = 64;

/// A sabotaged daemon may never get to the end of its queue, and need not.
const SABOTAGE_CALM_S: u64 = 10;

/// Ctrl-C, SIGTERM or a hang-up asked us to stop.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Fails once somebody wants us to stop, so that every wait ends and the stage is cleared.
fn go_on() -> anyhow::Result<()> {
    anyhow::ensure!(!INTERRUPTED.load(Ordering::Relaxed), "interrupted");
    Ok(())
}

/// How hard, how long.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Repeat a run: the same strokes in the same order
    #[arg(long)]
    seed: Option<u64>,
    /// How often the daemon is killed
    #[arg(long, default_value_t = 200)]
    kills: u32,
    /// End the storm after that many minutes, whatever was killed
    #[arg(long)]
    minutes: Option<f64>,
    /// Channels that are written to
    #[arg(long, default_value_t = 6)]
    channels: u16,
    /// Messages a second, all channels together
    #[arg(long, default_value_t = 15.0)]
    rate: f64,
    /// Hold the FIFOs open, as systemd's FD store does (the default)
    #[arg(long, overrides_with = "no_holder")]
    holder: bool,
    /// Write as `echo >` does; what is in a pipe when the daemon dies is lost and counted
    #[arg(long)]
    no_holder: bool,
    /// Every hook comes, if late or three times: then nothing may be uncertain
    #[arg(long)]
    hooks_come: bool,
    /// Seconds that the queue may take to empty after the last blow
    #[arg(long, default_value_t = 90)]
    calm: u64,
    /// Fill the disk by a limit on the daemon's files, even where a tmpfs may be mounted
    #[arg(long)]
    no_mount: bool,
    /// Keep the directory
    #[arg(long)]
    keep: bool,
    /// Build a daemon that types before it records, and fail unless that is found
    #[arg(long)]
    sabotage: bool,
}

/// Builds, storms, counts.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    programs::ensure_tmux()?;
    let daemon = if arguments.sabotage { Some(build_saboteur()?) } else { None };
    let mut build = vec!["--bins"];
    build.extend(PACKAGES.iter().flat_map(|package| ["--package", package]));
    cargo::run("build", &build)?;
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed)).context("can't watch for Ctrl-C")?;
    let binaries = cargo::binaries("debug")?;
    let daemon = daemon.unwrap_or_else(|| binaries.join("ccmuxd"));
    let disk = DISK_MIB + u64::from(arguments.kills) * DISK_MIB_PER_KILO_KILL / 1_000;
    let mut stage = Stage::new(&binaries, &daemon, (!arguments.no_mount).then_some(disk))?;
    stage.keep = arguments.keep;
    let seed = arguments.seed.unwrap_or_else(|| clock::unix_ms().unsigned_abs() % 1_000_000);
    let verdict = rage(arguments, seed, &mut stage).inspect_err(|_| stage.keep |= go_on().is_ok())?;
    stage.keep |= !verdict.violations.is_empty() && !arguments.sabotage;
    conclude(arguments, seed, &verdict)
}

fn rage(arguments: &Arguments, seed: u64, stage: &mut Stage) -> anyhow::Result<Verdict> {
    let began = Instant::now();
    println!("seed {seed}; the disk is filled by {}", stage.disk.means().name());
    let storm = Storm::begin(stage, arguments.weather(seed))?;
    let (evidence, record) = storm.rage()?;
    let mut verdict = ledger::judge(&evidence);
    verdict.violations.extend(report::leaks(&record));
    println!("\n{}", report::text(&record, &verdict));
    println!("it took     {:.0} s", began.elapsed().as_secs_f64());
    Ok(verdict)
}

fn conclude(arguments: &Arguments, seed: u64, verdict: &Verdict) -> anyhow::Result<()> {
    let (count, list) = (verdict.violations.len(), report::violations(&verdict.violations));
    let is_double_or_lost = verdict.doubles + verdict.losses > 0;
    match (arguments.sabotage, count) {
        (false, 0) => println!("\nthe promise holds"),
        (true, _) if !is_double_or_lost => {
            bail!("the sabotaged daemon was not found out: this proof proves nothing")
        }
        (true, _) => println!("\n{list}\nthe sabotaged daemon was found out, as it must be"),
        (false, _) => bail!("{count} violations; again: cargo xtask chaos --seed {seed}\n{list}"),
    }
    Ok(())
}

impl Arguments {
    fn weather(&self, seed: u64) -> Weather {
        let holder = self.holder || !self.no_holder;
        Weather {
            seed,
            kills: self.kills,
            limit: self.minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes)),
            calm: Duration::from_secs(if self.sabotage { SABOTAGE_CALM_S } else { self.calm }),
            until_double: self.sabotage,
            hooks_may_fail: !self.hooks_come,
            writers: Plan { seed, channels: self.channels, rate: self.rate, holder },
        }
    }
}

/// The daemon with the feature `sabotage`, put aside; the honest one is built over it right after.
fn build_saboteur() -> anyhow::Result<PathBuf> {
    cargo::run("build", &["--package", "ccmuxd", "--features", "sabotage"])?;
    let built = cargo::binaries("debug")?.join("ccmuxd");
    let aside = cargo::binaries("sabotage")?;
    fs::create_dir_all(&aside).with_context(|| format!("can't make {}", aside.display()))?;
    let aside = aside.join("ccmuxd");
    fs::rename(&built, &aside).with_context(|| format!("can't move {}", built.display()))?;
    Ok(aside)
}
