//! `[attention]` and `[attention.KIND]`: whom to tell what, and when.
//!
//! ```toml
//! [attention]
//! routes = ["phone"]
//! ```
//!
//! Times are seconds. What a route is, `[routes.NAME]` says: here only its name is known.

use std::collections::BTreeMap;

use ccmux_policy::attention::{Kind, QuietHours, Rule, Rules, Step};
use serde::{Deserialize, Serialize};

use super::routes::RouteSettings;
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
        type Spoil = fn(&mut AttentionSettings);
        let cases: [(&str, Spoil); 4] = [
            ("attention.sessions", |a| a.sessions = "mine".into()),
            ("attention.quiet_hours", |a| a.quiet_hours = "22-7".into()),
            ("attention.stuck.after", |a| a.stuck.after = -1.0),
            ("[routes.phone]", |a| a.reply.routes = vec!["phone".into()]),
        ];
        let routes = BTreeMap::new();
        for (key, spoil) in cases {
            let mut settings = AttentionSettings::default();
            settings.check(&routes).unwrap();
            spoil(&mut settings);
            let error = settings.check(&routes).unwrap_err().to_string();
            assert!(error.contains(key), "{key}: {error}");
        }
    }
}
