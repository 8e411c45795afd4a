//! Programs from the registries, installed once below `target/`: by npm, or by pip into an environment of their own.
//!
//! The first of several tests installs, the others wait, in whichever process they run. Knows no program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::binaries;

/// What was installed. Without the registry this fails in CI and is skipped elsewhere, saying so.
pub fn or_skip(name: &str, installed: Result<PathBuf, String>) -> Option<PathBuf> {
    match installed {
        Ok(program) => Some(program),
        Err(why) if std::env::var_os("CI").is_some() => panic!("{name} can't be installed: {why}"),
        Err(why) => {
            println!("skipped: {name} can't be installed ({why})");
            None
        }
    }
}

/// Puts a package from npm into the folder, unless it brought the program already.
///
/// # Errors
/// What npm said, or what it did not bring.
pub fn npm(package: &str, into: &Path, program: &Path) -> Result<(), String> {
    once(into, || {
        let npm = ["install", "--silent", "--prefix"];
        run(Command::new("npm").args(npm).arg(into).arg(package))?;
        if program.exists() { Ok(()) } else { Err(format!("npm did not bring {}", program.display())) }
    })
}

/// The Python of an environment with a package from PyPI, such as `mcp==2.3.0`.
///
/// # Errors
/// What `venv` or pip said.
pub fn python(package: &str) -> Result<PathBuf, String> {
    let target = binaries::target().join(format!("python-{}", package.replace("==", "-")));
    let python = target.join("bin/python");
    once(&target, || {
        run(Command::new("python3").args(["-m", "venv"]).arg(&target))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package];
        run(Command::new(&python).args(pip))
    })?;
    Ok(python)
}

/// Fills the folder, unless somebody has. It is filled where it stays, since an environment of Python can't be renamed.
fn once(folder: &Path, fill: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    let done = folder.join("installed");
    if done.exists() {
        return Ok(());
    }
    let turn = fs::File::create(beside(folder, ".lock")).map_err(told)?;
    turn.lock().map_err(told)?;
    if done.exists() {
        return Ok(());
    }
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(told(error)),
        _ => {}
    }
    fs::create_dir_all(folder).map_err(told)?;
    fill()?;
    fs::write(&done, "").map_err(told)
}

fn beside(folder: &Path, ending: &str) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{command:?} ({}): {said}", output.status)) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn many_at_once_install_once_and_a_failed_one_is_begun_anew() {
        let room = tempfile::tempdir().unwrap();
        let (folder, begun) = (room.path().join("python-x-1.0"), AtomicU32::new(0));
        let fill = || {
            fs::write(folder.join("half"), "").map_err(|error| error.to_string())?;
            std::thread::sleep(std::time::Duration::from_millis(50));
            if begun.fetch_add(1, Ordering::SeqCst) == 0 {
                Err("the registry is away".into())
            } else {
                Ok(())
            }
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| once(&folder, fill))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(begun.load(Ordering::SeqCst), 2, "{results:?}");
        assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1, "{results:?}");
    }
}
