//! Bytes from the terminal become keys and pastes.
//!
//! Knows escape sequences and UTF-8; does not know what a key does. What was read in one piece stays one
//! [`Key::Text`], because Claude's dialogs drop a text of several characters but take a single one.
//!
//! ```text
//! b"hi\r"                          -> Text("hi"), Enter(Cr)
//! b"\x1b[200~a\rb\x1b[201~"        -> Paste("a\nb")
//! ```

/// How an Enter arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnterForm {
    /// Carriage return, what tmux sends for `Enter`.
    Cr,
    /// Line feed (Ctrl-J).
    Lf,
    /// `ESC [ 13 u`, the kitty protocol.
    Csi,
}

/// One thing the human (or tmux) did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// Printable characters that arrived together.
    Text(String),
    /// A bracketed paste, cleaned.
    Paste(String),
    Enter(EnterForm),
    /// Alt-Enter or Shift-Enter: a newline, never a submit.
    NewLine,
    /// Ctrl with a lower-case letter.
    Ctrl(char),
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    Backspace,
    Delete,
    Escape,
}

const PASTE_END: &[u8] = b"\x1b[201~";
/// A sequence longer than this is no sequence; its head is dropped.
const LONGEST_SEQUENCE: usize = 256;

/// Turns a stream of bytes into keys; keeps what is not complete yet.
#[derive(Debug, Default)]
pub struct KeyParser {
    pending: Vec<u8>,
    /// Bytes of the paste under way.
    paste: Option<Vec<u8>>,
}

/// What the head of the pending bytes is.
enum Head {
    Key(usize, Option<Key>),
    PasteStarts(usize),
    Incomplete,
}

impl KeyParser {
    /// Keys that are complete after these bytes.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        let mut keys = Vec::new();
        self.pending.extend_from_slice(bytes);
        while !self.pending.is_empty() {
            let progressed =
                if self.paste.is_some() { self.feed_paste(&mut keys) } else { self.feed_keys(&mut keys) };
            if !progressed {
                break;
            }
        }
        keys
    }

    /// An escape has arrived and nothing else: either the Escape key or the start of a sequence.
    pub fn waits(&self) -> bool {
        self.paste.is_none() && !self.pending.is_empty()
    }

    /// Nothing more came: a lone ESC was the key; other incomplete bytes are dropped.
    pub fn flush(&mut self) -> Vec<Key> {
        if !self.waits() {
            return Vec::new();
        }
        let escape = self.pending.first() == Some(&0x1b);
        self.pending.clear();
        if escape { vec![Key::Escape] } else { Vec::new() }
    }

    fn feed_paste(&mut self, keys: &mut Vec<Key>) -> bool {
        let Some(paste) = self.paste.as_mut() else {
            return false;
        };
        let seen = paste.len().saturating_sub(PASTE_END.len() - 1);
        paste.append(&mut self.pending);
        let Some(at) = find(&paste[seen..], PASTE_END).map(|at| at + seen) else {
            return false;
        };
        self.pending = paste.split_off(at + PASTE_END.len());
        paste.truncate(at);
        keys.push(Key::Paste(clean_paste(&String::from_utf8_lossy(paste))));
        self.paste = None;
        true
    }

    fn feed_keys(&mut self, keys: &mut Vec<Key>) -> bool {
        let mut at = 0;
        let mut text = Vec::new();
        let mut paste_starts = false;
        while at < self.pending.len() && !paste_starts {
            let rest = &self.pending[at..];
            match head(rest) {
                Head::Key(len, Some(Key::Text(_))) => {
                    text.extend_from_slice(&rest[..len]);
                    at += len;
                }
                Head::Key(len, key) => {
                    flush_text(&mut text, keys);
                    keys.extend(key);
                    at += len;
                }
                Head::PasteStarts(len) => {
                    flush_text(&mut text, keys);
                    at += len;
                    paste_starts = true;
                }
                Head::Incomplete => break,
            }
        }
        flush_text(&mut text, keys);
        self.pending.drain(..at);
        if paste_starts {
            self.paste = Some(Vec::new());
        }
        at > 0
    }
}

fn flush_text(text: &mut Vec<u8>, keys: &mut Vec<Key>) {
    if !text.is_empty() {
        keys.push(Key::Text(String::from_utf8_lossy(text).into_owned()));
        text.clear();
    }
}

fn head(bytes: &[u8]) -> Head {
    match bytes[0] {
        0x1b => escape(bytes),
        b'\r' => Head::Key(1, Some(Key::Enter(EnterForm::Cr))),
        b'\n' => Head::Key(1, Some(Key::Enter(EnterForm::Lf))),
        0x7f | 0x08 => Head::Key(1, Some(Key::Backspace)),
        // A typed tab is dropped, like every control character without a meaning of its own.
        b'\t' | 0x00 | 0x1c..=0x1f => Head::Key(1, None),
        control @ 0x01..=0x1a => Head::Key(1, Some(Key::Ctrl(char::from(control + 0x60)))),
        _ => character(bytes),
    }
}

/// One UTF-8 character; what is not UTF-8 becomes U+FFFD later, one byte at a time.
fn character(bytes: &[u8]) -> Head {
    let len = match bytes[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let have = bytes.len().min(len);
    if bytes[1..have].iter().any(|b| b & 0xc0 != 0x80) {
        return Head::Key(1, Some(Key::Text(String::new())));
    }
    if have < len { Head::Incomplete } else { Head::Key(len, Some(Key::Text(String::new()))) }
}

fn escape(bytes: &[u8]) -> Head {
    match bytes.get(1) {
        None => Head::Incomplete,
        Some(b'[') => csi(bytes),
        Some(b'O') => match bytes.get(2) {
            None => Head::Incomplete,
            Some(last) => Head::Key(3, arrow(*last)),
        },
        Some(b']' | b'P' | b'_' | b'^' | b'X') => string_sequence(bytes),
        Some(b'\r' | b'\n') => Head::Key(2, Some(Key::NewLine)),
        Some(0x1b) => Head::Key(1, Some(Key::Escape)),
        Some(_) => Head::Key(2, None),
    }
}

fn csi(bytes: &[u8]) -> Head {
    let Some(end) = bytes[2..].iter().position(|b| !(0x20..0x40).contains(b)).map(|at| at + 2) else {
        return if bytes.len() > LONGEST_SEQUENCE { Head::Key(2, None) } else { Head::Incomplete };
    };
    let parameters = &bytes[2..end];
    let len = end + 1;
    match (bytes[end], parameters) {
        (b'~', b"200") => Head::PasteStarts(len),
        (b'~', b"1" | b"7") => Head::Key(len, Some(Key::Home)),
        (b'~', b"4" | b"8") => Head::Key(len, Some(Key::End)),
        (b'~', b"3") => Head::Key(len, Some(Key::Delete)),
        (b'u', b"13" | b"13;1") => Head::Key(len, Some(Key::Enter(EnterForm::Csi))),
        (b'u', b"13;2" | b"13;3" | b"13;4" | b"13;5") => Head::Key(len, Some(Key::NewLine)),
        (b'u', b"27" | b"27;1") => Head::Key(len, Some(Key::Escape)),
        // A mouse report in the old form carries three more bytes.
        (b'M', b"") => {
            if bytes.len() < len + 3 {
                Head::Incomplete
            } else {
                Head::Key(len + 3, None)
            }
        }
        (last @ b'@'..=b'~', _) => Head::Key(len, arrow(last)),
        // Not a final byte: no sequence. Only its introducer is dropped.
        _ => Head::Key(2, None),
    }
}

fn arrow(last: u8) -> Option<Key> {
    Some(match last {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        _ => return None,
    })
}

/// OSC, DCS, APC, PM, SOS: an answer of the terminal, up to BEL or ST. Dropped.
fn string_sequence(bytes: &[u8]) -> Head {
    let body = &bytes[2..];
    let bel = body.iter().position(|b| *b == 0x07).map(|at| at + 3);
    let st = find(body, b"\x1b\\").map(|at| at + 4);
    match bel.into_iter().chain(st).min() {
        Some(len) => Head::Key(len, None),
        None if bytes.len() > LONGEST_SEQUENCE => Head::Key(2, None),
        None => Head::Incomplete,
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// What Claude makes of a paste: CR and CRLF are newlines, a tab is four spaces, sequences and other control
/// characters vanish (FINDINGS 42).
pub fn clean_paste(raw: &str) -> String {
    let mut clean = String::with_capacity(raw.len());
    let mut rest = raw.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' => {
                rest.next_if_eq(&'\n');
                clean.push('\n');
            }
            '\t' => clean.push_str("    "),
            '\u{1b}' => skip_sequence(&mut rest),
            '\n' => clean.push('\n'),
            c if c.is_control() => {}
            c => clean.push(c),
        }
    }
    clean
}

fn skip_sequence(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    if rest.next_if_eq(&'[').is_none() {
        return;
    }
    while rest.next_if(|c| (' '..'@').contains(c)).is_some() {}
    rest.next_if(|c| ('@'..='~').contains(c));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        KeyParser::default().feed(bytes)
    }

    #[test]
    fn text_of_one_read_stays_together() {
        assert_eq!(keys(b"hi there\r"), [Key::Text("hi there".into()), Key::Enter(EnterForm::Cr)]);
    }

    #[test]
    fn a_paste_may_come_in_any_pieces() {
        let whole = b"a\x1b[200~x\r\ny\tz\x1b[31m\x01\x1b[201~\r";
        let expected = [Key::Text("a".into()), Key::Paste("x\ny    z".into()), Key::Enter(EnterForm::Cr)];
        for cut in 0..whole.len() {
            let mut parser = KeyParser::default();
            let mut got = parser.feed(&whole[..cut]);
            got.extend(parser.feed(&whole[cut..]));
            assert_eq!(got, expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_lone_escape_is_the_key_only_after_the_flush() {
        let mut parser = KeyParser::default();
        assert_eq!(parser.feed(b"\x1b"), []);
        assert!(parser.waits());
        assert_eq!(parser.flush(), [Key::Escape]);
        assert!(!parser.waits());
    }

    #[test]
    fn the_three_forms_of_enter_are_told_apart() {
        assert_eq!(
            keys(b"\r\n\x1b[13u"),
            [Key::Enter(EnterForm::Cr), Key::Enter(EnterForm::Lf), Key::Enter(EnterForm::Csi)]
        );
        assert_eq!(keys(b"\x1b\r\x1b[13;2u"), [Key::NewLine, Key::NewLine]);
    }

    #[test]
    fn a_split_character_is_put_together() {
        let mut parser = KeyParser::default();
        assert_eq!(parser.feed(&"é字".as_bytes()[..3]), [Key::Text("é".into())]);
        assert_eq!(parser.feed(&"é字".as_bytes()[3..]), [Key::Text("字".into())]);
    }

    #[test]
    fn mouse_and_terminal_answers_are_no_keys() {
        assert_eq!(
            keys(b"\x1b[<35;10;5M\x1b[?1;2c\x1b]11;rgb:0/0/0\x07\x1b_Gi=31\x1b\\x"),
            [Key::Text("x".into())]
        );
        assert_eq!(keys(b"\x1b[M !!x"), [Key::Text("x".into())]);
    }

    #[test]
    fn any_bytes_are_survived() {
        let mut state = 1u32;
        for _ in 0..3000 {
            let mut bytes = Vec::new();
            for _ in 0..40 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let pick = b"\x1b[200~\x1b[201~\xff\xc3\x80O[]P~;013uM";
                bytes.push(if state & 1 == 0 {
                    (state >> 24) as u8
                } else {
                    pick[(state >> 8) as usize % pick.len()]
                });
            }
            let mut parser = KeyParser::default();
            for piece in bytes.chunks(7) {
                parser.feed(piece);
            }
            parser.flush();
        }
    }
}
