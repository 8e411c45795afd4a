//! What was said so far, as rows above the prompt box.
//!
//! Knows entries and how they look at a width; forgets the oldest, since only the last rows can be drawn.

use crate::style::{BOLD, GREY, MODE, RED, RESET, SAID_BY_HUMAN, printable};
use crate::wrap;

/// Drawn rows are kept for about so many entries.
const ENTRIES_KEPT: usize = 200;
/// Of a long text only the end can be seen.
const TEXT_KEPT: usize = 32 << 10;
pub const ROWS_KEPT: usize = 500;

/// What an entry is, which says how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// `❯ prompt`, with a blank (the box has U+00A0).
    Prompt,
    /// A prompt that waits for the running turn.
    Waiting,
    /// `● reply`
    Reply,
    /// `● Tool` that runs or ran.
    Tool,
    /// `● text` in red.
    Failure,
    /// `  ⎿  what came of it`, close to the entry before.
    Result,
    /// `  ⎿  text`, with blanks only, as below queued prompts and running tools.
    Detail,
    /// Plain grey text.
    Note,
    /// `✻ Churned for 3s · done 10:46 PM`
    Done,
    /// `! command`
    Shell,
    /// The head of the screen.
    Banner,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    mark: Mark,
    text: String,
}

impl Entry {
    pub fn new(mark: Mark, text: &str) -> Self {
        let from = text.len().saturating_sub(TEXT_KEPT);
        let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        Self { mark, text: printable(&text[from..]) }
    }

    /// The entry as rows, a blank one before it where it is not close to the last.
    pub fn rows(&self, width: usize) -> Vec<String> {
        let (first, rest, colour) = self.looks();
        let room = width.saturating_sub(wrap::columns(rest)).max(2);
        let mut rows = Vec::new();
        if !matches!(self.mark, Mark::Result | Mark::Detail | Mark::Banner) {
            rows.push(String::new());
        }
        for line in self.text.trim_end().split('\n') {
            for range in wrap::rows_of(line, room) {
                let prefix = if rows.iter().any(|row| !row.is_empty()) { rest } else { first };
                rows.push(format!("{prefix}{colour}{}{RESET}", &line[range]));
            }
        }
        let surplus = rows.len().saturating_sub(ROWS_KEPT);
        rows.drain(..surplus);
        rows
    }

    /// Head of the first row, head of the others (same width), colour of the text.
    fn looks(&self) -> (&'static str, &'static str, &'static str) {
        match self.mark {
            Mark::Prompt => ("\x1b[38;5;246m\x1b[48;5;237m❯ ", "  ", SAID_BY_HUMAN),
            Mark::Waiting => ("\x1b[38;5;246m\x1b[48;5;237m❯ ", "  ", GREY),
            Mark::Reply => ("\x1b[38;5;231m●\x1b[0m ", "  ", ""),
            Mark::Tool => ("\x1b[38;5;246m●\x1b[0m ", "  ", BOLD),
            Mark::Failure => ("\x1b[38;5;211m●\x1b[0m ", "  ", RED),
            Mark::Result => ("  \x1b[38;5;246m⎿ \u{a0}", "     ", GREY),
            Mark::Detail => ("  \x1b[38;5;246m⎿  ", "     ", GREY),
            Mark::Note => ("  ", "  ", GREY),
            Mark::Done => ("\x1b[38;5;246m✻ ", "  ", GREY),
            Mark::Shell => ("\x1b[38;5;211m\x1b[48;5;59m! ", "  ", MODE),
            Mark::Banner => ("", "", ""),
        }
    }
}

/// The rows of an entry at a width.
type Drawn = (usize, Vec<String>);

/// The entries, oldest first.
#[derive(Debug, Default)]
pub struct Conversation {
    entries: Vec<(Entry, Option<Drawn>)>,
    /// Entries ever added and taken back: numbers the entries for those who print them once.
    first: usize,
}

impl Conversation {
    pub fn push(&mut self, mark: Mark, text: &str) {
        self.entries.push((Entry::new(mark, text), None));
        if self.entries.len() > ENTRIES_KEPT {
            let surplus = self.entries.len() - ENTRIES_KEPT / 2;
            self.entries.drain(..surplus);
            self.first += surplus;
        }
    }

    pub fn clear(&mut self) {
        self.first += self.entries.len();
        self.entries.clear();
    }

    /// Number that the next entry will have.
    pub fn end(&self) -> usize {
        self.first + self.entries.len()
    }

    /// Takes the last entry back, if it has this number.
    pub fn take_back(&mut self, number: usize) {
        if number + 1 == self.end() {
            self.entries.pop();
        }
    }

    /// The last rows at this width, at least `wanted` of them where there are so many.
    pub fn tail(&mut self, width: usize, wanted: usize) -> Vec<String> {
        let mut pieces = Vec::new();
        let mut count = 0;
        for (entry, cached) in self.entries.iter_mut().rev() {
            if count >= wanted {
                break;
            }
            if cached.as_ref().is_none_or(|(at, _)| *at != width) {
                *cached = Some((width, entry.rows(width)));
            }
            let rows = cached.as_ref().map(|(_, rows)| rows.clone()).unwrap_or_default();
            count += rows.len();
            pieces.push(rows);
        }
        pieces.into_iter().rev().flatten().collect()
    }

    /// Rows of the entries from this number on, for a screen that scrolls by itself.
    pub fn rows_from(&self, number: usize, width: usize) -> Vec<String> {
        let skip = number.saturating_sub(self.first);
        self.entries.iter().skip(skip).flat_map(|(entry, _)| entry.rows(width)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_indented_under_its_bullet() {
        let rows = Entry::new(Mark::Reply, "one two three\nfour").rows(11);
        assert_eq!(rows.len(), 4);
        assert!(rows[1].contains('●') && rows[2].starts_with("  ") && rows[3].contains("four"));
    }

    #[test]
    fn a_huge_text_costs_no_more_than_its_end() {
        let mut conversation = Conversation::default();
        conversation.push(Mark::Reply, &"x".repeat(10 << 20));
        assert!(conversation.tail(10, 50).len() <= ROWS_KEPT);
    }

    #[test]
    fn old_entries_are_forgotten_but_numbers_go_on() {
        let mut conversation = Conversation::default();
        for n in 0..1000 {
            conversation.push(Mark::Note, &n.to_string());
        }
        assert_eq!(conversation.end(), 1000);
        assert!(conversation.tail(80, 4).concat().contains("999"));
        conversation.take_back(999);
        assert_eq!(conversation.end(), 999);
    }
}
