//! `cargo xtask replay FILE`: runs a timeline against the policy as it is now.
//!
//! The recorder's `timeline.log` in the state directory is one: a report from the field becomes a test. A recording names
//! its settings, its clock and its deadlines, so that the same policy orders the same, line by line; another one is
//! looked at with `--trace`, which shows what it orders instead of comparing. A file that goes on from `FILE.1` is read
//! behind it.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use ccmux_policy::timeline;

/// How a recording begins that is not a daemon's first file.
const GOES_ON: &str = "# goes on from ";

/// Runs the file.
///
/// # Errors
/// If it can't be read, or does not hold.
pub fn run(file: &Path, trace: bool) -> Result<()> {
    let text = whole(file)?;
    let named = |error: String| anyhow!("{}: {error}", file.display());
    if trace {
        print!("{}", timeline::trace(&text).map_err(named)?);
        return Ok(());
    }
    timeline::replay(&text).map_err(named)?;
    println!("{}: holds", file.display());
    Ok(())
}

fn whole(file: &Path) -> Result<String> {
    let text = read(file)?;
    let Some(before) = text.strip_prefix(GOES_ON).and_then(|rest| rest.lines().next()) else {
        return Ok(text);
    };
    let before = file.with_file_name(before);
    // A file that goes on from its own name is the older one already.
    let first = if before == file { text.clone() } else { read(&before)? };
    ensure!(
        !first.starts_with(GOES_ON),
        "the beginning of {} is no longer kept: its lines can be read, not replayed",
        file.display()
    );
    Ok(first + &text)
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))
}
