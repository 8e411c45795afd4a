//! `cargo xtask test` and `e2e`: all tests with plain `cargo test`, the end-to-end package last, one summary at the end.

use std::io::{self, BufRead, BufReader, Write};
use std::process::Stdio;
use std::{env, thread};

use anyhow::{Context, bail};

use crate::{cargo, programs};

const END_TO_END: &str = "ccmux-tests";

/// How many tests of a program run at once, for the test harness of Rust.
const THREADS: &str = "RUST_TEST_THREADS";

/// How many tests went which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// All tests.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    run_rounds(&[&["--workspace", "--exclude", END_TO_END], &["--package", END_TO_END]], arguments)
}

/// The end-to-end tests alone.
pub fn run_end_to_end(arguments: &[String]) -> anyhow::Result<()> {
    run_rounds(&[&["--package", END_TO_END]], arguments)
}

fn run_rounds(rounds: &[&[&str]], arguments: &[String]) -> anyhow::Result<()> {
    programs::ensure_all()?;
    cargo::run("build", &["--workspace", "--bins"])?;
    let (mut count, mut all_well) = (Count::default(), true);
    for packages in rounds {
        let (round, well) = run_round(packages, arguments)?;
        count += round;
        all_well &= well;
    }
    println!("\n{} passed, {} failed, {} skipped", count.passed, count.failed, count.skipped);
    if !all_well {
        bail!("some tests failed, or could not be built: see above");
    }
    Ok(())
}

/// Runs `cargo test`, shows what it prints, and counts.
fn run_round(packages: &[&str], arguments: &[String]) -> anyhow::Result<(Count, bool)> {
    println!("\n$ cargo test {}", packages.join(" "));
    let mut command = cargo::command("test");
    command.arg("--no-fail-fast").args(packages).arg("--").args(arguments).stdout(Stdio::piped());
    if packages.contains(&END_TO_END) && env::var_os(THREADS).is_none() {
        command.env(THREADS, end_to_end_threads().to_string());
    }
    let mut cargo = command.spawn().context("can't start cargo")?;
    let output = cargo.stdout.take().context("cargo has no stdout")?;
    let mut count = Count::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("can't read what cargo prints")?;
        count += count_in(&String::from_utf8_lossy(&line)).unwrap_or_default();
        io::stdout().write_all(&[line.as_slice(), b"\n"].concat())?;
    }
    let status = cargo.wait().context("can't wait for cargo")?;
    Ok((count, status.success()))
}

/// An end-to-end test waits far more than it works (15 s of processor time in 70 s): two for each core leave cores idle.
fn end_to_end_threads() -> usize {
    thread::available_parallelism().map_or(4, |cores| 2 * cores.get())
}

/// Reads `test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 9 filtered out; finished in 0.00s`.
fn count_in(line: &str) -> Option<Count> {
    let counts = line.strip_prefix("test result: ")?;
    let number = |word: &str| {
        counts.split([';', '.']).find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
    };
    Some(Count { passed: number("passed")?, failed: number("failed")?, skipped: number("ignored")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_of_a_test_program_is_counted() {
        let line = "test result: FAILED. 5 passed; 2 failed; 1 ignored; 0 measured; 9 filtered out; finished in 0.00s";
        assert_eq!(count_in(line), Some(Count { passed: 5, failed: 2, skipped: 1 }));
        assert_eq!(count_in("test a ... ok"), None);
    }
}
