//! Every developer command of ccmux, one file each: `cargo xtask COMMAND`.
//!
//! | module | command |
//! |---|---|
//! | [`check`] | what CI runs: format, lints, tidy, tests |
//! | [`check_macos`] | the workspace's types on macOS, from Debian |
//! | [`mod@test`] | all tests, the end-to-end ones last |
//! | [`tidy`] | what the compiler can't check: layers, docs, words |
//! | [`demo`] | one message through ccmux, before your eyes |
//! | [`mod@bench`] | what ccmux takes, beside what others take |
//! | [`chaos`] | the proof of delivery, under violence |
//! | [`dist`] | archives, packages, sums, and whether they are whole |
//! | [`replay`] | a timeline against the policy |
//! | [`fuzz`] | input that grows, against what must hold for any |
//! | [`systemd_test`] | ccmux as a unit of a real systemd |
//! | [`screen`] | a pane becomes a fixture of the screen rules |
//! | [`cargo`], [`programs`] | other programs that the commands need |

mod bench;
mod cargo;
mod chaos;
mod check;
mod check_macos;
mod demo;
mod dist;
mod fuzz;
mod programs;
mod replay;
mod screen;
mod systemd_test;
mod test;
mod tidy;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer commands of ccmux
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// What CI runs: format, lints, tidy, tests
    Check,
    /// Type-check everything for macOS, on Debian: std and the compiler come from apt, unpacked beside the repository
    CheckMacos,
    /// Run every test, the end-to-end ones last; installs what they need: tmux, nc, socat, curl, python3
    Test {
        /// Passed on to the test programs: a name to filter by, `--nocapture`
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Run the end-to-end tests alone
    E2e {
        /// Passed on to the test programs
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Check what the compiler can't: layers, docs, settings file, words
    Tidy {
        /// Update what can be updated by itself: the hash in docs/PROTOCOL.md
        #[arg(long)]
        fix: bool,
    },
    /// Show one message on its way through ccmux, with a small agent that stands in for Claude Code
    Demo(demo::Arguments),
    /// Kill everything again and again while messages flow, then count: none lost, none twice
    Chaos(chaos::Arguments),
    /// Measure ccmux beside baselines, in the same run
    Bench(bench::Arguments),
    /// Run a timeline, a test's or a recorded one, against the policy
    Replay {
        /// A file of lines `TIME > event`, `TIME < order`, `TIME = state`
        file: PathBuf,
        /// Show what the policy orders instead of comparing
        #[arg(long)]
        trace: bool,
    },
    /// Run a fuzz target, a file of tests/fuzz/src/bin, on input that grows towards new code
    Fuzz {
        /// Its name
        target: String,
        /// For how long
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
    /// Make what a release consists of: archives, a .deb, sums, a Homebrew formula
    Dist(dist::Arguments),
    /// Boot a real systemd in a container and put ccmux through its paces as a user unit; needs root, Linux
    SystemdTest(systemd_test::Arguments),
    /// Work on the recorded screens
    Screen {
        #[command(subcommand)]
        command: ScreenCommand,
    },
}

#[derive(Debug, Subcommand)]
enum ScreenCommand {
    /// Capture a pane into the fixtures
    Add {
        /// What it shows
        #[arg(value_enum)]
        kind: screen::Kind,
        /// The rest of the fixture's name
        name: String,
        /// The tmux server (`tmux -L`)
        #[arg(long)]
        socket: Option<String>,
        /// The pane
        #[arg(long, default_value = "=ccmux:")]
        target: String,
    },
}

/// Something this machine lacks; exit code 69.
#[derive(Debug)]
pub struct Unavailable(pub String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            if error.is::<Unavailable>() { ExitCode::from(69) } else { ExitCode::FAILURE }
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Check => check::run(),
        Command::CheckMacos => check_macos::run(),
        Command::Test { arguments } => test::run(&arguments),
        Command::E2e { arguments } => test::run_end_to_end(&arguments),
        Command::Tidy { fix } => tidy::run(fix),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Chaos(arguments) => chaos::run(&arguments),
        Command::Replay { file, trace } => replay::run(&file, trace),
        Command::Fuzz { target, seconds } => fuzz::run(&target, seconds),
        Command::Dist(arguments) => dist::run(&arguments),
        Command::SystemdTest(arguments) => systemd_test::run(&arguments),
        Command::Screen { command: ScreenCommand::Add { kind, name, socket, target } } => {
            screen::add(cargo::root(), kind, &name, socket.as_deref(), &target)
        }
    }
}
