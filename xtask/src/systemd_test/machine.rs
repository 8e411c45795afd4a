//! A booted systemd, and commands that run in it. It ends with the value.
//!
//! What is written in it goes to memory. It shares the network, and on a host without a systemd of its own it gets a
//! cgroup hierarchy mounted where it expects one.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The user that ccmux runs as.
pub const USER: &str = "tester";
const BOOTS_WITHIN: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);

/// Mounts what the first argument's boot needs, then becomes it.
const BOOT: &str = r#"
[ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ] || {
    umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup
}
exec systemd-nspawn "$@"
"#;

/// A container that runs.
#[derive(Debug)]
pub struct Machine {
    nspawn: Child,
    init: Pid,
}

impl Machine {
    /// Boots the tree with the binaries beside it, and makes the user, with linger.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn boot(tree: &Path, binaries: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", BOOT, "systemd-test"]);
        command.args(["--quiet", "--private-users=no", "--volatile=overlay", "--console=pipe", "--boot"]);
        if !Path::new("/run/systemd/system").exists() {
            command.args(["--keep-unit", "--register=no"]);
        }
        command.arg(format!("--bind-ro={}:/opt/ccmux/bin", binaries.display()));
        command.arg("--directory").arg(tree);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut nspawn = command.spawn().context("can't start unshare")?;
        let init = init_of(&mut nspawn)?;
        let machine = Self { nspawn, init };
        machine.until_up()?;
        machine.root(&format!(
            "useradd --uid 1000 --create-home --shell /bin/bash {USER} && loginctl enable-linger {USER}"
        ))?;
        wait_for("the user's manager", BOOTS_WITHIN, || {
            machine.user("systemctl --user is-system-running").ok().filter(|state| state == "running")
        })?;
        Ok(machine)
    }

    fn until_up(&self) -> anyhow::Result<()> {
        let state = || self.output(&[], "systemctl is-system-running").ok();
        let is_up = |output: Output| {
            let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            (state == "running" || state == "degraded").then_some(())
        };
        wait_for("a booted system", BOOTS_WITHIN, || state().and_then(is_up))
    }

    /// A shell command as root; its output if it succeeds.
    pub fn root(&self, script: &str) -> anyhow::Result<String> {
        said(script, self.output(&[], script)?)
    }

    /// A shell command as the user; its output if it succeeds.
    pub fn user(&self, script: &str) -> anyhow::Result<String> {
        said(script, self.user_output(script)?)
    }

    /// A shell command as the user.
    pub fn user_output(&self, script: &str) -> anyhow::Result<Output> {
        Ok(self.output(&AS_USER, script)?)
    }

    /// A shell command as the user that goes on by itself.
    pub fn user_spawn(&self, script: &str) -> anyhow::Result<Child> {
        let mut command = self.command(&AS_USER, script);
        Ok(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
    }

    fn output(&self, before: &[&str], script: &str) -> io::Result<Output> {
        self.command(before, script).output()
    }

    fn command(&self, before: &[&str], script: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init.to_string(), "--all", "--"]);
        command
            .args(before)
            .args(["sh", "-c", &format!("cd /\n{script}")])
            .env("PATH", PATH)
            .stdin(Stdio::null());
        command
    }
}

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The user's first uid; a shell of theirs without a login.
const AS_USER: [&str; 11] = [
    "setpriv",
    "--reuid=1000",
    "--regid=1000",
    "--init-groups",
    "env",
    "-i",
    "HOME=/home/tester",
    "SHELL=/bin/bash",
    "XDG_RUNTIME_DIR=/run/user/1000",
    "LANG=C.UTF-8",
    "PATH=/home/tester/.local/bin:/usr/bin:/bin",
];

impl Drop for Machine {
    fn drop(&mut self) {
        // All of a container ends with its init.
        let _ = kill(self.init, Signal::SIGKILL);
        let _ = self.nspawn.wait();
    }
}

fn said(script: &str, output: Output) -> anyhow::Result<String> {
    if !output.status.success() {
        bail!("`{script}` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// nspawn's child is the container's init.
fn init_of(nspawn: &mut Child) -> anyhow::Result<Pid> {
    let children = format!("/proc/{0}/task/{0}/children", nspawn.id());
    wait_for("the container's init", BOOTS_WITHIN, || {
        if let Ok(Some(status)) = nspawn.try_wait() {
            return Some(Err(anyhow::anyhow!("systemd-nspawn ended with {status}")));
        }
        let text = fs::read_to_string(&children).ok()?;
        let init = text.split_whitespace().next()?.parse().ok()?;
        let name = fs::read_to_string(format!("/proc/{init}/comm")).ok()?;
        (name.trim() == "systemd").then_some(Ok(Pid::from_raw(init)))
    })?
}

/// Waits for a fact.
///
/// # Errors
/// If it does not come within the limit.
pub fn wait_for<T>(what: &str, limit: Duration, mut fact: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
    let until = Instant::now() + limit;
    loop {
        if let Some(found) = fact() {
            return Ok(found);
        }
        if Instant::now() >= until {
            bail!("waited {} s in vain for {what}", limit.as_secs());
        }
        sleep(PAUSE);
    }
}
