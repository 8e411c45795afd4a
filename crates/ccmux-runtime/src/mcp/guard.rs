//! Who may come in: one layer over all routes but `/healthz`.
//!
//! The port is open to every process of the machine and, through a browser, to every web page. So each request must
//! name us as its host (a page whose name was made to point to 127.0.0.1 doesn't), must not come from a page that is
//! not local, and must bring the token, which only this user can read.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, AsHeaderName, HOST, HeaderMap, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::middleware::Next;
use subtle::ConstantTimeEq;

use super::door::Token;

/// The route that everybody may ask.
pub const HEALTH: &str = "/healthz";

/// Names of this machine's loopback, as they stand in Host and Origin.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// What requests are checked against.
#[derive(Debug, Clone)]
pub struct Guard {
    /// Our port.
    pub port: u16,
    /// What must be said; nothing with `mcp.auth = "none"`.
    pub token: Option<Token>,
}

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
    Origin,
    /// No token, or a wrong one.
    #[error("send `Authorization: Bearer TOKEN`; the token is in {file}")]
    Token {
        /// Where it stands.
        file: String,
    },
}

impl Guard {
    /// Checks a request.
    ///
    /// # Errors
    /// What is wrong with it first.
    pub fn check(&self, authority: Option<&str>, headers: &HeaderMap) -> Result<(), Refused> {
        let host = only(headers, HOST).ok_or(Refused::Host { port: self.port })?;
        if !self.is_us(host) || authority.is_some_and(|authority| !self.is_us(authority)) {
            return Err(Refused::Host { port: self.port });
        }
        if headers.contains_key(ORIGIN) && !only(headers, ORIGIN).is_some_and(is_local_origin) {
            return Err(Refused::Origin);
        }
        match &self.token {
            Some(token) if !has_token(headers, token) => {
                Err(Refused::Token { file: token.file.display().to_string() })
            }
            _ => Ok(()),
        }
    }

    fn is_us(&self, authority: &str) -> bool {
        let Some((host, port)) = authority.rsplit_once(':') else { return false };
        LOOPBACK.iter().any(|name| name.eq_ignore_ascii_case(host)) && port == self.port.to_string()
    }
}

/// The layer.
pub async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response<Body> {
    if request.uri().path() == HEALTH {
        return next.run(request).await;
    }
    let authority = request.uri().authority().map(|authority| authority.as_str());
    match guard.check(authority, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => {
            tracing::warn!(event = "mcp.refused", path = request.uri().path(), why = refusal(&refused));
            refused.response()
        }
    }
}

fn refusal(refused: &Refused) -> &'static str {
    match refused {
        Refused::Host { .. } => "host",
        Refused::Origin => "origin",
        Refused::Token { .. } => "token",
    }
}

impl Refused {
    fn response(&self) -> Response<Body> {
        let mut response = Response::new(Body::from(format!("{self}\n")));
        *response.status_mut() = StatusCode::FORBIDDEN;
        if matches!(self, Self::Token { .. }) {
            *response.status_mut() = StatusCode::UNAUTHORIZED;
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

/// `http://localhost:5173` and the like; `null` is what a sandboxed page or a file sends.
fn is_local_origin(origin: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        _ => authority,
    };
    ["http", "https"].contains(&scheme) && LOOPBACK.iter().any(|name| name.eq_ignore_ascii_case(host))
}

fn has_token(headers: &HeaderMap, token: &Token) -> bool {
    let Some((scheme, said)) = only(headers, AUTHORIZATION).and_then(|value| value.split_once(' ')) else {
        return false;
    };
    scheme.eq_ignore_ascii_case("bearer") && bool::from(said.trim().as_bytes().ct_eq(token.value.as_bytes()))
}
