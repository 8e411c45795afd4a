//! How a line of text is broken into rows, the way Claude's prompt box and conversation do it.
//!
//! Greedy by words; a word longer than a row is cut, and starts on the row under way unless a fresh row saves
//! a break; blanks that would begin a row after a break are not shown. Knows widths, not terminals.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Columns that a piece of text takes.
pub fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.graphemes(true).map(grapheme_columns).sum() }
}

/// Columns of one grapheme: never more than two, whatever it is made of.
pub fn grapheme_columns(grapheme: &str) -> usize {
    UnicodeWidthStr::width(grapheme).min(2)
}

/// The rows of one line (no newline in it), as byte ranges; an empty line has one empty row.
pub fn rows_of(line: &str, width: usize) -> Vec<Range<usize>> {
    let width = width.max(2);
    let mut wrapper = Wrapper { width, rows: Vec::new(), start: 0, end: 0, used: 0 };
    let mut at = 0;
    while at < line.len() {
        let rest = &line[at..];
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        if blanks > 0 {
            wrapper.blanks(at, blanks);
            at += blanks;
        } else {
            let len = rest.find(' ').unwrap_or(rest.len());
            wrapper.word(line, at..at + len);
            at += len;
        }
    }
    wrapper.finish(line.len())
}

struct Wrapper {
    width: usize,
    rows: Vec<Range<usize>>,
    start: usize,
    end: usize,
    used: usize,
}

impl Wrapper {
    fn blanks(&mut self, at: usize, count: usize) {
        let shown = count.min(self.width - self.used.min(self.width));
        self.used += shown;
        self.end = at + shown;
    }

    fn word(&mut self, line: &str, word: Range<usize>) {
        let wide = columns(&line[word.clone()]);
        let room = self.width - self.used.min(self.width);
        if wide > room && self.used > 0 {
            let breaks_here = if wide > self.width { 1 + (wide - room - 1) / self.width } else { 1 };
            let breaks_fresh = (wide - 1) / self.width;
            // Same rule as the wrap-ansi package: a long word stays where it saves nothing to move it.
            if room == 0 || breaks_fresh < breaks_here {
                self.break_at(word.start);
            }
        }
        if wide <= self.width - self.used.min(self.width) {
            self.used += wide;
            self.end = word.end;
        } else {
            self.long_word(line, word);
        }
    }

    fn long_word(&mut self, line: &str, word: Range<usize>) {
        if line[word.clone()].is_ascii() {
            return self.long_ascii_word(word);
        }
        for (offset, grapheme) in line[word.clone()].grapheme_indices(true) {
            let wide = grapheme_columns(grapheme);
            let at = word.start + offset;
            if self.used + wide > self.width {
                self.break_at(at);
            }
            self.used += wide;
            self.end = at + grapheme.len();
        }
    }

    /// The same without looking at each character: a paste may be one word of 256 KiB.
    fn long_ascii_word(&mut self, word: Range<usize>) {
        let mut at = word.start;
        while at < word.end {
            if self.used >= self.width {
                self.break_at(at);
            }
            let piece = (self.width - self.used).min(word.end - at);
            self.used += piece;
            at += piece;
            self.end = at;
        }
    }

    fn break_at(&mut self, at: usize) {
        self.rows.push(self.start..self.end);
        self.start = at;
        self.end = at;
        self.used = 0;
    }

    fn finish(mut self, len: usize) -> Vec<Range<usize>> {
        let end = self.end.min(len);
        self.rows.push(self.start..end);
        self.rows
    }
}

/// The longest head of a text that fits into so many columns.
pub fn fit(text: &str, width: usize) -> &str {
    let mut used = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        used += grapheme_columns(grapheme);
        if used > width {
            return &text[..at];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(line: &str, width: usize) -> Vec<&str> {
        rows_of(line, width).into_iter().map(|row| &line[row]).collect()
    }

    #[test]
    fn words_move_to_the_next_row_and_the_blank_between_is_not_shown() {
        assert_eq!(rows("aaaa bbbb cc", 9), ["aaaa bbbb", "cc"]);
        assert_eq!(rows("aaaa bbbb      cc", 9), ["aaaa bbbb", "cc"]);
        assert_eq!(rows("aaaa ", 9), ["aaaa "]);
    }

    #[test]
    fn a_long_word_stays_on_its_row_unless_moving_saves_a_break() {
        assert_eq!(rows("ab cccccccccccccc", 6), ["ab ccc", "cccccc", "ccccc"]);
        assert_eq!(rows("abcd cccccccc", 6), ["abcd ", "cccccc", "cc"]);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(rows("字字字字字", 4), ["字字", "字字", "字"]);
        assert_eq!(rows("a字字", 4), ["a字", "字"]);
    }

    #[test]
    fn an_empty_line_has_one_row() {
        assert_eq!(rows("", 10), [""]);
    }

    #[test]
    fn no_row_is_wider_than_the_width() {
        let text = "alpha  beta 字字字字字字字字 gammadeltaepsilonzetaeta theta 👩‍👩‍👧 i";
        for width in 2..40 {
            for row in rows(text, width) {
                assert!(columns(row) <= width, "{row:?} at {width}");
            }
        }
    }
}
