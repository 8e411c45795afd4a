//! Are the packages whole? Each is installed into an empty root, looked at, and the demo is played with the programs
//! there, which find nothing of ours elsewhere: PATH holds the system's programs alone.
//!
//! As root, dpkg itself installs the .deb and removes it again; otherwise it is only unpacked.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use nix::unistd::geteuid;

use super::archive::{run as order, unpack};
use super::tree::{COMPLETIONS, DOCUMENTS, MANUAL, PROGRAMS};
use super::{Made, Release, files, sums};
use crate::{cargo, demo, programs};

/// What dpkg wants to find in a root, and what it may lack there: tmux and libc are the machine's.
const DPKG: [&str; 3] = ["--force-depends", "--force-script-chrootless", "--no-triggers"];

/// Checks everything that was made.
pub fn run(release: &Release, made: &Made) -> anyhow::Result<()> {
    programs::ensure_tmux()?;
    println!("\n{} sums are right", sums::check(&release.dist)?);
    let root = tempfile::tempdir().context("can't make a temporary directory")?;
    unpack(&made.archive, root.path())?;
    look_and_play("the archive", release, root.path())?;
    if let Some(deb) = &made.deb {
        let root = tempfile::tempdir().context("can't make a temporary directory")?;
        install(deb, root.path())?;
        look_and_play("the .deb", release, &root.path().join("usr"))?;
        remove(root.path())?;
    }
    println!("\nThe packages are whole.");
    Ok(())
}

fn look_and_play(what: &str, release: &Release, prefix: &Path) -> anyhow::Result<()> {
    look(release, prefix).with_context(|| format!("{what} is not whole"))?;
    println!("\n==== {what}, installed into an empty root, plays the demo");
    demo::play(&prefix.join("bin"), OsStr::new("/usr/local/bin:/usr/bin:/bin"))
}

fn look(release: &Release, prefix: &Path) -> anyhow::Result<()> {
    let bin = prefix.join("bin");
    let installed = files(&bin)?;
    ensure!(installed.len() == PROGRAMS.len(), "other programs than {PROGRAMS:?}: {installed:?}");
    for program in ["ccmuxd", "ccmux"] {
        let version = said(&bin.join(program), &["--version"])?;
        ensure!(version.trim() == format!("{program} {}", release.version), "{program} says {version}");
    }
    let settings = fs::read_to_string(prefix.join(DOCUMENTS).join("config/ccmux.toml"))?;
    ensure!(said(&bin.join("ccmuxd"), &["--print-default-config"])? == settings, "other settings");
    for page in ["ccmux.1", "ccmuxd.1", "ccmux-send.1", "ccmuxd-doctor.1"] {
        // cargo-deb compresses them.
        let path = [page.to_owned(), format!("{page}.gz")].map(|name| prefix.join(MANUAL).join(name));
        ensure!(path.iter().any(|path| path.is_file()), "no {page} in {MANUAL}");
    }
    for (shell, place) in COMPLETIONS {
        let script = completion(prefix, place).with_context(|| format!("no {place}"))?;
        ensure!(script.contains("attention"), "{place} completes no verb for {shell}");
    }
    order(Command::new("bash").arg("-n").arg(prefix.join(COMPLETIONS[0].1)))?;
    ensure!(prefix.join(DOCUMENTS).join("LICENSE-MIT").is_file(), "no licence");
    Ok(())
}

/// Debian has zsh's elsewhere.
fn completion(prefix: &Path, place: &str) -> std::io::Result<String> {
    let of_debian = place.replace("site-functions", "vendor-completions");
    fs::read_to_string(prefix.join(place)).or_else(|_| fs::read_to_string(prefix.join(of_debian)))
}

fn said(program: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program).args(arguments).current_dir(cargo::root()).output();
    let output = output.with_context(|| format!("can't start {}", program.display()))?;
    ensure!(output.status.success(), "{} {arguments:?} failed", program.display());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn install(deb: &Path, root: &Path) -> anyhow::Result<()> {
    if !geteuid().is_root() {
        return order(Command::new("dpkg-deb").arg("-x").arg(deb).arg(root));
    }
    let admin = root.join("var/lib/dpkg");
    for folder in ["info", "updates", "triggers"] {
        fs::create_dir_all(admin.join(folder))?;
    }
    fs::write(admin.join("status"), "")?;
    order(dpkg(root).arg("--install").arg(deb))
}

/// Nothing but dpkg's own notes may stay.
fn remove(root: &Path) -> anyhow::Result<()> {
    if geteuid().is_root() {
        order(dpkg(root).args(["--purge", "ccmux"]))?;
        let left: Vec<PathBuf> = files_below(&root.join("usr"))?;
        ensure!(left.is_empty(), "dpkg left {left:?}");
    }
    Ok(())
}

fn dpkg(root: &Path) -> Command {
    let mut dpkg = Command::new("dpkg");
    dpkg.arg(format!("--root={}", root.display())).args(DPKG).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    dpkg
}

fn files_below(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut found = files(folder)?;
    for folder in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        found.extend(files_below(&folder)?);
    }
    Ok(found)
}
