//! tmux: is it there, is it new enough, and how to get it where it is missing.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use nix::unistd::geteuid;

use crate::Unavailable;

/// The oldest version that ccmux works with.
const OLDEST: (u32, u32) = (3, 2);

/// A package manager, and how it installs without asking.
struct PackageManager {
    program: &'static str,
    commands: &'static [&'static [&'static str]],
    wants_root: bool,
}

const fn manager(program: &'static str, commands: &'static [&'static [&'static str]]) -> PackageManager {
    PackageManager { program, commands, wants_root: true }
}

const MANAGERS: &[PackageManager] = &[
    manager("apt-get", &[&["apt-get", "update"], &["apt-get", "install", "-y", "tmux"]]),
    manager("dnf", &[&["dnf", "install", "-y", "tmux"]]),
    manager("pacman", &[&["pacman", "-Sy", "--noconfirm", "tmux"]]),
    manager("apk", &[&["apk", "add", "tmux"]]),
    manager("zypper", &[&["zypper", "--non-interactive", "install", "tmux"]]),
    PackageManager { program: "brew", commands: &[&["brew", "install", "tmux"]], wants_root: false },
];

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
pub fn ensure() -> anyhow::Result<()> {
    if version().is_none() {
        install()?;
    }
    match version() {
        Some(found) if is_new_enough(&found) => Ok(()),
        Some(found) => Err(unavailable(&format!("{found} is too old"))),
        None => Err(unavailable("tmux is still not there")),
    }
}

fn unavailable(what: &str) -> anyhow::Error {
    let (major, minor) = OLDEST;
    Unavailable(format!("{what}: install tmux {major}.{minor} or newer, then run this again")).into()
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

fn install() -> anyhow::Result<()> {
    let commands = plan(&is_in_path, rights())?;
    println!("tmux is missing. Installing it with the system's package manager:");
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

/// Which commands install tmux here.
fn plan(is_there: &dyn Fn(&str) -> bool, rights: Rights) -> anyhow::Result<Vec<Vec<&'static str>>> {
    let Some(manager) = MANAGERS.iter().find(|manager| is_there(manager.program)) else {
        return Err(unavailable("tmux is missing, and no package manager is known here"));
    };
    let prefix: &[&str] = match rights {
        Rights::Root => &[],
        _ if !manager.wants_root => &[],
        Rights::Sudo => &["sudo"],
        Rights::Neither => {
            return Err(unavailable("tmux is missing, and installing it takes root or sudo"));
        }
    };
    Ok(manager.commands.iter().map(|command| [prefix, command].concat()).collect())
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
        let lines = |program: &str, rights| {
            let commands = plan(&|there| there == program, rights);
            commands.map(|commands| commands.iter().map(|command| command.join(" ")).collect::<Vec<_>>())
        };
        assert_eq!(lines("apt-get", Rights::Root).unwrap(), ["apt-get update", "apt-get install -y tmux"]);
        assert_eq!(lines("apk", Rights::Sudo).unwrap(), ["sudo apk add tmux"]);
        assert_eq!(lines("brew", Rights::Neither).unwrap(), ["brew install tmux"]);
        assert!(lines("dnf", Rights::Neither).unwrap_err().is::<Unavailable>());
        assert!(lines("emerge", Rights::Root).unwrap_err().is::<Unavailable>());
    }
}
