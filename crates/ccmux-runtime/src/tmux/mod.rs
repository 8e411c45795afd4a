//! The [`Terminal`] on tmux: one `tmux` process a look, a batch, or a key.
//!
//! It knows sessions, panes, buffers and pipes; it does not know Claude, messages, or what a screen means.
//!
//! ```text
//! server    systemd-run --user ... tmux -D                 only for a daemon that systemd started, only if none answers
//! respawn   new-session | new-window | respawn-pane      our pane carries the option @ccmux_pane SESSION
//! capture   list-panes ; list-clients ; capture-pane     one command list, so one moment
//! inject    source-file -  <  set-buffer ... ; if-shell GUARD { paste-buffer ... } { refused }
//! a key     if-shell GUARD 'send-keys ...' 'refused'
//! watch     pipe-pane 'ccmuxd pane-sink SOCKET'          the sink hands its stdin over and exits
//! ```
//!
//! What holds everywhere:
//! - The server may be the user's own: nothing is set with `-g`, no other session, window or pane is touched, and every
//!   target is exact (`=NAME:` or a pane id).
//! - *Our* pane is the one that carries the mark, wherever the user moves it and however they split around it. A
//!   session of our name without such a pane is the user's: the agent gets a window of its own in it.
//! - Whatever types is guarded inside tmux, in the same command list: tmux 3.3a dies, with every session of the user,
//!   on a paste into a dead pane.
//! - Every tmux process is ended after 5 s.

mod client;
mod elsewhere;
mod facts;
mod pane;
mod renew;
mod script;
pub mod sink;
mod unit;
mod version;
mod watch;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ccmux_policy::UnixMs;
use tokio::sync::{Notify, mpsc, watch as channel};
use tokio::time::Instant;

use crate::agent::tmux_server::TmuxServer;
use crate::terminal::{Capture, Guard, LaunchCommand, Pane, PaneNews, Terminal, TerminalError, Typed};
use client::{Client, Nonce};
pub use elsewhere::{Elsewhere, Shown};
pub use sink::pane_sink;
pub use version::{MINIMUM_VERSION, TmuxVersion, VersionError};

/// What a [`Tmux`] is made of.
#[derive(Debug, Clone)]
pub struct TmuxSettings {
    /// The program; a bare name is looked up in PATH.
    pub binary: PathBuf,
    /// `-L` name of the server; `None` is tmux's default server.
    pub socket: Option<String>,
    /// `-f` file, read only if the server has to be started; `None` is the user's own.
    pub config: Option<PathBuf>,
    /// The session: ASCII letters, digits, `-` and `_`.
    pub session: String,
    /// The name of the agent's window, e.g. `claude`.
    pub window: String,
    /// What tmux runs to hand the pane's output to us, e.g. `ccmuxd pane-sink`; the socket's path is appended.
    pub sink: Vec<String>,
    /// Where we wait for it: a path in a private directory, at most about 100 bytes long.
    pub sink_socket: PathBuf,
    /// A server that has to be started gets a systemd unit of its own.
    pub own_unit: bool,
    /// Silence of this length is reported.
    pub silence_timeout: Duration,
}

/// One agent's pane in a tmux session.
#[derive(Debug)]
pub struct Tmux {
    settings: TmuxSettings,
    client: Client,
    /// Marks our own lines in what tmux prints, so that no title or screen can look like one.
    nonce: Nonce,
    /// The pane id seen last: only a hint, since a new server counts from `%0` again.
    pane: Mutex<Option<String>>,
    /// The server that answered last, or an earlier daemon's.
    server: Mutex<Option<TmuxServer>>,
    /// When ccmux last asked the server to recreate its socket.
    renewed: Mutex<Option<Instant>>,
    /// No server answered on the socket at the last attempt.
    unanswered: AtomicBool,
    /// Wakes the watcher when there is a pane (again).
    started: Notify,
    /// Since when the watched pane has written nothing; `None` while it is not watched.
    silent_since: channel::Sender<Option<Instant>>,
    /// Silence of that length is reported; it may be changed while the pane is watched.
    silence_ms: AtomicU64,
}

impl Tmux {
    /// A terminal that starts nothing yet.
    pub fn new(settings: TmuxSettings) -> Self {
        let client = Client::new(&settings);
        let (pane, silent_since) = (Mutex::new(None), channel::Sender::new(None));
        let silence_ms = AtomicU64::new(millis(settings.silence_timeout));
        Self {
            silence_ms,
            settings,
            client,
            nonce: Nonce::random(),
            pane,
            server: Mutex::new(None),
            renewed: Mutex::new(None),
            unanswered: AtomicBool::new(false),
            started: Notify::new(),
            silent_since,
        }
    }

    /// Which tmux this is; an error if there is none or it is older than [`MINIMUM_VERSION`].
    pub async fn version(&self) -> Result<TmuxVersion, VersionError> {
        version::ask(&self.client).await
    }

    /// Another length of silence is reported from the next output on.
    pub fn change_silence(&self, silence_timeout: Duration) {
        self.silence_ms.store(millis(silence_timeout), Ordering::Relaxed);
    }

    fn silence(&self) -> Duration {
        Duration::from_millis(self.silence_ms.load(Ordering::Relaxed))
    }

    fn silent_since(&self) -> Option<Instant> {
        *self.silent_since.borrow()
    }

    fn note_output(&self, silent_since: Option<Instant>) {
        self.silent_since.send_replace(silent_since);
    }

    /// Ends the whole session, the user's own windows in it included. No session is no error.
    pub async fn kill_session(&self) -> Result<(), TerminalError> {
        let target = format!("={}", self.settings.session);
        self.kill("kill-session", target).await
    }

    /// Ends our pane only, and with it the session if it holds nothing else. No pane is no error.
    pub async fn kill_pane(&self) -> Result<(), TerminalError> {
        match self.find().await? {
            Some(pane) => self.kill("kill-pane", pane.id).await,
            None => Ok(()),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Terminal for Tmux {
    async fn find(&self) -> Result<Option<Pane>, TerminalError> {
        self.find_pane().await
    }

    fn server(&self) -> Option<TmuxServer> {
        self.known_server()
    }

    fn know_server(&self, server: TmuxServer) {
        self.know(server);
    }

    async fn respawn(&self, command: LaunchCommand) -> Result<Pane, TerminalError> {
        self.start(command).await
    }

    async fn capture(&self) -> Result<Capture, TerminalError> {
        self.look().await
    }

    async fn inject(&self, guard: Guard, pieces: Vec<String>) -> Result<Typed, TerminalError> {
        let pane = self.known_pane().await?;
        let script = script::paste(&self.nonce, &pane, &guard, &pieces)?;
        self.type_into(&pane, "paste", script).await
    }

    async fn press_enter(&self, guard: Guard) -> Result<Typed, TerminalError> {
        let pane = self.known_pane().await?;
        let script = script::enter(&self.nonce, &pane, &guard);
        self.type_into(&pane, "press Enter", script).await
    }

    async fn take_out(&self, guard: Guard, lines: Vec<usize>) -> Result<Typed, TerminalError> {
        let pane = self.known_pane().await?;
        let script = script::take_out(&self.nonce, &pane, &guard, &lines);
        self.type_into(&pane, "take a text out", script).await
    }

    async fn stash_draft(&self, guard: Guard) -> Result<Typed, TerminalError> {
        let pane = self.known_pane().await?;
        let script = script::stash(&self.nonce, &pane, &guard);
        self.type_into(&pane, "press Ctrl-S", script).await
    }

    async fn press_escape(&self, guard: Guard) -> Result<Typed, TerminalError> {
        let pane = self.known_pane().await?;
        let script = script::escape(&self.nonce, &pane, &guard);
        self.type_into(&pane, "press Esc", script).await
    }

    async fn clear_row(&self, guard: Guard) -> Result<Typed, TerminalError> {
        let pane = self.known_pane().await?;
        let script = script::clear_row(&self.nonce, &pane, &guard);
        self.type_into(&pane, "press Ctrl-U", script).await
    }

    async fn last_typed(&self) -> Result<Option<UnixMs>, TerminalError> {
        self.last_activity().await
    }

    async fn wrote_after(&self, moment: Instant) {
        let mut wrote = self.silent_since.subscribe();
        // It can't fail: the sender is ours.
        let _ = wrote.wait_for(|last| last.is_some_and(|last| last > moment)).await;
    }

    async fn watch_output(&self, news: mpsc::Sender<PaneNews>) {
        watch::Watcher { tmux: self, news }.run().await;
    }
}
