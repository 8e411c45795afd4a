//! Writes frames to the terminal, only what changed. Knows escape sequences; does not know what the rows mean.

use crate::screen::Frame;

/// How frames reach the screen.
pub enum Painter {
    /// Alternate screen: rows have fixed places.
    Full { shown: Vec<String> },
    /// Main screen: rows are printed for good above a region that is drawn anew.
    Classic { shown: Frame, drawn: bool },
}

impl Painter {
    pub fn new(classic: bool) -> Self {
        if classic {
            Self::Classic { shown: Frame::default(), drawn: false }
        } else {
            Self::Full { shown: Vec::new() }
        }
    }

    /// What turns the terminal into ours. Title and mouse are left alone until the box is up.
    pub fn enter(&self) -> &'static str {
        match self {
            // Mouse reports as the real fullscreen renderer asks for them (FINDINGS 7, 53).
            Self::Full { .. } => "\x1b[?1049h\x1b[2J\x1b[H\x1b[?25l\x1b[?2004h\x1b[?1003h\x1b[?1006h",
            Self::Classic { .. } => "\x1b[?25l\x1b[?2004h",
        }
    }

    /// What gives it back.
    pub fn leave(&self) -> String {
        match self {
            Self::Full { .. } => "\x1b[?1006l\x1b[?1003l\x1b[?2004l\x1b[?25h\x1b[?1049l".to_owned(),
            // The shell goes on below the box.
            Self::Classic { shown, .. } => {
                let below = shown.rows.len().saturating_sub(shown.cursor.0 + 1);
                format!("\x1b[?2004l\x1b[?25h{}\r\n", "\r\n".repeat(below))
            }
        }
    }

    /// The screen's content is unknown or has another size: what is drawn next is drawn whole.
    pub fn forget(&mut self) -> &'static str {
        match self {
            Self::Full { shown } => {
                shown.clear();
                "\x1b[2J"
            }
            Self::Classic { shown, drawn } => {
                *shown = Frame::default();
                *drawn = false;
                "\x1b[H\x1b[2J\x1b[3J"
            }
        }
    }

    /// Bytes that turn what is shown into this frame; `printed` are rows to stay above it (classic only).
    pub fn paint(&mut self, printed: &[String], frame: Frame) -> String {
        match self {
            Self::Full { shown } => paint_full(shown, frame),
            Self::Classic { shown, drawn } => {
                if *drawn && printed.is_empty() && *shown == frame {
                    return String::new();
                }
                let bytes = paint_classic(shown, printed, &frame);
                *shown = frame;
                *drawn = true;
                bytes
            }
        }
    }
}

fn paint_full(shown: &mut Vec<String>, frame: Frame) -> String {
    let mut bytes = String::new();
    for (at, row) in frame.rows.iter().enumerate() {
        if shown.get(at) != Some(row) {
            bytes.push_str(&format!("\x1b[{};1H\x1b[0m{row}\x1b[K", at + 1));
        }
    }
    let cursor = format!("\x1b[{};{}H", frame.cursor.0 + 1, frame.cursor.1 + 1);
    // The cursor's place counts as a row: an unchanged frame writes nothing.
    let moved = shown.get(frame.rows.len()) != Some(&cursor);
    *shown = frame.rows;
    if moved || !bytes.is_empty() {
        bytes.push_str(&cursor);
    }
    shown.push(cursor);
    bytes
}

fn paint_classic(shown: &Frame, printed: &[String], frame: &Frame) -> String {
    let mut bytes = String::from("\r");
    if shown.cursor.0 > 0 {
        bytes.push_str(&format!("\x1b[{}A", shown.cursor.0));
    }
    // Row by row: tmux takes an erase of the whole screen for a reason to keep it in the history.
    let rows = shown.rows.len();
    for at in 0..rows {
        bytes.push_str(if at + 1 < rows { "\x1b[2K\x1b[1B" } else { "\x1b[2K" });
    }
    if rows > 1 {
        bytes.push_str(&format!("\x1b[{}A", rows - 1));
    }
    for row in printed {
        bytes.push_str(&format!("\x1b[0m{row}\r\n"));
    }
    bytes.push_str(&frame.rows.join("\r\n"));
    let up = frame.rows.len().saturating_sub(frame.cursor.0 + 1);
    bytes.push('\r');
    if up > 0 {
        bytes.push_str(&format!("\x1b[{up}A"));
    }
    if frame.cursor.1 > 0 {
        bytes.push_str(&format!("\x1b[{}C", frame.cursor.1));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(rows: &[&str]) -> Frame {
        Frame { rows: rows.iter().map(|row| (*row).to_owned()).collect(), cursor: (0, 2) }
    }

    #[test]
    fn an_unchanged_frame_writes_nothing() {
        for classic in [false, true] {
            let mut painter = Painter::new(classic);
            assert!(!painter.paint(&[], frame(&["a", "b"])).is_empty());
            assert_eq!(painter.paint(&[], frame(&["a", "b"])), "");
        }
    }

    #[test]
    fn only_changed_rows_are_written() {
        let mut painter = Painter::new(false);
        painter.paint(&[], frame(&["a", "b"]));
        let bytes = painter.paint(&[], frame(&["a", "c"]));
        assert!(bytes.contains("\x1b[2;1H\x1b[0mc") && !bytes.contains('a'));
    }
}
