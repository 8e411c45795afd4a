//! The generated `--mcp-config` file: tells Claude Code where our tools are, in addition to the user's own servers.
//!
//! ```json
//! {"mcpServers":{"ccmux":{"type":"http","url":"http://127.0.0.1:9876/mcp","headers":{"Authorization":"Bearer ..."},"alwaysLoad":true}}}
//! ```
//!
//! Without `alwaysLoad` the model sees the tools' names only. It does not know what the server does.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::record::replace;

/// Its name in the state directory.
pub const MCP_FILE: &str = "claude-mcp.json";

/// What Claude Code calls the server; its tools are `mcp__ccmux__...` in permission rules.
pub const SERVER_NAME: &str = "ccmux";

/// Which of the server's transports Claude uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// `/mcp`
    Http,
    /// `/sse`
    Sse,
}

impl Transport {
    /// The words of `mcp.entry`.
    pub const WORDS: [&str; 2] = ["http", "sse"];

    /// From a word of `mcp.entry`; [`crate::settings::Settings::check`] lets no other pass.
    pub fn of(word: &str) -> Self {
        if word == "sse" { Self::Sse } else { Self::Http }
    }

    fn word_and_route(self) -> (&'static str, &'static str) {
        match self {
            Self::Http => ("http", "/mcp"),
            Self::Sse => ("sse", "/sse"),
        }
    }
}

/// What the file is made of.
#[derive(Debug, Clone, Copy)]
pub struct McpEntry<'a> {
    /// How.
    pub transport: Transport,
    /// Where, on 127.0.0.1.
    pub port: u16,
    /// What to say, if anything.
    pub token: Option<&'a str>,
}

impl McpEntry<'_> {
    /// The file's content.
    pub fn to_json(self) -> Value {
        let (kind, route) = self.transport.word_and_route();
        let mut entry = json!({
            "type": kind,
            "url": format!("http://127.0.0.1:{}{route}", self.port),
            "alwaysLoad": true,
        });
        if let Some(token) = self.token {
            entry["headers"] = json!({"Authorization": format!("Bearer {token}")});
        }
        json!({"mcpServers": {SERVER_NAME: entry}})
    }

    /// Writes [`MCP_FILE`] with mode 0600 into that directory, in one step.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_to(self, dir: &Path) -> io::Result<PathBuf> {
        let path = dir.join(MCP_FILE);
        replace(&path, format!("{:#}\n", self.to_json()).as_bytes())?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_entry_is_always_loaded_and_says_where_and_what() {
        let entry = McpEntry { transport: Transport::of("http"), port: 9876, token: Some("t0") };
        let server = entry.to_json()["mcpServers"]["ccmux"].clone();
        assert_eq!(server["type"], "http");
        assert_eq!(server["url"], "http://127.0.0.1:9876/mcp");
        assert_eq!(server["headers"]["Authorization"], "Bearer t0");
        assert_eq!(server["alwaysLoad"], true);
        let entry = McpEntry { transport: Transport::of("sse"), token: None, ..entry };
        let server = entry.to_json()["mcpServers"]["ccmux"].clone();
        assert_eq!(
            (server["type"].as_str(), server["url"].as_str()),
            (Some("sse"), Some("http://127.0.0.1:9876/sse"))
        );
        assert!(server.get("headers").is_none());
    }

    #[test]
    fn the_file_holds_a_token_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let entry = McpEntry { transport: Transport::Http, port: 1, token: Some("t0") };
        let path = entry.write_to(dir.path()).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let read: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        assert_eq!(read, entry.to_json());
    }
}
