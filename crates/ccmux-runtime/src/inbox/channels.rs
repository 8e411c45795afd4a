//! What is particular about a channel: the part of its policy that is decided when a message comes in.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccmux_policy::UnixMs;
use ccmux_wire::channel::ChannelName;
use ccmux_wire::inbound::Format;
use serde_json::Value;

use super::error::AcceptError;
use super::message::NewMessage;

/// The policy of one channel; the default is that of a channel without one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelPolicy {
    /// How its frames are read.
    pub format: Format,
    /// Values of `meta.sender` that may write; empty: everybody.
    pub allowed: Vec<String>,
    /// Its turn comes earlier, or later.
    pub priority: i32,
    /// Milliseconds after which a message is not worth sending.
    pub ttl_ms: Option<u64>,
    /// The longest message, where it is shorter than elsewhere.
    pub max_bytes: Option<u64>,
}

/// The channels that have a policy. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Channels(Arc<BTreeMap<ChannelName, ChannelPolicy>>);

impl FromIterator<(ChannelName, ChannelPolicy)> for Channels {
    fn from_iter<T: IntoIterator<Item = (ChannelName, ChannelPolicy)>>(policies: T) -> Self {
        Self(Arc::new(policies.into_iter().collect()))
    }
}

impl Channels {
    /// How the frames of a channel's FIFO are read.
    pub(super) fn format(&self, channel: &ChannelName) -> Format {
        self.0.get(channel).map(|policy| policy.format).unwrap_or_default()
    }

    /// The turn of a channel.
    pub(super) fn priority(&self, channel: &ChannelName) -> i32 {
        self.0.get(channel).map_or(0, |policy| policy.priority)
    }

    /// When a message of the channel is too old.
    pub(super) fn expires_at(&self, channel: &ChannelName, accepted_at: i64) -> Option<UnixMs> {
        let ttl = i64::try_from(self.0.get(channel)?.ttl_ms?).unwrap_or(i64::MAX);
        Some(UnixMs(accepted_at.saturating_add(ttl)))
    }

    /// Why the channel does not take the message.
    pub(super) fn objection(&self, new: &NewMessage) -> Option<AcceptError> {
        let policy = self.0.get(&new.channel)?;
        let channel = new.channel.clone();
        if !policy.allows(new.meta.as_ref()) {
            return Some(AcceptError::NotAllowed { channel });
        }
        let bytes = new.content.len() as u64;
        let limit = policy.max_bytes.filter(|limit| bytes > *limit)?;
        Some(AcceptError::TooLargeForChannel { channel, bytes, limit })
    }
}

impl ChannelPolicy {
    /// A filter, not a lock: whoever can write to the channel can claim to be anybody.
    fn allows(&self, meta: Option<&Value>) -> bool {
        let sender = match meta.and_then(|meta| meta.get("sender")) {
            Some(Value::String(sender)) => Some(sender.clone()),
            Some(Value::Number(sender)) => Some(sender.to_string()),
            _ => None,
        };
        self.allowed.is_empty() || sender.is_some_and(|sender| self.allowed.contains(&sender))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_listed_senders_may_write() {
        let policy = ChannelPolicy { allowed: vec!["ann".into(), "42".into()], ..ChannelPolicy::default() };
        assert!(policy.allows(Some(&json!({"sender": "ann"}))));
        assert!(policy.allows(Some(&json!({"sender": 42}))));
        for meta in [json!({"sender": "bob"}), json!({"sender": ["ann"]}), json!({})] {
            assert!(!policy.allows(Some(&meta)), "{meta}");
        }
        assert!(!policy.allows(None));
        assert!(ChannelPolicy::default().allows(None));
    }
}
