//! `cargo xtask check`: what CI runs before the chaos. Stops at the first thing that is not right.

use crate::{cargo, test, tidy};

pub fn run() -> anyhow::Result<()> {
    cargo::run("fmt", &["--all", "--check"])?;
    cargo::run("clippy", &["--workspace", "--all-targets", "--", "-D", "warnings"])?;
    tidy::run(false)?;
    test::run(&[])
}
