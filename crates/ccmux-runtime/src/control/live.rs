//! Settings that count at once when they are read again, and who has to hear of them.
//!
//! ```text
//! Live::read  files, variables, flags ─► new settings, checked        nothing has changed yet
//! Live::apply merged = what is in force + what can change live ─► policy, inbox, outlets, tmux, turns, log
//!             told: every key that changed, and every key that waits for the daemon's next start
//! ```
//!
//! A key that is not named in `merged` waits for the next start, and is told so at every reload until then.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use ccmux_policy::Event;
use ccmux_wire::channel::ChannelName;
use serde_json::Value;
use tokio::sync::{Mutex, mpsc, watch};

use crate::afar;
use crate::daemon::LogLevel;
use crate::inbox::Inbox;
use crate::outlet::Outlets;
use crate::settings::keys::{KEYS, value_at};
use crate::settings::load::Sources;
use crate::settings::{
    AgentSettings, Loaded, LogSettings, PermissionSettings, Settings, SettingsError, load,
};
use crate::tmux::Tmux;
use crate::turns::broadcast::Broadcast;
use crate::turns::store::Keep;

/// Keys whose values may be secrets: that they changed is all that is told.
const NOT_SHOWN: [&str; 3] = ["agent.env", "agent.command", "proxy.expect"];

/// The channels whose `@path` attaches files. Clones are the same list.
#[derive(Debug, Clone, Default)]
pub struct Mentioning(Arc<RwLock<BTreeSet<ChannelName>>>);

impl Mentioning {
    /// As the settings say.
    pub fn of(settings: &Settings) -> Self {
        let mentioning = Self::default();
        mentioning.change(settings);
        mentioning
    }

    /// Whether that channel is one.
    pub fn has(&self, channel: &ChannelName) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(channel)
    }

    fn change(&self, settings: &Settings) {
        let names = settings.channels.iter().filter(|(_, policy)| policy.mentions);
        let names = names.map(|(name, _)| name.clone()).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = names;
    }
}

/// Who has to hear of changed settings.
#[derive(Debug, Clone)]
pub struct Rooms {
    /// The policy.
    pub events: mpsc::Sender<Event>,
    /// Limits, channels, retention of messages.
    pub inbox: Inbox,
    /// Limit of subscribers.
    pub broadcast: Broadcast,
    /// Who may answer from afar, and where.
    pub afar: afar::Answers,
    /// Patience with readers.
    pub outlets: Outlets,
    /// Silence of the pane.
    pub terminal: Arc<Tmux>,
    /// Who may attach files.
    pub mentioning: Mentioning,
    /// Retention of turns.
    pub keep: watch::Sender<Keep>,
    /// How much is logged.
    pub log_level: LogLevel,
}

/// The settings in force. Clones are the same.
#[derive(Debug, Clone)]
pub struct Live {
    in_force: Arc<Mutex<Settings>>,
    sources: Sources,
    rooms: Rooms,
}

/// What a reload did, in sentences.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// What counts from now on.
    pub live: Vec<String>,
    /// What waits for the daemon's next start.
    pub needs_restart: Vec<String>,
}

impl Live {
    /// These settings are in force, and come from there.
    pub fn new(settings: Settings, sources: Sources, rooms: Rooms) -> Self {
        Self { in_force: Arc::new(Mutex::new(settings)), sources, rooms }
    }

    /// Reads them again; changes nothing.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn read(&self) -> Result<Loaded, SettingsError> {
        load(&self.sources)
    }

    /// Tells every room what counts from now on. One at a time: the rooms hear of each change in the same order.
    pub async fn apply(&self, loaded: Loaded) -> Changes {
        let mut in_force = self.in_force.lock().await;
        let merged = merge(&in_force, &loaded.settings);
        let changes = changes(&in_force, &merged, &loaded);
        if *in_force == merged {
            return changes;
        }
        *in_force = merged.clone();
        self.tell(&merged).await;
        tracing::info!(event = "settings.reread", changed = ?changes.live);
        changes
    }

    async fn tell(&self, settings: &Settings) {
        let rooms = &self.rooms;
        let _ = rooms.events.send(Event::SettingsReread { settings: settings.policy() }).await;
        if let Err(error) = rooms.inbox.change(settings.inbox()).await {
            tracing::error!(event = "inbox.failed", %error);
        }
        let limit = usize::try_from(settings.limits.subscriber_bytes).unwrap_or(usize::MAX);
        rooms.broadcast.change_limit(limit);
        rooms.outlets.change(settings.outlets(), settings.outlet_policies());
        rooms.afar.change(settings.permission.clone());
        rooms.terminal.change_silence(settings.silence());
        rooms.mentioning.change(settings);
        rooms.keep.send_replace(settings.keep());
        rooms.log_level.change(&settings.log);
    }
}

/// What is in force, with what can change live.
fn merge(in_force: &Settings, new: &Settings) -> Settings {
    let new = new.clone();
    let old = in_force.clone();
    Settings {
        idle_threshold: new.idle_threshold,
        silence_timeout: new.silence_timeout,
        agent: AgentSettings { restart_on_exit: new.agent.restart_on_exit, ..old.agent },
        draft: new.draft,
        backoff: new.backoff,
        out: new.out,
        log: LogSettings { file: old.log.file, ..new.log },
        limits: new.limits,
        retention: new.retention,
        // How long Claude Code lets the hook wait stands in a file that the agent has read.
        permission: PermissionSettings { wait: old.permission.wait, ..new.permission },
        channels: new.channels,
        ..old
    }
}

fn changes(in_force: &Settings, merged: &Settings, loaded: &Loaded) -> Changes {
    let live = differences(in_force, merged, loaded);
    let live = if live.is_empty() { vec!["settings: nothing changed".to_owned()] } else { live };
    Changes { live, needs_restart: differences(merged, &loaded.settings, loaded) }
}

/// A sentence for each key that is another one.
fn differences(from: &Settings, to: &Settings, loaded: &Loaded) -> Vec<String> {
    let [from, to] = [from, to].map(|settings| serde_json::to_value(settings).unwrap_or_default());
    let keys = KEYS.iter().filter_map(|key| {
        let (was, is) = (value_at(&from, key.path), value_at(&to, key.path));
        let origin = loaded.origins.get(key.path).map_or("default", String::as_str);
        (was != is).then(|| sentence(key.path, &was, &is, origin))
    });
    keys.chain(channels(&from["channels"], &to["channels"]))
        .chain(routes(&from["routes"], &to["routes"]))
        .collect()
}

fn sentence(key: &str, was: &Value, is: &Value, origin: &str) -> String {
    match NOT_SHOWN.contains(&key) {
        true => format!("{key} changed ({origin})"),
        false => format!("{key} = {is} ({origin}), was {was}"),
    }
}

/// The names of what differs in two tables of tables.
fn differing(from: &Value, to: &Value) -> impl Iterator<Item = String> {
    let names = |table: &Value| -> BTreeSet<String> {
        table.as_object().into_iter().flat_map(|table| table.keys().cloned()).collect()
    };
    let all: BTreeSet<String> = names(from).union(&names(to)).cloned().collect();
    all.into_iter().filter(move |name| from[name] != to[name])
}

/// A route may hold a secret: that it changed is all that is told.
fn routes(from: &Value, to: &Value) -> Vec<String> {
    differing(from, to).map(|name| format!("routes.{name} changed")).collect()
}

fn channels(from: &Value, to: &Value) -> Vec<String> {
    differing(from, to)
        .map(|name| match &to[&name] {
            Value::Null => format!("channels.{name} has no policy any more"),
            policy => format!("channels.{name} = {policy}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn loaded(change: impl FnOnce(&mut Settings)) -> Loaded {
        let mut settings = Settings::defaults(None);
        change(&mut settings);
        Loaded {
            settings,
            origins: BTreeMap::from([("idle_threshold".into(), "a.toml".into())]),
            warnings: vec![],
        }
    }

    fn told(change: impl FnOnce(&mut Settings)) -> Changes {
        let (old, new) = (Settings::defaults(None), loaded(change));
        changes(&old, &merge(&old, &new.settings), &new)
    }

    #[test]
    fn each_key_that_changed_is_told_with_its_origin() {
        let changes = told(|new| {
            new.idle_threshold = 5.0;
            new.mcp.port = 1;
            new.agent.restart_on_exit = false;
        });
        let live =
            ["idle_threshold = 5.0 (a.toml), was 30.0", "agent.restart_on_exit = false (default), was true"];
        assert_eq!(changes.live, live);
        assert_eq!(changes.needs_restart, ["mcp.port = 1 (default), was 9876"]);
        assert_eq!(told(|_| {}).live, ["settings: nothing changed"]);
    }

    #[test]
    fn what_may_be_a_secret_is_not_shown() {
        let changes = told(|new| {
            new.agent.env.insert("KEY".into(), "hunter2".into());
            new.proxy.expect = "http://u:hunter2@p".into();
            new.agent.command = "claude --token hunter2".into();
            let route = serde_json::json!({"type": "command", "argv": ["/bin/say", "hunter2"]});
            new.routes.insert("phone".into(), serde_json::from_value(route).unwrap());
        });
        assert_eq!(changes.needs_restart.len(), 4);
        assert_eq!(changes.needs_restart[3], "routes.phone changed");
        assert!(!format!("{changes:?}").contains("hunter2"), "{changes:?}");
    }

    #[test]
    fn a_policy_that_comes_changes_or_goes_is_told() {
        let name: ChannelName = "a.b".parse().unwrap();
        let changes = told(|new| drop(new.channels.insert(name, Default::default())));
        assert!(changes.live[0].starts_with("channels.a.b = {"), "{changes:?}");
        let (with, without) = (serde_json::json!({"x": {}}), serde_json::json!({}));
        assert_eq!(channels(&with, &without), ["channels.x has no policy any more"]);
    }
}
