//! A private folder in which the doctor tries things: removed at its end, whatever happens.
//!
//! ```text
//! /tmp/ccmux-doctor-XXXXXX/   run/      control.sock, where the probe's hooks speak
//!                             state/    generated files, launch file, the pane's socket
//!                             config/   Claude's own folder, for the probe: no login, nothing of the user
//!                             project/  its working directory
//! ```

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::unistd::mkdtemp;

/// The folder.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Makes it.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub(super) fn new() -> io::Result<Self> {
        // Not TMPDIR: a socket's path must be short.
        let dir = mkdtemp("/tmp/ccmux-doctor-XXXXXX").map_err(|errno| {
            io::Error::new(io::Error::from(errno).kind(), format!("/tmp can't be written: {errno}"))
        })?;
        let scratch = Self(dir);
        for name in ["run", "state", "config", "project"] {
            std::fs::DirBuilder::new().mode(0o700).create(scratch.0.join(name))?;
        }
        Ok(scratch)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn run(&self) -> PathBuf {
        self.0.join("run")
    }

    pub(super) fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    pub(super) fn config(&self) -> PathBuf {
        self.0.join("config")
    }

    pub(super) fn project(&self) -> PathBuf {
        self.0.join("project")
    }

    /// A name that no other tmux server has.
    pub(super) fn server(&self) -> String {
        self.0.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
