//! Claude's answers leave here: whole messages, written to the FIFOs `out.<channel>` of the runtime directory.
//!
//! ```text
//! Outlets::send("telegram", text) ──► ChannelWriter (one a channel) ──► message + "\n" ──► out.telegram
//!     │                                                                 or {"content":..,"ts":..} + "\n"
//!     └── what can't be done is a sentence that Claude can act on: OutletError
//! ```
//!
//! A FIFO is opened when there is something to write, checked on the opened descriptor, and held for `out.linger`
//! after the last message: a reader that opens it anew for every line would otherwise lose what is in the pipe while
//! it is between two lines. Nothing here knows who calls (MCP today) or what a message means.

mod error;
mod fifo;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ccmux_wire::channel::{ChannelName, FileRole, role_of_file};
use ccmux_wire::status::ChannelStatus;
use ccmux_wire::tools::takers;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use error::OutletError;

use writer::{ChannelWriter, Letter};

/// The largest message: 1 MiB.
pub const MESSAGE_BYTES: usize = 1024 * 1024;

/// How many messages may wait for one channel; further callers wait too.
const QUEUE: usize = 16;

/// How patient the writers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutletSettings {
    /// `out.wait`: how long a message waits for somebody who reads.
    pub wait: Duration,
    /// `out.linger`: how long a FIFO stays open after a message.
    pub linger: Duration,
    /// How long a message that was begun may take.
    pub finish: Duration,
}

/// What is particular about a channel: `channels.NAME`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutletPolicy {
    /// In place of `out.wait`.
    pub wait: Option<Duration>,
    /// A message is a line `{"content":...,"ts":...}`, whatever newlines it holds.
    pub json: bool,
}

/// What is to be known for a message; it may be changed between two.
#[derive(Debug)]
struct Rules(Mutex<(OutletSettings, BTreeMap<ChannelName, OutletPolicy>)>);

impl Rules {
    fn lock(&self) -> MutexGuard<'_, (OutletSettings, BTreeMap<ChannelName, OutletPolicy>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How patient the channel's writer is, and whether its messages are lines of JSON.
    fn of(&self, channel: &ChannelName) -> (OutletSettings, bool) {
        let rules = self.lock();
        let (settings, policy) = (rules.0, rules.1.get(channel).copied().unwrap_or_default());
        (OutletSettings { wait: policy.wait.unwrap_or(settings.wait), ..settings }, policy.json)
    }
}

/// All outgoing channels; cheap to clone.
#[derive(Debug, Clone)]
pub struct Outlets(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    rules: Arc<Rules>,
    channels: watch::Receiver<Vec<ChannelStatus>>,
    writers: Mutex<HashMap<ChannelName, mpsc::Sender<Letter>>>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

impl Outlets {
    /// The outgoing channels of that runtime directory. `channels` is the list that is shown where a name is wrong.
    pub fn new(
        dir: PathBuf,
        settings: OutletSettings,
        channels: watch::Receiver<Vec<ChannelStatus>>,
        shutdown: CancellationToken,
    ) -> Self {
        Self::with_policies(dir, settings, BTreeMap::new(), channels, shutdown)
    }

    /// The same, where some channels have a policy.
    pub fn with_policies(
        dir: PathBuf,
        settings: OutletSettings,
        policies: BTreeMap<ChannelName, OutletPolicy>,
        channels: watch::Receiver<Vec<ChannelStatus>>,
        shutdown: CancellationToken,
    ) -> Self {
        let (writers, tasks) = (Mutex::default(), TaskTracker::new());
        let rules = Arc::new(Rules(Mutex::new((settings, policies))));
        Self(Arc::new(Inner { dir, rules, channels, writers, tasks, shutdown }))
    }

    /// Other settings, from the next message on.
    pub fn change(&self, settings: OutletSettings, policies: BTreeMap<ChannelName, OutletPolicy>) {
        *self.0.rules.lock() = (settings, policies);
    }

    /// Every channel there is, both directions.
    pub fn channels(&self) -> Vec<ChannelStatus> {
        self.0.channels.borrow().clone()
    }

    /// Follows the list.
    pub fn watch_channels(&self) -> watch::Receiver<Vec<ChannelStatus>> {
        self.0.channels.clone()
    }

    /// Writes a whole message to the channel's FIFO. `Ok` means that all of it is in the pipe, with a reader there.
    /// A caller that is gone before its message's turn came takes the message with it.
    ///
    /// # Errors
    /// A sentence that says what to do.
    pub async fn send(&self, channel: &str, message: String) -> Result<(), OutletError> {
        let name = self.existing(channel)?;
        if message.len() > MESSAGE_BYTES {
            return Err(OutletError::TooLarge { bytes: message.len() });
        }
        let (answer, answered) = oneshot::channel();
        let letter = Letter::new(message, answer);
        self.writer(&name).send(letter).await.map_err(|_| OutletError::Stopping)?;
        answered.await.map_err(|_| OutletError::Stopping)?
    }

    /// Waits for the shutdown, and then for the writers: what is in a pipe gets a moment to be read.
    pub async fn stopped(&self) {
        self.0.shutdown.cancelled().await;
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Whether there is anything of that name. Looked up on the disk: the list may not know a FIFO made just now.
    fn existing(&self, channel: &str) -> Result<ChannelName, OutletError> {
        let file_name = format!("out.{channel}");
        let missing = || OutletError::no_such_channel(channel, &takers(&self.0.channels.borrow()));
        let FileRole::Out(name) = role_of_file(&file_name) else { return Err(missing()) };
        match self.0.dir.join(file_name).symlink_metadata() {
            Ok(_) => Ok(name),
            Err(_) => Err(missing()),
        }
    }

    fn writer(&self, name: &ChannelName) -> mpsc::Sender<Letter> {
        let mut writers = self.0.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.entry(name.clone()).or_insert_with(|| self.spawn_writer(name)).clone()
    }

    fn spawn_writer(&self, name: &ChannelName) -> mpsc::Sender<Letter> {
        let (letters, waiting) = mpsc::channel(QUEUE);
        let (settings, json) = self.0.rules.of(name);
        let writer = ChannelWriter {
            channel: name.clone(),
            path: self.0.dir.join(format!("out.{name}")),
            letters: waiting,
            rules: Arc::clone(&self.0.rules),
            settings,
            json,
            shutdown: self.0.shutdown.clone(),
        };
        self.0.tasks.spawn(writer.run());
        letters
    }
}
