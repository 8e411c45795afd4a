//! What really happened to this agent, for tests that believe nobody else: every byte that came from the terminal and
//! every prompt that was submitted. Off unless `CCMUX_DEMO_JOURNAL` names a directory.
//!
//! ```text
//! DIR/1740000000123-4711.jsonl      one file a process: the time of its start, its pid
//!   {"at":1740000000123,"started":{"session":"...","hooks":true}}
//!   {"at":1740000000456,"read":"\u001b[200~hello\u001b[201~"}     one character a byte
//!   {"at":1740000000567,"submitted":"hello"}
//! ```
//!
//! One `write` a line and no sync: it survives SIGKILL and costs little. Knows no faults: it is written whatever the
//! switches say.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::clock;

/// Appends lines, or does nothing.
#[derive(Debug, Default)]
pub struct Journal(Option<File>);

impl Journal {
    /// Begins this process's file in `directory`; without one nothing is written.
    pub fn begin(directory: Option<&Path>, session: &str, hooks: bool) -> Result<Self, String> {
        let Some(directory) = directory else {
            return Ok(Self::default());
        };
        let path = directory.join(format!("{:013}-{}.jsonl", clock::unix_ms(), std::process::id()));
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let mut journal = Self(Some(file.map_err(|error| format!("{}: {error}", path.display()))?));
        journal.write("started", &json!({"session": session, "hooks": hooks}));
        Ok(journal)
    }

    /// Bytes from the terminal.
    pub fn read(&mut self, bytes: &[u8]) {
        if self.0.is_some() {
            self.write("read", &bytes.iter().copied().map(char::from).collect::<String>().into());
        }
    }

    /// A prompt, as the box held it.
    pub fn submitted(&mut self, text: &str) {
        self.write("submitted", &text.into());
    }

    fn write(&mut self, what: &str, value: &Value) {
        if let Some(file) = &mut self.0 {
            let line = format!("{}\n", json!({"at": clock::unix_ms(), what: value}));
            // A full disk must not end the agent; whoever reads the journal finds the gap.
            let _ = file.write_all(line.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_prompts_are_written_as_they_were() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin(Some(directory.path()), "s1", true).unwrap();
        journal.read(b"\x1b[200~\xe4\xbd\xa0\x1b[201~");
        journal.submitted("你");
        let file = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read_to_string(file).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["started"], json!({"session": "s1", "hooks": true}));
        let bytes: Vec<u32> = lines[1]["read"].as_str().unwrap().chars().map(u32::from).collect();
        assert_eq!(bytes[6..9], [0xe4, 0xbd, 0xa0]);
        assert_eq!(lines[2]["submitted"], "你");
    }

    #[test]
    fn without_a_directory_nothing_is_written() {
        let mut journal = Journal::begin(None, "s1", true).unwrap();
        journal.submitted("hello");
        assert!(journal.0.is_none());
    }
}
