//! The tree of a small Debian with systemd, made once and kept outside the repository.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use nix::unistd::geteuid;

use crate::Unavailable;

const PACKAGES: &str =
    "systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,tmux,procps,login,passwd,ncurses-base";
const TOOLS: [(&str, &str); 4] = [
    ("debootstrap", "debootstrap"),
    ("systemd-nspawn", "systemd-container"),
    ("nsenter", "util-linux"),
    ("unshare", "util-linux"),
];

/// # Errors
/// [`Unavailable`] if this machine can't boot one.
pub fn check_tools() -> anyhow::Result<()> {
    if !geteuid().is_root() {
        return Err(Unavailable("systemd-test boots a container: run it as root".to_owned()).into());
    }
    for (tool, package) in TOOLS {
        let found =
            env::split_paths(&env::var_os("PATH").unwrap_or_default()).any(|dir| dir.join(tool).is_file());
        if !found {
            return Err(Unavailable(format!("{tool} is missing: apt-get install {package}")).into());
        }
    }
    Ok(())
}

/// The tree of that release; takes some minutes the first time.
///
/// # Errors
/// If it can't be made.
pub fn ensure(suite: &str, mirror: &str) -> anyhow::Result<PathBuf> {
    let folder = cache()?.join("ccmux/systemd-test");
    let (tree, complete) = (folder.join(suite), folder.join(format!("{suite}.complete")));
    if complete.is_file() {
        return Ok(tree);
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    if tree.exists() {
        fs::remove_dir_all(&tree).with_context(|| tree.display().to_string())?;
    }
    println!("making {} (once)", tree.display());
    debootstrap(suite, mirror, &tree)?;
    File::create(&complete).with_context(|| complete.display().to_string())?;
    Ok(tree)
}

fn debootstrap(suite: &str, mirror: &str, tree: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", &format!("--include={PACKAGES}"), suite]).arg(tree).arg(mirror);
    if !command.status().context("debootstrap")?.success() {
        bail!("debootstrap failed; its log is {}", tree.join("debootstrap/debootstrap.log").display());
    }
    Ok(())
}

fn cache() -> anyhow::Result<PathBuf> {
    if let Some(cache) = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute()) {
        return Ok(cache);
    }
    Ok(PathBuf::from(env::var_os("HOME").context("HOME is not set")?).join(".cache"))
}
