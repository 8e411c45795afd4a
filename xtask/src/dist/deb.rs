//! The Debian package, by cargo-deb. What is in it stands in `crates/ccmuxd/Cargo.toml`, under `package.metadata.deb`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use super::Release;
use super::archive::run;
use crate::cargo;

/// The one that the metadata was written for.
const CARGO_DEB: &str = "3.8.0";

/// Packs the tree that was laid.
pub fn pack(release: &Release) -> anyhow::Result<PathBuf> {
    let deb = release.dist.join(format!("ccmux_{}_{}.deb", release.version, architecture(release)));
    let mut cargo_deb = Command::new(cargo_deb()?);
    cargo_deb.current_dir(cargo::root()).args(["deb", "--package", "ccmuxd", "--no-build", "--no-strip"]);
    cargo_deb.args(["--deb-revision", ""]).arg("--output").arg(&deb);
    // Debug binaries are ten times as big, and nobody keeps their package.
    if release.profile == "dev" {
        cargo_deb.arg("--fast");
    }
    run(&mut cargo_deb)?;
    Ok(deb)
}

/// As Debian calls it.
fn architecture(release: &Release) -> &str {
    match release.platform.split('-').next() {
        Some("x86_64") => "amd64",
        Some("aarch64") => "arm64",
        other => other.unwrap_or("unknown"),
    }
}

/// The user's own, or one in the target directory, which is installed where it is missing.
fn cargo_deb() -> anyhow::Result<PathBuf> {
    if Command::new("cargo-deb").arg("--version").output().is_ok() {
        return Ok("cargo-deb".into());
    }
    let tools = cargo::binaries("tools")?;
    let program = tools.join("bin/cargo-deb");
    if !program.is_file() {
        let root = tools.to_str().context("the target directory's name is no UTF-8")?;
        cargo::run("install", &["cargo-deb", "--version", CARGO_DEB, "--root", root])?;
    }
    Ok(program)
}
