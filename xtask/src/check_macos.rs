//! `cargo xtask check-macos`: type-checks the whole workspace, tests included, for macOS, on Debian and without a Mac.
//!
//! ```text
//! apt's own packages ─► unpacked in ~/.cache/ccmux/macos ─► their rustc checks std and us for aarch64-apple-darwin
//! ```
//!
//! Stable compilers ship no `std` for macOS through Debian, so it is checked from its source with us (`-Zbuild-std`). Nothing
//! is installed, and nothing is linked: C parts of dependencies are made by a compiler that only touches its outputs.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::{Unavailable, cargo};

const TARGET: &str = "aarch64-apple-darwin";

/// The compiler of Debian's browsers: the newest in a stable release, and with the source of `std`.
const COMPILER: &str = "rustc-web";
const SOURCE: &str = "rust-web-src";

/// What of the compiler's dependencies is not on every machine.
const PARTS: [&str; 2] = ["libstd-rust-web", "libllvm"];

/// Takes a compiler's arguments and makes what they say is made, empty.
const STAND_IN: &str = "#!/bin/sh\nwhile [ $# -gt 0 ]; do\n  case \"$1\" in\n    -o) : > \"$2\"; shift ;;\n    *.a) : > \"$1\" ;;\n  esac\n  shift\ndone\n";

pub fn run() -> anyhow::Result<()> {
    let place = cache()?;
    let root = place.join("root");
    let compiler = root.join("usr/bin/rustc");
    if !compiler.is_file() {
        unpack(&place, &root)?;
    }
    let stand_in = place.join("cc");
    fs::write(&stand_in, STAND_IN).with_context(|| format!("can't write {}", stand_in.display()))?;
    fs::set_permissions(&stand_in, Permissions::from_mode(0o755))?;
    println!("$ cargo check --workspace --all-targets --target {TARGET}    with {}", compiler.display());
    let mut check = cargo::command("check");
    check.args(["--workspace", "--all-targets", "-Zbuild-std=std,panic_abort", "--target", TARGET]);
    check.env("RUSTC", &compiler).env("RUSTC_BOOTSTRAP", "1").env("LD_LIBRARY_PATH", libraries(&root)?);
    // Cargo would take them from whoever started us, for another compiler.
    check.env_remove("RUSTC_WRAPPER").env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTDOC");
    let name = TARGET.replace('-', "_");
    check.env(format!("CC_{name}"), &stand_in).env(format!("AR_{name}"), &stand_in);
    check.env("CARGO_TARGET_DIR", cargo::binaries("macos")?);
    if !check.status().context("can't start cargo")?.success() {
        bail!("the workspace does not type-check for {TARGET}");
    }
    println!("everything type-checks for {TARGET}");
    Ok(())
}

/// Outside of the repository, and kept: 850 MB.
fn cache() -> anyhow::Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let folder = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    Ok(folder.context("neither XDG_CACHE_HOME nor HOME is set")?.join("ccmux/macos"))
}

/// Has apt download the packages from wherever it is told to on this machine.
fn unpack(place: &Path, root: &Path) -> anyhow::Result<()> {
    let packages = packages()?;
    let (downloads, fresh) = (place.join("packages"), place.join("fresh"));
    for folder in [&downloads, &fresh] {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
    }
    println!("$ apt-get download {}    in {}", packages.join(" "), downloads.display());
    let got = Command::new("apt-get").arg("download").args(&packages).current_dir(&downloads).status();
    if !got.is_ok_and(|status| status.success()) {
        let why = "apt has no such packages here: apt-get update, or a release of Debian with rustc-web";
        return Err(Unavailable(why.into()).into());
    }
    for package in fs::read_dir(&downloads)?.flatten() {
        let mut unpack = Command::new("dpkg-deb");
        let done =
            unpack.arg("-x").arg(package.path()).arg(&fresh).status().context("can't start dpkg-deb")?;
        if !done.success() {
            bail!("can't unpack {}", package.path().display());
        }
    }
    // Whole, or not there: an interrupted run must not leave half a compiler.
    let _ = fs::remove_dir_all(root);
    fs::rename(&fresh, root).with_context(|| format!("can't make {}", root.display()))?;
    fs::remove_dir_all(&downloads).context("can't remove the packages")
}

/// The compiler, the source, and what the former needs.
fn packages() -> anyhow::Result<Vec<String>> {
    let mut found = BTreeSet::from([COMPILER.to_owned(), SOURCE.to_owned()]);
    let mut open = vec![COMPILER.to_owned()];
    while let Some(package) = open.pop() {
        let output = Command::new("apt-cache").args(["depends", "--important", &package]).output();
        let Ok(output) = output else {
            return Err(Unavailable("apt-cache is not there: this check needs Debian".into()).into());
        };
        for name in parts_in(&String::from_utf8_lossy(&output.stdout)) {
            if found.insert(name.clone()) {
                open.push(name);
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// What `apt-cache depends` names that belongs to the compiler.
fn parts_in(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let ours = |name: &&str| PARTS.iter().any(|part| name.starts_with(part));
    names.filter(ours).map(str::to_owned).collect()
}

/// Where the compiler's own libraries are: `usr/lib/ARCHITECTURE`.
fn libraries(root: &Path) -> anyhow::Result<PathBuf> {
    let folders = fs::read_dir(root.join("usr/lib")).context("the compiler has no libraries")?;
    let holds_llvm = |folder: &PathBuf| {
        let names = fs::read_dir(folder).into_iter().flatten().flatten();
        names.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with("libLLVM"))
    };
    folders.flatten().map(|entry| entry.path()).find(holds_llvm).context("the compiler has no LLVM")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_dependencies_only_the_compilers_own_parts_are_taken() {
        let text = "libstd-rust-web-1.96\n  Depends: libc6\n  Depends: libllvm22\n  Depends: <libc-dev>\n  \
                    Conflicts: libllvm21\n  Depends: libstd-rust-web-dev\n";
        assert_eq!(parts_in(text), ["libllvm22", "libstd-rust-web-dev"]);
    }
}
