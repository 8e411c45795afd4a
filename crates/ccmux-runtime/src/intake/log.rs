//! The intake log: bytes of a channel that have left its FIFO and may not be in the inbox yet.
//!
//! ```text
//! FIFO ── splice ──► STATE_DIR/intake/telegram.4096.log ── read back ──► Sink::ingest(telegram, 4096 + n, ..)
//!                                      │
//!                                      └ the offset of its first byte in the channel's stream
//! ```
//!
//! splice(2) takes bytes out of the pipe and puts them into the file in one system call, so that a process that dies
//! has them in one of the two. The file is not synced: the page cache survives the process. It does not survive the
//! power: what was not committed to the inbox then may be lost.
//!
//! A file is written to only by the process that made it, up to [`SEGMENT`] bytes; then the next one begins where it
//! ends. It is removed once the inbox has received all of it. Each step may be the last one of this process:
//!
//! | files that are found | they mean |
//! |---|---|
//! | none | the stream goes on where the inbox stands |
//! | one that ends at or below `received` | its removal was not reached: removed now |
//! | an empty one | nothing was moved into it: removed now |
//! | any other | what lies behind `received` is ingested, then it is removed |
//!
//! Where the system has no splice(2) bytes are read and written: those between the two calls die with the process.
//!
//! Knows no lines and no messages.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ccmux_wire::channel::ChannelName;
use nix::fcntl::OFlag;
use nix::unistd::Uid;

/// A file that has reached that many bytes takes no more.
pub(super) const SEGMENT: u64 = 1024 * 1024;

/// Bytes moved, or read back, at once.
const CHUNK: usize = 64 * 1024;

/// What a file that was adopted is called before its place in the stream is known.
const STAGED: &str = ".adopted";

/// The folder of all channels' logs.
#[derive(Debug, Clone)]
pub struct IntakeLogs {
    dir: PathBuf,
    /// [`SEGMENT`], but in tests.
    segment: u64,
}

/// Why a log can't be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The system said no.
    #[error("can't {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Not a file that ccmux made.
    #[error("{} is not a regular file of yours with one name: move it away", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
    },
}

impl LogError {
    pub(super) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), source }
    }
}

impl IntakeLogs {
    /// Logs in a private directory that exists.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, segment: SEGMENT }
    }

    #[cfg(test)]
    pub(super) fn with_segments_of(self, segment: u64) -> Self {
        Self { segment, ..self }
    }

    /// Moves the logs of a state directory aside, if there are any: their bytes belong to an inbox that is gone, and what
    /// that had received of them can't be told from what it had not. Returns where they are now.
    ///
    /// # Errors
    /// If they can't be moved.
    pub fn move_aside(dir: &Path, now_unix_s: i64) -> Result<Option<PathBuf>, LogError> {
        if fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none()) {
            return Ok(None);
        }
        let aside = dir.with_extension(format!("damaged-{now_unix_s}"));
        fs::rename(dir, &aside).map_err(|error| LogError::io("move aside", dir, error))?;
        Ok(Some(aside))
    }

    /// Channels of which something is there.
    ///
    /// # Errors
    /// If the folder can't be read.
    pub fn channels(&self) -> Result<BTreeSet<ChannelName>, LogError> {
        let names = self.names()?;
        let segments = names.iter().filter_map(|name| segment_of(name)).map(|(channel, _)| channel);
        let staged = names.iter().filter_map(|name| staged_of(name)).map(|(channel, _)| channel);
        Ok(segments.chain(staged).filter_map(|name| name.parse().ok()).collect())
    }

    /// Where a file that is adopted for the channel waits for its place; `key` tells it from others.
    pub(super) fn staged_path(&self, channel: &ChannelName, key: &str) -> PathBuf {
        self.dir.join(format!("{channel}.{key}{STAGED}"))
    }

    /// The log of a channel of which the inbox has the first `received` bytes. One at a time.
    pub(super) fn open(&self, channel: &ChannelName, received: u64) -> Result<IntakeLog, LogError> {
        let mut log = IntakeLog {
            logs: self.clone(),
            channel: channel.clone(),
            segments: VecDeque::new(),
            end: received,
            sealed: true,
            #[cfg(not(target_os = "linux"))]
            carried: Vec::new(),
        };
        for base in self.bases(channel)? {
            log.take_up(base, received)?;
        }
        Ok(log)
    }

    /// Files that were adopted for the channel and have no place in its stream yet.
    pub(super) fn staged(&self, channel: &ChannelName) -> Result<Vec<PathBuf>, LogError> {
        let mut staged: Vec<(String, PathBuf)> = self
            .names()?
            .iter()
            .filter_map(|name| staged_of(name).map(|found| (name, found)))
            .filter(|(_, (of, _))| *of == channel.as_str())
            .map(|(name, (_, key))| (key.to_owned(), self.dir.join(name)))
            .collect();
        staged.sort();
        Ok(staged.into_iter().map(|(_, path)| path).collect())
    }

    fn bases(&self, channel: &ChannelName) -> Result<BTreeSet<u64>, LogError> {
        let names = self.names()?;
        let own = names.iter().filter_map(|name| segment_of(name));
        Ok(own.filter(|(of, _)| *of == channel.as_str()).map(|(_, base)| base).collect())
    }

    fn names(&self) -> Result<Vec<String>, LogError> {
        let failed = |error| LogError::io("read", &self.dir, error);
        let entries = self.dir.read_dir().map_err(failed)?;
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        entries.map(|entry| entry.map(name)).collect::<io::Result<_>>().map_err(failed)
    }
}

/// `CHANNEL.BASE.log`; a channel's name may end in digits, too.
fn segment_of(file_name: &str) -> Option<(&str, u64)> {
    let (channel, base) = file_name.strip_suffix(".log")?.rsplit_once('.')?;
    let number: u64 = base.parse().ok()?;
    (number.to_string() == base).then_some((channel, number))
}

/// `CHANNEL.KEY.adopted`
fn staged_of(file_name: &str) -> Option<(&str, &str)> {
    file_name.strip_suffix(STAGED)?.rsplit_once('.')
}

/// The log of one channel: a row of files that follow each other.
#[derive(Debug)]
pub(super) struct IntakeLog {
    logs: IntakeLogs,
    channel: ChannelName,
    segments: VecDeque<Segment>,
    /// Offset behind the last byte.
    end: u64,
    /// The last file takes no more bytes.
    sealed: bool,
    /// Bytes that were read and could not be written yet.
    #[cfg(not(target_os = "linux"))]
    carried: Vec<u8>,
}

#[derive(Debug)]
struct Segment {
    /// Offset of its first byte.
    base: u64,
    /// Offset behind its last byte.
    end: u64,
    path: PathBuf,
    file: File,
}

impl IntakeLog {
    /// Offset behind the last byte.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Moves bytes from a pipe to the end. Nothing moved is the pipe's end.
    ///
    /// # Errors
    /// `WouldBlock` if the pipe is empty. After any error the bytes are where they were.
    pub(super) fn append_from(&mut self, pipe: BorrowedFd<'_>) -> io::Result<usize> {
        if self.sealed {
            self.begin_segment()?;
        }
        let Some(last) = self.segments.back_mut() else {
            return Err(io::Error::other("the log has no file"));
        };
        #[cfg(target_os = "linux")]
        let moved = splice(pipe, last)?;
        #[cfg(not(target_os = "linux"))]
        let moved = read_then_write(pipe, last, &mut self.carried)?;
        last.end += moved as u64;
        self.end = last.end;
        self.sealed = last.len() >= self.logs.segment;
        Ok(moved)
    }

    /// The next bytes behind `received`, with the offset of the first one: greater than `received` if a file was lost.
    pub(super) fn next(&self, received: u64) -> Result<Option<(u64, Vec<u8>)>, LogError> {
        let Some(segment) = self.segments.iter().find(|segment| segment.end > received) else {
            return Ok(None);
        };
        let at = received.max(segment.base);
        let length = usize::try_from(segment.end - at).map_or(CHUNK, |left| left.min(CHUNK));
        let mut bytes = vec![0; length];
        segment
            .file
            .read_exact_at(&mut bytes, at - segment.base)
            .map_err(|error| LogError::io("read back", &segment.path, error))?;
        Ok(Some((at, bytes)))
    }

    /// Removes what is received, but for a last file that may take more bytes.
    pub(super) fn forget(&mut self, received: u64) {
        while self.segments.front().is_some_and(|first| first.end <= received)
            && (self.segments.len() > 1 || self.sealed)
        {
            self.remove_first();
        }
    }

    /// Nothing more could be written: what comes next begins a file, so that this one can be removed and gives room.
    pub(super) fn seal(&mut self) {
        // One without a byte would give no room, and the next one would have its name.
        self.sealed |= self.segments.back().is_some_and(|last| last.len() > 0);
    }

    /// Removes every file, if all of it is received: nobody knows whether the channel comes back.
    pub(super) fn close(mut self, received: u64) {
        self.sealed = true;
        self.forget(received);
    }

    /// Makes a staged file the next part of the stream. Returns its length.
    pub(super) fn adopt(&mut self, staged: &Path) -> Result<u64, LogError> {
        if self.segments.back().is_some_and(|last| last.len() == 0) {
            // It has the name that the adopted one gets.
            self.segments.pop_back();
        }
        let path = self.segment_path(self.end);
        let mut segment = Segment::open(self.end, staged.to_owned())?;
        fs::rename(staged, &path).map_err(|error| LogError::io("rename", staged, error))?;
        segment.path = path;
        self.sealed = true;
        let length = segment.len();
        self.end = segment.end;
        self.segments.push_back(segment);
        Ok(length)
    }

    fn take_up(&mut self, base: u64, received: u64) -> Result<(), LogError> {
        let segment = Segment::open(base, self.segment_path(base))?;
        if segment.end <= received || segment.len() == 0 {
            return fs::remove_file(&segment.path)
                .map_err(|error| LogError::io("remove", &segment.path, error));
        }
        if let Some(before) = self.segments.back_mut() {
            // An adopted file that somebody wrote to afterwards: the next one's place is known.
            before.end = before.end.min(base);
        }
        self.end = segment.end;
        self.segments.push_back(segment);
        Ok(())
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        let path = self.segment_path(self.end);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC).bits())
            .open(&path)?;
        let (base, end) = (self.end, self.end);
        self.segments.push_back(Segment { base, end, path, file });
        self.sealed = false;
        Ok(())
    }

    fn segment_path(&self, base: u64) -> PathBuf {
        self.logs.dir.join(format!("{}.{base}.log", self.channel))
    }

    fn remove_first(&mut self) {
        if let Some(first) = self.segments.pop_front()
            && let Err(error) = fs::remove_file(&first.path)
        {
            // It is removed by the next daemon: all of it is received.
            tracing::warn!(event = "intake_log.kept", path = %first.path.display(), %error);
        }
    }
}

impl Segment {
    /// A file that another process made, or another program.
    fn open(base: u64, path: PathBuf) -> Result<Self, LogError> {
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).bits())
            .open(&path);
        let file = opened.map_err(|error| LogError::io("open", &path, error))?;
        let found = file.metadata().map_err(|error| LogError::io("look at", &path, error))?;
        if !found.is_file() || found.uid() != Uid::effective().as_raw() || found.nlink() != 1 {
            return Err(LogError::Refused { path });
        }
        let end = base.saturating_add(found.len());
        Ok(Self { base, end, path, file })
    }

    fn len(&self) -> u64 {
        self.end - self.base
    }
}

#[cfg(target_os = "linux")]
fn splice(pipe: BorrowedFd<'_>, into: &Segment) -> io::Result<usize> {
    use rustix::pipe::SpliceFlags;
    loop {
        let mut at = into.len();
        // The pipe's own O_NONBLOCK does not count here.
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        match rustix::pipe::splice(pipe, None, &into.file, Some(&mut at), CHUNK, flags) {
            Err(rustix::io::Errno::INTR) => {}
            moved => return moved.map_err(io::Error::from),
        }
    }
}

/// The window: what was read and not written yet dies with the process. What can't be written waits for the next call.
#[cfg(not(target_os = "linux"))]
fn read_then_write(pipe: BorrowedFd<'_>, into: &Segment, carried: &mut Vec<u8>) -> io::Result<usize> {
    if carried.is_empty() {
        let mut bytes = vec![0; CHUNK];
        let length = nix::unistd::read(pipe, &mut bytes)?;
        bytes.truncate(length);
        *carried = bytes;
    }
    into.file.write_all_at(carried, into.len())?;
    Ok(std::mem::take(carried).len())
}
