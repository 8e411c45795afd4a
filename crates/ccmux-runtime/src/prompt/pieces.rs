//! A text in pieces that Claude Code takes as typed: a bigger paste is wrapped in `<pasted_content>` and trusted less.

use unicode_segmentation::UnicodeSegmentation;

/// UTF-16 units of a piece; measured: 800 pass, 801 are wrapped.
const MAX_UNITS: usize = 780;
/// Newlines of a piece; measured: 2 pass, 3 are wrapped.
const MAX_NEWLINES: usize = 2;

/// `text` in pieces of at most 780 UTF-16 units and 2 newlines, together the same text. A grapheme is never cut, unless it
/// alone is longer than a piece.
pub fn pieces(text: &str) -> Vec<String> {
    let mut cutter = Cutter::default();
    for grapheme in text.graphemes(true) {
        if units(grapheme) > MAX_UNITS {
            grapheme.char_indices().for_each(|(at, c)| cutter.push(&grapheme[at..at + c.len_utf8()]));
        } else {
            cutter.push(grapheme);
        }
    }
    cutter.finish()
}

#[derive(Default)]
struct Cutter {
    done: Vec<String>,
    piece: String,
    units: usize,
    newlines: usize,
}

impl Cutter {
    fn push(&mut self, atom: &str) {
        let units = units(atom);
        let newlines = atom.matches('\n').count();
        if self.units + units > MAX_UNITS || self.newlines + newlines > MAX_NEWLINES {
            self.done.push(std::mem::take(&mut self.piece));
            (self.units, self.newlines) = (0, 0);
        }
        self.piece.push_str(atom);
        self.units += units;
        self.newlines += newlines;
    }

    fn finish(mut self) -> Vec<String> {
        if !self.piece.is_empty() {
            self.done.push(self.piece);
        }
        self.done
    }
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}
