//! cargo, the same one that started us, in the workspace's root.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use cargo_metadata::{Metadata, MetadataCommand, Package};

/// The workspace's root: this crate's parent.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// A cargo command. In CI the lock file is law.
pub fn command(subcommand: &str) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg(subcommand).current_dir(root());
    if subcommand != "fmt" && env::var_os("CI").is_some_and(|value| value == "true") {
        command.arg("--locked");
    }
    command
}

/// Runs cargo before the user's eyes.
pub fn run(subcommand: &str, arguments: &[&str]) -> anyhow::Result<()> {
    println!("$ cargo {subcommand} {}", arguments.join(" "));
    let status = command(subcommand).args(arguments).status().context("can't start cargo")?;
    if !status.success() {
        bail!("cargo {subcommand} failed");
    }
    Ok(())
}

/// What cargo knows about the workspace, with all dependencies.
pub fn metadata() -> anyhow::Result<Metadata> {
    MetadataCommand::new().current_dir(root()).exec().context("cargo metadata failed")
}

/// The version that all crates bear.
pub fn version() -> anyhow::Result<String> {
    Ok(of_the_daemon()?.version.to_string())
}

/// Where the project lives.
pub fn repository() -> anyhow::Result<String> {
    of_the_daemon()?.repository.context("ccmuxd's Cargo.toml names no repository")
}

fn of_the_daemon() -> anyhow::Result<Package> {
    let metadata =
        MetadataCommand::new().current_dir(root()).no_deps().exec().context("cargo metadata failed")?;
    metadata.packages.into_iter().find(|package| package.name == "ccmuxd").context("there is no ccmuxd")
}

/// The platform that rustc builds for by itself.
pub fn host() -> anyhow::Result<String> {
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let output = rustc.arg("-vV").output().context("can't start rustc")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let host =
        said.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc -vV names no host")?;
    Ok(host.to_owned())
}

/// Where cargo puts binaries of a profile: `debug`, `release`.
pub fn binaries(profile: &str) -> anyhow::Result<PathBuf> {
    let metadata =
        MetadataCommand::new().current_dir(root()).no_deps().exec().context("cargo metadata failed")?;
    Ok(metadata.target_directory.join(profile).into_std_path_buf())
}
