//! `queue.jsonl`: the notes that nobody listened to yet, oldest first. It is the truth; the bell only says "look".
//!
//! ```text
//! add    lock ─ ring ─ append one line ─ unlock
//! take   drain.lock ─ lock, read, unlock ─ print and flush ─ lock, remove, unlock
//! ```
//!
//! Ringing comes before writing, both under the lock: a writer killed between leaves a ring too many, never a note that
//! nobody was woken for. Removing comes after printing: a listener killed between prints it again, with the same id.

use std::io::{self, Write};
use std::time::Instant;

use crate::bell::{self, Bell, DOORBELL, Rung};
use crate::folder::{Folder, FolderError, Lock};
use crate::note::Note;

const FILE: &str = "queue.jsonl";
/// More wait for nobody: a queue that no one listens to must not fill the disk.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// A disk that is full keeps lines in the queue only if others came meanwhile, and they can't for long.
const TRIES: usize = 8;

/// Why notes could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// The files.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// They could not be written out, and stay in the queue.
    #[error("can't write the output: {0}")]
    Output(io::Error),
    /// They were written out, and will be again.
    #[error(
        "the notes are printed, but can't leave the queue, and will be printed again with the same ids: {0}"
    )]
    Stay(FolderError),
}

/// Puts a note into the queue.
///
/// # Errors
/// If there is no room for it; the queue is as before then.
pub fn add(folder: &Folder, note: &Note) -> Result<Rung, FolderError> {
    let _lock = folder.lock()?;
    add_locked(folder, note).map(|(rung, _)| rung)
}

/// Also says where its line begins. The caller holds [`Folder::lock`].
pub(crate) fn add_locked(folder: &Folder, note: &Note) -> Result<(Rung, u64), FolderError> {
    let bell = note.to.as_deref().map_or_else(|| DOORBELL.to_owned(), bell::bell_of);
    let rung = bell::ring(folder, &bell);
    let begins = folder.append(FILE, note.to_line().as_bytes(), MAX_BYTES)?;
    Ok((rung, begins))
}

/// Takes back the last note. The caller has held [`Folder::lock`] since it was added.
pub(crate) fn take_back(folder: &Folder, begins: u64) -> Result<(), FolderError> {
    folder.cut(FILE, begins)
}

/// Prints what waits for `name`, then takes it out. Where nothing does, the bells are silent again.
///
/// # Errors
/// If it can't be printed (it stays) or can't be removed.
pub fn take(
    folder: &Folder,
    name: &str,
    bells: &[Bell],
    out: &mut impl Write,
    deadline: Option<Instant>,
) -> Result<Vec<Note>, TakeError> {
    // Somebody else is printing now: who waits for them too long gets nothing.
    let Some(_drain) = folder.lock_within("drain.lock", deadline)? else { return Ok(Vec::new()) };
    let (mut seen, mut taken) = (0, Vec::new());
    let mut kept = Vec::new();
    for tries_left in (0..TRIES).rev() {
        let (all, lock) = read(folder)?;
        let (notes, others) = sorted(all.get(seen..).unwrap_or_default(), name);
        if seen == 0 && notes.is_empty() {
            bells.iter().for_each(Bell::silence);
            return Ok(taken);
        }
        drop(lock);
        print(&notes, out).map_err(TakeError::Output)?;
        (seen, kept) = (all.len(), [kept, others].concat());
        taken.extend(notes);
        match remove(folder, seen, &kept) {
            Ok(()) => return Ok(taken),
            Err(error) if tries_left == 0 => return Err(TakeError::Stay(error)),
            Err(_) => {}
        }
    }
    Ok(taken)
}

fn read(folder: &Folder) -> Result<(Vec<u8>, Lock), FolderError> {
    let lock = folder.lock()?;
    Ok((folder.lines(FILE)?, lock))
}

/// What is for that name or for anybody, and the lines that are not.
fn sorted(lines: &[u8], name: &str) -> (Vec<Note>, Vec<u8>) {
    let (mut notes, mut others) = (Vec::new(), Vec::new());
    for line in lines.split_inclusive(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        let note = Note::of_line(line.trim_ascii());
        match note.to.as_deref().is_none_or(|to| to == name) {
            true => notes.push(note),
            false => others.extend_from_slice(line),
        }
    }
    (notes, others)
}

fn print(notes: &[Note], out: &mut impl Write) -> io::Result<()> {
    for note in notes {
        out.write_all(note.to_line().as_bytes())?;
    }
    out.flush()
}

/// What came since the look stays.
fn remove(folder: &Folder, seen: usize, kept: &[u8]) -> Result<(), FolderError> {
    let _lock = folder.lock()?;
    let all = folder.lines(FILE)?;
    folder.replace(FILE, &[kept, all.get(seen..).unwrap_or_default()].concat())
}

/// Empties it; the notes that nobody will get.
///
/// # Errors
/// If the files can't be changed.
pub fn clear(folder: &Folder) -> Result<Vec<Note>, FolderError> {
    let deadline = Some(Instant::now() + crate::folder::LOCK_LIMIT);
    let drain = folder.lock_within("drain.lock", deadline)?;
    let _drain = drain.ok_or_else(|| FolderError::Locked { path: folder.path_of("drain.lock") })?;
    let _lock = folder.lock()?;
    let notes = notes_of(&folder.lines(FILE)?);
    folder.replace(FILE, b"")?;
    Ok(notes)
}

/// What waits now, for anybody.
///
/// # Errors
/// If the files can't be read.
pub fn waiting(folder: &Folder) -> Result<Vec<Note>, FolderError> {
    let _lock = folder.lock()?;
    Ok(notes_of(&folder.lines(FILE)?))
}

fn notes_of(lines: &[u8]) -> Vec<Note> {
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    lines.map(|line| Note::of_line(line.trim_ascii())).collect()
}
