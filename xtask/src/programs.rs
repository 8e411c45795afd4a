//! Programs that the commands need: are they there, is tmux new enough, and how to get them where they are missing.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use nix::unistd::geteuid;

use crate::Unavailable;

/// The oldest tmux that ccmux works with.
const OLDEST: (u32, u32) = (3, 2);

/// What the tests speak to ccmux with, as people's scripts do.
const OF_TESTS: [&str; 4] = ["socat", "nc", "curl", "python3"];

/// A package manager, and how it installs without asking.
struct PackageManager {
    program: &'static str,
    first: Option<&'static [&'static str]>,
    install: &'static [&'static str],
    /// The package of an `nc` that knows `-N` and `-U`.
    netcat: &'static str,
    wants_root: bool,
}

const fn manager(
    program: &'static str,
    first: Option<&'static [&'static str]>,
    install: &'static [&'static str],
    netcat: &'static str,
) -> PackageManager {
    PackageManager { program, first, install, netcat, wants_root: true }
}

const MANAGERS: &[PackageManager] = &[
    manager("apt-get", Some(&["apt-get", "update"]), &["apt-get", "install", "-y"], "netcat-openbsd"),
    manager("dnf", None, &["dnf", "install", "-y"], "netcat"),
    manager("pacman", None, &["pacman", "-Sy", "--noconfirm"], "openbsd-netcat"),
    manager("apk", None, &["apk", "add"], "netcat-openbsd"),
    manager("zypper", None, &["zypper", "--non-interactive", "install"], "netcat-openbsd"),
    PackageManager { wants_root: false, ..manager("brew", None, &["brew", "install"], "netcat") },
];

impl PackageManager {
    fn package(&self, program: &'static str) -> &'static str {
        match program {
            "nc" => self.netcat,
            "python3" if self.program == "pacman" => "python",
            // Debian has it in a package of its own.
            "python3" if self.program == "apt-get" => "python3-venv",
            other => other,
        }
    }
}

/// Who we are to the package manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rights {
    Root,
    Sudo,
    Neither,
}

/// Makes sure that a tmux is there that ccmux works with; installs one if there is none at all.
///
/// # Errors
/// [`Unavailable`] if it can't be had without the user.
pub fn ensure_tmux() -> anyhow::Result<()> {
    if version().is_none() {
        install(&["tmux"])?;
    }
    match version() {
        Some(found) if is_new_enough(&found) => Ok(()),
        Some(found) => Err(unavailable(&format!("{found} is too old"))),
        None => Err(unavailable("tmux is still not there")),
    }
}

/// Makes sure that everything is there that the tests run.
///
/// # Errors
/// [`Unavailable`] if something can't be had without the user.
pub fn ensure_all() -> anyhow::Result<()> {
    ensure_tmux()?;
    let is_there = |program: &str| is_in_path(program) && (program != "python3" || makes_environments());
    let missing: Vec<&str> = OF_TESTS.into_iter().filter(|program| !is_there(program)).collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

/// Whether python3 can make the environment of the MCP client library.
fn makes_environments() -> bool {
    let output = Command::new("python3").args(["-c", "import ensurepip, venv"]).output();
    output.is_ok_and(|output| output.status.success())
}

fn unavailable(what: &str) -> anyhow::Error {
    let (major, minor) = OLDEST;
    Unavailable(format!(
        "{what}: install tmux {major}.{minor} or newer (for tests also {}), then run this again",
        OF_TESTS.join(", ")
    ))
    .into()
}

/// What `tmux -V` says: `tmux 3.3a`.
fn version() -> Option<String> {
    let output = Command::new("tmux").arg("-V").output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// `tmux 3.3a`, `tmux next-3.6`; a version without a number is somebody's own build: newer than anything.
fn is_new_enough(version: &str) -> bool {
    let numbers = version.trim_start_matches(|c: char| !c.is_ascii_digit());
    let mut parts = numbers.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= OLDEST,
        (Some(Ok(major)), _) => (major, 0) >= OLDEST,
        _ => true,
    }
}

fn install(programs: &[&'static str]) -> anyhow::Result<()> {
    let commands = plan(&is_in_path, rights(), programs)?;
    println!("{} is missing. Installing with the system's package manager:", programs.join(", "));
    for command in commands {
        println!("$ {}", command.join(" "));
        let (program, arguments) = command.split_first().context("an empty command")?;
        let status = Command::new(program).args(arguments).env("DEBIAN_FRONTEND", "noninteractive").status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(unavailable(&format!("`{}` failed", command.join(" "))));
        }
    }
    Ok(())
}

fn rights() -> Rights {
    match (geteuid().is_root(), is_in_path("sudo")) {
        (true, _) => Rights::Root,
        (false, true) => Rights::Sudo,
        (false, false) => Rights::Neither,
    }
}

fn is_in_path(program: &str) -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|dir| is_file(&dir.join(program))))
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file())
}

/// Which commands install these programs here.
fn plan(
    is_there: &dyn Fn(&str) -> bool,
    rights: Rights,
    programs: &[&'static str],
) -> anyhow::Result<Vec<Vec<&'static str>>> {
    let missing = programs.join(", ");
    let Some(manager) = MANAGERS.iter().find(|manager| is_there(manager.program)) else {
        return Err(unavailable(&format!("{missing} is missing, and no package manager is known here")));
    };
    let prefix: &[&str] = match rights {
        Rights::Root => &[],
        _ if !manager.wants_root => &[],
        Rights::Sudo => &["sudo"],
        Rights::Neither => {
            return Err(unavailable(&format!("{missing} is missing, and installing it takes root or sudo")));
        }
    };
    let packages: Vec<&str> = programs.iter().map(|program| manager.package(program)).collect();
    let install = [manager.install, &packages].concat();
    let first = manager.first.map(<[_]>::to_vec);
    Ok(first.into_iter().chain([install]).map(|command| [prefix, &command].concat()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_every_spelling_are_compared() {
        for (version, enough) in [
            ("tmux 3.3a", true),
            ("tmux 3.2", true),
            ("tmux 3.1c", false),
            ("tmux 2.9", false),
            ("tmux next-3.6", true),
            ("tmux master", true),
            ("tmux 4", true),
        ] {
            assert_eq!(is_new_enough(version), enough, "{version}");
        }
    }

    #[test]
    fn each_system_has_its_own_way() {
        let lines = |manager: &str, rights, programs: &[&'static str]| {
            let commands = plan(&|there| there == manager, rights, programs);
            commands.map(|commands| commands.iter().map(|command| command.join(" ")).collect::<Vec<_>>())
        };
        let tmux = ["tmux"];
        assert_eq!(
            lines("apt-get", Rights::Root, &tmux).unwrap(),
            ["apt-get update", "apt-get install -y tmux"]
        );
        let python = lines("apt-get", Rights::Root, &["python3"]).unwrap();
        assert_eq!(python[1], "apt-get install -y python3-venv");
        assert_eq!(lines("apk", Rights::Sudo, &tmux).unwrap(), ["sudo apk add tmux"]);
        assert_eq!(lines("brew", Rights::Neither, &tmux).unwrap(), ["brew install tmux"]);
        let pacman = lines("pacman", Rights::Root, &["nc", "socat", "python3"]).unwrap();
        assert_eq!(pacman, ["pacman -Sy --noconfirm openbsd-netcat socat python"]);
        assert!(lines("dnf", Rights::Neither, &tmux).unwrap_err().is::<Unavailable>());
        assert!(lines("emerge", Rights::Root, &tmux).unwrap_err().is::<Unavailable>());
    }
}
