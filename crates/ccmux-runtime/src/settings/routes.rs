//! `[routes.NAME]`: the ways of a notice to a person.
//!
//! ```toml
//! [routes.phone]
//! type = "webhook"
//! url_file = "~/.config/ccmux/phone-url"
//! ```
//!
//! Secrets stand in files and variables that are named here, so that nobody finds them in a settings file that is shown
//! around; nothing is read here. Which kinds of notices go which way is said in `[attention]`, how one gets there in
//! `notify`.

use std::collections::BTreeMap;

use ccmux_policy::attention::Kind;
use serde::{Deserialize, Serialize};

use super::SettingsError;
use super::services::{GotifySettings, NtfySettings, RobotSettings, Secret, WebhookService, bad};

/// `[routes.NAME]`: how a notice reaches a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum RouteSettings {
    /// A program that gets the notice as one JSON line on stdin.
    Command {
        /// The program and its arguments; no shell reads them.
        argv: Vec<String>,
    },
    /// An HTTP POST.
    Webhook(WebhookSettings),
    /// A bubble on the desktop.
    Desktop {},
    /// Spoken, or a file that is played.
    Sound(SoundSettings),
    /// A robot in a group of DingTalk.
    #[serde(rename = "dingtalk")]
    DingTalk(RobotSettings),
    /// A bot in a group of Lark, which is Feishu elsewhere.
    #[serde(alias = "feishu")]
    Lark(RobotSettings),
    /// A server of Gotify.
    Gotify(GotifySettings),
    /// A topic of ntfy.
    Ntfy(NtfySettings),
    /// A message in an `out.` FIFO.
    Channel {
        /// NAME of `out.NAME`.
        channel: String,
    },
    /// A message to Claude itself, in the inbox.
    Claude {
        /// The channel it is shown under.
        #[serde(default = "attention_channel")]
        channel: String,
    },
}

fn attention_channel() -> String {
    "attention".to_owned()
}

/// What is heard.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SoundSettings {
    /// Played in place of a spoken word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The same for some kinds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// What is spoken, for some kinds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub texts: BTreeMap<String, String>,
}

impl SoundSettings {
    fn check(&self) -> Result<(), (&'static str, String)> {
        let kinds = [("files", &self.files), ("texts", &self.texts)];
        for (key, kind) in kinds.into_iter().flat_map(|(key, map)| map.keys().map(move |kind| (key, kind))) {
            if Kind::from_word(kind).is_none() {
                return Err((key, format!("there is no kind {kind:?}")));
            }
        }
        let mut files = self
            .file
            .iter()
            .map(|file| ("file", file))
            .chain(self.files.values().map(|file| ("files", file)));
        match files.find(|(_, file)| !file.starts_with(['/', '~'])) {
            Some((key, _)) => Err((key, "give a path from / or ~".to_owned())),
            None => Ok(()),
        }
    }
}

/// Where a webhook is, and what it takes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookSettings {
    /// The URL, where it is no secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A file that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_file: Option<String>,
    /// A variable of the daemon that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_env: Option<String>,
    /// A file that holds a token, sent as `Authorization: Bearer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,
    /// A variable of the daemon that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
    /// What is sent, with {title}, {body}, {kind}, {session}, {ts}; absent: the notice as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// A service whose form is known; in place of a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<WebhookService>,
    /// The chat that Telegram's bot writes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat: Option<String>,
    /// The content's type; values are escaped for JSON unless it says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

impl WebhookSettings {
    /// Where the URL stands.
    pub fn url(&self) -> Secret {
        Secret::open("url", &self.url, &self.url_file, &self.url_env)
    }

    /// Where the token stands.
    pub fn token(&self) -> Secret {
        Secret::hidden("token", &self.token_file, &self.token_env)
    }

    fn check(&self, name: &str) -> Result<(), SettingsError> {
        self.url().one(name, true)?;
        self.token().at_most_one(name)?;
        match self.service {
            Some(service) => self.check_service(service).or_else(|(key, why)| bad(name, key, why)),
            None if self.chat.is_some() => bad(name, "chat", "only service = \"telegram\" has one"),
            None => Ok(()),
        }
    }

    fn check_service(&self, service: WebhookService) -> Result<(), (&'static str, &'static str)> {
        if self.url.is_some() {
            return Err(("url", "whoever has it can post: use url_file or url_env"));
        }
        if self.template.is_some() || self.content_type.is_some() || self.token().is_given() {
            return Err(("service", "it has its own form: leave out template, content_type and the token"));
        }
        match (service, &self.chat) {
            (WebhookService::Telegram, None) => Err(("chat", "give the chat's id")),
            (WebhookService::Telegram, Some(_)) | (_, None) => Ok(()),
            (_, Some(_)) => Err(("chat", "only service = \"telegram\" has one")),
        }
    }
}

impl RouteSettings {
    /// Where the values stand that it may not hold itself.
    pub fn secrets(&self) -> Vec<Secret> {
        match self {
            Self::Webhook(hook) => vec![hook.url(), hook.token()],
            Self::DingTalk(robot) | Self::Lark(robot) => vec![robot.url(), robot.secret()],
            Self::Gotify(gotify) => vec![gotify.url(), gotify.token()],
            Self::Ntfy(ntfy) => {
                vec![ntfy.url(), ntfy.topic(), ntfy.token(), ntfy.password(), ntfy.reply_topic()]
            }
            Self::Command { .. }
            | Self::Desktop {}
            | Self::Sound(_)
            | Self::Channel { .. }
            | Self::Claude { .. } => Vec::new(),
        }
    }

    pub(super) fn check(&self, name: &str) -> Result<(), SettingsError> {
        match self {
            Self::Command { argv } if argv.first().is_none_or(|program| program.trim().is_empty()) => {
                bad(name, "argv", "give a program")
            }
            Self::Webhook(hook) => hook.check(name),
            Self::DingTalk(robot) | Self::Lark(robot) => robot.check(name),
            Self::Gotify(gotify) => gotify.check(name),
            Self::Ntfy(ntfy) => ntfy.check(name),
            Self::Channel { channel } | Self::Claude { channel } => {
                match channel.parse::<ccmux_wire::channel::ChannelName>() {
                    Ok(_) => Ok(()),
                    Err(error) => bad(name, "channel", &error.to_string()),
                }
            }
            Self::Sound(sound) => sound.check().or_else(|(key, why)| bad(name, key, &why)),
            _ => Ok(()),
        }
    }
}

/// How config/ccmux.toml shows routes: they have no defaults.
pub const ROUTES_IN_THE_FILE: &str = r#"
# How notices reach people: docs/NOTIFICATIONS.md has an example of each type. There is no route by default.
# [routes.NAME]
# type = "command"     argv = ["/usr/bin/logger"]: gets the notice as one JSON line on stdin
# type = "webhook"     url, url_file or url_env; token_file or token_env; template; content_type
#                      or service = "slack", "teams", "discord", "telegram" (with chat = "ID") in place of a template
# type = "dingtalk"    url_file or url_env; secret_file or secret_env
# type = "lark"        the same; "feishu" is another word for it
# type = "gotify"      url, url_file or url_env; token_file or token_env
# type = "ntfy"        url, topic (each also _file, _env); token_file or token_env, or user and password_file or _env;
#                      reply_topic_file or reply_topic_env: buttons that answer a permission
# type = "desktop"     a bubble; a click on it shows the session
# type = "sound"       speaks (spd-say, espeak-ng, say), or plays file; texts and files: for some kinds
# type = "channel"     channel = "phone": a message in out.phone
# type = "claude"      a message to Claude, on the channel "attention"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a route `x` with these settings.
    fn fault(settings: &str) -> String {
        let route: RouteSettings = toml::from_str(settings).unwrap();
        route.check("x").unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_with_a_route_is_named_by_its_key() {
        let cases = [
            ("argv", "type = 'command'\nargv = []"),
            ("argv", "type = 'command'\nargv = ['']"),
            ("url", "type = 'webhook'"),
            ("url", "type = 'webhook'\nurl = 'http://x.example'"),
            ("url", "type = 'webhook'\nurl = 'https://x.example'\nservice = 'slack'"),
            ("token", "type = 'webhook'\nurl = 'https://x.example'\ntoken_file = 'f'\ntoken_env = 'V'"),
            ("chat", "type = 'webhook'\nurl_file = 'f'\nservice = 'telegram'"),
            ("chat", "type = 'webhook'\nurl_file = 'f'\nchat = '7'"),
            ("url", "type = 'dingtalk'"),
            ("token", "type = 'gotify'\nurl = 'https://x.example'"),
            ("url", "type = 'ntfy'\nurl = 'http://x.example'\ntopic = 't'"),
            ("password", "type = 'ntfy'\nurl = 'https://x.example'\ntopic = 't'\nuser = 'u'"),
            ("texts", "type = 'sound'\n[texts]\nreplies = 'done'"),
            ("file", "type = 'sound'\nfile = '-x'"),
            ("channel", "type = 'channel'\nchannel = 'a/b'"),
        ];
        for (key, settings) in cases {
            let fault = fault(settings);
            assert!(fault.contains(&format!("`routes.x.{key}`")), "{settings}: {fault}");
        }
    }

    #[test]
    fn the_remedy_offers_only_places_where_the_value_may_stand() {
        let twice = "type = 'webhook'\nurl = 'https://x.example'\ntoken_file = 'f'\ntoken_env = 'V'";
        assert!(fault(twice).ends_with("give token_file or token_env, not both"), "{}", fault(twice));
        let nowhere = fault("type = 'gotify'\nurl = 'https://x.example'");
        assert!(nowhere.ends_with("give one of token_file, token_env"), "{nowhere}");
    }
}
