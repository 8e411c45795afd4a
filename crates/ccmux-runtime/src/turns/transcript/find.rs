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

use std::path::Path;

use ccmux_policy::event::Found;
use ccmux_wire::id::PromptId;

use super::line::{Line, parse_line};
use super::lines::{LineReader, Next};
use super::open::{TranscriptError, open_transcript};

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

/// The path is one that Claude Code would use for a session here.
fn could_be_made(path: &Path, projects_dir: &Path) -> bool {
    projects_dir.is_dir() && (path.starts_with(projects_dir) || path.parent().is_some_and(Path::is_dir))
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
