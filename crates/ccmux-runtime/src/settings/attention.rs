//! `[attention]`, `[attention.KIND]` and `[routes.NAME]`: whom to tell what, when, and how.
//!
//! ```toml
//! [routes.phone]
//! type = "webhook"
//! url_file = "~/.config/ccmux/phone-url"
//!
//! [attention]
//! routes = ["phone"]
//! ```
//!
//! Secrets stand in files and variables that are named here, so that nobody finds them in a settings file that is shown
//! around. Times are seconds.

use std::collections::BTreeMap;

use ccmux_policy::attention::{Kind, QuietHours, Rule, Rules, Step};
use serde::{Deserialize, Serialize};

use super::services::{GotifySettings, NtfySettings, RobotSettings, Secret, WebhookService};
use super::{SettingsError, millis};

/// `[attention]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttentionSettings {
    /// Tell people at all.
    pub enabled: bool,
    /// Log what begins and ends to wait.
    pub debug: bool,
    /// `owned`, `all`.
    pub sessions: String,
    /// For kinds without routes of their own.
    pub routes: Vec<String>,
    /// A notice waits for whoever looks at the pane.
    pub suppress_when_focused: bool,
    /// So long after a key press somebody looks at it.
    pub focus_window: f64,
    /// The same thing is told once within that time.
    pub dedup_window: f64,
    /// `HH:MM-HH:MM`, or empty.
    pub quiet_hours: String,
    /// The silence reminder.
    pub reply: KindSettings,
    /// Claude asks for permission.
    pub permission: KindSettings,
    /// Claude asks something.
    pub question: KindSettings,
    /// A sub-agent is done.
    pub subagent_reply: KindSettings,
    /// A turn failed.
    pub failure: KindSettings,
    /// Messages can't go in.
    pub stuck: KindSettings,
    /// Somebody sent a message.
    pub message: KindSettings,
}

/// `[attention.KIND]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindSettings {
    /// Seconds before the first notice.
    pub after: f64,
    /// Where to.
    pub routes: Vec<String>,
    /// Further notices.
    pub steps: Vec<StepSettings>,
    /// Seconds after a notice before the next of the kind.
    pub cooldown: f64,
}

/// A further notice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSettings {
    /// Seconds since it began to wait.
    pub after: f64,
    /// Where to.
    pub routes: Vec<String>,
}

impl KindSettings {
    fn after(seconds: f64) -> Self {
        Self { after: seconds, routes: Vec::new(), steps: Vec::new(), cooldown: 0.0 }
    }
}

impl Default for AttentionSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            debug: false,
            sessions: "owned".into(),
            routes: Vec::new(),
            suppress_when_focused: false,
            focus_window: 10.0,
            dedup_window: 2.0,
            quiet_hours: String::new(),
            reply: KindSettings { cooldown: 15.0, ..KindSettings::after(15.0) },
            permission: KindSettings::after(1.0),
            question: KindSettings::after(1.0),
            subagent_reply: KindSettings { cooldown: 15.0, ..KindSettings::after(0.0) },
            failure: KindSettings::after(0.0),
            stuck: KindSettings::after(60.0),
            message: KindSettings::after(0.0),
        }
    }
}

impl AttentionSettings {
    /// Each kind with its settings.
    pub fn kinds(&self) -> [(Kind, &KindSettings); 7] {
        [
            (Kind::Reply, &self.reply),
            (Kind::Permission, &self.permission),
            (Kind::Question, &self.question),
            (Kind::SubagentReply, &self.subagent_reply),
            (Kind::Failure, &self.failure),
            (Kind::Stuck, &self.stuck),
            (Kind::Message, &self.message),
        ]
    }

    /// The same as numbers.
    pub fn rules(&self) -> Rules {
        Rules {
            kinds: self.kinds().map(|(kind, settings)| self.rule(kind, settings)),
            dedup_ms: millis(self.dedup_window),
            focus_ms: if self.suppress_when_focused { millis(self.focus_window) } else { 0 },
            quiet: quiet_hours(&self.quiet_hours).ok().flatten(),
        }
    }

    fn rule(&self, kind: Kind, settings: &KindSettings) -> Rule {
        let own = !settings.routes.is_empty() || !settings.steps.is_empty();
        if !self.enabled || (kind == Kind::SubagentReply && !own) {
            return Rule::default();
        }
        let has_none = settings.routes.is_empty() && kind != Kind::SubagentReply;
        let routes = if has_none { &self.routes } else { &settings.routes };
        let first = Step { after_ms: millis(settings.after), routes: routes.clone() };
        let further = settings.steps.iter();
        let further = further.map(|step| Step { after_ms: millis(step.after), routes: step.routes.clone() });
        let mut steps: Vec<Step> = std::iter::once(first).chain(further).collect();
        steps.sort_by_key(|step| step.after_ms);
        Rule { steps, cooldown_ms: millis(settings.cooldown) }
    }

    pub(super) fn check(&self, routes: &BTreeMap<String, RouteSettings>) -> Result<(), SettingsError> {
        let bad =
            |key: String, why: String| Err(SettingsError::Value { key: format!("attention.{key}"), why });
        if !["owned", "all"].contains(&self.sessions.as_str()) {
            return bad("sessions".into(), "use owned or all".into());
        }
        if let Err(why) = quiet_hours(&self.quiet_hours) {
            return bad("quiet_hours".into(), why.into());
        }
        let windows = [("focus_window", self.focus_window), ("dedup_window", self.dedup_window)];
        let mut seconds: Vec<(String, f64)> = windows.map(|(key, value)| (key.to_owned(), value)).to_vec();
        let mut named: Vec<(String, &String)> =
            self.routes.iter().map(|route| ("routes".to_owned(), route)).collect();
        for (kind, settings) in self.kinds() {
            let kind = kind.word();
            seconds.push((format!("{kind}.after"), settings.after));
            seconds.push((format!("{kind}.cooldown"), settings.cooldown));
            named.extend(settings.routes.iter().map(|route| (format!("{kind}.routes"), route)));
            for step in &settings.steps {
                seconds.push((format!("{kind}.steps"), step.after));
                named.extend(step.routes.iter().map(|route| (format!("{kind}.steps"), route)));
            }
        }
        if let Some((key, _)) = seconds.into_iter().find(|(_, value)| !(0.0..=86_400.0).contains(value)) {
            return bad(key, "give seconds from 0 to 86400".into());
        }
        if let Some((key, route)) = named.into_iter().find(|(_, route)| !routes.contains_key(*route)) {
            return bad(key, format!("there is no route {route:?}: add [routes.{route}]"));
        }
        routes.iter().try_for_each(|(name, route)| route.check(name))
    }
}

/// `HH:MM-HH:MM`.
fn quiet_hours(text: &str) -> Result<Option<QuietHours>, &'static str> {
    const FORM: &str = "give them as \"22:00-07:00\", or nothing";
    if text.is_empty() {
        return Ok(None);
    }
    let minute = |text: &str| {
        let (hour, minute) = text.trim().split_once(':')?;
        let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
        (hour < 24 && minute < 60).then_some(hour * 60 + minute)
    };
    let (from, to) = text.split_once('-').ok_or(FORM)?;
    Ok(Some(QuietHours { from: minute(from).ok_or(FORM)?, to: minute(to).ok_or(FORM)? }))
}

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
        let bad = |key: &str, why: &str| {
            Err(SettingsError::Value { key: format!("routes.{name}.{key}"), why: why.to_owned() })
        };
        let urls = [&self.url, &self.url_file, &self.url_env].into_iter().flatten().count();
        match (urls, self.token_file.is_some() && self.token_env.is_some(), self.service) {
            (1, false, None) if self.chat.is_some() => bad("chat", "only service = \"telegram\" has one"),
            (1, false, None) => self.url().can_be_posted_to(name),
            (1, true, _) => bad("token_file", "give token_file or token_env, not both"),
            (1, false, Some(service)) => self.check_service(service).or_else(|(key, why)| bad(key, why)),
            _ => bad("url", "give one of url, url_file, url_env"),
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
    fn check(&self, name: &str) -> Result<(), SettingsError> {
        let bad = |key: &str, why: &str| {
            Err(SettingsError::Value { key: format!("routes.{name}.{key}"), why: why.to_owned() })
        };
        match self {
            Self::Command { argv } if argv.first().is_none_or(|program| program.trim().is_empty()) => {
                bad("argv", "give a program")
            }
            Self::Webhook(hook) => hook.check(name),
            Self::DingTalk(robot) | Self::Lark(robot) => robot.check(name),
            Self::Gotify(gotify) => gotify.check(name),
            Self::Ntfy(ntfy) => ntfy.check(name),
            Self::Channel { channel } | Self::Claude { channel } => {
                match channel.parse::<ccmux_wire::channel::ChannelName>() {
                    Ok(_) => Ok(()),
                    Err(error) => bad("channel", &error.to_string()),
                }
            }
            Self::Sound(sound) => sound.check().or_else(|(key, why)| bad(key, &why)),
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

    #[test]
    fn steps_come_in_order_and_kinds_without_routes_have_the_common_ones() {
        let step = |after, route: &str| StepSettings { after, routes: vec![route.to_owned()] };
        let mut settings = AttentionSettings { routes: vec!["a".into()], ..AttentionSettings::default() };
        settings.reply.routes = vec!["b".into()];
        settings.reply.steps = vec![step(60.0, "d"), step(30.0, "c")];
        let rules = settings.rules();
        let told = |kind| -> Vec<(u64, Vec<String>)> {
            rules.of(kind).steps.iter().map(|step| (step.after_ms, step.routes.clone())).collect()
        };
        let at = |ms, route: &str| (ms, vec![route.to_owned()]);
        assert_eq!(told(Kind::Reply), [at(15_000, "b"), at(30_000, "c"), at(60_000, "d")]);
        assert_eq!(told(Kind::Permission), [at(1_000, "a")]);
        assert_eq!(told(Kind::SubagentReply), [], "off");
        assert_eq!(rules.focus_ms, 0);
        settings.reply.routes.clear();
        let first = settings.rules().of(Kind::Reply).steps[0].clone();
        assert_eq!((first.after_ms, first.routes), at(15_000, "a"), "steps of its own are further ones");
        settings.subagent_reply.steps = vec![step(30.0, "c")];
        let first = settings.rules().of(Kind::SubagentReply).steps[0].clone();
        assert_eq!(first.routes, Vec::<String>::new(), "nobody chose routes for its first");
        settings.enabled = false;
        assert!(settings.rules().kinds.iter().all(|rule| rule.steps.is_empty()));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_remedy() {
        type Spoil = fn(&mut AttentionSettings, &mut BTreeMap<String, RouteSettings>);
        let cases: [(&str, Spoil); 17] = [
            ("attention.sessions", |a, _| a.sessions = "mine".into()),
            ("attention.quiet_hours", |a, _| a.quiet_hours = "22-7".into()),
            ("attention.stuck.after", |a, _| a.stuck.after = -1.0),
            ("[routes.phone]", |a, _| a.reply.routes = vec!["phone".into()]),
            ("routes.x.argv", |_, r| drop(r.insert("x".into(), RouteSettings::Command { argv: vec![] }))),
            ("routes.x.url", |_, r| {
                drop(r.insert("x".into(), RouteSettings::Webhook(WebhookSettings::default())))
            }),
            ("routes.x.url", |_, r| {
                drop(r.insert("x".into(), RouteSettings::DingTalk(RobotSettings::default())))
            }),
            ("routes.x.url", |_, r| {
                let hook =
                    |url: &str| WebhookSettings { url: Some(url.into()), ..WebhookSettings::default() };
                let slack =
                    WebhookSettings { service: Some(WebhookService::Slack), ..hook("https://x.example") };
                drop(r.insert("x".into(), RouteSettings::Webhook(slack)));
            }),
            ("routes.x.argv", |_, r| {
                drop(r.insert("x".into(), RouteSettings::Command { argv: vec![String::new()] }));
            }),
            ("routes.x.url", |_, r| {
                let hook = WebhookSettings { url: Some("http://x.example".into()), ..Default::default() };
                drop(r.insert("x".into(), RouteSettings::Webhook(hook)));
            }),
            ("routes.x.url", |_, r| {
                let [url, topic] = ["http://x.example", "t"].map(|text| Some(text.to_owned()));
                let ntfy = NtfySettings { url, topic, ..NtfySettings::default() };
                drop(r.insert("x".into(), RouteSettings::Ntfy(ntfy)));
            }),
            ("routes.x.chat", |_, r| {
                let telegram = WebhookSettings {
                    service: Some(WebhookService::Telegram),
                    url_file: Some("f".into()),
                    ..WebhookSettings::default()
                };
                drop(r.insert("x".into(), RouteSettings::Webhook(telegram)));
            }),
            ("routes.x.token", |_, r| {
                let gotify =
                    GotifySettings { url: Some("https://x.example".into()), ..GotifySettings::default() };
                drop(r.insert("x".into(), RouteSettings::Gotify(gotify)));
            }),
            ("routes.x.password", |_, r| {
                let [url, topic, user] = ["https://x.example", "t", "u"].map(|text| Some(text.to_owned()));
                let ntfy = NtfySettings { url, topic, user, ..NtfySettings::default() };
                drop(r.insert("x".into(), RouteSettings::Ntfy(ntfy)));
            }),
            ("routes.x.texts", |_, r| {
                let texts = BTreeMap::from([("replies".to_owned(), "done".to_owned())]);
                let sound = SoundSettings { texts, ..SoundSettings::default() };
                drop(r.insert("x".into(), RouteSettings::Sound(sound)));
            }),
            ("routes.x.file", |_, r| {
                let sound = SoundSettings { file: Some("-x".into()), ..SoundSettings::default() };
                drop(r.insert("x".into(), RouteSettings::Sound(sound)));
            }),
            ("routes.x.channel", |_, r| {
                drop(r.insert("x".into(), RouteSettings::Channel { channel: "a/b".into() }));
            }),
        ];
        for (key, spoil) in cases {
            let (mut settings, mut routes) = (AttentionSettings::default(), BTreeMap::new());
            settings.check(&routes).unwrap();
            spoil(&mut settings, &mut routes);
            let error = settings.check(&routes).unwrap_err().to_string();
            assert!(error.contains(key), "{key}: {error}");
        }
    }
}
