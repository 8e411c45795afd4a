//! `[tcp]`: where older senders reach the daemon.
//!
//! ```toml
//! [tcp]
//! listen = "127.0.0.1:8080"
//! ```
//!
//! It opens nothing: whoever listens reads the token's file.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{SettingsError, expand};
use crate::plain_file::PlainFile;

/// Its first line counts.
const MAX_TOKEN_BYTES: u64 = 8 * 1024;

/// `[tcp]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpSettings {
    /// An address with a port; empty: none.
    pub listen: String,
    /// The file that holds the token; empty: none is wanted.
    pub token_file: String,
}

/// Why the token can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Others read it.
    #[error("{path} is open to other users (chmod 600)")]
    Open {
        /// Which.
        path: String,
    },
    /// Nothing, or too little, in it.
    #[error("{path}: the first line must be a token of at least 16 characters")]
    Short {
        /// Which.
        path: String,
    },
}

impl TcpSettings {
    /// Where to listen.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listen.parse().ok()
    }

    /// Checks what types can't say.
    ///
    /// # Errors
    /// If the address can't be used, or others could reach it without a token.
    pub fn check(&self) -> Result<(), SettingsError> {
        let bad = |key: &str, why: &str| Err(SettingsError::Value { key: key.into(), why: why.into() });
        match self.address() {
            None if self.listen.is_empty() => Ok(()),
            None => bad("tcp.listen", "give an address and a port, e.g. 127.0.0.1:8080"),
            Some(address) if !address.ip().is_loopback() && self.token_file.is_empty() => bad(
                "tcp.token_file",
                "tcp.listen is not loopback: name a file whose first line is a secret that senders must know",
            ),
            Some(_) => Ok(()),
        }
    }

    /// The token where anybody listens; without that its file is not looked at.
    ///
    /// # Errors
    /// As [`TcpSettings::token`].
    pub fn token_to_listen(&self, home: &Path) -> Result<Option<String>, TokenError> {
        if self.address().is_some() { self.token(home) } else { Ok(None) }
    }

    /// The token, read anew.
    ///
    /// # Errors
    /// If its file can't be read, is open to others, or holds none.
    pub fn token(&self, home: &Path) -> Result<Option<String>, TokenError> {
        if self.token_file.is_empty() {
            return Ok(None);
        }
        let file = expand(&self.token_file, home);
        let path = file.display().to_string();
        let failed = |source| TokenError::Io { path: path.clone(), source };
        let file = PlainFile::open(&file).map_err(failed)?;
        if file.mode() & 0o077 != 0 {
            return Err(TokenError::Open { path });
        }
        let text = file.text(MAX_TOKEN_BYTES).map_err(failed)?;
        let token = text.lines().next().unwrap_or_default().trim();
        if token.len() < 16 { Err(TokenError::Short { path }) } else { Ok(Some(token.to_owned())) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn settings(listen: &str, token_file: &str) -> TcpSettings {
        TcpSettings { listen: listen.into(), token_file: token_file.into() }
    }

    #[test]
    fn others_are_let_in_with_a_token_only() {
        for listen in ["", "127.0.0.1:8080", "[::1]:8080"] {
            settings(listen, "").check().unwrap();
        }
        for listen in ["0.0.0.0:8080", "[::]:8080", "192.168.1.2:8080"] {
            let error = settings(listen, "").check().unwrap_err().to_string();
            assert!(error.contains("tcp.token_file"), "{error}");
            settings(listen, "~/token").check().unwrap();
        }
        for listen in ["8080", "localhost", "127.0.0.1"] {
            assert!(settings(listen, "").check().unwrap_err().to_string().contains("tcp.listen"), "{listen}");
        }
    }

    #[test]
    fn a_token_is_long_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let token = || settings("0.0.0.0:1", "~/token").token(dir.path());
        assert!(matches!(token(), Err(TokenError::Io { .. })));
        let write = |text: &str, mode| {
            fs::write(dir.path().join("token"), text).unwrap();
            fs::set_permissions(dir.path().join("token"), fs::Permissions::from_mode(mode)).unwrap();
        };
        write("0123456789abcdef\nrest", 0o640);
        assert!(matches!(token(), Err(TokenError::Open { .. })));
        write("short\n0123456789abcdef", 0o600);
        assert!(matches!(token(), Err(TokenError::Short { .. })));
        write("0123456789abcdef \n", 0o600);
        assert_eq!(token().unwrap().as_deref(), Some("0123456789abcdef"));
        fs::remove_file(dir.path().join("token")).unwrap();
        let mode = nix::sys::stat::Mode::from_bits_truncate(0o600);
        nix::unistd::mkfifo(&dir.path().join("token"), mode).unwrap();
        assert!(token().unwrap_err().to_string().ends_with("it is a FIFO: name a file"));
    }
}
