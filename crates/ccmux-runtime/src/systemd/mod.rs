//! What the daemon says to systemd, and the descriptors that systemd hands it at its start.
//!
//! ```text
//! ready, status, reloading, stopping ─┐
//! Watchdog (event loop only) ─────────┼──► words ──► a thread ──► NOTIFY_SOCKET
//! FIFOs to keep, to let go ───────────┘
//! LISTEN_FDS ──► Passed::take ──► the FIFOs that an earlier daemon had stored
//! ```
//!
//! Words go out in the order in which they were said, from a thread of their own: a service manager that takes nothing
//! holds up nobody. Without systemd every word is dropped where it is said. Knows neither channels nor what a status means.

mod passed;
mod status;
#[cfg(test)]
mod tests;
mod watchdog;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use sd_notify::NotifyState;

pub use passed::{Passed, Refused};
pub use status::StatusTeller;
pub use watchdog::Watchdog;

/// How long the end waits for the last words.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// The way to systemd; clones lead to the same place.
#[derive(Debug, Clone, Default)]
pub struct Systemd {
    words: Option<Sender<Word>>,
    /// `WATCHDOG_USEC`.
    watchdog: Option<Duration>,
}

/// What can be said.
#[derive(Debug)]
enum Word {
    Ready,
    Reloading,
    Stopping,
    Status(String),
    Alive,
    Keep {
        name: String,
        fd: OwnedFd,
    },
    LetGo {
        name: String,
    },
    /// Whoever hears the answer knows that all before it was said.
    Said(Sender<()>),
}

impl Systemd {
    /// What the process's variables say; without `NOTIFY_SOCKET` nobody listens.
    pub fn from_environment() -> Self {
        if std::env::var_os("NOTIFY_SOCKET").is_none_or(|socket| socket.is_empty()) {
            return Self::default();
        }
        let (words, said) = channel();
        match thread::Builder::new().name("systemd".to_owned()).spawn(move || speak(&said)) {
            Ok(_) => Self { words: Some(words), watchdog: sd_notify::watchdog_enabled() },
            Err(error) => {
                tracing::error!(event = "systemd.unheard", %error);
                Self::default()
            }
        }
    }

    /// Clients can connect; also after [`Systemd::reloading`].
    pub fn ready(&self) {
        self.say(|| Word::Ready);
    }

    /// Something is read again; [`Systemd::ready`] follows.
    pub fn reloading(&self) {
        self.say(|| Word::Reloading);
    }

    /// The daemon was told to stop.
    pub fn stopping(&self) {
        self.say(|| Word::Stopping);
    }

    /// One line for `systemctl status`.
    pub fn status(&self, text: &str) {
        self.say(|| Word::Status(text.to_owned()));
    }

    fn alive(&self) {
        self.say(|| Word::Alive);
    }

    /// Has systemd hold the descriptor open under that name, over the daemon's crash or restart.
    pub fn keep(&self, name: &str, fd: BorrowedFd<'_>) {
        if self.words.is_none() {
            return;
        }
        match fd.try_clone_to_owned() {
            Ok(fd) => self.say(|| Word::Keep { name: name.to_owned(), fd }),
            Err(error) => tracing::warn!(event = "systemd.not_kept", name, %error),
        }
    }

    /// Has systemd close what it holds under that name.
    pub fn let_go(&self, name: &str) {
        self.say(|| Word::LetGo { name: name.to_owned() });
    }

    /// Waits until all was said, a moment at most.
    pub fn last_words(&self) {
        let (answer, heard) = channel();
        self.say(|| Word::Said(answer));
        let _ = heard.recv_timeout(LAST_WORDS);
    }

    fn say(&self, word: impl FnOnce() -> Word) {
        if let Some(words) = &self.words {
            let _ = words.send(word());
        }
    }
}

/// Whether these are the variables of a process that systemd itself started as a service: then tmux must not live in that
/// service. A container's supervisor may give `NOTIFY_SOCKET` alone, and a desktop's terminal `INVOCATION_ID`.
pub fn started_us(environment: &[(OsString, OsString)]) -> bool {
    let has = |wanted: &str| environment.iter().any(|(name, value)| name == wanted && !value.is_empty());
    has("NOTIFY_SOCKET") && has("INVOCATION_ID")
}

/// Until nobody can say anything any more.
fn speak(words: &Receiver<Word>) {
    let mut is_heard = true;
    for word in words {
        let said = word.tell();
        if let Some(error) = said.as_ref().err().filter(|_| is_heard) {
            tracing::warn!(event = "systemd.unheard", %error);
        }
        is_heard = said.is_ok();
    }
}

impl Word {
    fn tell(self) -> io::Result<()> {
        match self {
            Self::Ready => sd_notify::notify(&[NotifyState::Ready]),
            // Newer ones want to know when it began.
            Self::Reloading => {
                sd_notify::notify(&[NotifyState::Reloading, NotifyState::monotonic_usec_now()?])
            }
            Self::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
            Self::Status(text) => sd_notify::notify(&[NotifyState::Status(&text)]),
            Self::Alive => sd_notify::notify(&[NotifyState::Watchdog]),
            Self::Keep { name, fd } => {
                sd_notify::notify_with_fds(&[NotifyState::FdStore, NotifyState::FdName(&name)], &[fd.as_fd()])
            }
            Self::LetGo { name } => {
                sd_notify::notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(&name)])
            }
            Self::Said(answer) => {
                let _ = answer.send(());
                Ok(())
            }
        }
    }
}
