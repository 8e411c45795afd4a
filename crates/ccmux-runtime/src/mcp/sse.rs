//! MCP over server-sent events: `GET /sse` opens a session, `POST /messages?session_id=...` speaks in it.
//!
//! ```text
//! client ── GET /sse ──────────► event: endpoint, data: /messages?session_id=UUID
//! client ── POST /messages ────► mpsc ─► rmcp ─► mpsc ─► event: message, data: {"jsonrpc":...}
//! ```
//!
//! rmcp takes any pair of a sink and a stream as transport: here two channels. A session ends with its stream: when
//! the client goes, or when the daemon stops.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::serve_server_with_ct;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard, PollSender, WaitForCancellationFutureOwned};

use super::guard::BODY_BYTES;
use super::tools::Tools;

/// Messages that wait in one direction of one session.
const QUEUE: usize = 16;

/// Clients' HTTP libraries give a silent stream up after five minutes.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// The most sessions at once; a client of ours has one.
const MAX_SESSIONS: usize = 64;

type Inbound = mpsc::Sender<ClientJsonRpcMessage>;

/// All sessions; cheap to clone.
#[derive(Debug, Clone)]
pub struct SseSessions {
    /// What answers.
    pub tools: Tools,
    /// Ends all streams: a server does not stop as long as one is open.
    pub shutdown: CancellationToken,
    /// By session id.
    pub open: Arc<Mutex<HashMap<String, Inbound>>>,
}

impl SseSessions {
    /// No session yet.
    pub fn new(tools: Tools, shutdown: CancellationToken) -> Self {
        Self { tools: Tools { tells_news: true, ..tools }, shutdown, open: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Inbound>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> Option<SseStream> {
        let id = uuid::Uuid::new_v4().to_string();
        let (inbound, heard) = mpsc::channel(QUEUE);
        let (said, outbound) = mpsc::channel(QUEUE);
        {
            let mut open = self.lock();
            if open.len() >= MAX_SESSIONS {
                return None;
            }
            open.insert(id.clone(), inbound);
        }
        let ends = self.shutdown.child_token();
        tokio::spawn(serve(self.tools.clone(), said, heard, ends.clone()));
        let endpoint = Event::default().event("endpoint").data(format!("/messages?session_id={id}"));
        Some(SseStream {
            first: Some(endpoint),
            outbound,
            stopped: Box::pin(self.shutdown.clone().cancelled_owned()),
            _session: OpenSession { id, sessions: self.clone(), _ends: ends.drop_guard() },
        })
    }
}

async fn serve(
    tools: Tools,
    said: mpsc::Sender<ServerJsonRpcMessage>,
    heard: mpsc::Receiver<ClientJsonRpcMessage>,
    ends: CancellationToken,
) {
    let transport = (PollSender::new(said), ReceiverStream::new(heard));
    let mut changes = tools.changes();
    match serve_server_with_ct(tools, transport, ends).await {
        Ok(service) => {
            let peer = service.peer().clone();
            let telling = async move {
                while changes.next().await.is_some() && peer.notify_tool_list_changed().await.is_ok() {}
                std::future::pending::<()>().await
            };
            tokio::select! {
                _ = service.waiting() => {}
                () = telling => {}
            }
        }
        Err(error) => tracing::debug!(event = "mcp.session_failed", %error),
    }
}

/// `GET /sse`
pub async fn open(State(sessions): State<SseSessions>) -> Response {
    match sessions.begin() {
        Some(stream) => Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "too many open sessions\n").into_response(),
    }
}

/// `POST /messages?session_id=...`
pub async fn message(State(sessions): State<SseSessions>, request: Request<Body>) -> Response {
    let refused = |status: StatusCode, why: &'static str| (status, why).into_response();
    let id = session_id(request.uri().query().unwrap_or_default()).unwrap_or_default();
    let Some(session) = sessions.lock().get(id).cloned() else {
        return refused(StatusCode::NOT_FOUND, "no such session: open /sse again\n");
    };
    let Ok(body) = to_bytes(request.into_body(), BODY_BYTES).await else {
        return refused(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is cut off, or too large: the limit is 8 MiB\n",
        );
    };
    let Ok(message) = serde_json::from_slice(&body) else {
        return refused(StatusCode::BAD_REQUEST, "the body is no JSON-RPC message\n");
    };
    match session.send(message).await {
        Ok(()) => (StatusCode::ACCEPTED, "Accepted").into_response(),
        Err(_) => refused(StatusCode::NOT_FOUND, "the session has ended: open /sse again\n"),
    }
}

fn session_id(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix("session_id="))
}

/// What a client of `/sse` reads.
struct SseStream {
    first: Option<Event>,
    outbound: mpsc::Receiver<ServerJsonRpcMessage>,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
    _session: OpenSession,
}

/// Forgets the session, and ends what serves it, when its stream is dropped.
struct OpenSession {
    id: String,
    sessions: SseSessions,
    _ends: DropGuard,
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.sessions.lock().remove(&self.id);
    }
}

impl Stream for SseStream {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(endpoint) = self.first.take() {
            return Poll::Ready(Some(Ok(endpoint)));
        }
        // What is already said goes out first.
        if let Poll::Ready(message) = self.outbound.poll_recv(context) {
            return Poll::Ready(message.map(|message| Ok(event(&message))));
        }
        self.stopped.as_mut().poll(context).map(|()| None)
    }
}

fn event(message: &ServerJsonRpcMessage) -> Event {
    // Made of strings and numbers: there is nothing in it that JSON can't say.
    let json = serde_json::to_string(message).unwrap_or_default();
    Event::default().event("message").data(json)
}
