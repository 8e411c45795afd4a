//! `cargo xtask systemd-test`: ccmux as a unit of a real systemd, in a container that boots one.
//!
//! ```text
//! debootstrap ──► ~/.cache/ccmux/systemd-test/SUITE     once
//!                       │ read only, what is written goes to memory
//!                       ▼
//! systemd-nspawn --boot     a user with linger, the built binaries, `ccmux install --service`
//!                       ▼
//! steps                     each asks systemd, /proc and ccmux; prints what it saw
//! ```
//!
//! On demand, as root, on Linux with debootstrap and systemd-nspawn; nothing of it is in CI. The demo agent stands in for
//! Claude Code. Knows systemd and the documented commands of ccmux, none of its code.

mod daemon;
mod endings;
mod machine;
mod places;
mod root;
mod steps;

use std::time::Instant;

use anyhow::{Context, bail};

use crate::cargo;
use daemon::Daemon;
use machine::Machine;

/// What may be chosen.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The Debian release to boot: bookworm has systemd 252, trixie 257
    #[arg(long, default_value = "bookworm")]
    suite: String,
    /// Where its packages come from
    #[arg(long, default_value = "http://deb.debian.org/debian")]
    mirror: String,
    /// Run these steps alone, by a part of their names
    #[arg(last = true)]
    filter: Vec<String>,
}

/// What a step found, in words; an error is a failed step.
type Seen = anyhow::Result<String>;

/// A name, and what is done.
type Step = (&'static str, fn(&Daemon<'_>) -> Seen);

/// Boots, runs the steps, says what was seen.
///
/// # Errors
/// If something is missing, or a step failed.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    root::check_tools()?;
    cargo::run("build", &["--workspace", "--bins"])?;
    let tree = root::ensure(&arguments.suite, &arguments.mirror)?;
    let begin = Instant::now();
    let machine = Machine::boot(&tree, &cargo::binaries("debug")?)?;
    let version = machine.root("systemctl --version | head -1")?;
    println!("{} booted within {:.1} s: {version}", arguments.suite, begin.elapsed().as_secs_f64());
    let daemon = Daemon::install(&machine).context("ccmux can't be installed in the machine")?;
    let chosen =
        |name: &str| arguments.filter.is_empty() || arguments.filter.iter().any(|part| name.contains(part));
    let steps = steps::ALL.iter().chain(endings::ALL).chain(places::ALL);
    for (name, step) in steps.filter(|(name, _)| chosen(name)) {
        if !run_step(name, *step, &daemon) {
            println!("{}", daemon.picture());
            bail!("{name}: failed; the steps after it were not run");
        }
    }
    Ok(())
}

fn run_step(name: &str, step: fn(&Daemon<'_>) -> Seen, daemon: &Daemon<'_>) -> bool {
    let begin = Instant::now();
    let seen = step(daemon);
    let took = begin.elapsed().as_secs_f64();
    match &seen {
        Ok(what) => println!("ok    {name} ({took:.1} s): {what}"),
        Err(error) => println!("FAILED {name} ({took:.1} s): {error:#}"),
    }
    seen.is_ok()
}
