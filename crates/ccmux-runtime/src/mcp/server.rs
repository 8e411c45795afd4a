//! The server's task: serves while the port is bound, tries again while it is taken.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use ccmux_policy::AlertKind;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::door::Door;
use super::events::{self, Connection, Events};
use super::guard::{self, Guard, HEALTH};
use super::sse::{self, SseSessions};
use super::tools::Tools;
use crate::metrics::{Page, page};
use crate::turns::broadcast::Broadcast;
use crate::workers::herald::{Alerts, News};

/// The largest body of a request.
pub(super) const BODY_BYTES: usize = 2 * 1024 * 1024;

/// A port that is taken is tried again that often.
const RETRY: Duration = Duration::from_secs(30);

/// Calls that run at shutdown get this long.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

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
    /// Ends it.
    pub shutdown: CancellationToken,
}

impl McpServer {
    /// Runs until shutdown.
    pub async fn run(mut self) {
        let mut bound = std::mem::replace(&mut self.bound, Err(io::ErrorKind::Other.into()));
        let mut told = false;
        while !self.shutdown.is_cancelled() {
            match bound {
                Ok(listener) => {
                    told = false;
                    self.serve(listener).await;
                }
                Err(error) if told => tracing::debug!(event = "mcp.port_taken", %error),
                Err(error) => {
                    told = true;
                    self.tell(&error);
                }
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                () = sleep(RETRY) => {}
            }
            bound = self.door.bind().await;
        }
    }

    fn tell(&self, error: &io::Error) {
        let port = self.door.address().unwrap_or_default();
        let what = format!(
            "nobody is served over HTTP: port {port} can't be bound ({error}); tried again every {} s; see mcp.port \
             (CCMUX_MCP_PORT)",
            RETRY.as_secs()
        );
        self.alerts.raise(News::new(AlertKind::McpDown, what));
    }

    /// Serves until shutdown, or until the listener fails.
    async fn serve(&self, listener: TcpListener) {
        let Some(port) = self.door.port() else { return };
        tracing::info!(event = "mcp.listening", port, token = self.door.token().is_some());
        let guard = Guard { port, token: self.door.token().cloned() };
        let router = router(
            guard,
            self.tools.clone(),
            self.broadcast.clone(),
            self.metrics.clone(),
            self.shutdown.clone(),
        );
        let stop = self.shutdown.clone();
        let serving = axum::serve(listener, router.into_make_service_with_connect_info::<Connection>())
            .with_graceful_shutdown(async move { stop.cancelled().await });
        let late = async {
            self.shutdown.cancelled().await;
            sleep(ENDS_WITHIN).await;
        };
        tokio::select! {
            served = serving.into_future() => {
                if let Err(error) = served {
                    tracing::error!(event = "mcp.failed", %error);
                }
            }
            () = late => tracing::warn!(event = "mcp.stopped_late"),
        }
        self.door.close();
    }
}

/// All routes behind the guard. `shutdown` ends the streams, which would keep their connections open.
pub(super) fn router(
    guard: Guard,
    tools: Tools,
    broadcast: Broadcast,
    metrics: Page,
    shutdown: CancellationToken,
) -> Router {
    let metrics = async move || ([(CONTENT_TYPE, page::CONTENT_TYPE)], metrics.text());
    let sessions = SseSessions::new(tools.clone(), shutdown.clone());
    Router::new()
        .route("/sse", get(sse::open))
        .route("/messages", post(sse::message))
        .with_state(sessions)
        .route("/events", get(events::open).with_state(Events { broadcast, shutdown }))
        .route("/metrics", get(metrics))
        .route_service("/mcp", streamable(tools))
        .route(HEALTH, get(async || "ok\n"))
        .layer(from_fn_with_state(Arc::new(guard), guard::check))
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
