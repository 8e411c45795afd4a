//! `cargo xtask replay FILE`: runs a timeline against the policy as it is now.
//!
//! The recorder's `timeline.log` in the state directory is one: a report from the field becomes a test. Times of the
//! field are not those of a simulation, so the orders of a recording may come a few milliseconds apart: `--trace` shows
//! what the policy orders instead of comparing.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use ccmux_policy::timeline;

/// Runs the file.
///
/// # Errors
/// If it can't be read, or does not hold.
pub fn run(file: &Path, trace: bool) -> Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
    let named = |error: String| anyhow!("{}: {error}", file.display());
    if trace {
        print!("{}", timeline::trace(&text).map_err(named)?);
        return Ok(());
    }
    timeline::replay(&text).map_err(named)?;
    println!("{}: holds", file.display());
    Ok(())
}
