//! The agent's version, asked while its end is still being told: the next start finds the answer there.
//!
//! ```text
//! the process ended ─► begin ─────────► `--version` ─────┐
//!        └─► how? ─► policy ─► pause ─► start ─► answer ◄─┘   or, of another file or too old: asked anew
//! ```
//!
//! An answer counts for the file that was asked, as long as it is the same one, and for ten seconds: what is started may be
//! a program that looks up which version it starts, and would be the same file for another version.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::plan::AgentPlan;
use super::start::ask_version;
use super::version::{Version, VersionError};
use crate::program::find;

/// So long an answer counts.
const COUNTS_FOR: Duration = Duration::from_secs(10);

/// The question that was asked last, if nobody had the answer yet.
#[derive(Debug, Clone, Default)]
pub struct VersionAhead(Arc<Mutex<Option<Asked>>>);

#[derive(Debug)]
struct Asked {
    file: ProgramFile,
    at: Instant,
    answer: AbortOnDropHandle<Result<Version, VersionError>>,
}

impl VersionAhead {
    /// Asks. Must be called within a tokio runtime.
    pub fn begin(&self, plan: &AgentPlan) {
        let Some(file) = ProgramFile::of(plan) else { return };
        let plan = plan.clone();
        let answer = AbortOnDropHandle::new(tokio::spawn(async move { ask_version(&plan).await }));
        self.set(Some(Asked { file, at: Instant::now(), answer }));
    }

    /// The answer, waited for if it is still on its way; asked for now if there is none that counts.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn answer(&self, plan: &AgentPlan) -> Result<Version, VersionError> {
        let asked = self.set(None);
        let counts = asked.filter(|asked| {
            asked.at.elapsed() < COUNTS_FOR && ProgramFile::of(plan).as_ref() == Some(&asked.file)
        });
        match counts {
            Some(asked) => match asked.answer.await {
                Ok(answer) => answer,
                Err(_) => ask_version(plan).await,
            },
            None => ask_version(plan).await,
        }
    }

    fn set(&self, asked: Option<Asked>) -> Option<Asked> {
        std::mem::replace(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), asked)
    }
}

/// Which file the plan's program is, behind all links.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProgramFile {
    path: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds: of the content, and of the inode.
    changed: [i64; 4],
}

impl ProgramFile {
    fn of(plan: &AgentPlan) -> Option<Self> {
        let path = find(plan.program(), plan.environment.get("PATH").map_or("", String::as_str))?;
        let path = path.canonicalize().ok()?;
        let found = path.metadata().ok()?;
        let changed = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        Some(Self { path, device: found.dev(), inode: found.ino(), size: found.size(), changed })
    }
}

#[cfg(test)]
#[path = "version_ahead_tests.rs"]
mod tests;
