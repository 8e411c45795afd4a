//! Archives: of the programs for one platform, and of the source as committed. The same commit gives the same source
//! archive, and the same tree the same archive, to the byte.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::Release;
use crate::cargo;

/// GNU tar: sorted, nobody's, of one time.
const PLAIN: [&str; 5] = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=go=rX,u+rw"];

/// Packs the tree, under a directory of the archive's name.
pub fn pack(release: &Release) -> anyhow::Result<PathBuf> {
    let (name, tree) = (release.name(), &release.tree);
    let archive = release.dist.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    // bsdtar, on macOS, knows none of these.
    if cfg!(target_os = "linux") {
        tar.args(PLAIN).arg(format!("--mtime=@{}", committed_at()?));
        tar.args(["--use-compress-program", "gzip -n"]).arg(format!("--transform=s,^\\.,{name},"));
    } else {
        tar.arg("-z").args(["-s", &format!(",^\\.,{name},")]);
    }
    run(tar.arg("-cf").arg(&archive).arg("-C").arg(tree).arg("."))?;
    Ok(archive)
}

/// Packs the source of the last commit.
pub fn source(release: &Release) -> anyhow::Result<PathBuf> {
    let name = format!("ccmux-{}", release.version);
    let archive = release.dist.join(format!("{name}-source.tar.gz"));
    let mut git = git();
    git.args(["archive", "--format=tar.gz", &format!("--prefix={name}/")]);
    run(git.arg("-o").arg(&archive).arg("HEAD"))?;
    Ok(archive)
}

/// Unpacks what [`pack`] made, without its directory.
pub fn unpack(archive: &Path, to: &Path) -> anyhow::Result<()> {
    run(Command::new("tar").arg("-xzf").arg(archive).args(["--strip-components=1", "-C"]).arg(to))
}

/// Unix seconds of the last commit.
fn committed_at() -> anyhow::Result<u64> {
    let output = git().args(["log", "-1", "--format=%ct"]).output().context("can't start git")?;
    ensure!(output.status.success(), "git log failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    String::from_utf8_lossy(&output.stdout).trim().parse().context("git log told no time")
}

fn git() -> Command {
    let mut git = Command::new("git");
    git.current_dir(cargo::root());
    git
}

/// Runs a program of the system; its messages go where ours go.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("can't start {program}"))?;
    ensure!(status.success(), "{program} failed: {command:?}");
    Ok(())
}
