//! `[channels.NAME]`: what is particular about one channel.
//!
//! ```toml
//! [channels.alarm]
//! priority = 5
//! ttl = 600
//! ```
//!
//! A channel without such a table has the defaults. The names are the user's, so that the keys stand in a list of their
//! own, [`CHANNEL_KEYS`], as `channels.NAME.KEY`.

use std::time::Duration;

use ccmux_wire::channel::ChannelName;
use ccmux_wire::inbound::Format;
use serde::{Deserialize, Serialize};

use super::keys::Key;
use super::{SettingsError, millis};
use crate::inbox::ChannelPolicy;
use crate::outlet::OutletPolicy;

/// The policy of one channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChannelSettings {
    /// How lines come in and leave.
    pub format: Format,
    /// Values of `meta.sender` that may write; empty: everybody.
    pub allowed: Vec<String>,
    /// Goes before channels that were passed over so many times fewer.
    pub priority: i32,
    /// Seconds after which a message is not worth sending; 0: never.
    pub ttl: f64,
    /// Largest message; 0: `limits.message_bytes`.
    pub max_bytes: u64,
    /// Seconds that a message of Claude's waits for a reader; absent: `out.wait`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<f64>,
    /// `@path` attaches files.
    pub mentions: bool,
}

impl Default for ChannelSettings {
    fn default() -> Self {
        Self {
            format: Format::Auto,
            allowed: Vec::new(),
            priority: 0,
            ttl: 0.0,
            max_bytes: 0,
            wait: None,
            mentions: false,
        }
    }
}

const fn key(path: &'static str, meaning: &'static str) -> Key {
    Key { path, variable: None, meaning }
}

/// The keys of one channel, in the order of the file.
pub const CHANNEL_KEYS: &[Key] = &[
    key(
        "channels.NAME.format",
        "auto: a line that begins with { is JSON; text: every line is text; json: JSON objects only, also what Claude sends",
    ),
    key(
        "channels.NAME.allowed",
        "values of meta.sender that may write; empty: everybody. A filter against accidents: whoever can write can claim to be anybody",
    ),
    key(
        "channels.NAME.priority",
        "-100 to 100: n goes before a channel that was passed over by fewer than n batches; nobody waits for ever",
    ),
    key(
        "channels.NAME.ttl",
        "seconds after which a message that was never typed is not sent any more; 0: never",
    ),
    key("channels.NAME.max_bytes", "largest message of this channel; 0: limits.message_bytes"),
    key(
        "channels.NAME.wait",
        "seconds that a message of Claude's waits for a reader of out.NAME; as out.wait if absent",
    ),
    key(
        "channels.NAME.mentions",
        "let @path attach the file, before the model decides anything; false: such an @ becomes U+FF20",
    ),
];

impl ChannelSettings {
    pub(super) fn check(&self, name: &ChannelName, message_bytes: u64) -> Result<(), SettingsError> {
        let bad =
            |key: &str, why: String| Err(SettingsError::Value { key: format!("channels.{name}.{key}"), why });
        if !(0.0..=31_536_000.0).contains(&self.ttl) {
            return bad("ttl", "give seconds from 0 (never) to 31536000 (a year)".to_owned());
        }
        if self.wait.is_some_and(|wait| !(0.0..=60.0).contains(&wait)) {
            return bad("wait", "give seconds from 0 to 60: Claude waits meanwhile".to_owned());
        }
        if !(-100..=100).contains(&self.priority) {
            return bad("priority", "give a number from -100 to 100".to_owned());
        }
        if self.max_bytes > message_bytes {
            return bad("max_bytes", format!("give at most limits.message_bytes ({message_bytes})"));
        }
        Ok(())
    }

    pub(super) fn outlet_policy(&self) -> OutletPolicy {
        let wait = self.wait.map(|wait| Duration::from_millis(millis(wait)));
        OutletPolicy { wait, json: self.format == Format::Json }
    }

    pub(super) fn policy(&self) -> ChannelPolicy {
        ChannelPolicy {
            format: self.format,
            allowed: self.allowed.clone(),
            priority: self.priority,
            ttl_ms: Some(millis(self.ttl)).filter(|ttl| *ttl > 0),
            max_bytes: Some(self.max_bytes).filter(|limit| *limit > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_every_key_and_no_other() {
        let whole = ChannelSettings { wait: Some(2.0), ..ChannelSettings::default() };
        let value = serde_json::to_value(whole).unwrap();
        let mut found: Vec<&String> = value.as_object().unwrap().keys().collect();
        let mut listed: Vec<&str> =
            CHANNEL_KEYS.iter().filter_map(|key| key.path.strip_prefix("channels.NAME.")).collect();
        found.sort();
        listed.sort();
        assert_eq!(found, listed);
    }

    #[test]
    fn a_bad_value_is_named_with_its_remedy() {
        type Spoil = fn(&mut ChannelSettings);
        let cases: [(&str, Spoil); 4] = [
            ("channels.x.ttl", |c| c.ttl = -1.0),
            ("channels.x.wait", |c| c.wait = Some(61.0)),
            ("channels.x.priority", |c| c.priority = 101),
            ("channels.x.max_bytes", |c| c.max_bytes = 1001),
        ];
        for (key, spoil) in cases {
            let mut channel = ChannelSettings::default();
            spoil(&mut channel);
            let error = channel.check(&"x".parse().unwrap(), 1000).unwrap_err().to_string();
            assert!(error.contains(key), "{key}: {error}");
        }
    }
}
