//! The generated `--mcp-config` file: tells Claude Code where our tools are, in addition to the user's own servers.
//!
//! ```json
//! {"mcpServers":{"ccmux":{"type":"stdio","command":"/usr/bin/ccmux","args":["mcp"],"env":{"CCMUX_RUNTIME_DIR":"/tmp/ccmux"},"alwaysLoad":true}}}
//! {"mcpServers":{"ccmux":{"type":"http","url":"http://127.0.0.1:9876/mcp","headers":{"Authorization":"Bearer ..."},"alwaysLoad":true}}}
//! ```
//!
//! Without `alwaysLoad` the model sees the tools' names only. It does not know what the server does.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub use ccmux_wire::tools::SERVER_NAME;

use super::record::{holds, replace};

/// Its name in the state directory.
pub const MCP_FILE: &str = "claude-mcp.json";

/// How Claude comes to the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// It starts `ccmux mcp`, which outlives every daemon.
    Stdio,
    /// `/mcp`
    Http,
    /// `/sse`
    Sse,
}

impl Transport {
    /// The words of `mcp.entry`.
    pub const WORDS: [&str; 3] = ["stdio", "http", "sse"];

    /// From a word of `mcp.entry`; [`crate::settings::Settings::check`] lets no other pass.
    pub fn of(word: &str) -> Self {
        match word {
            "http" => Self::Http,
            "sse" => Self::Sse,
            _ => Self::Stdio,
        }
    }
}

/// What the file is made of.
#[derive(Debug, Clone, Copy)]
pub enum McpEntry<'a> {
    /// A program that Claude starts.
    Bridge {
        /// `ccmux`.
        client: &'a Path,
        /// The daemon's.
        runtime_dir: &'a Path,
    },
    /// A server on 127.0.0.1.
    Server {
        /// What the route speaks.
        kind: &'static str,
        /// Where.
        route: &'static str,
        /// Where, too.
        port: u16,
        /// What to say, if anything.
        token: Option<&'a str>,
    },
}

impl<'a> McpEntry<'a> {
    /// Streamable HTTP.
    pub fn http(port: u16, token: Option<&'a str>) -> Self {
        Self::Server { kind: "http", route: "/mcp", port, token }
    }

    /// Server-sent events.
    pub fn sse(port: u16, token: Option<&'a str>) -> Self {
        Self::Server { kind: "sse", route: "/sse", port, token }
    }

    /// The file's content.
    pub fn to_json(self) -> Value {
        json!({"mcpServers": {SERVER_NAME: self.member()}})
    }

    /// The entry alone.
    pub fn member(self) -> Value {
        let mut entry = match self {
            Self::Bridge { client, runtime_dir } => json!({
                "type": "stdio",
                "command": client.display().to_string(),
                "args": ["mcp"],
                "env": {"CCMUX_RUNTIME_DIR": runtime_dir.display().to_string()},
            }),
            Self::Server { kind, route, port, .. } => {
                json!({"type": kind, "url": format!("http://127.0.0.1:{port}{route}")})
            }
        };
        entry["alwaysLoad"] = true.into();
        if let Self::Server { token: Some(token), .. } = self {
            entry["headers"] = json!({"Authorization": format!("Bearer {token}")});
        }
        entry
    }

    /// Writes [`MCP_FILE`] with mode 0600 into that directory, in one step.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_to(self, dir: &Path) -> io::Result<PathBuf> {
        let path = dir.join(MCP_FILE);
        let text = format!("{:#}\n", self.to_json());
        if !holds(&path, text.as_bytes()) {
            replace(&path, text.as_bytes())?;
        }
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn server(entry: McpEntry<'_>) -> Value {
        entry.to_json()["mcpServers"]["ccmux"].clone()
    }

    #[test]
    fn the_entry_is_always_loaded_and_says_where_and_what() {
        let http = server(McpEntry::http(9876, Some("t0")));
        assert_eq!((&http["type"], &http["url"]), (&json!("http"), &json!("http://127.0.0.1:9876/mcp")));
        assert_eq!(http["headers"]["Authorization"], "Bearer t0");
        let sse = server(McpEntry::sse(9876, None));
        assert_eq!((&sse["type"], &sse["url"]), (&json!("sse"), &json!("http://127.0.0.1:9876/sse")));
        assert!(sse.get("headers").is_none());
        let bridge = server(McpEntry::Bridge { client: Path::new("/b/ccmux"), runtime_dir: Path::new("/r") });
        assert_eq!((&bridge["command"], &bridge["args"]), (&json!("/b/ccmux"), &json!(["mcp"])));
        assert_eq!(bridge["env"]["CCMUX_RUNTIME_DIR"], "/r");
        for entry in [http, sse, bridge] {
            assert_eq!(entry["alwaysLoad"], true);
        }
    }

    #[test]
    fn the_file_holds_a_token_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let entry = McpEntry::http(1, Some("t0"));
        let path = entry.write_to(dir.path()).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let read: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        assert_eq!(read, entry.to_json());
    }
}
