//! The three lines of older senders, over TCP.
//!
//! ```text
//! complete            what kind: complete, question, info
//! 41943043            the window that it is about (WINDOWID), or nothing
//! The tests pass.     the message
//! ```
//!
//! Where a token is wanted, a line `token SECRET` stands before them. An HTTP request of a probe is told apart by its first
//! line. It opens nothing; what it takes is hostile.

use crate::container::{SenderEvent, WindowId};

/// All lines together may have so many bytes.
pub const MAX_SENDER_BYTES: usize = 8 * 1024;
/// Where a sender is expected if nothing else is said.
pub const DEFAULT_PORT: u16 = 8080;

const TOKEN: &str = "token ";
const METHODS: [&str; 9] =
    ["GET ", "HEAD ", "POST ", "PUT ", "PATCH ", "DELETE ", "OPTIONS ", "CONNECT ", "TRACE "];

/// What a connection said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Three lines.
    Lines {
        /// What the token line said.
        token: Option<String>,
        /// What kind.
        event: SenderEvent,
        /// Which window.
        window: Option<WindowId>,
        /// The message, not cleaned.
        message: String,
    },
    /// An HTTP request.
    Http,
}

/// Why what a connection said is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SenderError {
    /// A line is missing.
    #[error("three lines are wanted: event, window, message")]
    Incomplete,
    /// The first one.
    #[error("the event is none of complete, question, info")]
    Event,
    /// The second one.
    #[error("the window is no number of 1 to 20 digits")]
    Window,
    /// The third one.
    #[error("the message is empty")]
    Empty,
    /// Too much.
    #[error("more than 8192 bytes")]
    TooLong,
}

/// Whether enough was said to be read: three lines (four with a token), or an HTTP request line.
pub fn is_whole(bytes: &[u8]) -> bool {
    let wanted = if bytes.starts_with(TOKEN.as_bytes()) { 4 } else { 3 };
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    lines >= wanted || (lines >= 1 && is_http(bytes))
}

/// Reads what a connection said until it was whole, or until it ended.
///
/// # Errors
/// What is wrong with it.
pub fn read(bytes: &[u8]) -> Result<Said, SenderError> {
    if is_http(bytes) {
        return Ok(Said::Http);
    }
    if bytes.len() > MAX_SENDER_BYTES {
        return Err(SenderError::TooLong);
    }
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    let mut line = || lines.next().ok_or(SenderError::Incomplete);
    let mut first = line()?;
    let token = first.strip_prefix(TOKEN).map(|token| token.trim().to_owned());
    if token.is_some() {
        first = line()?;
    }
    let event = SenderEvent::from_word(first.trim()).ok_or(SenderError::Event)?;
    let window = match line()?.trim() {
        "" => None,
        digits => Some(WindowId::try_from(digits.to_owned()).map_err(|_| SenderError::Window)?),
    };
    let message = line()?.trim().to_owned();
    if message.is_empty() {
        return Err(SenderError::Empty);
    }
    Ok(Said::Lines { token, event, window, message })
}

fn is_http(bytes: &[u8]) -> bool {
    METHODS.iter().any(|method| bytes.starts_with(method.as_bytes()))
}

/// The lines of a sender. Line breaks within a message become blanks.
pub fn lines(token: Option<&str>, event: SenderEvent, window: Option<&WindowId>, message: &str) -> String {
    let token = token.map(|token| format!("{TOKEN}{token}\n")).unwrap_or_default();
    let window = window.map(WindowId::as_str).unwrap_or_default();
    let message: Vec<&str> = message.split(['\r', '\n']).filter(|part| !part.trim().is_empty()).collect();
    format!("{token}{}\n{window}\n{}\n", event.word(), message.join(" "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn three_lines_are_read_and_what_is_wrong_is_named() {
        let read_text = |text: &str| read(text.as_bytes());
        let Ok(Said::Lines { token: None, event, window, message }) = read_text("complete\r\n77\r\ndone\r\n")
        else {
            panic!()
        };
        assert_eq!(
            (event, window.unwrap().as_str(), message.as_str()),
            (SenderEvent::Complete, "77", "done")
        );
        let Ok(Said::Lines { token, window: None, .. }) =
            read_text("token s3cret\ninfo\n\nno newline at the end")
        else {
            panic!()
        };
        assert_eq!(token.as_deref(), Some("s3cret"));
        for (text, error) in [
            ("", SenderError::Event),
            ("complete", SenderError::Incomplete),
            ("complete\n77", SenderError::Incomplete),
            ("explode\n77\nx\n", SenderError::Event),
            ("info\n-7\nx\n", SenderError::Window),
            ("info\n123456789012345678901\nx\n", SenderError::Window),
            ("info\n7\n \n", SenderError::Empty),
        ] {
            assert_eq!(read_text(text), Err(error), "{text:?}");
        }
        assert_eq!(read(&[b'x'; MAX_SENDER_BYTES + 1]), Err(SenderError::TooLong));
    }

    #[test]
    fn a_probe_is_told_apart_by_its_first_line() {
        assert_eq!(read(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), Ok(Said::Http));
        assert!(is_whole(b"HEAD /health HTTP/1.0\r\n") && !is_whole(b"GET / HT"));
        assert!(is_whole(b"a\nb\nc\n") && !is_whole(b"a\nb\nc") && !is_whole(b"token x\na\nb\n"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = is_whole(&bytes);
            let _ = read(&bytes);
        }

        #[test]
        fn what_the_sender_writes_is_read_as_one_message(text in "\\PC{1,80}", more in "[\r\n]{0,2}complete\n7\nx") {
            let text = format!("{text}{more}");
            let Ok(Said::Lines { message, window: None, .. }) =
                read(lines(None, SenderEvent::Info, None, &text).as_bytes()) else { panic!("{text:?}") };
            prop_assert!(!message.contains('\n'));
        }
    }
}
