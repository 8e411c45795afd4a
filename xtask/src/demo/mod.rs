//! `cargo xtask demo`: messages on their way through ccmux, with the demo agent in Claude Code's place.
//!
//! ```text
//! stage (a temporary directory, ccmuxd, a tmux server of its own)
//!   └─ watch (the daemon's log, output.sock) ─► facts ─► narrator (what you read)
//! story: does one thing, waits for the facts that must follow, each with a limit
//! ```
//!
//! Whatever happens (the end, a failure, Ctrl-C), the stage takes everything away again.

mod narrator;
mod picture;
mod stage;
mod story;
mod watch;

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

use crate::{cargo, programs};
use narrator::Narrator;
use stage::Stage;

/// What it is played with.
pub const PACKAGES: [&str; 4] = ["ccmuxd", "ccmux-cli", "ccmux-hook", "ccmux-demo"];

/// Ctrl-C, SIGTERM or a hang-up asked us to stop.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Fails once somebody wants us to stop, so that every wait ends and the stage is cleared.
fn go_on() -> anyhow::Result<()> {
    anyhow::ensure!(!INTERRUPTED.load(Ordering::Relaxed), "interrupted");
    Ok(())
}

/// What `cargo xtask demo` can be told.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Draw it into this file instead, as a picture of a terminal
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Take debug binaries: the build is faster
    #[arg(long)]
    debug: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    programs::ensure_tmux()?;
    let (profile, folder) = if arguments.debug { ("dev", "debug") } else { ("release", "release") };
    let mut build = vec!["--profile", profile, "--bins"];
    build.extend(PACKAGES.iter().flat_map(|package| ["--package", package]));
    cargo::run("build", &build)?;
    if let Some(file) = &arguments.svg {
        return picture::draw(file, if arguments.debug { &["--debug"] } else { &[] });
    }
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed)).context("can't watch for Ctrl-C")?;
    let binaries = cargo::binaries(folder)?;
    play(&binaries, &env::var_os("PATH").unwrap_or_default())?;
    Narrator::stdout().say(&how_to_go_on(&binaries));
    Ok(())
}

/// Plays with the binaries of that directory; other programs are looked for in `path`.
pub fn play(binaries: &Path, path: &OsStr) -> anyhow::Result<()> {
    let mut narrator = Narrator::stdout();
    let mut stage = Stage::new(binaries, path)?;
    let told = story::tell(&mut stage, &mut narrator);
    if told.is_err() && go_on().is_ok() {
        eprintln!("{}", stage.diagnosis());
    }
    let cleared = stage.clear();
    told?;
    narrator.say(&format!("\n{}", cleared?));
    Ok(())
}

fn how_to_go_on(binaries: &Path) -> String {
    let bin = binaries.display();
    format!(
        "
To go on with the real Claude Code (installed, and logged in once):
  {bin}/ccmuxd                    starts it in tmux, in ~/ccmux-workspace; leave this running
  {bin}/ccmux attach              the native Claude Code: settle its first questions; Ctrl-b d leaves
  echo 'What is in this folder?' > /tmp/ccmux/in
  {bin}/ccmux tail                follows the answers; `ccmux why` says what it waits for
README.md says more."
    )
}
