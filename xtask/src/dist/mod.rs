//! `cargo xtask dist`: what a release consists of, in `target/dist`.
//!
//! ```text
//! cargo build ─► tree: bin, man pages, completions, ─┬─► ccmux-VERSION-PLATFORM.tar.gz
//!                documents, units                    └─► ccmux_VERSION_ARCH.deb        (cargo-deb)
//! git archive ─► ccmux-VERSION-source.tar.gz ─► ccmux.rb                               (Homebrew)
//! all of them ─► SHA256SUMS
//! ```
//!
//! `--check` installs what it made into an empty root and plays the demo with the programs there. It publishes nothing,
//! and knows no network but for cargo-deb, which it installs into the target directory where it is missing.

mod archive;
mod check;
mod deb;
mod formula;
mod sums;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::cargo;
use crate::demo::PACKAGES;

/// What `cargo xtask dist` can be told.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Install what was made into an empty root, and play the demo there
    #[arg(long)]
    check: bool,
    /// Take debug binaries: fast, for a check of the packaging itself
    #[arg(long)]
    debug: bool,
    /// Leave the .deb out, and with it cargo-deb
    #[arg(long)]
    no_deb: bool,
}

/// A release in the making.
struct Release {
    version: String,
    /// As rustc calls it, e.g. `x86_64-unknown-linux-gnu`.
    platform: String,
    /// cargo's name for how the binaries were built.
    profile: &'static str,
    /// Where cargo put the binaries.
    binaries: PathBuf,
    /// What is packed, under `target/release`: there cargo-deb looks for it.
    tree: PathBuf,
    /// Where the results go.
    dist: PathBuf,
}

impl Release {
    fn new(debug: bool) -> anyhow::Result<Self> {
        let (profile, folder) = if debug { ("dev", "debug") } else { ("release", "release") };
        let (binaries, dist) = (cargo::binaries(folder)?, cargo::binaries("dist")?);
        let tree = cargo::binaries("release")?.join("dist").join("tree");
        let (version, platform) = (cargo::version()?, cargo::host()?);
        Ok(Self { version, platform, profile, binaries, tree, dist })
    }

    /// Name and version, as the archive and the directory in it are called.
    fn name(&self) -> String {
        format!("ccmux-{}-{}", self.version, self.platform)
    }
}

/// What was made.
struct Made {
    archive: PathBuf,
    deb: Option<PathBuf>,
}

/// Makes all of it, and checks it if that is wanted.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let release = Release::new(arguments.debug)?;
    build(&release)?;
    fresh(&release.dist)?;
    tree::lay(&release)?;
    let made = Made {
        archive: archive::pack(&release)?,
        deb: if arguments.no_deb { None } else { Some(deb::pack(&release)?) },
    };
    let source = archive::source(&release)?;
    formula::fill(&release, &source)?;
    sums::write(&release.dist)?;
    println!("\n{}", listing(&release.dist)?);
    if arguments.check { check::run(&release, &made) } else { Ok(()) }
}

fn build(release: &Release) -> anyhow::Result<()> {
    let mut build = vec!["--bins", "--profile", release.profile];
    build.extend(PACKAGES.iter().flat_map(|package| ["--package", package]));
    cargo::run("build", &build)
}

/// An empty folder of that name.
fn fresh(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("can't remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))
}

/// The files of a folder with their sizes, as people read them.
fn listing(folder: &Path) -> anyhow::Result<String> {
    let mut rows = vec![format!("{}:", folder.display())];
    for path in files(folder)? {
        let kib = fs::metadata(&path)?.len().div_ceil(1024);
        rows.push(format!("  {kib:7} KiB  {}", path.file_name().unwrap_or_default().display()));
    }
    Ok(rows.join("\n"))
}

/// The files right in that folder, sorted.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("can't read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    Ok(files)
}
