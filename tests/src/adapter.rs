//! An adapter: a program that reads an `out.` FIFO for good, and what the tools said that write to it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::house::House;

/// Keeps every line that it got.
#[derive(Debug, Clone, Default)]
pub struct Adapter(Arc<Mutex<Vec<String>>>);

impl House {
    /// Reads `out.NAME` from before the first message on.
    pub fn adapter(&self, name: &str) -> Adapter {
        let path = self.fifo(&format!("out.{name}"));
        let adapter = Adapter::default();
        let lines = Arc::clone(&adapter.0);
        // Both ends, so that it never ends.
        let fifo = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(fifo).lines().map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        adapter
    }

    /// The lines that came, once there are `count`.
    pub fn wait_for_lines(&self, adapter: &Adapter, count: usize) -> Vec<String> {
        self.wait_for("lines at the adapter", || Some(adapter.lines()).filter(|lines| lines.len() >= count))
    }

    /// [`House::wait_for_lines`], for a tool that waits for something itself.
    pub fn wait_long_for_lines(&self, adapter: &Adapter, count: usize, limit: Duration) -> Vec<String> {
        self.wait_within(limit, "lines at the adapter", || {
            Some(adapter.lines()).filter(|lines| lines.len() >= count)
        })
    }
}

impl Adapter {
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// The tool results of a turn: whether each is an error, and its text.
pub fn results(turn: &Value) -> Vec<(bool, String)> {
    let blocks = turn["turn"].as_array().into_iter().flatten();
    let results = blocks.filter(|block| block["type"] == "tool_result");
    results.map(|block| (block["is_error"] == true, block["content"].to_string())).collect()
}
