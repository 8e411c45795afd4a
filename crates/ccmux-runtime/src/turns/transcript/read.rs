//! Reads a session's turns from where the last one ended, in order, through the one that is wanted.
//!
//! ```text
//! cursor ─► turn of O    a Stop that never came: given out, too
//!           turn of P    the wanted one: waited for until its text is what the hook said
//!           turn of Q    not touched: its own Stop will come
//! ```
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

use super::history::History;
use super::line::{Line, parse_line};
use super::lines::{LineReader, Next};
use super::open::{TranscriptError, open_transcript};
use super::scan::{ApiFailure, Fed, TurnBody, TurnScan};

/// How often a file that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A line that goes on for so many chunks over the limit is none: the file is given up (256 MiB).
const SKIPPED_CHUNKS: u32 = 4096;

/// Turns of so many bytes are given out at once; the rest is read afterwards.
const MAX_READ_BYTES: u64 = 32 * 1024 * 1024;

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

    /// Points into the opened file: to its beginning, if it is not the one that was read before. True then.
    fn adopt(&mut self, file: &File) -> Result<bool, TranscriptError> {
        let metadata = file.metadata().map_err(|source| TranscriptError::io(&self.path, "fstat", source))?;
        let same = (self.dev, self.ino) == (metadata.dev(), metadata.ino());
        let is_new = !same || metadata.len() < self.offset;
        if is_new {
            (self.dev, self.ino, self.offset, self.prompt) = (metadata.dev(), metadata.ino(), 0, None);
        }
        Ok(is_new)
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
    /// A part of the cursor's turn was given out, and what comes before another prompt is the rest of it.
    pub continues: bool,
    /// Of several turns behind the cursor give only the wanted one: nobody knows how old the others are.
    pub only_last: bool,
    /// In a file that was not read before, what Claude Code wrote before this second (Unix) is old.
    pub old_before: Option<i64>,
    /// Without a prompt: a turn that begins there or later is not touched.
    pub until: Option<u64>,
    /// Without a prompt: the turn of this one runs, and is not touched.
    pub running: Option<PromptId>,
    /// The longest to wait for what is not in the file yet.
    pub wait: Duration,
    /// Without a hook's word: complete after so long without a new line.
    pub quiet: Duration,
    /// The longest to read what is in the file already.
    pub catch_up: Duration,
}

impl TurnRequest {
    /// With the usual limits: 2 s for a late line. What no hook speaks of is over after a second of quiet: as late a last line
    /// may be (field fault 21).
    pub fn new(prompt: Option<PromptId>, last_message: Option<String>) -> Self {
        Self {
            prompt,
            last_message,
            continues: false,
            only_last: false,
            old_before: None,
            until: None,
            running: None,
            wait: Duration::from_secs(2),
            quiet: Duration::from_secs(1),
            catch_up: Duration::from_secs(20),
        }
    }
}

/// What was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// The turns, oldest first; empty if there is nothing to show.
    pub turns: Vec<TurnBody>,
    /// The last of them is the wanted one.
    pub holds_wanted: bool,
    /// The turn that was read last ended with the API's failure.
    pub failure: Option<ApiFailure>,
    /// There is more to read at once: too much for one piece.
    pub more: bool,
    /// Where to go on; to be kept together with the turns.
    pub cursor: Cursor,
    /// How much of the file was read.
    pub bytes_read: u64,
}

/// Reads turns of transcripts beneath one directory. Blocks its thread.
#[derive(Debug, Clone)]
pub struct TranscriptReader {
    /// `${CLAUDE_CONFIG_DIR:-~/.claude}/projects`.
    pub projects_dir: PathBuf,
}

impl TranscriptReader {
    /// Reads from the cursor on through the wanted turn.
    ///
    /// # Errors
    /// If the file is refused (at once), still missing after the wait, or can't be read.
    pub fn read_turn(&self, cursor: &Cursor, request: &TurnRequest) -> Result<Read, TranscriptError> {
        let begun = Instant::now();
        let mut cursor = cursor.clone();
        let file = self.open_when_there(&cursor.path, begun + request.wait)?;
        let is_new = cursor.adopt(&file)?;
        let history = request.old_before.filter(|_| is_new).map_or_else(History::none, History::before);
        let continued = cursor.prompt.clone().filter(|_| request.continues);
        let mut reading = Reading {
            lines: LineReader::new(file, cursor.offset),
            request,
            history,
            scan: continued.map_or_else(TurnScan::before_any_prompt, TurnScan::continuing),
            finished: Vec::new(),
            finished_bytes: 0,
            begun,
            grew_at: begun,
            says_it: None,
            scan_from: cursor.offset,
            skipped: 0,
            end: None,
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

/// Why nothing further is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The turn in `scan` ended before the line that comes next, and is the wanted one.
    Wanted,
    /// What comes next is not to be touched; or the file is given up.
    Barred,
    /// The turns so far, with the one in `scan`, are enough for one piece.
    Full,
    /// It took too long; the turn in `scan` goes on.
    Late,
}

/// One call of `read_turn`.
struct Reading<'a> {
    lines: LineReader,
    request: &'a TurnRequest,
    history: History,
    scan: TurnScan,
    finished: Vec<TurnBody>,
    finished_bytes: u64,
    begun: Instant,
    grew_at: Instant,
    /// Whether the turn in `scan` says what the hook said; unknown since the last line.
    says_it: Option<bool>,
    /// Where the turn in `scan` can begin.
    scan_from: u64,
    /// Chunks of lines over the limit.
    skipped: u32,
    end: Option<End>,
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
        while self.end.is_none() {
            if self.begun.elapsed() >= self.request.catch_up {
                self.end = Some(if self.finished.is_empty() { End::Barred } else { End::Late });
                return Ok(());
            }
            let (line, length, start) = match self.lines.next_line()? {
                Next::Line { bytes, start } => (parse_line(bytes), bytes.len() as u64, start),
                Next::TooLong => continue,
                Next::StillLong => {
                    self.skipped += 1;
                    self.end = (self.skipped > SKIPPED_CHUNKS).then_some(End::Barred);
                    continue;
                }
                Next::End { .. } => return Ok(()),
            };
            if !self.history.holds(&line) {
                self.take(line, length, start);
            }
        }
        Ok(())
    }

    fn take(&mut self, mut line: Line, length: u64, start: u64) {
        (self.grew_at, self.says_it) = (Instant::now(), None);
        if self.scan.feed(&mut line, length) == Fed::Taken {
            return;
        }
        self.end = self.end_before(&line, start);
        if self.end.is_some() {
            self.lines.put_back(length);
            return;
        }
        self.scan_from = start;
        self.finished_bytes += self.scan.bytes();
        let before = std::mem::replace(&mut self.scan, TurnScan::begun_by(&line));
        // Lines before any prompt are the rest of a turn that was given out without them.
        self.finished.extend(before.is_begun().then(|| before.finish()).flatten());
        self.scan.feed(&mut line, length);
    }

    /// Whether nothing is read from this line on, which begins another turn.
    fn end_before(&mut self, line: &Line, start: u64) -> Option<End> {
        if self.holds_wanted() {
            return Some(End::Wanted);
        }
        let running = self.request.running.as_ref().filter(|_| self.request.prompt.is_none());
        let barred = self.request.until.is_some_and(|until| start >= until)
            || running.is_some_and(|running| TurnScan::begun_by(line).is_of(running));
        match () {
            () if barred => Some(End::Barred),
            () if self.finished_bytes + self.scan.bytes() > MAX_READ_BYTES => Some(End::Full),
            () => None,
        }
    }

    /// The turn in `scan` is the wanted one, as far as its prompt tells, or, if that stands before the cursor, its words.
    fn holds_wanted(&mut self) -> bool {
        match &self.request.prompt {
            Some(prompt) if self.scan.is_begun() => self.scan.is_of(prompt),
            Some(_) => self.says_it(),
            None => false,
        }
    }

    fn says_it(&mut self) -> bool {
        let Some(words) = &self.request.last_message else { return false };
        *self.says_it.get_or_insert_with(|| self.scan.says(words))
    }

    fn is_done(&mut self) -> bool {
        if self.end.is_some() || self.begun.elapsed() >= self.request.wait {
            return true;
        }
        match self.request.last_message {
            Some(_) => (self.request.prompt.is_none() || self.holds_wanted()) && self.says_it(),
            None => self.scan.is_closed() || self.grew_at.elapsed() >= self.request.quiet,
        }
    }

    /// The cursor moves behind turns that are given out; a prompt without an answer is read again next time.
    fn into_read(mut self, mut cursor: Cursor) -> Read {
        let failure = self.scan.failure().cloned();
        let last = match (self.end, &self.request.prompt) {
            (Some(End::Late), _) => None,
            (Some(End::Full), _) => self.give(TurnScan::finish),
            (_, None) => self.last_turn(),
            (_, Some(_)) => self.wanted_turn(&cursor),
        };
        let more = matches!(self.end, Some(End::Full | End::Late));
        let holds_wanted = !more && (last.is_some() || self.request.prompt.is_none());
        cursor.offset = if self.end == Some(End::Full) { self.lines.position() } else { self.scan_from };
        let mut turns = self.finished;
        turns.extend(last);
        if self.request.only_last {
            turns.drain(..turns.len().saturating_sub(usize::from(holds_wanted)));
        }
        if let Some(last) = turns.last() {
            cursor.prompt.clone_from(&last.prompt_id);
        }
        Read { turns, holds_wanted, failure, more, cursor, bytes_read: self.lines.bytes_read() }
    }

    /// Gives out the turn in `scan`, if it shows anything.
    fn give(&mut self, finish: impl FnOnce(TurnScan) -> Option<TurnBody>) -> Option<TurnBody> {
        let turn = finish(std::mem::take(&mut self.scan));
        if turn.is_some() {
            self.scan_from = self.lines.position();
        }
        turn
    }

    /// Every turn is wanted: also the one that was read last.
    fn last_turn(&mut self) -> Option<TurnBody> {
        let words = self.request.last_message.as_deref();
        if self.scan.is_begun() || self.says_it() {
            return self.give(|scan| scan.finish_as(None, words));
        }
        self.only_words()
    }

    /// The wanted turn, if there is anything of it. What stands before any prompt is its own if nothing of the session was
    /// read before. Another turn that was read last is left for its own Stop, unless it is over.
    fn wanted_turn(&mut self, cursor: &Cursor) -> Option<TurnBody> {
        let (wanted, words) = (self.request.prompt.clone(), self.request.last_message.as_deref());
        let began_before = !self.scan.is_begun() && self.finished.is_empty() && cursor.prompt.is_none();
        if self.holds_wanted() || self.says_it() || began_before {
            return self.give(|scan| scan.finish_as(wanted, words));
        }
        if self.scan.is_closed() {
            let over = self.give(TurnScan::finish);
            self.finished.extend(over);
        }
        self.only_words()
    }

    /// What the hook said is all that is known; the rest of an earlier turn before it will never be asked for.
    fn only_words(&mut self) -> Option<TurnBody> {
        let words = self.request.last_message.as_deref()?;
        if !self.scan.is_begun() {
            self.scan_from = self.lines.position();
        }
        Some(TurnBody::of_words(self.request.prompt.clone(), words))
    }
}
