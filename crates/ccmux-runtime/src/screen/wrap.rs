//! How Claude wraps a text in its prompt box.
//!
//! Measured: `wrap-ansi` with `hard` and without `trim`: words go to the next row, a word longer than a row is broken
//! at the edge, and a row that a wrap began loses its leading blanks.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// How many rows `text` takes in a box of `width` columns.
pub(super) fn row_count(text: &str, width: usize) -> usize {
    text.split('\n').map(|line| line_rows(line, width.max(1))).sum()
}

/// Rows of a text that Claude shows of a longer one at least; the others scroll away.
const SHOWN: usize = 3;
/// Rows that Claude needs besides the text: a hint and the two rules.
const AROUND: u16 = 3;

/// How many rows of text the box has room for in a pane of `height`, and how many it needs. Measured with 2.1.332: the
/// box and what belongs to it take the lower half of the pane, and what does not fit there is cut off.
pub fn rows_shown(text: &str, width: u16, height: u16) -> (u32, u32) {
    let needs = row_count(text, usize::from(width)).min(SHOWN);
    let has = (height / 2).saturating_sub(AROUND);
    (has.into(), u32::try_from(needs).unwrap_or(u32::MAX))
}

fn line_rows(line: &str, width: usize) -> usize {
    let mut rows = 1;
    let mut filled = 0;
    for (index, word) in line.split(' ').enumerate() {
        if index > 0 {
            if filled >= width {
                rows += 1;
                filled = 0;
            }
            filled += 1;
        }
        let length = columns(word);
        if length > width {
            let remaining = width.saturating_sub(filled);
            let from_here = 1 + (length - remaining - 1) / width;
            let from_next = (length - 1) / width;
            if from_next < from_here {
                rows += 1;
                filled = 0;
            }
            (rows, filled) = broken(word, width, rows, filled);
            continue;
        }
        if filled + length > width && filled > 0 && length > 0 {
            rows += 1;
            filled = 0;
        }
        filled += length;
    }
    rows
}

/// Claude gives two columns to whatever stands in a keycap, be it a key or not.
fn columns(word: &str) -> usize {
    let in_keycap = |grapheme: &&str| grapheme.contains('\u{20e3}') && grapheme.width() < 2;
    word.width() + word.graphemes(true).filter(in_keycap).count()
}

/// A word that is longer than a row: broken at the edge.
fn broken(word: &str, width: usize, mut rows: usize, mut filled: usize) -> (usize, usize) {
    for grapheme in word.graphemes(true) {
        let length = columns(grapheme);
        if filled + length > width {
            rows += 1;
            filled = 0;
        }
        filled += length;
    }
    (rows, filled)
}
