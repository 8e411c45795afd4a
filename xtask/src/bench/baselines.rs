//! What ccmux is measured beside: programs in `xtask/baselines`, compiled where needed, and peers from the registries,
//! installed into `target/bench`. What can't be had is `None`, and the reason is told once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::cargo;

/// Where they are.
#[derive(Debug)]
pub struct Baselines {
    folder: PathBuf,
}

impl Baselines {
    pub fn new(target: &Path) -> anyhow::Result<Self> {
        let folder = target.join("bench");
        fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
        Ok(Self { folder })
    }

    /// A script.
    pub fn source(name: &str) -> PathBuf {
        cargo::root().join("xtask/baselines").join(name)
    }

    /// A program in C, compiled; linked statically, so that nothing is looked for when it starts.
    pub fn compiled(&self, name: &str) -> Option<PathBuf> {
        let program = self.folder.join(name);
        let source = Self::source(&format!("{name}.c"));
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-static", "-o"]).arg(&program).arg(source);
        ended_well(&mut cc, &format!("{name}.c can't be compiled")).then_some(program)
    }

    /// Python itself, not what a version manager puts in front of it.
    pub fn python() -> Option<PathBuf> {
        said("python3", &["-c", "import sys; print(sys.executable)"])
    }

    pub fn node() -> Option<PathBuf> {
        said("node", &["-e", "console.log(process.execPath)"])
    }

    /// Every one of these programs is there.
    pub fn has(programs: &[&str]) -> bool {
        let missing: Vec<&&str> = programs
            .iter()
            .filter(|name| said("sh", &["-c", &format!("command -v {name}")]).is_none())
            .collect();
        if !missing.is_empty() {
            eprintln!("  missing: {missing:?}");
        }
        missing.is_empty()
    }

    /// Python of an environment with a package from PyPI.
    pub fn python_with(&self, package: &str) -> Option<PathBuf> {
        let environment = self.folder.join(format!("python-{package}"));
        let python = environment.join("bin/python3");
        if environment.join("ready").exists() {
            return Some(python);
        }
        let made = ended_well(
            Command::new(Self::python()?).args(["-m", "venv", "--clear"]).arg(&environment),
            "python3 can't make an environment",
        );
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]);
        let installed = made && ended_well(&mut pip, &format!("{package} can't be installed by pip"));
        (installed && fs::write(environment.join("ready"), "").is_ok()).then_some(python)
    }

    /// A package from npm: its folder.
    pub fn npm(&self, package: &str) -> Option<PathBuf> {
        let folder = self.folder.join(format!("npm-{package}"));
        if folder.join("ready").exists() {
            return Some(folder);
        }
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(&folder).arg(package);
        let installed = ended_well(&mut npm, &format!("{package} can't be installed by npm"));
        (installed && fs::write(folder.join("ready"), "").is_ok()).then_some(folder)
    }
}

/// A program's first line, if it ends well.
fn said(program: &str, arguments: &[&str]) -> Option<PathBuf> {
    let output =
        Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    text.lines().next().map(PathBuf::from)
}

fn ended_well(command: &mut Command, otherwise: &str) -> bool {
    let output = command.stdin(Stdio::null()).output();
    let why = match output {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned(),
        Err(error) => error.to_string(),
    };
    eprintln!("  {otherwise}: {why}");
    false
}
