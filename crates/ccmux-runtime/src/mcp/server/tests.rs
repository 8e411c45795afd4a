//! The port: taken, free again, lost while it is served.

use std::net::Shutdown;
use std::os::fd::AsFd;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::outlet::{OutletSettings, Outlets};
use crate::turns::{Turns, TurnsSettings};

const LIMIT: Duration = Duration::from_secs(20);

/// A server that was given what the first try to bind its port gave.
struct Tried {
    _dir: tempfile::TempDir,
    door: Door,
    news: mpsc::Receiver<News>,
    shutdown: CancellationToken,
    server: JoinHandle<()>,
}

fn start(dir: tempfile::TempDir, door: Door, bound: io::Result<TcpListener>) -> Tried {
    let ms = Duration::from_millis;
    let shutdown = CancellationToken::new();
    let outlets = OutletSettings { wait: ms(100), linger: ms(100), finish: ms(100) };
    let outlets =
        Outlets::new(dir.path().to_owned(), outlets, watch::channel(Vec::new()).1, shutdown.clone());
    let settings = TurnsSettings { projects_dir: dir.path().join("projects"), subscriber_bytes: 1 << 20 };
    let turns = Turns::open(dir.path(), settings).unwrap().turns;
    let (alerts, news) = Alerts::new();
    let server = McpServer {
        door: door.clone(),
        bound,
        tools: Tools { outlets, tells_news: false },
        alerts,
        broadcast: turns.broadcast().clone(),
        metrics: Page::default(),
        again: ms(50),
        shutdown: shutdown.clone(),
    };
    Tried { _dir: dir, door, news, shutdown, server: tokio::spawn(server.run()) }
}

impl Tried {
    async fn next(&mut self) -> (AlertKind, String) {
        let news = timeout(LIMIT, self.news.recv()).await.expect("an alert").unwrap();
        (news.kind, news.message)
    }

    async fn is_served(&self, port: u16) -> bool {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut said = String::new();
        timeout(LIMIT, stream.read_to_string(&mut said)).await.unwrap().unwrap();
        said.starts_with("HTTP/1.1 200")
    }

    async fn stop(self) {
        self.shutdown.cancel();
        timeout(LIMIT, self.server).await.unwrap().unwrap();
        assert_eq!(self.door.port(), None);
    }
}

/// Field fault 32.
#[tokio::test]
async fn a_taken_port_is_told_once_tried_again_and_served_when_it_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = other.local_addr().unwrap().port();
    let door = Door::new(dir.path(), port, true).unwrap();
    let bound = door.bind().await;
    let mut tried = start(dir, door, bound);
    let (kind, message) = tried.next().await;
    assert_eq!(kind, AlertKind::McpDown);
    assert!(message.contains(&port.to_string()) && message.contains("mcp.port"), "{message}");
    // Several tries later nothing more was told.
    assert!(timeout(Duration::from_millis(300), tried.news.recv()).await.is_err());
    assert_eq!(tried.door.port(), None);
    drop(other);
    let (kind, message) = tried.next().await;
    assert_eq!(kind, AlertKind::McpUp);
    assert!(message.contains(&port.to_string()), "{message}");
    assert_eq!(tried.door.port(), Some(port));
    assert!(tried.is_served(port).await);
    tried.stop().await;
}

#[tokio::test]
async fn a_listener_that_fails_later_is_told_and_bound_again() {
    let dir = tempfile::tempdir().unwrap();
    let door = Door::new(dir.path(), 0, true).unwrap();
    let listener = door.bind().await.unwrap();
    let port = door.port().unwrap();
    let socket: std::net::TcpStream = listener.as_fd().try_clone_to_owned().unwrap().into();
    let mut tried = start(dir, door, Ok(listener));
    assert!(tried.is_served(port).await);
    socket.shutdown(Shutdown::Both).unwrap();
    drop(socket);
    assert_eq!(tried.next().await.0, AlertKind::McpDown);
    assert_eq!(tried.next().await.0, AlertKind::McpUp);
    let port = tried.door.port().unwrap();
    assert!(tried.is_served(port).await);
    tried.stop().await;
}
