//! Where Claude keeps its files: `${CLAUDE_CONFIG_DIR:-~/.claude}` and the layout below it.

use std::path::{Path, PathBuf};

/// The directories of one agent process.
#[derive(Debug, Clone)]
pub struct Paths {
    config: PathBuf,
    pub cwd: PathBuf,
}

impl Paths {
    pub fn new(config: PathBuf, cwd: PathBuf) -> Self {
        Self { config, cwd }
    }

    /// From the environment; the working directory must exist.
    pub fn from_environment() -> std::io::Result<Self> {
        let config = std::env::var_os("CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/".into())).join(".claude");
        Ok(Self::new(config.unwrap_or_else(home), std::env::current_dir()?))
    }

    pub fn user_settings(&self) -> PathBuf {
        self.config.join("settings.json")
    }

    /// Directory of the transcripts of this working directory.
    pub fn project(&self) -> PathBuf {
        self.config.join("projects").join(encoded(&self.cwd))
    }

    pub fn transcript(&self, session: &str) -> PathBuf {
        self.project().join(format!("{session}.jsonl"))
    }

    pub fn state_file(&self, pid: u32) -> PathBuf {
        self.config.join("sessions").join(format!("{pid}.json"))
    }
}

/// A path as a directory name: everything but letters and digits becomes `-`.
fn encoded(path: &Path) -> String {
    path.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_claudes() {
        let paths = Paths::new("/home/user/.claude".into(), "/home/user/my.proj".into());
        assert_eq!(
            paths.transcript("abc"),
            Path::new("/home/user/.claude/projects/-home-user-my-proj/abc.jsonl")
        );
        assert_eq!(paths.state_file(7), Path::new("/home/user/.claude/sessions/7.json"));
    }
}
