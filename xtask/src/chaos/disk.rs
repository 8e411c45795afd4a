//! A state directory that can be full for a while: a small tmpfs where mounting is allowed, else a limit on the size of
//! the daemon's files.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

/// Files of the daemon end there while its disk is "full": nothing that it has grows any more.
const LIMIT: &str = "--fsize=4096:unlimited";
const NO_LIMIT: &str = "--fsize=unlimited:unlimited";

/// How the disk is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    Tmpfs,
    FileSizeLimit,
}

impl Means {
    pub fn name(self) -> &'static str {
        match self {
            Self::Tmpfs => "tmpfs",
            Self::FileSizeLimit => "RLIMIT_FSIZE on the daemon: no tmpfs was mounted",
        }
    }
}

/// The disk under the state directory.
#[derive(Debug)]
pub struct Disk {
    dir: PathBuf,
    means: Means,
    full: bool,
}

impl Disk {
    /// Mounts a tmpfs of that many MiB at `dir`, if that is allowed; with none the limit is used.
    pub fn at(dir: &Path, mebibytes: Option<u64>) -> Self {
        let size = format!("size={}m,mode=0700", mebibytes.unwrap_or_default());
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "ccmux-chaos"]).arg(dir);
        let means =
            if mebibytes.is_some() && succeeds(&mut mount) { Means::Tmpfs } else { Means::FileSizeLimit };
        Self { dir: dir.to_owned(), means, full: false }
    }

    pub fn means(&self) -> Means {
        self.means
    }

    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Nothing more goes in.
    pub fn fill(&mut self, daemon: u32) -> anyhow::Result<()> {
        self.full = true;
        match self.means {
            Means::Tmpfs => fill_up(&self.ballast()),
            Means::FileSizeLimit => limit(daemon, LIMIT),
        }
    }

    /// There is room again.
    pub fn free(&mut self, daemon: u32) -> anyhow::Result<()> {
        self.full = false;
        match self.means {
            Means::Tmpfs => fs::remove_file(self.ballast()).context("can't remove the ballast"),
            Means::FileSizeLimit => limit(daemon, NO_LIMIT),
        }
    }

    /// A daemon was started: it has what the last one had.
    pub fn daemon_started(&self, daemon: u32) -> anyhow::Result<()> {
        match self.means {
            Means::FileSizeLimit if self.full => limit(daemon, LIMIT),
            _ => Ok(()),
        }
    }

    fn ballast(&self) -> PathBuf {
        self.dir.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.means == Means::Tmpfs {
            // Lazily: an agent that is ending may still hold a file.
            succeeds(Command::new("umount").arg("-l").arg(&self.dir));
        }
    }
}

fn fill_up(ballast: &Path) -> anyhow::Result<()> {
    let mut file = File::create(ballast).context("can't make the ballast")?;
    for size in [1 << 20, 4096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
    Ok(())
}

/// The limit of a process that runs; one that has just ended needs none.
fn limit(pid: u32, limit: &str) -> anyhow::Result<()> {
    let mut command = Command::new("prlimit");
    command.args(["--pid", &pid.to_string(), limit]);
    let output = command.output().context("prlimit (util-linux) is needed where mounting is not allowed")?;
    let gone = !Path::new("/proc").join(pid.to_string()).exists();
    anyhow::ensure!(output.status.success() || gone, "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
