//! Puts the rooms together: claims the directories, opens the databases, starts the tasks, stops them in order.
//!
//! | module | what it does |
//! |---|---|
//! | [`house`] | everything that is opened before the first task starts |
//! | [`tasks`] | starts the tasks and gives each its world |
//! | [`channel_news`] | tells of channels that come and go |
//! | [`sink`] | the inbox as the place where FIFOs' bytes go |
//! | [`sockets`] | `output.sock` and `control.sock`: bound, and bound again |
//! | [`guests`] | doors for containers and older senders |
//! | [`doors`] | what people and programs meet: desk, HTTP, metrics, notices |
//!
//! The caller brings settings, environment, binaries and the shutdown signal, so that tests need no signals.

mod channel_news;
mod doors;
mod guests;
mod house;
mod sink;
mod sockets;
mod tasks;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::agent::plan::PlanError;
use crate::inbox::InboxError;
use crate::intake::LogError;
use crate::runtime_dir::RuntimeDirError;
use crate::screen::{RuleBook, RulesError};
use crate::settings::load::{Sources, config_folder};
use crate::settings::tcp::TokenError;
use crate::settings::{LogSettings, Settings};
use crate::systemd::{Passed, Systemd};
use crate::tmux::VersionError;
use crate::turns::TurnsError;
use crate::turns::store::StoreError;
use house::House;
pub(crate) use house::{install_hook, tmux_settings};

/// FIFOs are drained and connections closed within that time. With what [`House::close`] may take it is less than the 5 s
/// in which a daemon that is told to stop has ended, whoever holds a lock.
const STOPS_WITHIN: Duration = Duration::from_millis(2500);

/// What the daemon is started with.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The settings.
    pub settings: Settings,
    /// The user's home folder.
    pub home: PathBuf,
    /// The daemon's environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Our binaries.
    pub binaries: Binaries,
    /// Where the settings come from, to be read again.
    pub sources: Sources,
    /// Whoever keeps the log.
    pub log_level: LogLevel,
}

type ChangeLog = dyn Fn(&LogSettings) + Send + Sync;

/// Changes how much the log tells; the default changes nothing.
#[derive(Clone, Default)]
pub struct LogLevel(Option<Arc<ChangeLog>>);

impl LogLevel {
    /// That is what `log.level` is given to.
    pub fn new(change: impl Fn(&LogSettings) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(change)))
    }

    /// From now on.
    pub fn change(&self, log: &LogSettings) {
        if let Some(change) = &self.0 {
            change(log);
        }
    }
}

impl std::fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LogLevel")
    }
}

/// Our binaries, absolute.
#[derive(Debug, Clone)]
pub struct Binaries {
    /// `ccmuxd`, for `launch` and `pane-sink`.
    pub ccmuxd: PathBuf,
    /// `ccmux-hook`, copied to `hook.path` at start.
    pub hook: PathBuf,
}

impl Setting {
    /// The screen rules of the agent's profile: the user's own, else those that are built in.
    ///
    /// # Errors
    /// If there are none, or the user's are broken.
    pub fn rule_book(&self) -> Result<RuleBook, RulesError> {
        let variable = |name: &str| {
            let found = self.environment.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| PathBuf::from(value))
        };
        let folder = config_folder(variable("XDG_CONFIG_HOME"), Some(self.home.clone()));
        RuleBook::open(&self.settings.agent.profile, folder.map(|folder| folder.join("agents")).as_deref())
    }
}

impl Binaries {
    /// The others are looked for beside `ccmuxd`.
    pub fn beside(ccmuxd: PathBuf) -> Self {
        let hook = ccmuxd.with_file_name("ccmux-hook");
        Self { ccmuxd, hook }
    }

    /// Which one is missing, with the remedy. Exit code 69.
    pub fn missing(&self) -> Option<String> {
        let hook = self.hook.display();
        (!self.hook.is_file()).then(|| format!("{hook} is missing: install ccmux-hook beside ccmuxd"))
    }
}

/// Why the daemon did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Another daemon, or a directory that is refused.
    #[error(transparent)]
    RuntimeDir(#[from] RuntimeDirError),
    /// tmux is missing or too old.
    #[error(transparent)]
    Tmux(#[from] VersionError),
    /// The agent.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The hook binary.
    #[error("can't install the hook {from} as {to}: {source}")]
    Hook {
        /// Our binary.
        from: PathBuf,
        /// `hook.path`.
        to: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The inbox.
    #[error(transparent)]
    Inbox(#[from] InboxError),
    /// The intake logs.
    #[error(transparent)]
    Logs(#[from] LogError),
    /// The turns.
    #[error(transparent)]
    Turns(#[from] TurnsError),
    /// The screen rules.
    #[error("agent.profile: {0}")]
    Rules(#[from] RulesError),
    /// The secret of older senders.
    #[error("tcp.token_file: {0}")]
    Token(#[from] TokenError),
    /// Anything else that the system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl DaemonError {
    /// The documented exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::RuntimeDir(error) => error.exit_code(),
            Self::Tmux(_) | Self::Hook { .. } | Self::Plan(PlanError::NoProgram(_)) => 69,
            Self::Plan(PlanError::Settings(_)) | Self::Rules(_) | Self::Token(_) => 78,
            Self::Inbox(InboxError::Newer { .. } | InboxError::Refused { .. })
            | Self::Turns(TurnsError::Store(StoreError::TooNew { .. })) => 73,
            Self::Inbox(_) | Self::Logs(_) | Self::Turns(_) | Self::Io { .. } => 1,
        }
    }
}

/// Runs the daemon until `shutdown`. systemd, if it is there, is told that clients can connect, and `ready` is called;
/// `reload` asks for what `ccmux reload` does.
///
/// # Errors
/// Whatever kept it from starting, with its exit code. Once it runs, it goes on.
pub async fn run(
    setting: Setting,
    (systemd, passed): (Systemd, Passed),
    shutdown: CancellationToken,
    reload: Arc<Notify>,
    ready: impl FnOnce(),
) -> Result<(), DaemonError> {
    let _limit_on_files = fail_writes_over_the_limit()?;
    let mut house = House::open(setting, (systemd.clone(), passed)).await?;
    let running = tasks::start(&mut house, &shutdown).await?;
    running.tasks.spawn(house.reloader().run(reload, shutdown.clone()));
    systemd.ready();
    ready();
    tracing::info!(event = "daemon.ready", runtime_dir = %house.runtime_dir.path().display());
    let ended = running.event_loop.await;
    systemd.stopping();
    shutdown.cancel();
    running.tasks.close();
    if timeout(STOPS_WITHIN, running.tasks.wait()).await.is_err() {
        tracing::warn!(event = "daemon.stopped_late");
    }
    house.close().await;
    tracing::info!(event = "daemon.stopped");
    ended.map_err(|error| DaemonError::Io { what: "the event loop failed", source: error.into() })
}

/// Every channel needs some; the soft limit (often 1024) is for programs that can't count further.
fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(errno) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(event = "daemon.few_descriptors", limit = limit.current, %errno);
    }
}

/// A limit on the size of files (`ulimit -f`) makes a write fail, as a full disk does; without a handler it would end
/// the daemon. Children get the system's default back.
fn fail_writes_over_the_limit() -> Result<Signal, DaemonError> {
    let kind = SignalKind::from_raw(nix::sys::signal::Signal::SIGXFSZ as i32);
    signal(kind).map_err(|source| DaemonError::Io { what: "can't handle SIGXFSZ", source })
}
