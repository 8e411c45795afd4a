//! The second witness of a delivery: does the transcript hold the text behind the offset of its paste?
//!
//! What counts (seen with 2.1.332):
//!
//! ```text
//! {"type":"user","promptId":P,…"content":TEXT}                             a prompt of its own
//! {"type":"attachment","attachment":{"type":"queued_command","prompt":TEXT}} put into the running turn
//! {"type":"queue-operation","operation":"enqueue","content":TEXT}           Claude Code holds it in its queue
//! ```
//!
//! Knows nothing of how texts are compared: the caller brings that.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use ccmux_policy::UnixMs;
use ccmux_policy::event::Found;
use ccmux_wire::id::PromptId;
use jiff::Timestamp;

use super::line::{Line, UserLine, parse_line};
use super::lines::{LineReader, Next};
use super::open::{TranscriptError, open_transcript};

/// Two clocks of one machine, the file system's and the one that Claude Code writes down, may differ by so much.
const CLOCK_SLACK_MS: i64 = 1_000;

/// Compares a text of the transcript (first) with ours (second).
pub type Compare = fn(&str, &str) -> bool;

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The text that was pasted.
    pub text: &'a str,
    /// The transcript's text is ours.
    pub same: Compare,
    /// The transcript's text holds ours.
    pub contains: Compare,
}

/// Searches a transcript from `offset` on. `Absent` is a proof: everything was read, and it is not there.
pub fn find_batch(
    path: &Path,
    projects_dir: &Path,
    offset: u64,
    wanted: Wanted<'_>,
) -> (Found, Option<PromptId>) {
    match search(path, projects_dir, offset, wanted) {
        Ok(found) => found,
        // Claude Code makes the file with the first prompt: without a file there was none.
        Err(TranscriptError::Missing { .. }) if offset == 0 && could_be_made(path, projects_dir) => {
            (Found::Absent, None)
        }
        Err(error) => {
            tracing::warn!(event = "transcript.unreadable", %error);
            (Found::Unreadable, None)
        }
    }
}

/// The path is one that Claude Code would use for a session here; in a new home the folders above it are made with it.
fn could_be_made(path: &Path, projects_dir: &Path) -> bool {
    path.starts_with(projects_dir) || (projects_dir.is_dir() && path.parent().is_some_and(Path::is_dir))
}

fn search(
    path: &Path,
    projects_dir: &Path,
    offset: u64,
    wanted: Wanted<'_>,
) -> Result<(Found, Option<PromptId>), TranscriptError> {
    let io = |source| TranscriptError::io(path, "read", source);
    let file = open_transcript(path, projects_dir)?;
    let length = file.metadata().map_err(io)?.len();
    // Shorter than at paste time: it was replaced, so all of it is new.
    let mut lines = LineReader::new(file, if length < offset { 0 } else { offset });
    let mut search = Search { wanted, prompt: None, best: None };
    let mut whole = true;
    loop {
        match lines.next_line().map_err(io)? {
            Next::Line { bytes, .. } => {
                if let Some(found) = search.look_at(parse_line(bytes)) {
                    return Ok(found);
                }
            }
            Next::TooLong => whole = false,
            Next::StillLong => return Ok(search.best.unwrap_or((Found::Unreadable, None))),
            Next::End { torn } => {
                let nothing = if whole && !torn { Found::Absent } else { Found::Unreadable };
                return Ok(search.best.unwrap_or((nothing, None)));
            }
        }
    }
}

/// The batch in the transcript of another session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundElsewhere {
    /// The transcript.
    pub path: PathBuf,
    /// Where the line begins in it.
    pub offset: u64,
    /// Whole, or within other text.
    pub found: Found,
    /// The prompt of the line.
    pub prompt: Option<PromptId>,
}

/// Searches the other transcripts in the folder of `known` for a prompt that was written since `since`. Those that have not
/// grown since then are not read. Another session may stand behind the same screen: a fork out of the agents view, a
/// session that was resumed by hand (field fault 43).
pub fn find_elsewhere(
    known: &Path,
    projects_dir: &Path,
    since: UnixMs,
    wanted: Wanted<'_>,
) -> Option<FoundElsewhere> {
    let entries = std::fs::read_dir(known.parent()?).ok()?;
    let others = entries.flatten().map(|entry| entry.path()).filter(|path| path != known);
    let grown =
        others.filter(|path| path.extension().is_some_and(|it| it == "jsonl") && grew_since(path, since));
    let mut all: Vec<FoundElsewhere> =
        grown.filter_map(|path| search_other(&path, projects_dir, since, wanted).ok().flatten()).collect();
    all.sort_by_key(|other| other.found != Found::Whole);
    all.into_iter().next()
}

/// As the file system tells it, which counts coarser than a millisecond.
fn grew_since(path: &Path, since: UnixMs) -> bool {
    let modified = std::fs::symlink_metadata(path).and_then(|metadata| metadata.modified()).ok();
    let ms = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map(|at| at.as_millis());
    ms.is_some_and(|ms| i64::try_from(ms).is_ok_and(|ms| ms + CLOCK_SLACK_MS >= since.0))
}

/// A fork begins with a copy of the conversation that it comes from: only lines written since the paste count.
fn search_other(
    path: &Path,
    projects_dir: &Path,
    since: UnixMs,
    wanted: Wanted<'_>,
) -> Result<Option<FoundElsewhere>, TranscriptError> {
    let mut lines = LineReader::new(open_transcript(path, projects_dir)?, 0);
    let search = Search { wanted, prompt: None, best: None };
    let mut within = None;
    loop {
        let next = lines.next_line().map_err(|source| TranscriptError::io(path, "read", source))?;
        let Next::Line { bytes, start } = next else {
            if next == Next::TooLong {
                continue;
            }
            return Ok(within);
        };
        let Line::User(user) = parse_line(bytes) else { continue };
        if !user.is_prompt() || !written_since(&user, since) {
            continue;
        }
        let found = search.judge(&user.text).map(|found| FoundElsewhere {
            path: path.to_owned(),
            offset: start,
            found,
            prompt: user.prompt_id,
        });
        match found {
            Some(other) if other.found == Found::Whole => return Ok(Some(other)),
            Some(other) => within = within.or(Some(other)),
            None => {}
        }
    }
}

fn written_since(user: &UserLine, since: UnixMs) -> bool {
    let at = user.written_at.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
    at.is_some_and(|at| at.as_millisecond() + CLOCK_SLACK_MS >= since.0)
}

struct Search<'a> {
    wanted: Wanted<'a>,
    /// The prompt whose turn the current line is in.
    prompt: Option<PromptId>,
    /// The best witness so far that a later line may better.
    best: Option<(Found, Option<PromptId>)>,
}

impl Search<'_> {
    fn look_at(&mut self, line: Line) -> Option<(Found, Option<PromptId>)> {
        match line {
            Line::User(user) if !user.is_sidechain => {
                self.prompt = user.prompt_id.clone().or(self.prompt.take());
                if !user.is_prompt() {
                    return None;
                }
                match self.judge(&user.text) {
                    Some(Found::Whole) => return Some((Found::Whole, user.prompt_id)),
                    Some(within) => self.keep(within, user.prompt_id),
                    None => {}
                }
            }
            Line::Queued(text) => {
                if let Some(found) = self.judge(&text) {
                    self.keep(found, self.prompt.clone());
                }
            }
            _ => {}
        }
        None
    }

    fn judge(&self, text: &str) -> Option<Found> {
        let Wanted { text: ours, same, contains } = self.wanted;
        match () {
            () if same(text, ours) => Some(Found::Whole),
            () if contains(text, ours) => Some(Found::Within),
            () => None,
        }
    }

    fn keep(&mut self, found: Found, prompt: Option<PromptId>) {
        let better = match &self.best {
            None => true,
            Some((Found::Whole, known)) => found == Found::Whole && known.is_none(),
            Some(_) => found == Found::Whole,
        };
        if better {
            self.best = Some((found, prompt));
        }
    }
}
