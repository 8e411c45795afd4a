//! Who may come in: the checks in front of every route but `/healthz`.
//!
//! The port is open to every process of the machine and, through a browser, to every web page. So each request must
//! pass all of [`CHECKS`], in their order:
//!
//! | check | whom it keeps out | answer |
//! |---|---|---|
//! | `host` | a page whose name was made to point to 127.0.0.1 (DNS rebinding): it asks for its own name | 403 |
//! | `authority` | the same in a request line that names another host than the header | 403 |
//! | `origin` | a page that is not local, a sandboxed one (`null`) | 403 |
//! | `site` | what such a page loads without an Origin: images, scripts | 403 |
//! | `token` | everybody who can't read this user's files: other users' processes | 401 |
//! | `type` | a form, or a request that a page may send unasked: it can't be of JSON | 415 |
//! | `length` | a body that nobody needs | 413 |
//!
//! A check is a row of that list, and its tests take each away in turn: then what it keeps out must come in. No answer
//! has a CORS header, so a preflight request allows nothing.
//!
//! [`Guarded`] is the only thing that the server serves, and can only be made with a guard: a new route has no way
//! around it. Nothing here knows what a route does.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{
    AUTHORIZATION, AsHeaderName, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderMap, ORIGIN,
    WWW_AUTHENTICATE,
};
use axum::http::{HeaderValue, Method, Response, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::get;
use http_body_util::Limited;
use subtle::ConstantTimeEq;
use tokio::time::timeout;
use tokio_stream::StreamExt;

use super::connections::Connection;
use super::door::Token;
use crate::outlet::MESSAGE_BYTES;

/// The route that everybody may ask.
pub const HEALTH: &str = "/healthz";

/// The largest body of a request: the largest message, each byte of which JSON may write as six (`\u0000`), and what is
/// said around it.
pub(super) const BODY_BYTES: usize = 8 * MESSAGE_BYTES;

/// Names of this machine's loopback, as they stand in Host and Origin.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// Of a body that is too large so much is read and thrown away, for so long.
const DRAIN_BYTES: usize = 8 * BODY_BYTES;
const DRAIN_FOR: Duration = Duration::from_secs(5);

/// A refusal is logged at most that often; what comes between is counted.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// What requests are checked against.
#[derive(Debug, Clone)]
pub struct Guard {
    /// Our port.
    pub port: u16,
    /// What must be said; nothing with `mcp.auth = "none"`.
    pub token: Option<Token>,
}

/// What the checks look at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a> {
    pub method: &'a Method,
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
}

/// One of the checks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Check {
    /// Its name in the log.
    pub name: &'static str,
    /// Whether the request passes.
    passes: fn(&Guard, Head<'_>) -> bool,
    refused: fn(&Guard) -> Refused,
}

/// All of them, in order: who asks for a wrong host or from a page is told nothing about the token.
pub(super) const CHECKS: [Check; 7] = [
    Check { name: "host", passes: names_us, refused: |guard| Refused::Host { port: guard.port } },
    Check { name: "authority", passes: line_names_us, refused: |guard| Refused::Host { port: guard.port } },
    Check { name: "origin", passes: is_from_here, refused: |_| Refused::Page },
    Check { name: "site", passes: is_same_site, refused: |_| Refused::Page },
    Check { name: "token", passes: has_token, refused: Guard::no_token },
    Check { name: "type", passes: is_json, refused: |_| Refused::Type },
    Check { name: "length", passes: is_short, refused: |_| Refused::Length },
];

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It asks for another host, or for several, or for none.
    #[error("the Host header must be 127.0.0.1:{port}, localhost:{port} or [::1]:{port}")]
    Host {
        /// Our port.
        port: u16,
    },
    /// It comes from a web page that is not local.
    #[error("requests from web pages are refused: the Origin header must be absent or a loopback address")]
    Page,
    /// No token, or a wrong one.
    #[error("send `Authorization: Bearer TOKEN`; the token is in {file}")]
    Token {
        /// Where it stands.
        file: String,
    },
    /// What it brings is not called JSON.
    #[error("send `Content-Type: application/json`")]
    Type,
    /// It brings too much.
    #[error(
        "the body is too large: the limit is {} MiB, and {} MiB for a message in it; send less or in parts",
        BODY_BYTES >> 20,
        MESSAGE_BYTES >> 20
    )]
    Length,
    /// Too many connections are open.
    #[error("too many connections: close some, or send further requests on those that are open")]
    Crowded,
}

/// Routes behind a guard; made by [`Guard::before`] only.
#[derive(Debug, Clone)]
pub struct Guarded(Router);

impl Guarded {
    pub(super) fn into_router(self) -> Router {
        self.0
    }
}

impl Guard {
    /// Stands before all these routes, and before those that don't exist.
    pub fn before(self, routes: Router) -> Guarded {
        let post = Arc::new(Post { guard: self, told: Mutex::default() });
        let guarded = routes.layer(from_fn_with_state(post, pass));
        Guarded(Router::new().route(HEALTH, get(async || "ok\n")).fallback_service(guarded))
    }

    /// The first of these checks that the request does not pass.
    pub(super) fn objection<'a>(&self, checks: &'a [Check], head: Head<'_>) -> Option<&'a Check> {
        checks.iter().find(|check| !(check.passes)(self, head))
    }

    fn is_us(&self, authority: &str) -> bool {
        let Some((host, port)) = authority.rsplit_once(':') else { return false };
        LOOPBACK.iter().any(|name| name.eq_ignore_ascii_case(host)) && port == self.port.to_string()
    }

    fn no_token(&self) -> Refused {
        let file = self.token.as_ref().map(|token| token.file.display().to_string());
        Refused::Token { file: file.unwrap_or_default() }
    }
}

/// A guard on duty.
#[derive(Debug)]
struct Post {
    guard: Guard,
    told: Mutex<Told>,
}

/// What the log knows of refusals.
#[derive(Debug, Default)]
struct Told {
    last: Option<Instant>,
    /// So many came since.
    more: u64,
}

/// The layer.
async fn pass(
    State(post): State<Arc<Post>>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let head = Head { method: request.method(), uri: request.uri(), headers: request.headers() };
    if let Some(check) = post.guard.objection(&CHECKS, head) {
        post.tell(check.name, request.uri().path());
        let refused = (check.refused)(&post.guard);
        if refused == Refused::Length && connection.admit() {
            let _ = timeout(DRAIN_FOR, drain(request)).await;
        }
        return refused.response();
    }
    if !connection.admit() {
        post.tell("crowded", request.uri().path());
        return Refused::Crowded.response();
    }
    // A body that doesn't tell its length is cut where it grows too long.
    next.run(request.map(|body| Body::new(Limited::new(body, BODY_BYTES)))).await
}

/// A client that is hung up on while it sends doesn't get to read why. Not all of it: it may never end.
async fn drain(request: Request) {
    if request.headers().contains_key(EXPECT) {
        return;
    }
    let mut body = Body::new(Limited::new(request.into_body(), DRAIN_BYTES)).into_data_stream();
    while let Some(Ok(_)) = body.next().await {}
}

impl Post {
    /// Anybody can make us refuse: it must not fill the log.
    fn tell(&self, why: &'static str, path: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.last.is_some_and(|last| last.elapsed() < TELL_EVERY) {
            told.more += 1;
            return;
        }
        let path: String = path.chars().take(100).collect();
        tracing::warn!(event = "mcp.refused", path, why, refused_before = told.more);
        *told = Told { last: Some(Instant::now()), more: 0 };
    }
}

impl Refused {
    fn status(&self) -> StatusCode {
        match self {
            Self::Host { .. } | Self::Page => StatusCode::FORBIDDEN,
            Self::Token { .. } => StatusCode::UNAUTHORIZED,
            Self::Type => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Length => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Crowded => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn response(&self) -> Response<Body> {
        let mut response = Response::new(Body::from(format!("{self}\n")));
        *response.status_mut() = self.status();
        // What follows on that connection would be the body that nobody reads.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        if matches!(self, Self::Token { .. }) {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// The header's value, if it is there once and is text.
fn only(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn names_us(guard: &Guard, head: Head<'_>) -> bool {
    only(head.headers, HOST).is_some_and(|host| guard.is_us(host))
}

fn line_names_us(guard: &Guard, head: Head<'_>) -> bool {
    head.uri.authority().is_none_or(|authority| guard.is_us(authority.as_str()))
}

fn is_from_here(_: &Guard, head: Head<'_>) -> bool {
    !head.headers.contains_key(ORIGIN) || only(head.headers, ORIGIN).is_some_and(is_local_origin)
}

/// `http://localhost:5173` and the like; `null` is what a sandboxed page or a file sends.
fn is_local_origin(origin: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        _ => authority,
    };
    ["http", "https"].contains(&scheme) && LOOPBACK.iter().any(|name| name.eq_ignore_ascii_case(host))
}

/// What a page loads by itself has no Origin, but browsers say where it comes from.
fn is_same_site(_: &Guard, head: Head<'_>) -> bool {
    head.headers.get_all("sec-fetch-site").iter().all(|site| site != "cross-site")
}

fn has_token(guard: &Guard, head: Head<'_>) -> bool {
    let Some(token) = &guard.token else { return true };
    let Some((scheme, said)) = only(head.headers, AUTHORIZATION).and_then(|value| value.split_once(' '))
    else {
        return false;
    };
    scheme.eq_ignore_ascii_case("bearer") && bool::from(said.trim().as_bytes().ct_eq(token.value.as_bytes()))
}

fn is_json(_: &Guard, head: Head<'_>) -> bool {
    let essence = |value: &str| value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    head.method != Method::POST
        || only(head.headers, CONTENT_TYPE).is_some_and(|value| essence(value) == "application/json")
}

fn is_short(_: &Guard, head: Head<'_>) -> bool {
    let length = head.headers.get(CONTENT_LENGTH).map(|value| value.to_str().map(str::parse::<usize>));
    // What is no number the HTTP library has refused before.
    !matches!(length, Some(Ok(Ok(bytes))) if bytes > BODY_BYTES)
}

#[cfg(test)]
mod tests;
