//! What a file was before we touched it: one backup, and a record of what we made of it, in the state directory.
//!
//! ```text
//! user-files/settings.json-1a2b3c4d.json      {"path", "existed", "after": [hashes], "made": [directories]}
//! user-files/settings.json-1a2b3c4d.backup    the file as it was
//! ```
//!
//! A file whose hash is in `after` was changed by nobody but us: the backup can take its place. The record is on the disk
//! before the file is changed, so a crash in between leaves a record that is not true yet, which harms nothing.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::agent::record::{read_bounded, replace};
use crate::runtime_dir::{RuntimeDirError, StateDir};

const FOLDER: &str = "user-files";

/// Where backups are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backups(PathBuf);

/// The right to write them, and with them the files: one of us at a time.
#[derive(Debug)]
pub struct BackupsLock {
    dir: StateDir,
    backups: Backups,
}

/// What is about to happen to a file.
#[derive(Debug, Clone, Copy)]
pub struct Beginning<'a> {
    /// Which.
    pub path: &'a Path,
    /// Its past, if that counts still.
    pub past: Option<&'a Past>,
    /// Whether all that happened since is our work.
    pub is_ours_alone: bool,
    /// What becomes its past, where there is none.
    pub before: Option<&'a [u8]>,
    /// What it becomes.
    pub after: &'a [u8],
    /// Directories that are made for it.
    pub missing: &'a [PathBuf],
}

/// What is known of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupRecord {
    path: PathBuf,
    existed: bool,
    after: Vec<String>,
    made: Vec<PathBuf>,
}

/// A file's past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// What it was; `None`: not there.
    pub before: Option<Vec<u8>>,
    record: BackupRecord,
}

impl Past {
    /// Whether that content is our own work, unchanged.
    pub fn made(&self, bytes: &[u8]) -> bool {
        self.record.after.contains(&hash(bytes))
    }

    /// Directories that were made for it, the outermost first.
    pub fn directories(&self) -> &[PathBuf] {
        &self.record.made
    }
}

impl Backups {
    /// Of that state directory, which need not exist.
    pub fn of(state_dir: &Path) -> Self {
        Self(state_dir.join(FOLDER))
    }

    /// Makes and locks the folder.
    ///
    /// # Errors
    /// If it is refused, or another of us works.
    pub fn lock(&self) -> Result<BackupsLock, RuntimeDirError> {
        Ok(BackupsLock { dir: StateDir::claim(&self.0)?, backups: self.clone() })
    }

    /// What is known of a file. What can't be read is not known.
    pub fn past(&self, path: &Path) -> Option<Past> {
        let record = read_bounded(&self.record_file(path)).ok()?;
        let record: BackupRecord = serde_json::from_slice(&record).ok()?;
        let before = match record.existed {
            true => Some(fs::read(self.backup_file(path)).ok()?),
            false => None,
        };
        (record.path == path).then_some(Past { before, record })
    }

    fn record_file(&self, path: &Path) -> PathBuf {
        self.named(path, "json")
    }

    fn backup_file(&self, path: &Path) -> PathBuf {
        self.named(path, "backup")
    }

    /// Files of the same name in different folders are different files.
    fn named(&self, path: &Path, extension: &str) -> PathBuf {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let hash = hash(path.as_os_str().as_encoded_bytes());
        self.0.join(format!("{name}-{}.{extension}", &hash[..8]))
    }
}

impl BackupsLock {
    /// Notes that a file is about to change.
    ///
    /// # Errors
    /// What the system says.
    pub fn begin(&self, beginning: Beginning<'_>) -> io::Result<()> {
        let Beginning { path, past, before, .. } = beginning;
        let mut record = match past {
            Some(past) => past.record.clone(),
            None => {
                if let Some(before) = before {
                    replace(&self.backups.backup_file(path), before)?;
                }
                BackupRecord { path: path.to_owned(), existed: before.is_some(), after: vec![], made: vec![] }
            }
        };
        let after = hash(beginning.after);
        if beginning.is_ours_alone && !record.after.contains(&after) {
            record.after.push(after);
        }
        record.made.extend(beginning.missing.iter().cloned());
        replace(&self.backups.record_file(path), &serde_json::to_vec_pretty(&record)?)?;
        File::open(self.dir.path())?.sync_all()
    }

    /// Nothing of ours is in the file any more: its past is the user's business again.
    ///
    /// # Errors
    /// What the system says.
    pub fn end(&self, path: &Path) -> io::Result<()> {
        let backups = &self.backups;
        for file in [backups.record_file(path), backups.backup_file(path)] {
            match fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
