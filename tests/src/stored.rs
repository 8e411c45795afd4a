//! What the database of messages holds, read from outside as anybody may, while the daemon runs or not.

use std::process::Command;

use crate::house::House;

/// One JSON array a row: a content may hold anything.
const SCRIPT: &str = "import json, sqlite3, sys
inbox = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True, timeout=20)
for row in inbox.execute('SELECT channel, content FROM messages ORDER BY id'): print(json.dumps(row))";

impl House {
    /// All messages in the order of their acceptance: channel and content.
    pub fn stored(&self) -> Vec<(String, String)> {
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT]).arg(self.state_dir().join("inbox.db"));
        let read = command.output().expect("python3 can be started");
        let why = String::from_utf8_lossy(&read.stderr);
        assert!(read.status.success(), "inbox.db can't be read: {why}");
        let rows = String::from_utf8(read.stdout).unwrap();
        rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect()
    }

    /// The contents of one channel.
    pub fn stored_on(&self, channel: &str) -> Vec<String> {
        self.stored().into_iter().filter(|(on, _)| on == channel).map(|(_, content)| content).collect()
    }
}
