//! Asks a tmux server whose socket file is gone to recreate it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Tmux;
use super::client::Reply;
use crate::agent::tmux_server::TmuxServer;
use crate::terminal::TerminalError;

/// It is asked that often at the most.
const ASKED_EVERY: Duration = Duration::from_secs(5);
/// The socket is there within moments.
const TRIES: u32 = 5;
const TRY_PAUSE: Duration = Duration::from_millis(50);

impl Tmux {
    /// Remembers whose answer came.
    pub(super) fn know_pid(&self, pid: i32) {
        if self.known_server().is_none_or(|known| known.pid != pid || !known.lives())
            && let Some(server) = TmuxServer::of(pid)
        {
            self.know(server);
        }
    }

    pub(super) fn know(&self, server: TmuxServer) {
        if let Ok(mut known) = self.server.lock() {
            *known = Some(server);
        }
    }

    pub(super) fn known_server(&self) -> Option<TmuxServer> {
        self.server.lock().ok().and_then(|known| known.clone())
    }

    /// What a human can do if the server lives and can't be reached.
    pub(super) fn remedy(&self) -> Option<String> {
        if !self.unanswered.load(Ordering::Relaxed) {
            return None;
        }
        self.known_server().filter(TmuxServer::lives).map(|server| server.remedy())
    }

    /// Lists our pane; if no server answers and the one that answered before lives, once more after it recreated its socket.
    pub(super) async fn list_or_renew(&self) -> Result<Reply, TerminalError> {
        let what = "list panes";
        let mut reply = self.client.run(what, &self.list_pane()).await?;
        if reply.no_server() && self.asks_to_renew() {
            for _ in 0..TRIES {
                sleep(TRY_PAUSE).await;
                reply = self.client.run(what, &self.list_pane()).await?;
                if !reply.no_server() {
                    break;
                }
            }
        }
        self.unanswered.store(reply.no_server(), Ordering::Relaxed);
        Ok(reply)
    }

    fn asks_to_renew(&self) -> bool {
        let Some(server) = self.known_server() else { return false };
        let Ok(mut asked) = self.renewed.lock() else { return false };
        if asked.is_some_and(|at| at.elapsed() < ASKED_EVERY) || !server.renew_socket() {
            return false;
        }
        *asked = Some(Instant::now());
        tracing::warn!(
            event = "tmux.socket_renewed",
            server = server.pid,
            "nobody answered on tmux's socket"
        );
        true
    }
}
