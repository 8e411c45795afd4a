//! Settings: defaults ← `/etc/ccmux/ccmux.toml` ← the user's file ← variables ← flags.
//!
//! | module | what it does |
//! |---|---|
//! | [`opencode`] | `[opencode.NAME]`: servers of OpenCode that are followed |
//! | [`attention`] | `[attention]`, `[attention.KIND]`: whom to tell what, and when |
//! | [`channels`] | `[channels.NAME]`: what is particular about a channel |
//! | [`keys`] | every key with its variable and its meaning: the one list of them |
//! | [`permission`] | `[permission]`: answers from afar |
//! | [`routes`] | `[routes.NAME]`: the ways to a person |
//! | [`services`] | `[routes.NAME]` of services with a form of their own |
//! | [`tcp`] | `[tcp]`: where older senders reach the daemon |
//! | [`mod@load`] | reads and layers the sources, names what is wrong |
//!
//! Durations are whole or broken seconds, sizes are bytes. Paths may begin with `~/`. This module opens nothing but the
//! settings files.

pub mod attention;
pub mod channels;
pub mod keys;
pub mod load;
pub mod opencode;
pub mod permission;
pub mod routes;
pub mod services;
pub mod tcp;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ccmux_policy::PolicySettings;
use ccmux_wire::channel::ChannelName;
use ccmux_wire::paths::{InstanceName, instance_name};
use serde::{Deserialize, Serialize};

use crate::agent::mcp_entry::Transport;
use crate::inbox::{Channels, InboxSettings, Retention};
use crate::outlet::{OutletPolicy, OutletSettings};
use crate::turns::store::Keep;

pub use attention::AttentionSettings;
pub use channels::ChannelSettings;
pub use load::{Loaded, SettingsError, load};
use opencode::OpencodeServer;
pub use permission::PermissionSettings;
pub use routes::RouteSettings;
pub use tcp::TcpSettings;

/// An outgoing message that was begun is finished within that time, or torn.
const FINISH: Duration = Duration::from_secs(5);
/// A smaller database could hold no messages.
const MIN_RETENTION_BYTES: u64 = 16 * 1024 * 1024;

/// Every setting, as in config/ccmux.toml.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// FIFOs and sockets.
    pub runtime_dir: String,
    /// Databases and generated files.
    pub state_dir: String,
    /// Name of the tmux session.
    pub tmux_session: String,
    /// Name of the tmux server's socket (`-L`); empty: tmux's default.
    pub tmux_socket: String,
    /// Seconds without a key press before an injection.
    pub idle_threshold: f64,
    /// Seconds of pane silence that call for a look.
    pub silence_timeout: f64,
    /// End the agent when the daemon stops.
    pub stop_agent_on_exit: bool,
    /// Tell Claude to ask through its question tool.
    pub enforce_questions: bool,
    /// The agent.
    pub agent: AgentSettings,
    /// Drafts in the prompt box.
    pub draft: DraftSettings,
    /// The proxy that the agent should go through.
    pub proxy: ProxySettings,
    /// Pauses before restarts.
    pub backoff: BackoffSettings,
    /// The hook binary.
    pub hook: HookSettings,
    /// The HTTP server with Claude's tools.
    pub mcp: McpSettings,
    /// What leaves by `out.*` FIFOs.
    pub out: OutSettings,
    /// The log.
    pub log: LogSettings,
    /// Older senders.
    pub tcp: TcpSettings,
    /// Sizes.
    pub limits: LimitSettings,
    /// How long messages and turns are kept.
    pub retention: RetentionSettings,
    /// Answers from afar.
    pub permission: PermissionSettings,
    /// Whom to tell that somebody is waited for.
    pub attention: AttentionSettings,
    /// How notices reach people.
    #[serde(default)]
    pub routes: BTreeMap<String, RouteSettings>,
    /// Servers of OpenCode that are followed.
    #[serde(default)]
    pub opencode: BTreeMap<String, OpencodeServer>,
    /// Policies of single channels.
    #[serde(default)]
    pub channels: BTreeMap<ChannelName, ChannelSettings>,
}

/// `[agent]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSettings {
    /// The command, split like a shell does, run without one.
    pub command: String,
    /// Which screen rules.
    pub profile: String,
    /// Working directory.
    pub cwd: String,
    /// Allow the home folder and `/` as working directory.
    pub allow_home: bool,
    /// Start it again after it ended by itself with 0.
    pub restart_on_exit: bool,
    /// An agent of more bytes is started anew between two turns; 0: however big.
    pub max_rss: u64,
    /// Variables for the agent, on top of the daemon's.
    pub env: BTreeMap<String, String>,
}

/// `[draft]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DraftSettings {
    /// Seconds that a draft may keep messages waiting before it is put away; 0: for ever.
    pub max_hold: f64,
}

/// `[proxy]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxySettings {
    /// What the agent's proxy variables should hold; empty: no check.
    pub expect: String,
}

/// `[backoff]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackoffSettings {
    /// Seconds before the first restart.
    pub initial: f64,
    /// Longest pause in seconds.
    pub cap: f64,
}

/// `[hook]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookSettings {
    /// Where the hook binary is copied to.
    pub path: String,
}

/// `[mcp]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpSettings {
    /// Port on 127.0.0.1; 0: any, kept.
    pub port: u16,
    /// How Claude connects: `http`, `sse`.
    pub entry: String,
    /// `token`, `none`.
    pub auth: String,
}

/// `[out]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutSettings {
    /// Seconds that a message waits for a reader.
    pub wait: f64,
    /// Seconds that a FIFO stays open after a message.
    pub linger: f64,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// JSON lines.
    pub file: String,
    /// `error`, `warn`, `info`, `debug`.
    pub level: String,
    /// The texts of messages and turns, too.
    pub bodies: bool,
}

/// `[limits]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitSettings {
    /// Largest message.
    pub message_bytes: u64,
    /// Largest prompt made of several messages.
    pub batch_bytes: u64,
    /// Most messages that wait.
    pub queue_messages: u64,
    /// Most bytes that wait.
    pub queue_bytes: u64,
    /// Most bytes that wait for one subscriber.
    pub subscriber_bytes: u64,
}

/// `[retention]`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionSettings {
    /// Days; 0: for ever.
    pub days: u64,
    /// Bytes of each database; 0: no matter how many.
    pub bytes: u64,
}

impl Settings {
    /// The defaults of an instance (`None`: the plain one).
    pub fn defaults(instance: Option<&InstanceName>) -> Self {
        let name = instance_name(instance);
        Self {
            runtime_dir: format!("/tmp/{name}"),
            state_dir: format!("~/.local/state/{name}"),
            tmux_session: name.clone(),
            tmux_socket: String::new(),
            idle_threshold: 30.0,
            silence_timeout: 3.0,
            stop_agent_on_exit: false,
            enforce_questions: false,
            agent: AgentSettings {
                command: "claude --dangerously-skip-permissions".into(),
                profile: "claude-code".into(),
                cwd: "~/ccmux-workspace".into(),
                allow_home: false,
                restart_on_exit: true,
                max_rss: 0,
                env: BTreeMap::new(),
            },
            draft: DraftSettings { max_hold: 0.0 },
            proxy: ProxySettings { expect: "http://127.0.0.1:8118".into() },
            backoff: BackoffSettings { initial: 1.0, cap: 60.0 },
            hook: HookSettings { path: "~/.local/share/ccmux/ccmux-hook".into() },
            mcp: McpSettings {
                // An instance beside the plain one can't have its port.
                port: if instance.is_some() { 0 } else { 9876 },
                entry: "stdio".into(),
                auth: "token".into(),
            },
            out: OutSettings { wait: 2.0, linger: 2.0 },
            log: LogSettings {
                file: format!("~/.local/share/ccmux/{name}.log"),
                level: "info".into(),
                bodies: false,
            },
            tcp: TcpSettings::default(),
            limits: LimitSettings {
                message_bytes: 256 * 1024,
                batch_bytes: 32 * 1024,
                queue_messages: 10_000,
                queue_bytes: 64 * 1024 * 1024,
                subscriber_bytes: 8 * 1024 * 1024,
            },
            retention: RetentionSettings { days: 30, bytes: 1 << 30 },
            permission: PermissionSettings::default(),
            attention: AttentionSettings::default(),
            routes: BTreeMap::new(),
            opencode: BTreeMap::new(),
            channels: BTreeMap::new(),
        }
    }

    /// What decisions depend on.
    pub fn policy(&self) -> PolicySettings {
        PolicySettings {
            idle_threshold_ms: millis(self.idle_threshold),
            batch_bytes: self.limits.batch_bytes,
            backoff_initial_ms: millis(self.backoff.initial),
            backoff_cap_ms: millis(self.backoff.cap),
            draft_max_hold_ms: millis(self.draft.max_hold),
            max_rss: self.agent.max_rss,
            restart_on_exit: self.agent.restart_on_exit,
        }
    }

    /// Limits of the inbox, and what is particular about channels.
    pub fn inbox(&self) -> InboxSettings {
        InboxSettings {
            message_bytes: self.limits.message_bytes,
            queue_messages: self.limits.queue_messages,
            queue_bytes: self.limits.queue_bytes,
            channels: self.channel_policies(),
            retention: Retention { days: self.retention.days, bytes: self.retention.bytes },
            ..InboxSettings::default()
        }
    }

    /// What the inbox needs to know of channels.
    pub fn channel_policies(&self) -> Channels {
        self.channels.iter().map(|(name, channel)| (name.clone(), channel.policy())).collect()
    }

    /// How patient the writers of outgoing FIFOs are.
    pub fn outlets(&self) -> OutletSettings {
        OutletSettings {
            wait: Duration::from_millis(millis(self.out.wait)),
            linger: Duration::from_millis(millis(self.out.linger)),
            finish: FINISH,
        }
    }

    /// What is particular about outgoing channels.
    pub fn outlet_policies(&self) -> BTreeMap<ChannelName, OutletPolicy> {
        self.channels.iter().map(|(name, channel)| (name.clone(), channel.outlet_policy())).collect()
    }

    /// What is kept of turns and alerts.
    pub fn keep(&self) -> Keep {
        let seconds = i64::try_from(self.retention.days.saturating_mul(86_400)).unwrap_or(i64::MAX);
        Keep {
            seconds: Some(seconds).filter(|seconds| *seconds > 0),
            bytes: Some(self.retention.bytes).filter(|bytes| *bytes > 0),
        }
    }

    /// Silence of the pane that calls for a look.
    pub fn silence(&self) -> Duration {
        Duration::from_millis(millis(self.silence_timeout))
    }

    /// Checks what types can't say.
    ///
    /// # Errors
    /// The first key whose value can't be used, with the remedy.
    pub fn check(&self) -> Result<(), SettingsError> {
        let bad = |key: &str, why: &str| Err(SettingsError::Value { key: key.into(), why: why.into() });
        let seconds = [
            ("idle_threshold", self.idle_threshold),
            ("silence_timeout", self.silence_timeout),
            ("draft.max_hold", self.draft.max_hold),
            ("backoff.initial", self.backoff.initial),
            ("backoff.cap", self.backoff.cap),
            ("out.linger", self.out.linger),
        ];
        if let Some((key, _)) = seconds.iter().find(|(_, value)| !(0.0..=86_400.0).contains(value)) {
            return bad(key, "give seconds from 0 to 86400");
        }
        if !(0.0..=60.0).contains(&self.out.wait) {
            return bad("out.wait", "give seconds from 0 to 60: Claude waits meanwhile");
        }
        if self.silence_timeout < 0.1 {
            return bad("silence_timeout", "give at least 0.1 seconds");
        }
        if self.backoff.cap < self.backoff.initial {
            return bad("backoff.cap", "give at least backoff.initial");
        }
        let limits = [
            ("limits.message_bytes", self.limits.message_bytes == 0),
            ("limits.batch_bytes", self.limits.batch_bytes == 0),
            ("limits.queue_messages", self.limits.queue_messages == 0),
            ("limits.queue_bytes", self.limits.queue_bytes == 0),
            ("limits.subscriber_bytes", self.limits.subscriber_bytes == 0),
        ];
        if let Some((key, _)) = limits.into_iter().find(|(_, is_zero)| *is_zero) {
            return bad(key, "give at least 1");
        }
        if (1..MIN_RETENTION_BYTES).contains(&self.retention.bytes) {
            return bad("retention.bytes", "give at least 16777216 (16 MiB), or 0 for no limit");
        }
        for (name, channel) in &self.channels {
            channel.check(name, self.limits.message_bytes)?;
        }
        self.permission.check()?;
        for (name, server) in &self.opencode {
            server.check(name)?;
        }
        self.attention.check(&self.routes)?;
        self.tcp.check()?;
        match shell_words::split(&self.agent.command) {
            Ok(words) if words.is_empty() => bad("agent.command", "give a command"),
            Ok(_) => self.check_names(),
            Err(_) => bad("agent.command", "a quote is not closed"),
        }
    }

    fn check_names(&self) -> Result<(), SettingsError> {
        let bad = |key: &str, why: &str| Err(SettingsError::Value { key: key.into(), why: why.into() });
        let plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
        if self.tmux_session.is_empty() || !plain(&self.tmux_session) {
            return bad(
                "tmux_session",
                "use letters, digits, `_` and `-` (tmux gives `.` and `:` a meaning)",
            );
        }
        if !plain(&self.tmux_socket) {
            return bad("tmux_socket", "give a name for `tmux -L`: letters, digits, `_` and `-`");
        }
        if !["error", "warn", "info", "debug", "trace"].contains(&self.log.level.as_str()) {
            return bad("log.level", "use error, warn, info, debug or trace");
        }
        if !Transport::WORDS.contains(&self.mcp.entry.as_str()) {
            return bad("mcp.entry", "use stdio, http or sse");
        }
        if !["token", "none"].contains(&self.mcp.auth.as_str()) {
            return bad("mcp.auth", "use token or none");
        }
        Ok(())
    }
}

/// Seconds as milliseconds; [`Settings::check`] keeps them small.
fn millis(seconds: f64) -> u64 {
    (seconds * 1000.0).round() as u64
}

/// `~/x` beneath the home folder; anything else as it is.
pub fn expand(path: &str, home: &Path) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None if path == "~" => home.to_path_buf(),
        None => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        Settings::defaults(None).check().unwrap();
    }

    #[test]
    fn a_bad_value_is_named_with_its_remedy() {
        type Spoil = fn(&mut Settings);
        let cases: [(&str, Spoil); 9] = [
            ("idle_threshold", |s| s.idle_threshold = -1.0),
            ("backoff.cap", |s| s.backoff.cap = 0.5),
            ("agent.command", |s| s.agent.command = "claude 'x".into()),
            ("tmux_session", |s| s.tmux_session = "a.b".into()),
            ("log.level", |s| s.log.level = "loud".into()),
            ("out.wait", |s| s.out.wait = 61.0),
            ("mcp.entry", |s| s.mcp.entry = "pigeon".into()),
            ("mcp.auth", |s| s.mcp.auth = "maybe".into()),
            ("retention.bytes", |s| s.retention.bytes = 1000),
        ];
        for (key, spoil) in cases {
            let mut settings = Settings::defaults(None);
            spoil(&mut settings);
            let error = settings.check().unwrap_err().to_string();
            assert!(error.contains(key), "{key}: {error}");
        }
    }
}
