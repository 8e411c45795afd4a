//! Whether what came to the agent's terminal is what ccmux may type: bracketed pastes of plain text, and Enter.
//!
//! ```text
//! ESC [ 2 0 0 ~ text, newlines ESC [ 2 0 1 ~        a paste
//! CR                                                Enter
//! anything else                                     a finding
//! ```

const BEGIN: &[u8] = b"\x1b[200~";
const END: &[u8] = b"\x1b[201~";
/// So many findings say enough.
const ENOUGH: usize = 20;

/// Reads the bytes of one agent, in pieces.
#[derive(Debug, Default)]
pub struct Keys {
    in_paste: bool,
    /// The beginning of what is not decided yet.
    rest: Vec<u8>,
    pub pastes: u64,
    pub enters: u64,
    pub findings: Vec<String>,
}

impl Keys {
    /// More bytes.
    pub fn read(&mut self, bytes: &[u8]) {
        let mut bytes = [std::mem::take(&mut self.rest), bytes.to_vec()].concat();
        while let Some(length) = self.step(&bytes) {
            bytes.drain(..length);
        }
        self.rest = bytes;
    }

    /// How many bytes were understood; none if more must come first.
    fn step(&mut self, bytes: &[u8]) -> Option<usize> {
        let first = *bytes.first()?;
        let wanted = if self.in_paste { END } else { BEGIN };
        if first == wanted[0] && bytes.len() < wanted.len() && wanted.starts_with(bytes) {
            return None;
        }
        if bytes.starts_with(wanted) {
            self.pastes += u64::from(!self.in_paste);
            self.in_paste = !self.in_paste;
            return Some(wanted.len());
        }
        // U+0080 to U+009F are C2 80 to C2 9F.
        if first == 0xc2 && bytes.len() < 2 {
            return None;
        }
        self.judge(first, bytes.get(1).copied());
        Some(1)
    }

    fn judge(&mut self, byte: u8, next: Option<u8>) {
        let is_c1 = byte == 0xc2 && next.is_some_and(|next| (0x80..0xa0).contains(&next));
        let is_control = byte < 0x20 || byte == 0x7f || is_c1;
        match (self.in_paste, byte) {
            (true, b'\n') => {}
            (true, _) if is_control => self.find(format!("control character {byte:#04x} in a paste")),
            (true, _) => {}
            (false, b'\r') => self.enters += 1,
            (false, _) if is_control => self.find(format!("control character {byte:#04x} outside a paste")),
            (false, _) => self.find(format!("{:?} typed outside a paste", char::from(byte))),
        }
    }

    fn find(&mut self, what: String) {
        if self.findings.len() < ENOUGH {
            self.findings.push(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(pieces: &[&[u8]]) -> Vec<String> {
        let mut keys = Keys::default();
        pieces.iter().for_each(|piece| keys.read(piece));
        keys.findings
    }

    #[test]
    fn a_paste_and_enter_are_all_that_is_allowed() {
        let mut keys = Keys::default();
        for piece in [&b"\x1b[20"[..], "0~你 a\nb\x1b[2".as_bytes(), b"01~\r"] {
            keys.read(piece);
        }
        assert_eq!((keys.pastes, keys.enters, keys.findings.len()), (1, 1, 0), "{:?}", keys.findings);
    }

    #[test]
    fn everything_else_is_found() {
        for bytes in [
            &b"\x03"[..],
            b"a",
            b"\n",
            b"\x7f",
            b"\x1b[A",
            "\u{9b}".as_bytes(),
            b"\x1b[200~a\rb\x1b[201~",
            b"\x1b[200~\x1b[31m\x1b[201~",
            b"\x1b[200~a\x1b[201~\x1b[201~",
            "\x1b[200~\u{85}\x1b[201~".as_bytes(),
        ] {
            assert!(!findings(&[bytes]).is_empty(), "{bytes:?}");
        }
    }
}
