//! A regular file where a FIFO should be: what `echo > in.x` leaves if it comes before `mkfifo in.x`.
//!
//! ```text
//! in.x (file), nobody writes to it for 1 s
//!   1  .adopt.in.x is made a FIFO
//!   2  in.x <-> .adopt.in.x        one system call: there is always something of that name
//!   3  the last line gets its end
//!   4  .adopt.in.x ──► STATE_DIR/intake/x.KEY.adopted   rename, or copy, rename and remove
//!   5  the channel's next reader gives it its place in the stream (`IntakeLog::adopt`)
//! ```
//!
//! A daemon that dies between two steps leaves what the next one goes on with; KEY (device, inode, time of the last
//! change) tells it that a file was copied already. So every line is accepted once.
//!
//! Knows no channels that are open and no messages.

use std::collections::HashMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ccmux_wire::channel::{ChannelName, FileRole, role_of_file};
use ccmux_wire::inbound::{Framer, Terminator};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::{Uid, mkfifo};
use tokio::time::Instant;

use super::log::{IntakeLogs, LogError};
use crate::runtime_dir::FileId;

/// How long nobody may have changed the file.
const UNCHANGED: Duration = Duration::from_secs(1);
/// A file that somebody has open for writing is looked at again after that time.
const HELD_AGAIN: Duration = Duration::from_secs(5);
/// One that could not be adopted, too.
const FAILED_AGAIN: Duration = Duration::from_secs(60);
const LOOK_AT_MOST: Duration = Duration::from_millis(250);
const HIDDEN: &str = ".adopt.";
const CHUNK: usize = 64 * 1024;

/// Watches regular files with the names of channels, and adopts them.
#[derive(Debug)]
pub(super) struct Adoption {
    dir: PathBuf,
    logs: IntakeLogs,
    waiting: HashMap<String, Seen>,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Adopted {
    /// Not now.
    NotYet,
    /// That many bytes wait for the channel's reader; a FIFO stands in its place.
    Staged(u64),
}

/// Why a file is left alone.
#[derive(Debug, thiserror::Error)]
pub(super) enum AdoptError {
    #[error("a regular file of uid {0}, not yours")]
    Foreign(u32),
    #[error("a regular file with {0} names (hard links), not a FIFO: move it away and mkfifo that name")]
    Links(u64),
    #[error("a regular file that can't be adopted: {0}")]
    Failed(#[from] LogError),
}

/// A file as it was, and when to look again.
#[derive(Debug)]
struct Seen {
    signature: Signature,
    again_at: Instant,
}

/// What changes when somebody writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Signature {
    id: FileId,
    length: u64,
    modified: (i64, i64),
}

impl From<&Metadata> for Signature {
    fn from(found: &Metadata) -> Self {
        Self { id: FileId::from(found), length: found.len(), modified: (found.mtime(), found.mtime_nsec()) }
    }
}

/// The channel whose file was hidden under that name.
pub(super) fn hidden_channel(file_name: &str) -> Option<ChannelName> {
    match role_of_file(file_name.strip_prefix(HIDDEN)?) {
        FileRole::In(channel) => Some(channel),
        _ => None,
    }
}

impl Adoption {
    /// In that runtime directory.
    pub(super) fn new(dir: &Path, logs: IntakeLogs) -> Self {
        Self { dir: dir.to_owned(), logs, waiting: HashMap::new() }
    }

    /// When a waiting file is to be looked at again.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let next = self.waiting.values().map(|seen| seen.again_at).min();
        // A look that came to nothing leaves the file due.
        next.map(|at| at.max(Instant::now() + LOOK_AT_MOST))
    }

    /// Forgets files that are gone.
    pub(super) fn forget(&mut self, is_there: impl Fn(&str) -> bool) {
        self.waiting.retain(|name, _| is_there(name));
    }

    /// Adopts the regular file of that name, once nobody changes it any more.
    pub(super) fn consider(&mut self, name: &str, channel: &ChannelName) -> Result<Adopted, AdoptError> {
        let considered = self.try_to_adopt(name, channel);
        if considered.is_err()
            && let Some(seen) = self.waiting.get_mut(name)
        {
            seen.again_at = Instant::now() + FAILED_AGAIN;
        }
        considered
    }

    fn try_to_adopt(&mut self, name: &str, channel: &ChannelName) -> Result<Adopted, AdoptError> {
        let path = self.dir.join(name);
        let file = open(&path).map_err(|error| LogError::io("open", &path, error))?;
        let Some(id) = self.settled(name, &path, &file)? else {
            return Ok(Adopted::NotYet);
        };
        let hidden = self.dir.join(format!("{HIDDEN}{name}"));
        let swapped = swap(&path, &hidden, id)?;
        self.waiting.remove(name);
        match swapped {
            true => self.take_hidden(&format!("{HIDDEN}{name}"), channel),
            false => Ok(Adopted::NotYet),
        }
    }

    /// Goes on with a file that is hidden already.
    pub(super) fn take_hidden(&mut self, name: &str, channel: &ChannelName) -> Result<Adopted, AdoptError> {
        let path = self.dir.join(name);
        if is_fifo(&path) {
            // Step 2 was not reached.
            remove(&path)?;
            return Ok(Adopted::NotYet);
        }
        let file = open(&path).map_err(|error| LogError::io("open", &path, error))?;
        let found = check(&file, &path)?;
        if is_written_to(&path) {
            self.wait(name, &found, HELD_AGAIN);
            return Ok(Adopted::NotYet);
        }
        let bytes = stage(&path, &file, &self.logs, channel)?;
        self.waiting.remove(name);
        Ok(Adopted::Staged(bytes))
    }

    /// Which file it is, if it is ours and nobody has changed it for a while.
    fn settled(&mut self, name: &str, path: &Path, file: &File) -> Result<Option<FileId>, AdoptError> {
        let found = check(file, path)?;
        let now = Instant::now();
        match self.waiting.get(name) {
            Some(seen) if seen.signature == Signature::from(&found) => {
                if seen.again_at > now {
                    return Ok(None);
                }
            }
            _ => {
                self.wait(name, &found, UNCHANGED);
                return Ok(None);
            }
        }
        if is_written_to(path) {
            self.wait(name, &found, HELD_AGAIN);
            return Ok(None);
        }
        Ok(Some(FileId::from(&found)))
    }

    fn wait(&mut self, name: &str, found: &Metadata, pause: Duration) {
        let seen = Seen { signature: Signature::from(found), again_at: Instant::now() + pause };
        self.waiting.insert(name.to_owned(), seen);
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)
}

fn check(file: &File, path: &Path) -> Result<Metadata, AdoptError> {
    let found = file.metadata().map_err(|error| LogError::io("look at", path, error))?;
    if !found.is_file() {
        return Err(LogError::Refused { path: path.to_owned() }.into());
    }
    if found.uid() != Uid::effective().as_raw() {
        return Err(AdoptError::Foreign(found.uid()));
    }
    if found.nlink() > 1 {
        return Err(AdoptError::Links(found.nlink()));
    }
    Ok(found)
}

/// Puts a FIFO in the place of the file, which gets the hidden name. False if the file is another one by now.
fn swap(path: &Path, hidden: &Path, id: FileId) -> Result<bool, LogError> {
    if is_fifo(hidden) {
        remove(hidden)?;
    }
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    mkfifo(hidden, mode).map_err(|errno| LogError::io("make the fifo", hidden, errno.into()))?;
    if let Err(error) = exchange(path, hidden) {
        remove(hidden)?;
        if !matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EINVAL | Errno::ENOSYS)) {
            return Err(LogError::io("rename", path, error));
        }
        // A file system that can't exchange names: for a moment nothing has this one.
        fs::rename(path, hidden).map_err(|error| LogError::io("rename", path, error))?;
        match mkfifo(path, mode) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(LogError::io("make the fifo", path, errno.into())),
        }
    }
    if FileId::of_path(hidden) == Some(id) {
        return Ok(true);
    }
    exchange(path, hidden).map_err(|error| LogError::io("rename", hidden, error))?;
    Ok(false)
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).map_err(io::Error::from)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn exchange(_one: &Path, _other: &Path) -> io::Result<()> {
    Err(Errno::ENOSYS.into())
}

/// Brings a hidden file to the logs. Returns its length.
fn stage(hidden: &Path, file: &File, logs: &IntakeLogs, channel: &ChannelName) -> Result<u64, LogError> {
    let failed = |what| move |error| LogError::io(what, hidden, error);
    file.set_permissions(PermissionsExt::from_mode(0o600)).map_err(failed("set the mode of"))?;
    end_last_line(hidden, file).map_err(failed("end the last line of"))?;
    let found = file.metadata().map_err(failed("look at"))?;
    if found.len() == 0 {
        remove(hidden)?;
        return Ok(0);
    }
    let (time, nanos) = (found.mtime(), found.mtime_nsec());
    let staged = logs.staged_path(channel, &format!("{time}_{nanos}_{}_{}", found.dev(), found.ino()));
    match fs::rename(hidden, &staged) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => copy(hidden, file, &staged)?,
        renamed => renamed.map_err(failed("move"))?,
    }
    Ok(found.len())
}

/// Whoever reads on behind it must not take the next line for the rest of its last one.
fn end_last_line(path: &Path, file: &File) -> io::Result<()> {
    let Some(terminator) = missing_terminator(file)? else {
        return Ok(());
    };
    let flags = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let end = OpenOptions::new().write(true).custom_flags(flags.bits()).open(path)?;
    let byte = match terminator {
        Terminator::Newline => b'\n',
        Terminator::Nul => 0,
    };
    end.write_all_at(&[byte], file.metadata()?.len())
}

fn missing_terminator(mut file: &File) -> io::Result<Option<Terminator>> {
    // Where frames end does not depend on the limit.
    let mut framer = Framer::new(CHUNK);
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = file.read(&mut chunk)?;
        if length == 0 {
            break;
        }
        framer.push(&chunk[..length]);
        while framer.next_frame().is_some() {}
    }
    let skipped = framer.position().skip.map(|skip| skip.until);
    let held = framer.partial().first().map(|first| match first {
        0 => Terminator::Nul,
        _ => Terminator::Newline,
    });
    Ok(skipped.or(held))
}

/// To another file system: complete under its name before the original goes.
fn copy(hidden: &Path, mut file: &File, staged: &Path) -> Result<(), LogError> {
    if staged.symlink_metadata().is_ok() {
        return remove(hidden);
    }
    let part = staged.with_extension("part");
    let failed = |error| LogError::io("write", &part, error);
    let mut to = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC).bits())
        .open(&part)
        .map_err(failed)?;
    io::Seek::rewind(&mut file).map_err(failed)?;
    io::copy(&mut file, &mut to).map_err(failed)?;
    fs::rename(&part, staged).map_err(failed)?;
    remove(hidden)
}

fn remove(path: &Path) -> Result<(), LogError> {
    fs::remove_file(path).map_err(|error| LogError::io("remove", path, error))
}

fn is_fifo(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.file_type().is_fifo())
}

/// Whether a process that we may look at has the file open for writing: what it writes later would be lost.
#[cfg(target_os = "linux")]
fn is_written_to(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    let numbered = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().parse::<u32>().is_ok();
    let entries = |dir: PathBuf| dir.read_dir().into_iter().flatten().flatten();
    entries("/proc".into())
        .filter(numbered)
        .flat_map(|process| entries(process.path().join("fd")))
        .filter(|fd| fs::read_link(fd.path()).is_ok_and(|target| target == path))
        .any(|fd| is_open_for_writing(&fd.path()))
}

#[cfg(target_os = "linux")]
fn is_open_for_writing(fd: &Path) -> bool {
    let (Some(number), Some(process)) = (fd.file_name(), fd.ancestors().nth(2)) else {
        return false;
    };
    let Ok(info) = fs::read_to_string(process.join("fdinfo").join(number)) else {
        return false;
    };
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & OFlag::O_ACCMODE.bits() != OFlag::O_RDONLY.bits())
}

#[cfg(not(target_os = "linux"))]
fn is_written_to(_path: &Path) -> bool {
    false
}
