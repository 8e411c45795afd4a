//! `[routes.NAME]` of services that want a form of their own, and where their secrets stand.
//!
//! ```toml
//! [routes.phone]
//! type = "ntfy"
//! url = "https://ntfy.example.org"
//! topic_file = "~/.config/ccmux/ntfy-topic"
//! ```
//!
//! Whoever knows such a URL, topic or token can speak in our name, so that they stand in a file or in a variable of the
//! daemon, never here. Nothing is read here.

use serde::{Deserialize, Serialize};

use super::SettingsError;
use crate::notify::post::checked;

/// A service whose incoming webhooks take JSON of a form of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookService {
    /// Slack's incoming webhooks.
    Slack,
    /// A workflow of Microsoft Teams that takes Adaptive Cards.
    Teams,
    /// A webhook of a Discord channel.
    Discord,
    /// `sendMessage` of Telegram's bots.
    Telegram,
}

/// Where a value stands: in the settings, in a file, or in a variable of the daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Secret {
    /// Its key without `_file` and `_env`.
    pub key: &'static str,
    /// In the settings, where it is no secret.
    pub plain: Option<String>,
    /// In a file.
    pub file: Option<String>,
    /// In a variable.
    pub variable: Option<String>,
}

impl Secret {
    /// One that may stand in the settings.
    pub fn open(
        key: &'static str,
        plain: &Option<String>,
        file: &Option<String>,
        variable: &Option<String>,
    ) -> Self {
        Self { key, plain: plain.clone(), file: file.clone(), variable: variable.clone() }
    }

    /// One that may not.
    pub fn hidden(key: &'static str, file: &Option<String>, variable: &Option<String>) -> Self {
        Self::open(key, &None, file, variable)
    }

    /// Somebody said where.
    pub fn is_given(&self) -> bool {
        self.count() > 0
    }

    fn count(&self) -> usize {
        [&self.plain, &self.file, &self.variable].into_iter().flatten().count()
    }

    pub(super) fn at_most_one(&self, route: &str) -> Result<(), SettingsError> {
        let key = self.key;
        match self.count() {
            0 | 1 => Ok(()),
            _ => bad(route, key, &format!("give {key}_file or {key}_env, not both")),
        }
    }

    /// A URL that stands here is looked at at once; others are when they are used.
    fn can_be_posted_to(&self, route: &str) -> Result<(), SettingsError> {
        match self.plain.as_deref().filter(|_| self.key == "url").map(checked) {
            Some(Err(error)) => bad(route, self.key, &error.to_string()),
            _ => Ok(()),
        }
    }

    pub(super) fn one(&self, route: &str, may_be_plain: bool) -> Result<(), SettingsError> {
        let key = self.key;
        let plain = if may_be_plain { format!("{key}, ") } else { String::new() };
        match self.count() {
            1 => self.can_be_posted_to(route),
            _ => bad(route, key, &format!("give one of {plain}{key}_file, {key}_env")),
        }
    }
}

/// The route's key, and what is wrong with it.
pub(super) fn bad(route: &str, key: &str, why: &str) -> Result<(), SettingsError> {
    Err(SettingsError::Value { key: format!("routes.{route}.{key}"), why: why.to_owned() })
}

/// A robot in a group of DingTalk or Lark: its URL, and the secret that signs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RobotSettings {
    /// A file that holds the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_file: Option<String>,
    /// A variable that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_env: Option<String>,
    /// A file that holds the secret; without one nothing is signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<String>,
    /// A variable that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_env: Option<String>,
}

impl RobotSettings {
    /// Where the URL stands.
    pub fn url(&self) -> Secret {
        Secret::hidden("url", &self.url_file, &self.url_env)
    }

    /// Where the secret stands.
    pub fn secret(&self) -> Secret {
        Secret::hidden("secret", &self.secret_file, &self.secret_env)
    }

    pub(super) fn check(&self, route: &str) -> Result<(), SettingsError> {
        self.url().one(route, false)?;
        self.secret().at_most_one(route)
    }
}

/// A server of Gotify, and an application's token.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GotifySettings {
    /// The server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A file that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_file: Option<String>,
    /// A variable that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_env: Option<String>,
    /// A file that holds the application's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,
    /// A variable that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
}

impl GotifySettings {
    /// Where the server's address stands.
    pub fn url(&self) -> Secret {
        Secret::open("url", &self.url, &self.url_file, &self.url_env)
    }

    /// Where the token stands.
    pub fn token(&self) -> Secret {
        Secret::hidden("token", &self.token_file, &self.token_env)
    }

    pub(super) fn check(&self, route: &str) -> Result<(), SettingsError> {
        self.url().one(route, true)?;
        self.token().one(route, false)
    }
}

/// A server of ntfy, a topic, and the topic that answers come by.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NtfySettings {
    /// The server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A file that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_file: Option<String>,
    /// A variable that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_env: Option<String>,
    /// The topic, where the server lets only those read it who may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// A file that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_file: Option<String>,
    /// A variable that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_env: Option<String>,
    /// A file that holds an access token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,
    /// A variable that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
    /// A user, where there is no token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A file that holds the user's password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<String>,
    /// A variable that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_env: Option<String>,
    /// A file that holds the topic of answers; without one there are no buttons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_topic_file: Option<String>,
    /// A variable that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_topic_env: Option<String>,
}

impl NtfySettings {
    /// Where the server's address stands.
    pub fn url(&self) -> Secret {
        Secret::open("url", &self.url, &self.url_file, &self.url_env)
    }

    /// Where the topic stands.
    pub fn topic(&self) -> Secret {
        Secret::open("topic", &self.topic, &self.topic_file, &self.topic_env)
    }

    /// Where the token stands.
    pub fn token(&self) -> Secret {
        Secret::hidden("token", &self.token_file, &self.token_env)
    }

    /// Where the password stands.
    pub fn password(&self) -> Secret {
        Secret::hidden("password", &self.password_file, &self.password_env)
    }

    /// Where the topic of answers stands.
    pub fn reply_topic(&self) -> Secret {
        Secret::hidden("reply_topic", &self.reply_topic_file, &self.reply_topic_env)
    }

    pub(super) fn check(&self, route: &str) -> Result<(), SettingsError> {
        self.url().one(route, true)?;
        self.topic().one(route, true)?;
        self.token().at_most_one(route)?;
        self.reply_topic().at_most_one(route)?;
        match (self.user.is_some(), self.token().is_given()) {
            (true, true) => bad(route, "user", "give a token, or a user with a password, not both"),
            (true, false) => self.password().one(route, false),
            (false, _) if self.password().is_given() => bad(route, "user", "whose password is it?"),
            (false, _) => Ok(()),
        }
    }
}
