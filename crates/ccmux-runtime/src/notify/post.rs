//! An HTTP POST: to https, or to this machine; redirects are not followed, since they would carry the text, and maybe a
//! token, to somebody whom nobody named.
//!
//! ```text
//! Order ─► send ─► Answer ─► the service's own reading of it
//! ```
//!
//! It knows no service. What errors say is in words of ours: neither a URL nor what a server answered is in them, since
//! both may hold a secret.

use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use ureq::http::{HeaderMap, Uri};

use super::TRY_WITHIN;

/// As much of an answer as is read.
const MAX_ANSWER_BYTES: u64 = 16 * 1024;
/// A service that wants us to wait for longer is not waited for.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// What is sent where.
pub struct Order {
    /// To whom.
    pub url: String,
    /// What the body is.
    pub content_type: String,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
    /// What is sent.
    pub body: String,
}

impl Order {
    /// JSON, without further headers.
    pub fn json(url: String, body: &serde_json::Value) -> Self {
        Self { url, content_type: "application/json".to_owned(), headers: Vec::new(), body: body.to_string() }
    }

    /// With one more header.
    pub fn with(mut self, name: &'static str, value: Option<String>) -> Self {
        self.headers.extend(value.map(|value| (name, value)));
        self
    }
}

/// What came back.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// `Retry-After`.
    pub wait: Option<Duration>,
    /// Its beginning.
    pub body: String,
}

impl Answer {
    /// The body, where it is JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// A status of success.
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// What the status alone says.
    ///
    /// # Errors
    /// If it is none of success.
    pub fn by_status(&self) -> Result<(), PostError> {
        match self.status {
            200..300 => Ok(()),
            429 => Err(PostError::Limited { wait: self.wait }),
            503 if self.wait.is_some() => Err(PostError::Limited { wait: self.wait }),
            status => Err(PostError::Status(status)),
        }
    }
}

/// Why a POST did not bring it there.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// A file with a secret.
    #[error("can't read {path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that should hold one.
    #[error("{0} is empty: write what it should hold into it")]
    Empty(PathBuf),
    /// A variable with a secret.
    #[error("the variable {0} is not set: set it for the daemon")]
    Variable(String),
    /// The URL can't be used.
    #[error("the URL {0}")]
    Url(&'static str),
    /// Something else in the settings can't be used.
    #[error("{0}")]
    Setting(&'static str),
    /// It answered.
    #[error("it answered {0}")]
    Status(u16),
    /// It refused it in a way of its own.
    #[error("it refused it with code {code}: {remedy}")]
    Refused {
        /// Its number for that.
        code: i64,
        /// What to do.
        remedy: &'static str,
    },
    /// It has a fault that may pass.
    #[error("it has a fault of its own (code {0})")]
    Faulty(i64),
    /// It takes no more for a while.
    #[error("it takes no more for {}", spell(*wait))]
    Limited {
        /// How long, if that is known.
        wait: Option<Duration>,
    },
    /// It answered something else.
    #[error("what answered is not the service: check the URL")]
    Stranger,
    /// It did not.
    #[error("it can't be reached: {0}")]
    Unreachable(String),
}

fn spell(wait: Option<Duration>) -> String {
    wait.map_or("a while".to_owned(), |wait| format!("{} s", wait.as_secs_f64().ceil()))
}

impl PostError {
    /// It is the service that does not work, whatever it is sent.
    pub fn is_down(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Faulty(_) | Self::Status(500..))
    }

    /// Another try may do better.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Limited { .. } | Self::Faulty(_) => true,
            Self::Status(code) => *code >= 500,
            Self::File { .. } | Self::Empty(_) | Self::Variable(_) | Self::Url(_) | Self::Setting(_) => false,
            Self::Refused { .. } | Self::Stranger => false,
        }
    }
}

/// Posts it, on the thread that calls.
///
/// # Errors
/// If the URL is not to be used, or nobody answers in time.
pub fn send(order: &Order) -> Result<Answer, PostError> {
    let agent = agent(&order.url, |config| config.timeout_global(Some(TRY_WITHIN)))?;
    let mut request = agent.post(&order.url).header("Content-Type", &order.content_type);
    for (name, value) in &order.headers {
        request = request.header(*name, value);
    }
    let mut answer = request.send(&order.body).map_err(|error| unreachable(&error))?;
    let (status, wait) = (answer.status().as_u16(), wait_of(answer.headers()));
    let mut body = Vec::new();
    // Its status is known; what can't be read of its body is judged as missing.
    let _ = answer.body_mut().as_reader().take(MAX_ANSWER_BYTES).read_to_end(&mut body);
    Ok(Answer { status, wait, body: String::from_utf8_lossy(&body).into_owned() })
}

type Config = ureq::config::ConfigBuilder<ureq::typestate::AgentScope>;

/// Who asks, with the times that `more` says. Redirects are answers like others.
///
/// # Errors
/// If the URL is not to be used.
pub fn agent(url: &str, more: impl FnOnce(Config) -> Config) -> Result<ureq::Agent, PostError> {
    let is_local = checked(url)?;
    let config =
        ureq::Agent::config_builder().max_redirects(0).http_status_as_error(false).user_agent("ccmux");
    // A proxy would be the one that asks loopback, on its own machine.
    let config = if is_local { config.proxy(None) } else { config };
    Ok(more(config).build().into())
}

/// Seconds, or a date.
fn wait_of(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("retry-after")?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return seconds_of(seconds);
    }
    let at = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    Some(Duration::try_from(jiff::Timestamp::now().duration_until(at)).unwrap_or_default().min(MAX_WAIT))
}

/// What a service says in seconds, if it makes sense.
pub fn seconds_of(seconds: f64) -> Option<Duration> {
    (seconds.is_finite() && seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(3600.0)))
}

/// Whether it is this machine; what is neither that nor https is refused.
pub fn checked(url: &str) -> Result<bool, PostError> {
    let uri: Uri = url.parse().map_err(|_| PostError::Url("can't be read"))?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let address = host.parse::<std::net::IpAddr>();
    let is_local = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    match uri.scheme_str() {
        Some("https") => Ok(is_local),
        Some("http") if is_local => Ok(true),
        _ => Err(PostError::Url("must be https, or http on this machine")),
    }
}

/// In words of ours: the library's may hold the URL.
pub fn unreachable(error: &ureq::Error) -> PostError {
    let why = match error {
        ureq::Error::Timeout(_) => "no answer in time".to_owned(),
        ureq::Error::HostNotFound => "there is no such host".to_owned(),
        ureq::Error::Io(error) => error.kind().to_string(),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => "the URL or the token can't be used".to_owned(),
        ureq::Error::ConnectionFailed => "no connection".to_owned(),
        _ => "the connection failed".to_owned(),
    };
    PostError::Unreachable(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_and_this_machine_are_posted_to() {
        for url in ["https://example.org/x", "https://127.0.0.1/"] {
            assert!(checked(url).is_ok(), "{url}");
        }
        for url in ["http://127.0.0.1:8000/x", "http://localhost/", "http://[::1]:1/", "http://127.9.9.9/"] {
            assert!(matches!(checked(url), Ok(true)), "{url}");
        }
        for url in [
            "http://example.org/",
            "http://127.0.0.1@example.org/",
            "ftp://localhost/",
            "localhost",
            "",
            "http://localhost.example.org/",
        ] {
            assert!(checked(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_wait_is_seconds_or_a_date_and_never_senseless() {
        let wait = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", value.parse().unwrap());
            wait_of(&headers)
        };
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(wait("Fri, 31 Dec 1999 23:59:59 GMT"), Some(Duration::ZERO), "it is over");
        assert_eq!(wait("1e300"), Some(MAX_WAIT));
        for senseless in ["-1", "NaN", "inf", "soon", ""] {
            assert_eq!(wait(senseless), None, "{senseless}");
        }
    }
}
