//! `setup.agent` in the state directory: the agent that an earlier run left for the person to answer, so that the next
//! run may end it. Pids come again, so the time of its start is part of it.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::agent::process::{is_same, start_time};

/// Remembers that agent.
///
/// # Errors
/// What the system says.
pub fn leave(state_dir: &Path, pid: i32) -> io::Result<()> {
    let started = start_time(pid).ok_or_else(|| io::Error::other("the agent is gone"))?;
    fs::write(file(state_dir), format!("{pid} {started}\n"))
}

/// Whether that agent was left by an earlier run.
pub fn is_left(state_dir: &Path, pid: i32) -> bool {
    let read = fs::read_to_string(file(state_dir)).unwrap_or_default();
    let mut numbers = read.split_whitespace();
    let known = numbers.next().and_then(|text| text.parse().ok()) == Some(pid);
    let started = numbers.next().and_then(|text| text.parse().ok());
    known && started.is_some_and(|started| is_same(pid, started))
}

/// Nothing is left any more.
pub fn forget(state_dir: &Path) {
    let _ = fs::remove_file(file(state_dir));
}

fn file(state_dir: &Path) -> PathBuf {
    state_dir.join("setup.agent")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_process_is_the_one_that_was_left() {
        let folder = tempfile::tempdir().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(!is_left(folder.path(), own));
        leave(folder.path(), own).unwrap();
        assert!(is_left(folder.path(), own));
        assert!(!is_left(folder.path(), 1));
        fs::write(file(folder.path()), format!("{own} 1\n")).unwrap();
        assert!(!is_left(folder.path(), own), "a pid that came again");
        forget(folder.path());
        assert!(!is_left(folder.path(), own));
    }
}
