//! What the inbox holds, read as a person would with `sqlite3` while the daemon runs.
//!
//! ```no_run
//! let house = ccmux_tests::House::builder().ready();
//! house.write("in.phone", "say: hello\n");
//! house.wait_until("a receipt", || house.inbox().iter().any(|row| row.delivered_at.is_some()));
//! ```

use serde_json::Value;

use crate::house::House;

/// Python knows SQLite, and the real Claude's mock needs it anyway.
const READ: &str = "import json, sqlite3, sys
rows = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True, timeout=20)
rows.row_factory = sqlite3.Row
print(json.dumps([dict(row) for row in rows.execute('SELECT * FROM messages ORDER BY id')]))";

/// A message. Times are Unix milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The channel, as Claude is shown it.
    pub channel: String,
    /// The text, sanitised.
    pub content: String,
    pub state: String,
    /// `hook` or `transcript`, once delivered.
    pub proof: Option<String>,
    /// The latest batch that took it along.
    pub batch: Option<i64>,
    pub accepted_at: i64,
    /// When it was pasted.
    pub injected_at: Option<i64>,
    pub delivered_at: Option<i64>,
}

impl House {
    /// All messages, in order of acceptance.
    pub fn inbox(&self) -> Vec<Row> {
        self.rows().iter().map(row).collect()
    }

    /// All messages in order of acceptance: the channel that they came on, and the text.
    pub fn stored(&self) -> Vec<(String, String)> {
        let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
        self.rows().iter().map(|row| (text(row, "channel"), text(row, "content"))).collect()
    }

    /// The texts of one channel.
    pub fn stored_on(&self, channel: &str) -> Vec<String> {
        self.stored().into_iter().filter(|(on, _)| on == channel).map(|(_, content)| content).collect()
    }

    fn rows(&self) -> Vec<Value> {
        let mut python = self.command("python3");
        python.args(["-c", READ]).arg(self.state_dir().join("inbox.db"));
        let output = self.run_to_end(python);
        assert!(
            output.status.success(),
            "inbox.db can't be read: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The inbox, once it has `count` messages and none of them waits or is on its way.
    pub fn wait_for_receipts(&self, count: usize) -> Vec<Row> {
        self.wait_for(&format!("receipts of {count} messages"), || {
            let rows = self.inbox();
            let pending = rows.iter().any(|row| row.state == "accepted" || row.state == "in_flight");
            (rows.len() >= count && !pending).then_some(rows)
        })
    }
}

fn row(row: &Value) -> Row {
    let text = |name: &str| row[name].as_str().map(str::to_owned);
    Row {
        channel: text("shown").unwrap(),
        content: text("content").unwrap(),
        state: text("state").unwrap(),
        proof: text("proof"),
        batch: row["batch"].as_i64(),
        accepted_at: row["accepted_at"].as_i64().unwrap(),
        injected_at: row["injected_at"].as_i64(),
        delivered_at: row["delivered_at"].as_i64(),
    }
}
