//! The server's task: serves while the port is bound, tries again while it is taken.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::{get, post};
use ccmux_policy::AlertKind;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::connections;
use super::door::Door;
use super::events::{self, Events};
use super::guard::{BODY_BYTES, Guard, Guarded};
use super::sse::{self, SseSessions};
use super::tools::Tools;
use crate::metrics::{Page, page};
use crate::turns::broadcast::Broadcast;
use crate::workers::herald::{Alerts, News};

/// A port that is taken is tried again that often.
pub const AGAIN: Duration = Duration::from_secs(30);

/// The task.
#[derive(Debug)]
pub struct McpServer {
    /// The port.
    pub door: Door,
    /// What the first try to bind it gave, from before the agent was started.
    pub bound: io::Result<TcpListener>,
    /// What answers.
    pub tools: Tools,
    /// Whom to tell when the port is taken.
    pub alerts: Alerts,
    /// What `/events` gives.
    pub broadcast: Broadcast,
    /// What `/metrics` gives.
    pub metrics: Page,
    /// After how long a port that is taken is tried again: [`AGAIN`].
    pub again: Duration,
    /// Ends it.
    pub shutdown: CancellationToken,
}

impl McpServer {
    /// Runs until shutdown.
    pub async fn run(mut self) {
        let mut bound = std::mem::replace(&mut self.bound, Err(io::ErrorKind::Other.into()));
        let mut told = false;
        while !self.shutdown.is_cancelled() {
            let over = match bound {
                Ok(listener) => {
                    self.tell_end(&mut told);
                    self.serve(listener).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = over {
                self.tell(&error, &mut told);
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                () = sleep(self.again) => {}
            }
            bound = self.door.bind().await;
        }
    }

    /// Once, until the port is bound again.
    fn tell(&self, error: &io::Error, told: &mut bool) {
        if std::mem::replace(told, true) {
            tracing::debug!(event = "mcp.port_taken", %error);
            return;
        }
        let port = self.door.address().unwrap_or_default();
        let what = format!(
            "nobody is served over HTTP: port {port} can't be bound ({error}); tried again every {} s; see mcp.port \
             (CCMUX_MCP_PORT)",
            self.again.as_secs()
        );
        self.alerts.raise(News::new(AlertKind::McpDown, what));
    }

    fn tell_end(&self, told: &mut bool) {
        if std::mem::take(told) {
            let port = self.door.port().unwrap_or_default();
            let what = format!("HTTP is served again: port {port} is bound");
            self.alerts.raise(News::new(AlertKind::McpUp, what));
        }
    }

    /// Serves until shutdown, or until the listener fails.
    async fn serve(&self, listener: TcpListener) -> io::Result<()> {
        let port = listener.local_addr()?.port();
        tracing::info!(event = "mcp.listening", port, token = self.door.token().is_some());
        let guard = Guard { port, token: self.door.token().cloned() };
        let routes = router(
            guard,
            self.tools.clone(),
            self.broadcast.clone(),
            self.metrics.clone(),
            self.shutdown.clone(),
        );
        let served = connections::serve(listener, routes, &self.shutdown).await;
        if let Err(error) = &served {
            tracing::error!(event = "mcp.failed", %error);
        }
        self.door.close();
        served
    }
}

/// All routes behind the guard. `shutdown` ends the streams, which would keep their connections open.
pub(super) fn router(
    guard: Guard,
    tools: Tools,
    broadcast: Broadcast,
    metrics: Page,
    shutdown: CancellationToken,
) -> Guarded {
    let metrics = async move || ([(CONTENT_TYPE, page::CONTENT_TYPE)], metrics.text());
    let sessions = SseSessions::new(tools.clone(), shutdown.clone());
    let routes = Router::new()
        .route("/sse", get(sse::open))
        .route("/messages", post(sse::message))
        .with_state(sessions)
        .route("/events", get(events::open).with_state(Events { broadcast, shutdown }))
        .route("/metrics", get(metrics))
        .route_service("/mcp", streamable(tools));
    guard.before(routes)
}

/// Without sessions: a client that was connected to an earlier daemon goes on as if nothing had happened, and nothing
/// is kept of one that is gone. Host and Origin are the guard's business.
fn streamable(tools: Tools) -> StreamableHttpService<Tools, NeverSessionManager> {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_sse_keep_alive(None)
        .with_sse_retry(None)
        .with_max_request_body_bytes(BODY_BYTES)
        .disable_allowed_hosts();
    StreamableHttpService::new(move || Ok(tools.clone()), Arc::default(), config)
}

#[cfg(test)]
mod tests;
