//! Reads a session's next turn from where the last one ended.
//!
//! Claude Code fires its Stop hook before the last line is in the file (up to 1 s, FINDINGS 39), so the reader looks
//! again every few milliseconds until the model's last message is what the hook said, at most [`TurnRequest::wait`].
//! Without a hook's word the turn is complete when the transcript says so, or when it was still for a while.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ccmux_wire::id::PromptId;

use super::line::parse_line;
use super::lines::{LineReader, Next};
use super::open::{TranscriptError, open_transcript};
use super::scan::{Fed, TurnBody, TurnScan};

/// How often a file that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A line that goes on for so many chunks over the limit is none: the file is given up (256 MiB).
const SKIPPED_CHUNKS: u32 = 4096;

/// Up to where a session's transcript was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The file.
    pub path: PathBuf,
    /// Its device; 0 while it did not exist.
    pub dev: u64,
    /// Its inode; 0 while it did not exist.
    pub ino: u64,
    /// Everything before this was read.
    pub offset: u64,
    /// The prompt whose turn was read last.
    pub prompt: Option<PromptId>,
}

impl Cursor {
    /// The beginning of a file, whether it is there or not.
    pub fn start_of(path: &Path) -> Self {
        Self { path: path.to_owned(), dev: 0, ino: 0, offset: 0, prompt: None }
    }

    /// The end of a file's last whole line as it is now; its beginning, if it is not there.
    ///
    /// # Errors
    /// If the file is refused.
    pub fn end_of(path: &Path, projects_dir: &Path) -> Result<Self, TranscriptError> {
        let file = match open_transcript(path, projects_dir) {
            Err(TranscriptError::Missing { .. }) => return Ok(Self::start_of(path)),
            opened => opened?,
        };
        let mut cursor = Self::start_of(path);
        cursor.adopt(&file)?;
        cursor.offset = whole_lines_end(&file).map_err(|source| TranscriptError::io(path, "read", source))?;
        Ok(cursor)
    }

    /// Points into the opened file: to its beginning, if it is not the one that was read before.
    fn adopt(&mut self, file: &File) -> Result<(), TranscriptError> {
        let metadata = file.metadata().map_err(|source| TranscriptError::io(&self.path, "fstat", source))?;
        let same = (self.dev, self.ino) == (metadata.dev(), metadata.ino());
        if !same || metadata.len() < self.offset {
            (self.dev, self.ino, self.offset, self.prompt) = (metadata.dev(), metadata.ino(), 0, None);
        }
        Ok(())
    }
}

/// Behind the last newline of the file; a beginning of a line is left to be read once it is whole.
fn whole_lines_end(file: &File) -> std::io::Result<u64> {
    use std::os::unix::fs::FileExt;
    let mut chunk = [0; 4096];
    let mut end = file.metadata()?.len();
    while end > 0 {
        let start = end.saturating_sub(chunk.len() as u64);
        let piece = &mut chunk[..(end - start) as usize];
        file.read_exact_at(piece, start)?;
        if let Some(newline) = piece.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + newline as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Which turn is wanted.
#[derive(Debug, Clone)]
pub struct TurnRequest {
    /// The prompt that began it; without one: every turn behind the cursor.
    pub prompt: Option<PromptId>,
    /// What the Stop hook said is the model's last message.
    pub last_message: Option<String>,
    /// Of several turns behind the cursor give only the last: nobody knows how old the others are.
    pub only_last: bool,
    /// The longest to wait for what is not in the file yet.
    pub wait: Duration,
    /// Without a hook's word: complete after so long without a new line.
    pub quiet: Duration,
    /// The longest to read what is in the file already.
    pub catch_up: Duration,
}

impl TurnRequest {
    /// With the usual limits: 2 s for a late line.
    pub fn new(prompt: Option<PromptId>, last_message: Option<String>) -> Self {
        Self {
            prompt,
            last_message,
            only_last: false,
            wait: Duration::from_secs(2),
            quiet: Duration::from_millis(300),
            catch_up: Duration::from_secs(20),
        }
    }
}

/// What was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// The turns, oldest first; empty if there is nothing to show.
    pub turns: Vec<TurnBody>,
    /// Where to go on; to be kept together with the turns.
    pub cursor: Cursor,
}

/// Reads turns of transcripts beneath one directory. Blocks its thread.
#[derive(Debug, Clone)]
pub struct TranscriptReader {
    /// `${CLAUDE_CONFIG_DIR:-~/.claude}/projects`.
    pub projects_dir: PathBuf,
}

impl TranscriptReader {
    /// Reads the wanted turn from the cursor on.
    ///
    /// # Errors
    /// If the file is refused (at once), still missing after the wait, or can't be read.
    pub fn read_turn(&self, cursor: &Cursor, request: &TurnRequest) -> Result<Read, TranscriptError> {
        let begun = Instant::now();
        let mut cursor = cursor.clone();
        let file = self.open_when_there(&cursor.path, begun + request.wait)?;
        cursor.adopt(&file)?;
        let continued = request.prompt.is_some() && request.prompt == cursor.prompt;
        let mut reading = Reading {
            lines: LineReader::new(file, cursor.offset),
            request,
            scan: TurnScan::new(request.prompt.clone(), continued),
            finished: Vec::new(),
            begun,
            grew_at: begun,
            scan_from: cursor.offset,
            skipped: 0,
            over: false,
        };
        reading.run().map_err(|source| TranscriptError::io(&cursor.path, "read", source))?;
        Ok(reading.into_read(cursor))
    }

    fn open_when_there(&self, path: &Path, deadline: Instant) -> Result<File, TranscriptError> {
        loop {
            match open_transcript(path, &self.projects_dir) {
                Err(TranscriptError::Missing { .. }) if Instant::now() < deadline => {
                    thread::sleep(LOOK_EVERY)
                }
                opened => return opened,
            }
        }
    }
}

/// One call of `read_turn`.
struct Reading<'a> {
    lines: LineReader,
    request: &'a TurnRequest,
    scan: TurnScan,
    finished: Vec<TurnBody>,
    begun: Instant,
    grew_at: Instant,
    /// Where the turn in `scan` can begin.
    scan_from: u64,
    /// Chunks of lines over the limit.
    skipped: u32,
    /// The wanted turn ended before the line that comes next, or the file is given up.
    over: bool,
}

impl Reading<'_> {
    fn run(&mut self) -> std::io::Result<()> {
        loop {
            self.read_what_is_there()?;
            if self.is_done() {
                return Ok(());
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn read_what_is_there(&mut self) -> std::io::Result<()> {
        while !self.over && self.begun.elapsed() < self.request.catch_up {
            let (mut line, length) = match self.lines.next_line()? {
                Next::Line { bytes, .. } => (parse_line(bytes), bytes.len() as u64),
                Next::TooLong => continue,
                Next::StillLong => {
                    self.skipped += 1;
                    self.over = self.skipped > SKIPPED_CHUNKS;
                    continue;
                }
                Next::End { .. } => return Ok(()),
            };
            self.grew_at = Instant::now();
            if self.scan.feed(&mut line, length) == Fed::Taken {
                continue;
            }
            if self.request.prompt.is_some() {
                self.lines.put_back(length);
                self.over = true;
            } else {
                self.begin_next_turn(length);
                self.scan.feed(&mut line, length);
            }
        }
        Ok(())
    }

    /// The line that was read last, of that length, begins it.
    fn begin_next_turn(&mut self, length: u64) {
        self.scan_from = self.lines.position() - length - 1;
        let before = std::mem::replace(&mut self.scan, TurnScan::new(None, false));
        if self.request.only_last {
            self.finished.clear();
        }
        self.finished.extend(before.finish(None));
    }

    fn is_done(&self) -> bool {
        if self.over || self.begun.elapsed() >= self.request.wait {
            return true;
        }
        match &self.request.last_message {
            Some(text) => self.scan.says(text),
            None => self.scan.is_closed() || self.grew_at.elapsed() >= self.request.quiet,
        }
    }

    /// The cursor moves behind turns that are given out; a prompt without an answer is read again next time.
    fn into_read(self, mut cursor: Cursor) -> Read {
        let mut turns = self.finished;
        cursor.offset = self.scan_from;
        if let Some(last) = self.scan.finish(self.request.last_message.as_deref()) {
            cursor.offset = self.lines.position();
            if self.request.only_last {
                turns.clear();
            }
            turns.push(last);
        }
        if let Some(last) = turns.last() {
            cursor.prompt = last.prompt_id.clone();
        }
        Read { turns, cursor }
    }
}
