//! `[opencode.NAME]`: servers of OpenCode whose sessions are followed.
//!
//! ```text
//! [opencode.work]
//! url = "http://127.0.0.1:4096"
//! password_file = "~/opencode-password"
//! ```

use serde::{Deserialize, Serialize};
use ureq::http::Uri;

use super::SettingsError;

/// One `opencode serve`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpencodeServer {
    /// https, or http on this machine.
    pub url: String,
    /// `OPENCODE_SERVER_USERNAME` of it.
    #[serde(default = "opencode")]
    pub username: String,
    /// A file that holds its `OPENCODE_SERVER_PASSWORD`; absent: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<String>,
}

/// How config/ccmux.toml shows them: there is none by default.
pub const IN_THE_FILE: &str = r#"
# Servers of OpenCode (`opencode serve`) whose sessions are followed, besides what its plugin tells.
# [opencode.NAME]
# url = "http://127.0.0.1:4096"     username = "opencode"; password_file, if it has a password
"#;

fn opencode() -> String {
    "opencode".to_owned()
}

impl OpencodeServer {
    pub(super) fn check(&self, name: &str) -> Result<(), SettingsError> {
        let bad = |why: &str| {
            Err(SettingsError::Value { key: format!("opencode.{name}.url"), why: why.to_owned() })
        };
        let Ok(uri) = self.url.parse::<Uri>() else { return bad("it can't be read") };
        let is_plain = uri.query().is_none() && uri.authority().is_none_or(|who| !who.as_str().contains('@'));
        match uri.scheme_str() {
            _ if !is_plain => bad("leave out what follows `?`, and the password"),
            Some("https") => Ok(()),
            Some("http") if self.is_local() => Ok(()),
            _ => bad("use https, or http on this machine"),
        }
    }

    /// It is this machine: no proxy is asked.
    pub fn is_local(&self) -> bool {
        let uri = self.url.parse::<Uri>().ok();
        let host = uri.as_ref().and_then(Uri::host).unwrap_or_default().trim_matches(['[', ']']);
        let address = host.parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_https_or_on_this_machine() {
        let check = |url: &str| {
            let server = OpencodeServer { url: url.into(), username: opencode(), password_file: None };
            server.check("a").is_ok()
        };
        for url in ["https://host/x", "http://127.0.0.1:4096", "http://localhost:1", "http://[::1]:1"] {
            assert!(check(url), "{url}");
        }
        for url in ["http://host", "ftp://localhost", "", "https://u:p@host", "https://host?auth_token=x"] {
            assert!(!check(url), "{url}");
        }
    }
}
