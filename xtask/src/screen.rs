//! `cargo xtask screen add KIND NAME`: captures a pane into the fixtures of the screen rules.
//!
//! ```text
//! tmux [-L SOCKET] capture-pane -t =ccmux:   ─►   …/fixtures/screens/KIND-NAME.ansi and .txt
//! ```
//!
//! What the picture is taken for says the test of the rules, which runs afterwards.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

const FOLDER: &str = "crates/ccmux-runtime/tests/fixtures/screens";

/// What the picture shows: the first word of its name, which its test checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Ready,
    Draft,
    Dialog,
    /// A turn runs
    Generating,
    /// The agent is gone
    Exit,
}

/// Captures and writes.
///
/// # Errors
/// If there is no such pane, or the fixture exists.
pub fn add(root: &Path, kind: Kind, name: &str, socket: Option<&str>, target: &str) -> Result<()> {
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(sound) {
        bail!("{name:?}: a fixture's name is made of letters, digits, - and _");
    }
    let word = kind.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let file = |extension: &str| root.join(FOLDER).join(format!("{word}-{name}.{extension}"));
    if file("ansi").exists() {
        bail!("{} is there already: choose another name", file("ansi").display());
    }
    let ansi = capture(socket, target, &["-e"])?;
    let text = capture(socket, target, &[])?;
    fs::write(file("ansi"), ansi).context("can't write the fixture")?;
    fs::write(file("txt"), text).context("can't write the fixture")?;
    println!(
        "{}: take out what is private, then: cargo test -p ccmux-runtime --lib screen",
        file("txt").display()
    );
    Ok(())
}

fn capture(socket: Option<&str>, target: &str, flags: &[&str]) -> Result<Vec<u8>> {
    let mut tmux = Command::new("tmux");
    tmux.arg("-u").args(socket.map(|name| ["-L", name]).into_iter().flatten());
    tmux.args(["capture-pane", "-p", "-t", target]).args(flags);
    let output = tmux.output().context("can't run tmux")?;
    if !output.status.success() {
        bail!("tmux: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leads_elsewhere_or_a_pane_that_is_not_there_writes_nothing() {
        let root = Path::new("/nowhere");
        let add = |name: &str| add(root, Kind::Dialog, name, Some("xtask-no-such-server"), "=x:");
        assert!(add("../x").unwrap_err().to_string().contains("letters"));
        assert!(add("x").is_err());
    }
}
