//! An HTTP POST of a notice: to https, or to this machine; redirects are not followed, since they would carry the text,
//! and maybe a token, to somebody whom nobody named.
//!
//! URL and token are read anew each time, so that a changed secret counts at once. Neither is in any error.

use std::io;
use std::path::{Path, PathBuf};

use ureq::http::Uri;

use super::template::{Escape, fill};
use super::{Notice, TRY_WITHIN};
use crate::settings::attention::WebhookSettings;
use crate::settings::expand;

/// The URL or token of a file.
const MAX_SECRET_BYTES: usize = 8 * 1024;

/// Where, and in which form.
#[derive(Clone)]
pub struct Webhook {
    settings: WebhookSettings,
    home: PathBuf,
}

/// The URL itself may be a secret.
impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Webhook")
    }
}

/// Why a webhook did not take it.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// A file with a secret.
    #[error("can't read {path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A variable with a secret.
    #[error("the variable {0} is not set: set it for the daemon")]
    Variable(String),
    /// The URL can't be used.
    #[error("the URL {0}")]
    Url(&'static str),
    /// It answered.
    #[error("it answered {0}")]
    Status(u16),
    /// It did not.
    #[error("it can't be reached: {0}")]
    Unreachable(String),
}

impl WebhookError {
    /// Another try may do better.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Status(code) => *code == 429 || *code >= 500,
            Self::File { .. } | Self::Variable(_) | Self::Url(_) => false,
        }
    }
}

impl Webhook {
    /// From the settings.
    pub fn new(settings: WebhookSettings, home: &Path) -> Self {
        Self { settings, home: home.to_owned() }
    }

    /// Posts it, on a thread that ends with the try's time.
    ///
    /// # Errors
    /// What was not there, or what it answered.
    pub async fn post(&self, notice: &Notice) -> Result<(), WebhookError> {
        let (hook, notice) = (self.clone(), notice.clone());
        let posted = tokio::task::spawn_blocking(move || hook.post_now(&notice)).await;
        posted.unwrap_or_else(|error| Err(WebhookError::Unreachable(error.to_string())))
    }

    fn post_now(&self, notice: &Notice) -> Result<(), WebhookError> {
        let url = self.url()?;
        let is_local = checked(&url)?;
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TRY_WITHIN))
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent("ccmux");
        // A proxy would be the one that asks loopback, on its own machine.
        let config = if is_local { config.proxy(None) } else { config };
        let agent: ureq::Agent = config.build().into();
        let mut request = agent.post(&url).header("Content-Type", self.content_type());
        if let Some(token) = self.token()? {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let answer = request.send(self.body(notice)).map_err(|error| unreachable(&error))?;
        let status = answer.status().as_u16();
        if (200..300).contains(&status) { Ok(()) } else { Err(WebhookError::Status(status)) }
    }

    fn url(&self) -> Result<String, WebhookError> {
        let WebhookSettings { url, url_file, url_env, .. } = &self.settings;
        match (url, self.secret(url_file.as_deref(), url_env.as_deref())?) {
            (Some(url), _) => Ok(url.clone()),
            (None, Some(url)) => Ok(url),
            (None, None) => Err(WebhookError::Url("is not given")),
        }
    }

    fn token(&self) -> Result<Option<String>, WebhookError> {
        self.secret(self.settings.token_file.as_deref(), self.settings.token_env.as_deref())
    }

    fn secret(&self, file: Option<&str>, variable: Option<&str>) -> Result<Option<String>, WebhookError> {
        if let Some(file) = file {
            let path = expand(file, &self.home);
            let text = std::fs::read_to_string(&path);
            let text = text.map_err(|source| WebhookError::File { path, source })?;
            return Ok(Some(text.trim().chars().take(MAX_SECRET_BYTES).collect()));
        }
        let Some(variable) = variable else { return Ok(None) };
        let value = std::env::var(variable).ok().filter(|value| !value.is_empty());
        value.map(Some).ok_or_else(|| WebhookError::Variable(variable.to_owned()))
    }

    fn content_type(&self) -> &str {
        self.settings.content_type.as_deref().unwrap_or("application/json")
    }

    fn body(&self, notice: &Notice) -> String {
        let escape = if self.content_type().contains("json") { Escape::Json } else { Escape::Nothing };
        match &self.settings.template {
            Some(form) => fill(form, notice, escape),
            None => serde_json::to_string(notice).unwrap_or_default(),
        }
    }
}

/// Whether it is this machine; what is neither that nor https is refused.
fn checked(url: &str) -> Result<bool, WebhookError> {
    let uri: Uri = url.parse().map_err(|_| WebhookError::Url("can't be read"))?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let address = host.parse::<std::net::IpAddr>();
    let is_local = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    match uri.scheme_str() {
        Some("https") => Ok(is_local),
        Some("http") if is_local => Ok(true),
        _ => Err(WebhookError::Url("must be https, or http on this machine")),
    }
}

/// In words of ours: the library's may hold the URL.
fn unreachable(error: &ureq::Error) -> WebhookError {
    let why = match error {
        ureq::Error::Timeout(_) => "no answer in time".to_owned(),
        ureq::Error::HostNotFound => "there is no such host".to_owned(),
        ureq::Error::Io(error) => error.kind().to_string(),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => "the URL or the token can't be used".to_owned(),
        ureq::Error::ConnectionFailed => "no connection".to_owned(),
        _ => "the connection failed".to_owned(),
    };
    WebhookError::Unreachable(why)
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
}
