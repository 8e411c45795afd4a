//! `cargo xtask fuzz TARGET`: input that grows towards new code, against what must hold for any input.
//!
//! A target is one file in tests/fuzz/src/bin. libFuzzer is linked in, and everything is built with its counters: a plain
//! stable compiler does, since no sanitizer is needed where there is no unsafe code. What was found interesting stays in
//! `target/fuzz/corpus/TARGET` for the next time, what failed in `target/fuzz/failed`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::{Unavailable, cargo};

const WORKSPACE: &str = "tests/fuzz";

/// What libFuzzer reads: counters of edges, the table of their places, and both sides of comparisons.
const FLAGS: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
];

/// Where a target finds input to begin with: what was recorded from the real Claude Code, and our own settings.
const SEEDS: [(&str, &str); 5] = [
    ("hook", "crates/ccmux-runtime/tests/fixtures/hooks"),
    ("screen", "crates/ccmux-runtime/tests/fixtures/screens"),
    ("settings", "config"),
    ("splice", "crates/ccmux-runtime/tests/fixtures/hooks"),
    ("transcript", "crates/ccmux-runtime/tests/fixtures/transcripts"),
];

/// Builds the target and runs it for so long.
pub fn run(target: &str, seconds: u32) -> anyhow::Result<()> {
    let known = targets(&cargo::root().join(WORKSPACE).join("src/bin"))?;
    if !known.iter().any(|name| name == target) {
        bail!("there is no fuzz target {target:?}; there are: {}", known.join(", "));
    }
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        let why = format!("{compiler} is not there: libFuzzer is C++; install g++ or clang, or set CXX");
        return Err(Unavailable(why).into());
    }
    let place = cargo::binaries("fuzz")?;
    let program = build(target, &place)?;
    fuzz(&program, target, seconds, &place)
}

/// The names of the targets: files, sorted.
fn targets(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("can't read {}", folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let sources = paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut names: Vec<String> =
        sources.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

/// For a named platform: then build scripts and macros are built without the flags.
fn build(target: &str, place: &Path) -> anyhow::Result<PathBuf> {
    let platform = cargo::host()?;
    println!("$ cargo build --bin {target}    in {WORKSPACE}, with the counters of libFuzzer");
    let mut build = cargo::command("build");
    build.current_dir(cargo::root().join(WORKSPACE)).args(["--bin", target, "--target", &platform]);
    build.env("CARGO_TARGET_DIR", place).env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"));
    if !build.status().context("can't start cargo")?.success() {
        bail!("the fuzz target {target} could not be built");
    }
    Ok(place.join(platform).join("debug").join(target))
}

fn fuzz(program: &Path, target: &str, seconds: u32, place: &Path) -> anyhow::Result<()> {
    let (corpus, failed) = (place.join("corpus").join(target), place.join("failed"));
    for folder in [&corpus, &failed] {
        fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
    }
    let mut run = Command::new(program);
    // What is new goes into the first folder, the others are only read.
    run.arg(&corpus).args(seeds(target)).arg(format!("-artifact_prefix={}/{target}-", failed.display()));
    run.arg(format!("-max_total_time={seconds}")).args([
        "-print_final_stats=1",
        "-max_len=8192",
        "-timeout=10",
    ]);
    println!("$ {target} for {seconds} s, with what {} holds", corpus.display());
    if !run.status().with_context(|| format!("can't start {}", program.display()))?.success() {
        let again = format!("{} FILE", program.display());
        bail!("{target} failed; the input is in {}, and `{again}` runs it again", failed.display());
    }
    println!("{target}: nothing found");
    Ok(())
}

fn seeds(target: &str) -> impl Iterator<Item = PathBuf> {
    let of_target = SEEDS.iter().filter(move |(name, _)| *name == target);
    of_target.map(|(_, folder)| cargo::root().join(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_there_and_of_targets() {
        let names = targets(&cargo::root().join(WORKSPACE).join("src/bin")).unwrap();
        for (target, folder) in SEEDS {
            assert!(names.contains(&target.to_owned()), "{target}");
            assert!(cargo::root().join(folder).is_dir(), "{folder}");
        }
    }

    #[test]
    fn every_file_is_a_target() {
        let names = targets(&cargo::root().join(WORKSPACE).join("src/bin")).unwrap();
        assert!(names.contains(&"sanitise".to_owned()), "{names:?}");
        assert!(names.is_sorted(), "{names:?}");
    }

    #[test]
    fn a_target_that_is_not_there_is_told_with_those_that_are() {
        let told = run("nothing", 1).unwrap_err().to_string();
        assert!(told.contains("nothing") && told.contains("inbound, sanitise, screen"), "{told}");
    }
}
