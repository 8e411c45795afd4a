//! One request, from its head to its answer: who may write, what was written, and what the daemon says to it.
//!
//! | answer | when |
//! |---|---|
//! | 202 `{"id":...}` | the daemon has the message |
//! | 200 `{"id":...,"duplicate":true}` | it had it already |
//! | 400, 413, 415, 422 | it is no message, too large, of a form not read here, refused by the daemon |
//! | 401, 403, 404, 405, 408 | token, Host or Origin, path, method, too slow |
//! | 503 with `Retry-After` | the daemon is away, or takes no more for now: send it again |

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ccmux_wire::channel::ChannelName;
use ccmux_wire::control::SendRequest;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use super::form::{self, Form};
use super::secret::Secret;
use crate::adapter::{Posted, is_refusal, note, post};
use crate::failure::Failure;

/// More than `limits.message_bytes` of the daemon, because JSON may need several bytes for one.
const MOST_BYTES: usize = 1024 * 1024;

/// For the whole body.
const BODY_LIMIT: Duration = Duration::from_secs(30);

/// When a sender may try again.
const RETRY_AFTER_S: u16 = 5;

/// Ids that senders put into a header, if the body has none.
const ID_HEADERS: [&str; 2] = ["idempotency-key", "x-github-delivery"];

/// Answers requests for one channel.
pub struct Desk {
    pub dir: PathBuf,
    pub channel: ChannelName,
    pub secret: Secret,
    pub raw: bool,
    /// Where it listens: its names are taken in a Host header.
    pub address: SocketAddr,
    /// Further names.
    pub hosts: Vec<String>,
}

/// An answer that is not good.
struct Refusal {
    status: StatusCode,
    why: String,
}

fn refuse<T>(status: StatusCode, why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { status, why: why.into() })
}

impl Desk {
    /// Never fails: what goes wrong is an answer.
    pub async fn answer(self: std::sync::Arc<Self>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        match self.accept(request).await {
            Ok(posted) if posted.duplicate => {
                respond(StatusCode::OK, &json!({"id": posted.receipt.id, "duplicate": true}))
            }
            Ok(posted) => respond(StatusCode::ACCEPTED, &json!({"id": posted.receipt.id})),
            Err(refusal) => respond(refusal.status, &json!({"error": refusal.why})),
        }
    }

    async fn accept(self: std::sync::Arc<Self>, request: Request<Incoming>) -> Result<Posted, Refusal> {
        let (head, body) = request.into_parts();
        self.check_address(&head.headers)?;
        if head.uri.path() != "/" {
            return refuse(StatusCode::NOT_FOUND, "messages go to /");
        }
        if head.method != Method::POST {
            return refuse(StatusCode::METHOD_NOT_ALLOWED, "messages come by POST");
        }
        self.check_bearer(&head.headers)?;
        let body = read_whole(body).await?;
        self.check_signature(&head.headers, &body)?;
        let message = self.message(&head.headers, &body)?;
        let posting = tokio::task::spawn_blocking(move || post(&self.dir, message)).await;
        match posting {
            Ok(Ok(posted)) => Ok(posted),
            Ok(Err(failure)) => Err(of_failure(&failure)),
            Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }

    /// A page in a browser may reach this port under a name of its own, or from elsewhere: neither is a sender.
    fn check_address(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if headers.contains_key(header::ORIGIN) {
            return refuse(StatusCode::FORBIDDEN, "requests of web pages are not taken");
        }
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let name = without_port(host);
        let known = match name.trim_matches(['[', ']']).parse::<std::net::IpAddr>() {
            Ok(ip) => ip == self.address.ip() || (ip.is_loopback() && self.address.ip().is_loopback()),
            Err(_) => name.eq_ignore_ascii_case("localhost") && self.address.ip().is_loopback(),
        };
        if known || self.hosts.iter().any(|other| other.eq_ignore_ascii_case(name)) {
            return Ok(());
        }
        refuse(StatusCode::FORBIDDEN, "this server does not know itself by that Host: see --host")
    }

    /// A sender without a bearer token may sign instead; one with a wrong token may not.
    fn check_bearer(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        match headers.get(header::AUTHORIZATION) {
            Some(given) if self.secret.authorizes(given.as_bytes()) => Ok(()),
            None if headers.contains_key(SIGNATURE) => Ok(()),
            _ => refuse(StatusCode::UNAUTHORIZED, "Authorization: Bearer TOKEN is missing or wrong"),
        }
    }

    fn check_signature(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), Refusal> {
        match headers.get(SIGNATURE) {
            Some(given) if !self.secret.signed(given.as_bytes(), body) => {
                refuse(StatusCode::UNAUTHORIZED, "X-Hub-Signature-256 does not fit the body")
            }
            _ => Ok(()),
        }
    }

    fn message(&self, headers: &HeaderMap, body: &[u8]) -> Result<SendRequest, Refusal> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let form = Form { content_type: text("content-type"), raw: self.raw };
        let message = form::read(body, form)
            .map_err(|unreadable| Refusal { status: unreadable.status, why: unreadable.why })?;
        let id = match message.id {
            None => id_of_headers(headers)?,
            id => id,
        };
        Ok(SendRequest { channel: Some(self.channel.to_string()), id, ..message })
    }
}

const SIGNATURE: &str = "x-hub-signature-256";

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

async fn read_whole(body: Incoming) -> Result<Bytes, Refusal> {
    if body.size_hint().lower() > MOST_BYTES as u64 {
        return too_large();
    }
    let whole = Limited::new(body, MOST_BYTES).collect();
    match tokio::time::timeout(BODY_LIMIT, whole).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => too_large(),
        Ok(Err(error)) => refuse(StatusCode::BAD_REQUEST, format!("the body did not come whole: {error}")),
        Err(_elapsed) => refuse(StatusCode::REQUEST_TIMEOUT, "the body took too long"),
    }
}

fn too_large<T>() -> Result<T, Refusal> {
    refuse(StatusCode::PAYLOAD_TOO_LARGE, format!("at most {MOST_BYTES} bytes are taken"))
}

/// An id that can't be read is told: its sender relies on it, and would come twice without.
fn id_of_headers(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some((name, id)) = ID_HEADERS.iter().find_map(|name| Some((name, headers.get(*name)?))) else {
        return Ok(None);
    };
    match std::str::from_utf8(id.as_bytes()) {
        Ok(id) => Ok(Some(id.to_owned())),
        Err(_) => refuse(StatusCode::BAD_REQUEST, format!("{name} is no UTF-8")),
    }
}

/// Only what the daemon refused for good is the sender's fault.
fn of_failure(failure: &Failure) -> Refusal {
    let status =
        if is_refusal(failure) { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::SERVICE_UNAVAILABLE };
    note("webhook", &failure.to_string());
    Refusal { status, why: failure.to_string() }
}

fn respond(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{body}\n"))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    match status {
        StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
        }
        StatusCode::UNAUTHORIZED => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        _ => {}
    }
    response
}
