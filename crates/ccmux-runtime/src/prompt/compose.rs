//! Messages, put together into one prompt.
//!
//! ```text
//! phone, 14:02, "is it green?"  ─►  [14:02 phone] is it green?
//! ```
//!
//! It does not know what types the prompt, nor that it is a batch: bodies come in, one text goes out.

use ccmux_policy::UnixMs;

use super::sanitise::sanitise;

const DAY_S: i64 = 24 * 60 * 60;

/// One message of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<'a> {
    /// When it was accepted.
    pub at_wall: UnixMs,
    /// Its channel, as shown in the head.
    pub label: &'a str,
    /// Its text.
    pub content: &'a str,
    /// It is tried again after doubt.
    pub redelivered: bool,
}

/// What a message adds to a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Bytes of the text, with head, indents and the newline behind it.
    pub bytes: u64,
    /// Lines of the text.
    pub rows: u32,
}

/// The prompt: `[HH:MM label] content`, further lines of a message indented by two blanks, one message after another.
pub fn compose(parts: &[Part<'_>], utc_offset_at: &dyn Fn(UnixMs) -> i32) -> String {
    let mut text = String::new();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        push_part(&mut text, part, utc_offset_at(part.at_wall));
    }
    text
}

/// What `part` takes in a prompt.
pub fn size(part: &Part<'_>) -> Size {
    let mut text = String::new();
    push_part(&mut text, part, 0);
    let rows = text.split('\n').count();
    Size { bytes: text.len() as u64 + 1, rows: u32::try_from(rows).unwrap_or(u32::MAX) }
}

fn push_part(text: &mut String, part: &Part<'_>, utc_offset_s: i32) {
    let local_s = (part.at_wall.0.div_euclid(1000) + i64::from(utc_offset_s)).rem_euclid(DAY_S);
    let (hours, minutes) = (local_s / 3600, local_s / 60 % 60);
    text.push_str(&format!("[{hours:02}:{minutes:02} {}] ", part.label));
    if part.redelivered {
        text.push_str("(redelivered) ");
    }
    // Changes nothing of what was sanitised on intake. A message of an older ccmux may have been accepted before today's
    // rules, and nothing gets to the pane but through here.
    for (index, line) in sanitise(part.content).split('\n').enumerate() {
        if index > 0 {
            text.push_str("\n  ");
        }
        text.push_str(line);
    }
}
