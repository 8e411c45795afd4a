//! Programs from npm, installed once into `target/`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Tests of one process take turns; those of others have folders of their own.
static TURN: Mutex<()> = Mutex::new(());

/// Puts the package into the folder, unless `program` is there already.
///
/// # Errors
/// What npm said, or what it did not bring.
pub fn install(package: &str, into: &Path, program: &Path) -> Result<(), String> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if program.exists() {
        return Ok(());
    }
    let beside = into.with_extension(format!("new-{}", std::process::id()));
    fs::create_dir_all(&beside).map_err(|error| error.to_string())?;
    let npm = Command::new("npm")
        .args(["install", "--silent", "--prefix"])
        .arg(&beside)
        .arg(package)
        .stdin(Stdio::null())
        .output();
    let output = npm.map_err(|error| format!("npm: {error}"))?;
    if !output.status.success() {
        let _ = fs::remove_dir_all(&beside);
        let said =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        return Err(format!("npm install failed ({}): {}", output.status, said.trim()));
    }
    // Whole and then renamed: another process may have been quicker.
    if fs::rename(&beside, into).is_err() {
        let _ = fs::remove_dir_all(&beside);
    }
    if program.exists() { Ok(()) } else { Err(format!("npm did not bring {}", program.display())) }
}
