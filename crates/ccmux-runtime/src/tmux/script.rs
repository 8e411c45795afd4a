//! Command lists that type: the guard and what it guards in one piece, run at once.
//!
//! ```text
//! set-buffer -b ccmux-...-0 -- "..."
//! if-shell -F -t %3 "<guard>" {
//!     display-message -p "ccmux-...B"          begun
//!     paste-buffer -p -r -d -b ccmux-...-0 -t %3
//!     display-message -p "ccmux-...D"          done
//! } {
//!     display-message -p -t %3 "ccmux-...R <what is different>"
//! }
//! ```
//!
//! A text travels on the client's stdin, for `source-file -`: arguments are for everybody to see, tmux limits them to 16 KB in
//! all, and files would have to be kept private. A key has nothing to hide: its list stands in the arguments, which saves a pipe
//! and a round trip. tmux runs either between two turns of its own event loop, so the pane can't die in the middle.
//! After a refusal a second script ([`forget`]) takes the buffers away: in here, the mere presence of as many
//! `delete-buffer` as pieces would nearly double the time of every batch.

use std::fmt::Write;

use super::client::{Nonce, args};
use super::facts::{MARK, activity as activity_of};
use crate::terminal::{Guard, TerminalError, Typed, Untouched};

/// A command list, as a tmux process takes it.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) arguments: Vec<String>,
    /// What it reads on stdin.
    pub(super) input: String,
    /// So many buffers are made first.
    pub(super) buffers: usize,
}

impl Script {
    fn on_stdin(input: String, buffers: usize) -> Self {
        Self { arguments: args(&["source-file", "-"]), input, buffers }
    }
}

/// What a typing script printed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All was typed, or nothing.
    Known(Typed),
    /// It began and did not say that it was done.
    BrokeOff,
    /// It never came to the guard.
    NotBegun,
}

/// Pastes the pieces, each bracketed, with no pause between them.
pub(super) fn paste(
    nonce: &Nonce,
    pane: &str,
    guard: &Guard,
    pieces: &[String],
) -> Result<Script, TerminalError> {
    // set-buffer makes no buffer of an empty text, and the paste of it would fail.
    let pieces: Vec<&String> = pieces.iter().filter(|piece| !piece.is_empty()).collect();
    if pieces.iter().any(|piece| piece.contains('\0')) {
        return Err(TerminalError::Failed { what: "paste", why: "the text holds a NUL".to_owned() });
    }
    let mut script = String::with_capacity(pieces.iter().map(|piece| 2 * piece.len() + 200).sum());
    let mut pastes = String::new();
    for (index, piece) in pieces.iter().enumerate() {
        let name = nonce.buffer(index);
        let _ = writeln!(script, "set-buffer -b {name} -- {}", quoted(piece));
        let _ = writeln!(pastes, "paste-buffer -p -r -d -b {name} -t {pane}");
    }
    let Guarded { condition, then, refused } = Guarded::new(nonce, pane, guard, &pastes);
    let _ = writeln!(script, "if-shell -F -t {pane} \"{condition}\" {{\n{then}}} {{\n{refused}}}");
    Ok(Script::on_stdin(script, pieces.len()))
}

/// Takes a text out from in front of what is behind it: to the beginning of the line, as many Deletes as it has graphemes, a
/// Backspace to the line above. All in one list: with pauses between the keys a human's key falls into them (field fault 46).
pub(super) fn take_out(nonce: &Nonce, pane: &str, guard: &Guard, lines: &[usize]) -> Script {
    let mut keys = String::new();
    for (index, graphemes) in lines.iter().enumerate().rev() {
        let _ = writeln!(keys, "send-keys -t {pane} C-a");
        if *graphemes > 0 {
            let _ = writeln!(keys, "send-keys -t {pane} -N {graphemes} DC");
        }
        if index > 0 {
            let _ = writeln!(keys, "send-keys -t {pane} BSpace");
        }
    }
    let _ = writeln!(keys, "send-keys -t {pane} C-e");
    key_list(nonce, pane, guard, &keys)
}

/// Presses Ctrl-S.
pub(super) fn stash(nonce: &Nonce, pane: &str, guard: &Guard) -> Script {
    key(nonce, pane, guard, "C-s")
}

/// Presses Enter.
pub(super) fn enter(nonce: &Nonce, pane: &str, guard: &Guard) -> Script {
    key(nonce, pane, guard, "Enter")
}

/// Presses Esc.
pub(super) fn escape(nonce: &Nonce, pane: &str, guard: &Guard) -> Script {
    key(nonce, pane, guard, "Escape")
}

/// Presses Ctrl-U.
pub(super) fn clear_row(nonce: &Nonce, pane: &str, guard: &Guard) -> Script {
    key(nonce, pane, guard, "C-u")
}

fn key(nonce: &Nonce, pane: &str, guard: &Guard, key: &str) -> Script {
    key_list(nonce, pane, guard, &format!("send-keys -t {pane} {key}\n"))
}

fn key_list(nonce: &Nonce, pane: &str, guard: &Guard, keys: &str) -> Script {
    let Guarded { condition, then, refused } = Guarded::new(nonce, pane, guard, keys);
    let arguments = args(&["if-shell", "-F", "-t", pane, &condition, &then, &refused]);
    Script { arguments, input: String::new(), buffers: 0 }
}

/// Starts a program in the pane if that carries our mark and is dead, says that it begins, and runs `then`; says nothing
/// otherwise.
pub(super) fn respawn(
    nonce: &Nonce,
    pane: &str,
    session: &str,
    cwd: &str,
    argv: &[String],
    then: &[String],
) -> String {
    let words = |words: &[String]| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    format!(
        "if-shell -F -t {pane} \"#{{&&:#{{pane_dead}},#{{==:#{{{MARK}}},{session}}}}}\" {{\n\
         display-message -p \"{}B\"\n\
         respawn-pane -t {pane} -c {} -- {}\n\
         set-option -p -t {pane} remain-on-exit on\n\
         {}\n\
         }}\n",
        nonce.as_str(),
        quoted(cwd),
        words(argv),
        words(then),
    )
}

/// Deletes the buffers of a script that was refused or broke off.
pub(super) fn forget(nonce: &Nonce, buffers: usize) -> Script {
    let input = (0..buffers).fold(String::new(), |mut script, index| {
        let _ = writeln!(script, "delete-buffer -b {}", nonce.buffer(index));
        script
    });
    Script::on_stdin(input, 0)
}

/// What is done if the pane is as it must be, and what is said if not.
struct Guarded {
    condition: String,
    then: String,
    refused: String,
}

impl Guarded {
    fn new(nonce: &Nonce, pane: &str, guard: &Guard, then: &str) -> Self {
        let (nonce, pid) = (nonce.as_str(), guard.pid);
        // Synchronised panes would send our key to the user's other panes too; a pane with its input off takes none.
        let synchronised = "#{&&:#{pane_synchronized},#{!=:#{window_panes},1}}";
        let touched = match &guard.untouched {
            Some(Untouched { cursor: (x, y), activity }) => {
                let ours = format!("#{{==:#{{pane_pid}},{pid}}}");
                let moved = format!("#{{!=:#{{cursor_x}}.#{{cursor_y}},{x}.{y}}}");
                match activity {
                    Some(then) => format!("#{{||:{moved},#{{!=:{},{}}}}}", activity_of(&ours), then.as_str()),
                    None => moved,
                }
            }
            None => "0".to_owned(),
        };
        let condition = format!(
            "#{{?pane_dead,0,#{{?pane_in_mode,0,#{{?pane_input_off,0,#{{?{synchronised},0,#{{?{touched},0,\
             #{{==:#{{pane_pid}},{pid}}}}}}}}}}}}}"
        );
        let then = format!("display-message -p \"{nonce}B\"\n{then}display-message -p \"{nonce}D\"\n");
        let refused = format!(
            "display-message -p -t {pane} \"{nonce}R process #{{pane_pid}}#{{?#{{!=:#{{pane_pid}},{pid}}}, is not {pid},}}\
             #{{?pane_dead, is dead,}}#{{?pane_in_mode, is in a mode,}}#{{?{touched}, was typed into since the last look,}}\
             #{{?pane_input_off, has its input off,}}#{{?{synchronised}, is synchronised with other panes,}}\"\n"
        );
        Self { condition, then, refused }
    }
}

/// Reads what a script printed.
pub(super) fn outcome(nonce: &Nonce, printed: &str) -> Outcome {
    let with = |kind: &str| printed.lines().find_map(|line| nonce.strip(line, kind));
    if with("D").is_some() {
        Outcome::Known(Typed::Done)
    } else if let Some(why) = with("R ") {
        Outcome::Known(Typed::Refused(format!("the pane's {}", why.trim_end())))
    } else if with("B").is_some() {
        Outcome::BrokeOff
    } else {
        Outcome::NotBegun
    }
}

/// A double-quoted string of tmux's language: what could mean something there is an octal escape.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 2 + 2);
    out.push('"');
    for c in text.chars() {
        if c.is_ascii() && !c.is_ascii_alphanumeric() && !matches!(c, ' ' | '.' | ',' | '_' | '-' | ':' | '/')
        {
            let _ = write!(out, "\\{:03o}", c as u32);
        } else {
            out.push(c);
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tmux_could_read_is_an_octal_escape() {
        assert_eq!(quoted("a b~$\"\\;'\n#{é"), r#""a b\176\044\042\134\073\047\012\043\173é""#);
    }

    #[test]
    fn a_text_with_a_nul_is_refused_before_tmux_sees_it() {
        let refused = paste(&Nonce::random(), "%0", &Guard { pid: 1, untouched: None }, &["a\0b".to_owned()]);
        assert!(matches!(refused, Err(TerminalError::Failed { .. })), "{refused:?}");
    }

    #[test]
    fn a_script_that_began_and_never_ended_is_doubtful() {
        let nonce = Nonce::random();
        let read = |kinds: &str| outcome(&nonce, &kinds.replace('@', nonce.as_str()));
        assert_eq!(read("@B\n@D\n"), Outcome::Known(Typed::Done));
        assert_eq!(read("@B\n"), Outcome::BrokeOff);
        assert_eq!(read(""), Outcome::NotBegun);
        assert_eq!(
            read("@R process 7 is dead\n"),
            Outcome::Known(Typed::Refused("the pane's process 7 is dead".to_owned()))
        );
    }
}
