//! The text in the prompt box and what editing does to it.
//!
//! Knows text, a cursor, collapsed pastes and rows of a given width; does not know colours, the screen, or what a
//! submitted prompt is for. A collapsed paste stands in the text as its literal label, as in Claude.

use std::collections::BTreeMap;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

use crate::wrap;

/// A paste beyond this is shown collapsed and sent in a wrapper (FINDINGS 42).
const EXACT_PASTE_UNITS: usize = 800;
const EXACT_PASTE_LINES: usize = 3;
/// How the label of a collapsed paste begins; it ends at the next `]`.
const LABEL: &str = "[Pasted text #";

/// What is in the box: also what a stash keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    text: String,
    /// Byte offset of the cursor, on a grapheme's edge.
    cursor: usize,
    /// Collapsed pastes by their label.
    pastes: BTreeMap<String, String>,
}

/// The editable prompt.
#[derive(Debug, Default)]
pub struct PromptBox {
    draft: Draft,
    /// Number of the last collapsed paste; labels count on until a submit.
    last_paste: usize,
    layout: Layout,
}

/// Rows of the text at one width; those before `valid_to` outlive an edit.
#[derive(Debug, Default)]
struct Layout {
    width: usize,
    rows: Vec<Range<usize>>,
    valid_to: usize,
    complete: bool,
}

impl Draft {
    pub fn of(text: &str) -> Self {
        Self { text: text.to_owned(), cursor: text.len(), pastes: BTreeMap::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The prompt as it is sent: pastes expanded, NFC, no blanks at the end.
    pub fn submitted(&self, paste_id: &str) -> String {
        let mut rest = self.text.trim_end();
        let mut sent = String::with_capacity(rest.len());
        // What a paste holds is not looked at again: it may hold labels of its own.
        while let Some((at, label, content)) = self.next_paste(rest) {
            sent.push_str(&rest[..at]);
            sent.push_str(&format!(
                "\n\n<pasted_content id=\"{paste_id}\">\n{content}\n</pasted_content id=\"{paste_id}\">\n"
            ));
            rest = &rest[at + label.len()..];
        }
        sent.push_str(rest);
        sent.nfc().collect()
    }

    /// The next label of a paste in a text: where, and what it stands for.
    fn next_paste<'a>(&'a self, text: &'a str) -> Option<(usize, &'a str, &'a str)> {
        let mut from = 0;
        loop {
            let at = from + text[from..].find(LABEL)?;
            let end = at + text[at..].find(']')? + 1;
            if let Some(content) = self.pastes.get(&text[at..end]) {
                return Some((at, &text[at..end], content));
            }
            from = at + LABEL.len();
        }
    }
}

impl PromptBox {
    pub fn text(&self) -> &str {
        &self.draft.text
    }

    pub fn is_empty(&self) -> bool {
        self.draft.is_empty()
    }

    /// The box holds a collapsed paste.
    pub fn holds_paste(&self) -> bool {
        self.draft.pastes.keys().any(|label| self.draft.text.ends_with(label.as_str()))
    }

    /// The last character before the cursor is a backslash, so Enter means a new line.
    pub fn continues(&self) -> bool {
        self.draft.text[..self.draft.cursor].ends_with('\\')
    }

    pub fn insert(&mut self, text: &str) {
        let at = self.draft.cursor;
        self.draft.text.insert_str(at, text);
        self.draft.cursor += text.len();
        self.edited(at);
    }

    /// A paste: as text, or as a label where it is long.
    pub fn paste(&mut self, text: &str) {
        let newlines = text.matches('\n').count();
        let units = text.chars().map(char::len_utf16).sum::<usize>();
        if units <= EXACT_PASTE_UNITS && newlines < EXACT_PASTE_LINES {
            return self.insert(&text.nfc().collect::<String>());
        }
        self.last_paste += 1;
        let lines = if newlines > 0 { format!(" +{newlines} lines") } else { String::new() };
        let label = format!("{LABEL}{}{lines}]", self.last_paste);
        self.insert(&label);
        self.draft.pastes.insert(label, text.to_owned());
    }

    /// Replaces the backslash before the cursor by a newline.
    pub fn break_line(&mut self) {
        if self.continues() {
            self.remove(self.draft.cursor - 1..self.draft.cursor);
        }
        self.insert("\n");
    }

    pub fn backspace(&mut self) {
        let head = &self.draft.text[..self.draft.cursor];
        let label = self.draft.pastes.keys().find(|label| head.ends_with(label.as_str()));
        let len = label.map(String::len).or_else(|| head.graphemes(true).next_back().map(str::len));
        if let Some(len) = len {
            self.remove(self.draft.cursor - len..self.draft.cursor);
        }
    }

    pub fn delete(&mut self) {
        let at = self.draft.cursor;
        if let Some(grapheme) = self.draft.text[at..].graphemes(true).next() {
            self.remove(at..at + grapheme.len());
        }
    }

    /// Ctrl-U: from the start of the row to the cursor; at a row's start the newline (or character) before it.
    pub fn kill_row(&mut self, width: usize) {
        let cursor = self.draft.cursor;
        let row = self.cursor_row(width);
        let start = self.layout.rows.get(row).map_or(0, |row| row.start);
        if start < cursor {
            self.remove(start..cursor);
        } else {
            self.backspace();
        }
    }

    pub fn left(&mut self) {
        let head = &self.draft.text[..self.draft.cursor];
        self.draft.cursor -= head.graphemes(true).next_back().map_or(0, str::len);
    }

    pub fn right(&mut self) {
        let tail = &self.draft.text[self.draft.cursor..];
        self.draft.cursor += tail.graphemes(true).next().map_or(0, str::len);
    }

    pub fn home(&mut self, width: usize) {
        let row = self.cursor_row(width);
        self.draft.cursor = self.layout.rows.get(row).map_or(0, |row| row.start);
    }

    pub fn end(&mut self, width: usize) {
        let row = self.cursor_row(width);
        self.draft.cursor = self.layout.rows.get(row).map_or(self.draft.text.len(), |row| row.end);
    }

    /// One row up (`-1`) or down (`1`), to about the same column.
    pub fn vertical(&mut self, rows: isize, width: usize) {
        let (row, column) = self.cursor_at(width);
        let target = row.saturating_add_signed(rows).min(self.layout.rows.len().saturating_sub(1));
        let Some(range) = self.layout.rows.get(target).filter(|_| target != row).cloned() else {
            return;
        };
        self.draft.cursor = range.start + wrap::fit(&self.draft.text[range], column).len();
    }

    /// Takes all that is in the box.
    pub fn take(&mut self) -> Draft {
        self.last_paste = 0;
        self.edited(0);
        std::mem::take(&mut self.draft)
    }

    pub fn put(&mut self, draft: Draft) {
        self.last_paste = self.last_paste.max(draft.pastes.len());
        self.draft = draft;
        self.edited(0);
    }

    /// Rows of the text at this width, as byte ranges of [`Self::text`].
    pub fn rows(&mut self, width: usize) -> &[Range<usize>] {
        self.lay_out(width);
        &self.layout.rows
    }

    /// Row and column of the cursor at this width.
    pub fn cursor_at(&mut self, width: usize) -> (usize, usize) {
        let row = self.cursor_row(width);
        let range = self.layout.rows.get(row).cloned().unwrap_or(0..0);
        let end = self.draft.cursor.min(range.end).max(range.start);
        (row, wrap::columns(&self.draft.text[range.start..end]))
    }

    pub fn cursor(&self) -> usize {
        self.draft.cursor
    }

    fn cursor_row(&mut self, width: usize) -> usize {
        self.lay_out(width);
        self.layout.rows.partition_point(|row| row.start <= self.draft.cursor).saturating_sub(1)
    }

    fn remove(&mut self, range: Range<usize>) {
        self.draft.cursor = range.start;
        self.edited(range.start);
        self.draft.text.replace_range(range, "");
        let Draft { text, pastes, .. } = &mut self.draft;
        pastes.retain(|label, _| text.contains(label.as_str()));
    }

    fn edited(&mut self, at: usize) {
        self.layout.complete = false;
        self.layout.valid_to = self.layout.valid_to.min(at);
    }

    fn lay_out(&mut self, width: usize) {
        let layout = &mut self.layout;
        if layout.width != width {
            *layout = Layout { width, ..Layout::default() };
        }
        if layout.complete {
            return;
        }
        // Only the line that was edited and those after it are laid out again.
        let valid = layout.valid_to.min(self.draft.text.len());
        let line_start =
            self.draft.text.as_bytes()[..valid].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let kept = layout.rows.partition_point(|row| row.start < line_start);
        layout.rows.truncate(kept);
        let mut start = line_start;
        for line in self.draft.text[line_start..].split('\n') {
            let rows = wrap::rows_of(line, width);
            layout.rows.extend(rows.into_iter().map(|row| start + row.start..start + row.end));
            start += line.len() + 1;
        }
        layout.valid_to = self.draft.text.len();
        layout.complete = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> PromptBox {
        let mut prompt = PromptBox::default();
        prompt.insert(text);
        prompt
    }

    fn sent(prompt: &mut PromptBox) -> String {
        prompt.take().submitted("ab12")
    }

    #[test]
    fn small_pastes_are_exact_and_make_one_prompt() {
        let mut prompt = PromptBox::default();
        for piece in ["a\nb\n", "c\n", "  d e\u{301} ;\n"] {
            prompt.paste(piece);
        }
        assert_eq!(sent(&mut prompt), "a\nb\nc\n  d é ;");
    }

    #[test]
    fn a_long_paste_is_collapsed_and_wrapped() {
        let mut prompt = with("see ");
        prompt.paste("1\n2\n3\n4");
        assert_eq!(prompt.text(), "see [Pasted text #1 +3 lines]");
        let expected = "see \n\n<pasted_content id=\"ab12\">\n1\n2\n3\n4\n</pasted_content id=\"ab12\">\n";
        assert_eq!(sent(&mut prompt), expected);
        prompt.paste(&"x".repeat(801));
        assert_eq!(prompt.text(), "[Pasted text #1]");
        prompt.backspace();
        assert!(prompt.is_empty());
        prompt.paste(&"x".repeat(800));
        assert_eq!(prompt.text().len(), 800);
    }

    #[test]
    fn several_pastes_are_put_in_their_places_and_a_typed_label_stays() {
        let mut prompt = with("a [Pasted text #9] ");
        prompt.paste("1\n2\n3\n[Pasted text #2 +3 lines]");
        prompt.insert(" b ");
        prompt.paste("5\n6\n7\n8");
        let text = sent(&mut prompt);
        assert!(text.starts_with(
            "a [Pasted text #9] \n\n<pasted_content id=\"ab12\">\n1\n2\n3\n[Pasted text #2 +3 lines]\n</"
        ));
        assert_eq!(text.matches("5\n6\n7\n8").count(), 1);
    }

    #[test]
    fn units_are_utf16() {
        let mut prompt = PromptBox::default();
        prompt.paste(&"😀".repeat(401));
        assert_eq!(prompt.text(), "[Pasted text #1]");
    }

    #[test]
    fn a_backslash_before_enter_becomes_a_newline() {
        let mut prompt = with("one\\");
        assert!(prompt.continues());
        prompt.break_line();
        prompt.insert("two");
        assert_eq!(sent(&mut prompt), "one\ntwo");
        assert!(!with("one\\ ").continues());
    }

    #[test]
    fn one_ctrl_u_clears_one_row() {
        let mut prompt = with("alpha beta gamma\nxy");
        let mut seen = Vec::new();
        while !prompt.is_empty() {
            prompt.kill_row(10);
            seen.push(prompt.text().to_owned());
        }
        assert_eq!(seen, ["alpha beta gamma\n", "alpha beta gamma", "alpha beta ", ""]);
    }

    #[test]
    fn editing_at_the_end_lays_out_the_same_as_from_scratch() {
        let text = "some words here\n\nand 字字字 there\nlast words of all";
        let mut grown = PromptBox::default();
        for c in text.chars() {
            grown.insert(&c.to_string());
            grown.rows(9);
        }
        assert_eq!(grown.rows(9), with(text).rows(9));
        for _ in 0..20 {
            grown.backspace();
            let fresh = with(grown.text()).rows(9).to_vec();
            assert_eq!(grown.rows(9), fresh);
        }
    }

    #[test]
    fn the_cursor_moves_over_rows_and_graphemes() {
        let mut prompt = with("ab字\ncdefgh");
        prompt.vertical(-1, 20);
        assert_eq!(prompt.cursor_at(20), (0, 4));
        prompt.left();
        assert_eq!(prompt.cursor_at(20), (0, 2));
        prompt.home(20);
        assert_eq!(prompt.cursor(), 0);
        prompt.end(20);
        prompt.right();
        assert_eq!(prompt.cursor_at(20), (1, 0));
    }

    #[test]
    fn a_draft_survives_take_and_put() {
        let mut prompt = with("draft ");
        prompt.paste("1\n2\n3\n4\n5");
        let before = prompt.text().to_owned();
        let draft = prompt.take();
        assert!(prompt.is_empty());
        prompt.put(draft);
        assert_eq!(prompt.text(), before);
        assert!(sent(&mut prompt).contains("<pasted_content"));
    }
}
