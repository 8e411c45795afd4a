//! Which lines of a transcript are old, although the file was never read.
//!
//! A session that is forked (`--fork-session`, `/branch`) begins with a copy of another one's lines, under its own ids
//! and even under the first new prompt's, so only the time at which they were written tells them apart. The same holds
//! for a file that was replaced.

use jiff::Timestamp;

use super::line::Line;

/// Lines that are not looked at.
#[derive(Debug, Clone, Copy)]
pub struct History {
    before: Option<i64>,
}

impl History {
    /// No line is old.
    pub fn none() -> Self {
        Self { before: None }
    }

    /// Lines that were written before this second (Unix) are old.
    pub fn before(second: i64) -> Self {
        Self { before: Some(second) }
    }

    /// The line is old. One that doesn't say when it was written is not.
    pub fn holds(&self, line: &Line) -> bool {
        let Some(before) = self.before else { return false };
        let written_at = line.written_at().and_then(|text| text.parse::<Timestamp>().ok());
        written_at.is_some_and(|at| at.as_second() < before)
    }
}
