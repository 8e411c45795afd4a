//! The files of a package as they lie under a prefix (`/usr`, `~/.local`). Man pages and completions are written by the
//! programs that were built, documents are copied.
//!
//! ```text
//! bin/        ccmuxd ccmux ccmux-hook ccmux-demo-agent
//! share/      man/man1  bash-completion  zsh  fish  doc/ccmux (README, licences, docs, settings, units)
//! ```

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use super::{Release, fresh};
use crate::cargo;

/// The demo's agent is with them: whoever wants to look at ccmux without Claude Code can.
pub const PROGRAMS: [&str; 4] = ["ccmuxd", "ccmux", "ccmux-hook", "ccmux-demo-agent"];
/// Shell, and where it looks for completions.
pub const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/ccmux"),
    ("zsh", "share/zsh/site-functions/_ccmux"),
    ("fish", "share/fish/vendor_completions.d/ccmux.fish"),
];
pub const MANUAL: &str = "share/man/man1";
pub const DOCUMENTS: &str = "share/doc/ccmux";

/// From the repository into the documents, folders with all that is in them.
const COPIED: [&str; 7] =
    ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "docs", "config", "systemd", "launchd"];
/// Where a unit looks for the daemon, and where the .deb puts it.
const UNIT_PROGRAM: (&str, &str) = ("%h/.local/bin/ccmuxd", "/usr/bin/ccmuxd");
const UNITS: [&str; 2] = ["ccmuxd.service", "ccmuxd@.service"];

/// Lays everything out anew.
pub fn lay(release: &Release) -> anyhow::Result<()> {
    let tree = release.tree.as_path();
    fresh(tree)?;
    programs(release, tree)?;
    manual(tree)?;
    completions(tree)?;
    for name in COPIED {
        copy(&cargo::root().join(name), &tree.join(DOCUMENTS).join(name))?;
    }
    units(&tree.with_file_name("units"))
}

fn programs(release: &Release, tree: &Path) -> anyhow::Result<()> {
    for program in PROGRAMS {
        let to = tree.join("bin").join(program);
        copy(&release.binaries.join(program), &to)?;
        fs::set_permissions(&to, Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn manual(tree: &Path) -> anyhow::Result<()> {
    let mut manual = Command::new(tree.join("bin/ccmux"));
    manual.arg("manual").arg(tree.join(MANUAL));
    ensure!(manual.status().context("can't start ccmux")?.success(), "`ccmux manual` failed");
    Ok(())
}

fn completions(tree: &Path) -> anyhow::Result<()> {
    for (shell, place) in COMPLETIONS {
        let output = Command::new(tree.join("bin/ccmux")).args(["completions", shell]).output();
        let output = output.context("can't start ccmux")?;
        ensure!(output.status.success(), "`ccmux completions {shell}` failed");
        write(&tree.join(place), &output.stdout)?;
    }
    Ok(())
}

/// The user units of a package that lies in /usr.
fn units(folder: &Path) -> anyhow::Result<()> {
    fresh(folder)?;
    for name in UNITS {
        let path = cargo::root().join("systemd").join(name);
        let unit = fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
        write(&folder.join(name), in_usr(&unit)?.as_bytes())?;
    }
    Ok(())
}

fn in_usr(unit: &str) -> anyhow::Result<String> {
    let (from, to) = UNIT_PROGRAM;
    ensure!(unit.contains(from), "no {from} in the unit: see UNIT_PROGRAM");
    Ok(unit.replace(from, to))
}

fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, content));
    written.with_context(|| format!("can't write {}", path.display()))
}

/// A file, or a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    if !from.is_dir() {
        let copied = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::copy(from, to));
        copied.with_context(|| format!("can't copy {} to {}", from.display(), to.display()))?;
        return Ok(());
    }
    let entries = fs::read_dir(from).with_context(|| format!("can't read {}", from.display()))?;
    entries.flatten().try_for_each(|entry| copy(&entry.path(), &to.join(entry.file_name())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_starts_the_packages_daemon() {
        let folder = tempfile::tempdir().unwrap();
        units(folder.path()).unwrap();
        for name in UNITS {
            let unit = fs::read_to_string(folder.path().join(name)).unwrap();
            assert!(unit.contains("ExecStart=/usr/bin/ccmuxd") && !unit.contains(".local"), "{unit}");
        }
        assert!(in_usr("ExecStart=/opt/ccmuxd").is_err());
    }

    #[test]
    fn what_is_copied_is_in_the_repository_and_is_copied_whole() {
        let to = tempfile::tempdir().unwrap();
        for name in COPIED {
            copy(&cargo::root().join(name), &to.path().join(name)).unwrap();
        }
        assert!(to.path().join("docs/adr/README.md").is_file() && to.path().join("LICENSE-MIT").is_file());
    }
}
