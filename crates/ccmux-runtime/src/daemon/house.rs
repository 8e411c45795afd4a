//! Everything that is opened before the first task starts: directories, tmux, databases, the hook binary.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ccmux_policy::{Event, UnixMs};
use ccmux_wire::channel::ChannelName;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{DaemonError, Setting};
use crate::agent::mcp_entry::Transport;
use crate::agent::plan::AgentPlan;
use crate::agent::record::session_token;
use crate::clock::Clock;
use crate::control::live::{Live, Mentioning};
use crate::control::reload::Reloader;
use crate::inbox::{self, Inbox, Size, Texts};
use crate::intake::IntakeLogs;
use crate::mcp::Door;
use crate::metrics::Metrics;
use crate::prompt;
use crate::runtime_dir::{RuntimeDir, RuntimeDirError, StateDir};
use crate::screen::RuleBook;
use crate::settings::{Settings, expand};
use crate::systemd::{self, Passed, Systemd};
use crate::tmux::{Tmux, TmuxSettings};
use crate::turns::{self, Turns, TurnsSettings};
use crate::workers::herald::{Alerts, News};

/// How many events may wait for the loop.
const EVENTS: usize = 4096;

/// The inbox and the pane are closed within that time each; SIGTERM must not wait for whoever holds a lock.
const CLOSES_WITHIN: Duration = Duration::from_secs(1);

/// The inbox's database, and the folder of the bytes that are on their way to it.
const INBOX: &str = "inbox.db";
const LOGS: &str = "intake";

/// What is open.
pub struct House {
    pub setting: Setting,
    pub plan: AgentPlan,
    pub rules: RuleBook,
    pub runtime_dir: Arc<RuntimeDir>,
    pub state_dir: StateDir,
    pub token: String,
    pub hook: PathBuf,
    /// Where Claude's tools are, and how Claude gets there.
    pub mcp: (Door, Transport),
    /// What binding its port gave; taken by the server.
    pub mcp_bound: Option<io::Result<TcpListener>>,
    pub terminal: Arc<Tmux>,
    pub inbox: inbox::Opened,
    pub logs: IntakeLogs,
    /// Where logs that belong to a lost inbox were moved: to be alerted.
    pub logs_aside: Option<PathBuf>,
    pub turns: turns::Opened,
    pub events: mpsc::Sender<Event>,
    /// Taken by the event loop.
    pub waiting_events: Option<mpsc::Receiver<Event>>,
    pub alerts: Alerts,
    /// Taken by the herald.
    pub waiting_news: Option<mpsc::Receiver<News>>,
    pub clock: Clock,
    pub systemd: Systemd,
    /// Taken by the registry.
    pub passed: Passed,
    pub metrics: Metrics,
    /// Channels whose `@path` stays one.
    pub mentioning: Mentioning,
    /// What settings can change; known once the tasks run.
    pub live: Option<Live>,
}

impl House {
    /// Opens everything; what is refused is named before anything was started.
    pub async fn open(setting: Setting, (systemd, passed): (Systemd, Passed)) -> Result<Self, DaemonError> {
        let settings = &setting.settings;
        let runtime_dir = expand(&settings.runtime_dir, &setting.home);
        let plan = AgentPlan::new(settings, &setting.home, setting.environment.clone());
        let plan = plan.or_else(|error| not_running(&runtime_dir).and(Err(error.into())))?;
        let rules = setting.rule_book()?;
        // Not before: the plan remembers what the agent may have.
        super::allow_descriptors();
        // The runtime directory first: it says who else runs, before anything else is touched.
        let runtime_dir = Arc::new(RuntimeDir::claim(&runtime_dir)?);
        let state_dir = StateDir::claim(&expand(&settings.state_dir, &setting.home))?;
        let terminal = Arc::new(Tmux::new(tmux_settings(&setting, state_dir.path())));
        let version = terminal.version().await?;
        tracing::info!(event = "tmux.found", %version);
        let hook = install_hook(&setting)?;
        let token = session_token(state_dir.path())
            .map_err(|source| DaemonError::Io { what: "can't keep the session's token", source })?;
        // Now, so that whoever is started later finds it.
        let door = Door::new(state_dir.path(), settings.mcp.port, settings.mcp.auth == "token")
            .map_err(|source| DaemonError::Io { what: "can't keep the HTTP server's token", source })?;
        let mcp_bound = Some(door.bind().await);
        let mcp = (door, Transport::of(&settings.mcp.entry));
        let (events, waiting_events) = mpsc::channel(EVENTS);
        let mentioning = Mentioning::of(settings);
        let had_inbox = state_dir.path().join(INBOX).exists();
        let inbox = open_inbox((settings, &mentioning), state_dir.path(), &plan, events.clone())?;
        let inbox_is_new = !had_inbox || inbox.damaged.is_some();
        let (logs, logs_aside) = open_logs(&state_dir, inbox_is_new)?;
        let turns = open_turns(settings, state_dir.path(), &plan)?;
        let waiting_events = Some(waiting_events);
        let (alerts, waiting_news) = Alerts::new();
        let waiting_news = Some(waiting_news);
        let clock = Clock::default();
        Ok(Self {
            setting,
            plan,
            rules,
            runtime_dir,
            state_dir,
            token,
            hook,
            mcp,
            mcp_bound,
            terminal,
            inbox,
            logs,
            logs_aside,
            turns,
            events,
            waiting_events,
            alerts,
            waiting_news,
            clock,
            systemd,
            passed,
            metrics: Metrics::default(),
            mentioning,
            live: None,
        })
    }

    /// Reads again what can be.
    pub fn reloader(&self) -> Reloader {
        Reloader {
            rules: self.rules.clone(),
            events: self.events.clone(),
            systemd: self.systemd.clone(),
            live: self.live.clone(),
        }
    }

    /// Commits, ends the agent if so configured, gives the runtime directory back.
    pub async fn close(self) {
        close_inbox(&self.inbox.inbox).await;
        if self.setting.settings.stop_agent_on_exit {
            match timeout(CLOSES_WITHIN, self.terminal.kill_pane()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(event = "agent.not_stopped", %error),
                Err(_) => tracing::warn!(event = "agent.not_stopped", "tmux does not answer"),
            }
        }
        self.runtime_dir.release();
    }
}

/// What is not closed in time is ended with the process: SQLite commits a transaction wholly or not at all.
async fn close_inbox(inbox: &Inbox) {
    if timeout(CLOSES_WITHIN, inbox.close()).await.is_err() {
        tracing::error!(event = "inbox.closed_late", "another program holds inbox.db, or the disk is slow");
    }
}

/// Whoever starts a second daemon is told so first: what is wrong with its settings does not matter then.
fn not_running(runtime_dir: &Path) -> Result<(), DaemonError> {
    match runtime_dir.exists().then(|| RuntimeDir::claim(runtime_dir)) {
        Some(Err(error @ RuntimeDirError::AlreadyRunning { .. })) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Our pane's place in tmux.
pub(crate) fn tmux_settings(setting: &Setting, state_dir: &Path) -> TmuxSettings {
    let settings = &setting.settings;
    TmuxSettings {
        binary: PathBuf::from("tmux"),
        socket: Some(settings.tmux_socket.clone()).filter(|name| !name.is_empty()),
        config: None,
        session: settings.tmux_session.clone(),
        window: "claude".to_owned(),
        sink: vec![setting.binaries.ccmuxd.display().to_string(), "pane-sink".to_owned()],
        sink_socket: state_dir.join("pane.sock"),
        own_unit: systemd::started_us(&setting.environment),
        silence_timeout: settings.silence(),
    }
}

fn open_inbox(
    (settings, mentioning): (&Settings, &Mentioning),
    state_dir: &Path,
    plan: &AgentPlan,
    events: mpsc::Sender<Event>,
) -> Result<inbox::Opened, DaemonError> {
    Ok(Inbox::open(&state_dir.join(INBOX), settings.inbox(), texts(mentioning, plan), events)?)
}

fn open_logs(state_dir: &StateDir, inbox_is_new: bool) -> Result<(IntakeLogs, Option<PathBuf>), DaemonError> {
    let aside = match inbox_is_new {
        true => IntakeLogs::move_aside(&state_dir.path().join(LOGS), Clock::default().now().wall.0 / 1000)?,
        false => None,
    };
    if let Some(aside) = &aside {
        tracing::warn!(event = "intake_log.moved_aside", to = %aside.display());
    }
    Ok((IntakeLogs::new(state_dir.subdirectory(LOGS)?), aside))
}

/// What the inbox does to every text: once, on intake.
fn texts(mentioning: &Mentioning, plan: &AgentPlan) -> Texts {
    let mentioning = mentioning.clone();
    let cwd = plan.cwd.clone();
    let home = plan.environment.get("HOME").map(PathBuf::from).unwrap_or_default();
    let normalise = move |channel: &ChannelName, raw: &str| {
        let exists = |path: &str| cwd.join(expand(path, &home)).exists();
        match prompt::sanitise(raw) {
            text if mentioning.has(channel) => text,
            text => prompt::neutralise_mentions(&text, &exists),
        }
    };
    let measure = |shown: &str, content: &str| {
        let part = prompt::Part { at_wall: UnixMs(0), label: shown, content, redelivered: true };
        let size = prompt::size(&part);
        Size { bytes: size.bytes, rows: size.rows }
    };
    Texts { normalise: Arc::new(normalise), measure: Arc::new(measure) }
}

fn open_turns(settings: &Settings, state_dir: &Path, plan: &AgentPlan) -> Result<turns::Opened, DaemonError> {
    let subscriber_bytes = usize::try_from(settings.limits.subscriber_bytes).unwrap_or(usize::MAX);
    let turns_settings = TurnsSettings { projects_dir: plan.projects_dir(), subscriber_bytes };
    Ok(Turns::open(state_dir, turns_settings)?)
}

/// Copies the hook beside its users, if it is another one: under a new name and renamed, since the old one may be
/// running.
pub(crate) fn install_hook(setting: &Setting) -> Result<PathBuf, DaemonError> {
    let to = expand(&setting.settings.hook.path, &setting.home);
    let from = setting.binaries.hook.clone();
    match copy_if_different(&from, &to) {
        Ok(()) => Ok(to),
        Err(source) => Err(DaemonError::Hook { from, to, source }),
    }
}

fn copy_if_different(from: &Path, to: &Path) -> io::Result<()> {
    if from == to {
        return from.metadata().map(drop);
    }
    let new = File::open(from)?;
    if File::open(to).is_ok_and(|old| hold_the_same(new, old).unwrap_or(false)) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let beside = to.with_extension(format!("new-{}", std::process::id()));
    std::fs::copy(from, &beside)?;
    std::fs::set_permissions(&beside, PermissionsExt::from_mode(0o755))?;
    std::fs::rename(&beside, to)
}

/// Piece by piece: an allocator that gave a whole binary's room once keeps as much from then on.
fn hold_the_same(one: File, other: File) -> io::Result<bool> {
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (BufReader::new(one), BufReader::new(other));
    loop {
        let (left, right) = (one.fill_buf()?, other.fill_buf()?);
        let both = left.len().min(right.len());
        if left[..both] != right[..both] {
            return Ok(false);
        }
        if both == 0 {
            return Ok(left.len() == right.len());
        }
        one.consume(both);
        other.consume(both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::InboxSettings;

    #[test]
    fn a_hook_is_copied_once_and_replaced_when_it_differs() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("deep/b"));
        std::fs::write(&from, "one").unwrap();
        copy_if_different(&from, &to).unwrap();
        let first = to.metadata().unwrap();
        assert_eq!(first.permissions().mode() & 0o777, 0o755);
        copy_if_different(&from, &to).unwrap();
        assert_eq!(to.metadata().unwrap().modified().unwrap(), first.modified().unwrap());
        std::fs::write(&from, "two").unwrap();
        copy_if_different(&from, &to).unwrap();
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "two");
        let long = "x".repeat(50_000);
        for text in [long.clone() + "a", long.clone() + "b", long.clone() + "b2", long] {
            std::fs::write(&from, &text).unwrap();
            copy_if_different(&from, &to).unwrap();
            assert!(std::fs::read_to_string(&to).unwrap() == text);
        }
        assert!(copy_if_different(Path::new("/nowhere"), &to).is_err());
    }

    #[tokio::test]
    async fn the_end_does_not_wait_for_whoever_holds_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(INBOX);
        let texts = Texts::plain();
        let inbox = Inbox::open(&path, InboxSettings::default(), texts, mpsc::channel(1).0).unwrap().inbox;
        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let waiting = inbox.clone();
        let order = tokio::spawn(async move { waiting.bodies(Vec::new()).await });
        tokio::task::yield_now().await;
        let begin = std::time::Instant::now();
        close_inbox(&inbox).await;
        assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
        assert!(!order.is_finished(), "nothing was locked");
    }
}
