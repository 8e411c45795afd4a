//! The port of the HTTP server: bound before the agent starts, the same one after a restart.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::agent::record::{kept_token, read_bounded, replace};

/// The token's file, in the state directory.
const TOKEN_FILE: &str = "mcp.token";
/// The port's file, in the state directory: only where the port was not chosen by the user.
const PORT_FILE: &str = "mcp.port";

/// Where the server is, and what one must say to be let in. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Door {
    wanted: u16,
    port_file: PathBuf,
    token: Option<Token>,
    port: watch::Sender<Option<u16>>,
}

/// The bearer token, and the file that it can be read from.
#[derive(Clone)]
pub struct Token {
    /// What is to be said.
    pub value: Arc<str>,
    /// Where it stands.
    pub file: Arc<Path>,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token({})", self.file.display())
    }
}

impl Door {
    /// The door of that state directory; closed until [`Door::bind`]. Port 0: the port of the last time, or any.
    ///
    /// # Errors
    /// If the token can't be kept.
    pub fn new(state_dir: &Path, port: u16, with_token: bool) -> io::Result<Self> {
        let token = match with_token {
            true => Some(Token {
                value: kept_token(state_dir, TOKEN_FILE)?.into(),
                file: state_dir.join(TOKEN_FILE).into(),
            }),
            false => None,
        };
        Ok(Self { wanted: port, port_file: state_dir.join(PORT_FILE), token, port: watch::Sender::new(None) })
    }

    /// Binds the port.
    ///
    /// # Errors
    /// If it is taken; if none was asked for, only if the system has none.
    pub async fn bind(&self) -> io::Result<TcpListener> {
        let listener = match self.wanted {
            0 => self.bind_any().await?,
            port => TcpListener::bind(loopback(port)).await?,
        };
        let port = listener.local_addr()?.port();
        self.port.send_replace(Some(port));
        Ok(listener)
    }

    async fn bind_any(&self) -> io::Result<TcpListener> {
        if let Some(port) = self.kept_port()
            && let Ok(listener) = TcpListener::bind(loopback(port)).await
        {
            return Ok(listener);
        }
        let listener = TcpListener::bind(loopback(0)).await?;
        let port = listener.local_addr()?.port().to_string();
        // Without it the next daemon has another port, no more.
        if let Err(error) = replace(&self.port_file, port.as_bytes()) {
            tracing::warn!(event = "mcp.port_not_kept", %error);
        }
        Ok(listener)
    }

    fn kept_port(&self) -> Option<u16> {
        let bytes = read_bounded(&self.port_file).ok()?;
        std::str::from_utf8(&bytes).ok()?.trim().parse().ok().filter(|port| *port != 0)
    }

    /// The server ended: nothing listens any more.
    pub fn close(&self) {
        self.port.send_replace(None);
    }

    /// The port while it is bound.
    pub fn port(&self) -> Option<u16> {
        *self.port.borrow()
    }

    /// The port that clients should try: the bound one, or the one that is tried again and again.
    pub fn address(&self) -> Option<u16> {
        self.port().or(Some(self.wanted).filter(|port| *port != 0)).or_else(|| self.kept_port())
    }

    /// What must be said to be let in; nothing with `mcp.auth = "none"`.
    pub fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }
}

fn loopback(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
}
