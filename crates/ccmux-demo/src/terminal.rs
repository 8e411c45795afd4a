//! The terminal: raw mode, size, and giving it back. Knows the tty, not what is drawn.

use std::io::{IsTerminal, Write};

use rustix::termios::{self, OptionalActions, Termios};

use crate::screen::Size;

/// Raw mode while it lives.
pub struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Fails where stdin or stdout is no terminal.
    pub fn enter() -> Result<Self, String> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return Err(
                "stdin and stdout must be a terminal (run it in tmux, or in an interactive shell)".into()
            );
        }
        let before =
            termios::tcgetattr(std::io::stdin()).map_err(|e| format!("the terminal can't be read: {e}"))?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &raw)
            .map_err(|e| format!("the terminal can't be set to raw mode: {e}"))?;
        Ok(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Size of the pane; 80 by 24 where nobody knows.
pub fn size() -> Size {
    let (columns, rows) = termios::tcgetwinsize(std::io::stdout())
        .map_or((80, 24), |size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    Size { columns: if columns == 0 { 80 } else { columns }, rows: if rows == 0 { 24 } else { rows } }
}

/// Writes at once; a terminal that has gone is told of by the reader.
pub fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
