//! `ccmuxd install` and `uninstall`: ours goes into files of the user, and comes out again.
//!
//! | module | what it does |
//! |---|---|
//! | [`places`] | where Claude Code and the system look for their files |
//! | [`edits`] | what is ours in Claude Code's files, and how it gets in and out |
//! | [`document`] | a JSON document of somebody else, changed by splicing its text |
//! | [`user_file`] | one file of the user: checked, read, replaced in one step |
//! | [`claude_lock`] | the lock that Claude Code takes while it changes its state |
//! | [`backup`] | what a file was before |
//! | [`units`] | the service that starts the daemon, for systemd and launchd |
//! | [`opencode`] | the plugin for OpenCode |
//! | [`namespaces`] | whether the service's sandbox can be had here |
//!
//! Each file goes the same way, and is looked at again from the beginning if another program wrote it meanwhile:
//!
//! ```text
//! read ─► parse ─► put in / take out ─► note the backup ─► replace
//! ```
//!
//! All files are looked at before the first one is written. It talks to no daemon, and to nobody: what was done is told to
//! the caller.

pub mod backup;
pub mod claude_lock;
pub mod document;
pub mod edits;
pub mod namespaces;
pub mod opencode;
pub mod places;
pub mod units;
pub mod user_file;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::runtime_dir::RuntimeDirError;
use backup::{Backups, BackupsLock, Beginning, Past};
use claude_lock::{ClaudeLock, LockError};
use document::Document;
use edits::{EditError, Ours, Wanted, Which};
use user_file::{Content, FileError, Replaced, UserFile};

/// A file that others change so often, just when we do, is not ours to change.
const ATTEMPTS: usize = 40;

/// A file's content; `None`: no file.
type Bytes = Option<Vec<u8>>;

/// Why a file was not changed; none was, unless it says so.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The file itself.
    #[error(transparent)]
    File(#[from] FileError),
    /// What stands in it. With what could be pasted by hand.
    #[error("{path} is refused: {why}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: EditError,
        /// What should have gone in.
        snippet: Option<String>,
    },
    /// A file that we once wrote whole, and that is now another.
    #[error("{path} is refused: it was changed by hand; look at it, and remove it yourself")]
    ChangedByHand {
        /// The file.
        path: PathBuf,
    },
    /// A file that is wholly ours is wholly somebody else's.
    #[error("{path} is refused: it is there already, and not from ccmux; move it away")]
    Others {
        /// The file.
        path: PathBuf,
    },
    /// Claude Code is at it.
    #[error(transparent)]
    ClaudeLock(#[from] LockError),
    /// It changes all the time.
    #[error("{path} is changed by another program all the time: try again")]
    Restless {
        /// The file.
        path: PathBuf,
    },
    /// The folder of the backups.
    #[error(transparent)]
    Backups(#[from] RuntimeDirError),
    /// A backup.
    #[error("can't keep a backup of {path}: {source}")]
    Backup {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl InstallError {
    /// The documented exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::File(FileError::Refused { .. })
            | Self::Content { .. }
            | Self::ChangedByHand { .. }
            | Self::Others { .. } => 4,
            Self::Backups(error) => error.exit_code(),
            Self::File(FileError::Io { .. })
            | Self::ClaudeLock(_)
            | Self::Restless { .. }
            | Self::Backup { .. } => 1,
        }
    }
}

/// In or out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// What is ours goes in.
    In,
    /// It comes out.
    Out,
}

/// What a file should hold of ours.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Members among those of others.
    Members(Which),
    /// The whole file.
    Whole(String),
}

/// One file.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Where it is.
    pub path: PathBuf,
    /// What is ours.
    pub part: Part,
}

/// What happens, or would happen, to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub path: PathBuf,
    /// What it held; `None`: not there.
    pub before: Option<Vec<u8>>,
    /// What it holds then.
    pub after: Option<Vec<u8>>,
}

impl Change {
    /// Whether anything changes.
    pub fn is_none(&self) -> bool {
        self.before == self.after
    }
}

/// Everything that is needed to change the files.
#[derive(Debug)]
pub struct Installation {
    /// Which.
    pub targets: Vec<Target>,
    /// What is ours.
    pub ours: Ours,
    /// What is to be in them.
    pub wanted: Wanted,
    /// Where backups are.
    pub backups: Backups,
}

/// A file as it was found, and what is to become of it.
struct Plan {
    file: UserFile,
    now: Option<Content>,
    past: Option<Past>,
    /// Whether nobody but us changed it since then.
    is_ours_alone: bool,
    /// What a backup would hold: the file without what is ours.
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
}

impl Plan {
    fn now(&self) -> Option<&[u8]> {
        self.now.as_ref().map(|content| content.bytes.as_slice())
    }

    fn change(&self) -> Change {
        let before = self.now().map(<[u8]>::to_vec);
        Change { path: self.file.path.clone(), before, after: self.after.clone() }
    }
}

impl Installation {
    /// What would happen. Nothing is written.
    ///
    /// # Errors
    /// If a file is refused.
    pub fn look(&self, direction: Direction) -> Result<Vec<Change>, InstallError> {
        let plans = self.targets.iter().map(|target| self.plan(target, direction));
        plans.map(|plan| plan.map(|plan| plan.change())).collect()
    }

    /// Does it.
    ///
    /// # Errors
    /// If a file is refused, then none was touched; or what the system says.
    pub fn carry_out(&self, direction: Direction) -> Result<Vec<Change>, InstallError> {
        self.look(direction)?;
        let lock = self.backups.lock()?;
        let pasts = self.targets.iter().filter_map(|target| self.backups.past(&target.path));
        let directories: Vec<PathBuf> = pasts.flat_map(|past| past.directories().to_vec()).collect();
        let changes = self.targets.iter().map(|target| self.change(target, direction, &lock)).collect();
        if direction == Direction::Out {
            // Those that hold anything stay.
            directories.iter().rev().for_each(|directory| drop(std::fs::remove_dir(directory)));
        }
        changes
    }

    fn change(
        &self,
        target: &Target,
        direction: Direction,
        lock: &BackupsLock,
    ) -> Result<Change, InstallError> {
        for _ in 0..ATTEMPTS {
            let _held = match (&target.part, target.path.parent()) {
                (Part::Members(Which::State), Some(dir)) if dir.is_dir() => {
                    Some(ClaudeLock::take(&target.path)?)
                }
                _ => None,
            };
            let plan = self.plan(target, direction)?;
            if self.replace(&plan, direction, lock)? == Replaced::Yes {
                return Ok(plan.change());
            }
        }
        Err(InstallError::Restless { path: target.path.clone() })
    }

    fn replace(
        &self,
        plan: &Plan,
        direction: Direction,
        lock: &BackupsLock,
    ) -> Result<Replaced, InstallError> {
        let path = &plan.file.path;
        let failed = |source| InstallError::Backup { path: path.clone(), source };
        if plan.now() != plan.after.as_deref() {
            if let (Direction::In, Some(after)) = (direction, &plan.after) {
                let missing = plan.file.missing_directories();
                let (past, before) = (plan.past.as_ref(), plan.before.as_deref());
                let is_ours_alone = plan.is_ours_alone;
                lock.begin(Beginning { path, past, is_ours_alone, before, after, missing: &missing })
                    .map_err(failed)?;
            }
            if plan.file.replace(plan.now.as_ref(), plan.after.as_deref())? == Replaced::Changed {
                return Ok(Replaced::Changed);
            }
        }
        if direction == Direction::Out {
            lock.end(path).map_err(failed)?;
        }
        Ok(Replaced::Yes)
    }

    fn plan(&self, target: &Target, direction: Direction) -> Result<Plan, InstallError> {
        let file = UserFile::find(&target.path)?;
        let now = file.read()?;
        let past = self.backups.past(&target.path);
        let bytes = now.as_ref().map(|content| content.bytes.as_slice());
        let is_ours_alone = past.as_ref().zip(bytes).is_some_and(|(past, bytes)| past.made(bytes));
        let (before, after) = match (&target.part, direction) {
            (_, Direction::Out) if is_ours_alone => {
                (None, past.as_ref().and_then(|past| past.before.clone()))
            }
            (Part::Members(which), _) => {
                self.edited(&target.path, *which, bytes, past.as_ref(), direction)?
            }
            (Part::Whole(text), _) => {
                (bytes.map(<[u8]>::to_vec), whole_file(&target.path, text, bytes, is_ours_alone, direction)?)
            }
        };
        // A past that a crash, or the user, left behind counts no more.
        let past = past
            .filter(|past| is_ours_alone || bytes == past.before.as_deref() || bytes != before.as_deref());
        let is_ours_alone = past.as_ref().is_none_or(|past| is_ours_alone || bytes == past.before.as_deref());
        Ok(Plan { file, now, past, is_ours_alone, before, after })
    }

    /// A document without what is ours, and as it is to be.
    fn edited(
        &self,
        path: &Path,
        which: Which,
        bytes: Option<&[u8]>,
        past: Option<&Past>,
        direction: Direction,
    ) -> Result<(Bytes, Bytes), InstallError> {
        let refused = |why: EditError| InstallError::Content {
            path: path.to_owned(),
            why,
            snippet: (direction == Direction::In).then(|| self.wanted.snippet(which)).flatten(),
        };
        let document = Document::parse(bytes.unwrap_or_default()).map_err(|error| refused(error.into()))?;
        let has_ours = self.ours.is_in(which, &document).map_err(|error| refused(error.into()))?;
        let without = match has_ours {
            false => bytes.map(<[u8]>::to_vec),
            true => {
                let mut without = document.clone();
                let before = past.map_or(Value::Null, before_as_value);
                self.ours.take_out(which, &mut without, &before).map_err(refused)?;
                let is_new = past.is_some_and(|past| past.before.is_none());
                let is_nothing =
                    is_new && without.value(&[]).ok().flatten() == Some(Value::Object(Default::default()));
                Some(without.to_bytes()).filter(|_| !is_nothing)
            }
        };
        match direction {
            Direction::Out => Ok((None, without)),
            Direction::In => {
                let mut with = document;
                self.ours.put_in(which, &mut with, &self.wanted).map_err(refused)?;
                let after = with.to_bytes();
                let is_new = bytes.is_none() && with.value(&[]).ok().flatten().is_none();
                Ok((without, Some(after).filter(|_| !is_new)))
            }
        }
    }
}

fn before_as_value(past: &Past) -> Value {
    let document = past.before.as_deref().and_then(|bytes| Document::parse(bytes).ok());
    document.and_then(|document| document.value(&[]).ok().flatten()).unwrap_or(Value::Null)
}

/// What becomes of a file that is wholly ours.
fn whole_file(
    path: &Path,
    text: &str,
    now: Option<&[u8]>,
    is_ours_alone: bool,
    direction: Direction,
) -> Result<Bytes, InstallError> {
    match (direction, now) {
        (Direction::In, None) => Ok(Some(text.as_bytes().to_vec())),
        (Direction::In, Some(now)) if is_ours_alone || now == text.as_bytes() => {
            Ok(Some(text.as_bytes().to_vec()))
        }
        (Direction::In, Some(_)) => Err(InstallError::Others { path: path.to_owned() }),
        (Direction::Out, None) => Ok(None),
        (Direction::Out, Some(now)) if now == text.as_bytes() => Ok(None),
        (Direction::Out, Some(_)) => Err(InstallError::ChangedByHand { path: path.to_owned() }),
    }
}
