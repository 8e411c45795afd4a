//! Output and silence of our pane.
//!
//! ```text
//! mount ──sink connects──▶ Fresh ──bytes──▶ Active ──silence_timeout──▶ Silent ──bytes──▶ Active
//!   ▲                        └──────────silence_timeout──────────────────▶ ▲
//!   └── end of the pipe: again at once; no pane: pauses that grow to 30 s, or until respawn says there is one
//! ```
//!
//! A timer runs only until the silence is told: a silent pane costs nothing. What the bytes are is not looked at.

use std::io;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::Tmux;
use super::client::LIMIT;
use super::sink::{PaneOutput, SinkListener};
use crate::terminal::{PaneNews, TerminalError};

/// Pauses between mounts that fail.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));
/// The longest pause after a mount that succeeded: a pane that is silent must not be lost for longer (fault 18).
const MOUNTED_PAUSE: Duration = Duration::from_secs(4);

/// Follows the pane until nobody listens.
#[derive(Debug)]
pub(super) struct Watcher<'a> {
    /// Whose pane.
    pub(super) tmux: &'a Tmux,
    /// Who listens.
    pub(super) news: mpsc::Sender<PaneNews>,
}

/// Nobody listens any more.
struct Deaf;

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// Mounted, nothing read and nothing told.
    Fresh,
    Active,
    Silent,
}

impl Watcher<'_> {
    /// Runs until the receiver is dropped.
    pub(super) async fn run(self) {
        let path = &self.tmux.settings.sink_socket;
        let listener = match SinkListener::bind(path) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(event = "pane.watch_failed", path = %path.display(), %error);
                return;
            }
        };
        let listens = self.news.clone();
        tokio::select! {
            () = listens.closed() => {}
            _ = self.follow(&listener) => {}
        }
        self.tmux.note_output(None);
    }

    async fn follow(&self, listener: &SinkListener) -> Result<(), Deaf> {
        let mut pause = PAUSES.0;
        loop {
            match self.mount(listener).await {
                Ok(mut output) => {
                    tracing::debug!(event = "pane.watched");
                    // What it wrote before nobody knows: the silence counts from here.
                    self.tmux.note_output(Some(Instant::now()));
                    let carried = self.read(&mut output).await;
                    self.tmux.note_output(None);
                    // Only a pipe that carried something earns a mount without a pause.
                    if carried? {
                        pause = PAUSES.0;
                        continue;
                    }
                    pause = pause.min(MOUNTED_PAUSE);
                }
                Err(error) => tracing::debug!(event = "pane.not_watched", %error),
            }
            if timeout(pause, self.tmux.started.notified()).await.is_ok() {
                pause = PAUSES.0;
            } else {
                pause = (pause * 2).min(PAUSES.1);
            }
        }
    }

    async fn mount(&self, listener: &SinkListener) -> Result<PaneOutput, TerminalError> {
        self.tmux.mount_sink().await?;
        let failed = |why: String| TerminalError::Failed { what: "hand over the pane's output", why };
        match timeout(LIMIT, listener.accept()).await {
            Ok(output) => output.map_err(|error: io::Error| failed(error.to_string())),
            Err(_) => Err(failed(format!("{:?} did not come back", self.tmux.settings.sink))),
        }
    }

    /// Reads to the end of the pipe; says whether anything came.
    async fn read(&self, output: &mut PaneOutput) -> Result<bool, Deaf> {
        let mut buffer = vec![0u8; 64 * 1024];
        let mut phase = Phase::Fresh;
        let mut silent_at = Instant::now() + self.tmux.silence();
        loop {
            let read = output.read(&mut buffer);
            let result =
                if phase == Phase::Silent { Ok(read.await) } else { timeout_at(silent_at, read).await };
            match result {
                Err(_) => self.enter(&mut phase, Phase::Silent).await?,
                Ok(Ok(1..)) => {
                    let now = Instant::now();
                    self.tmux.note_output(Some(now));
                    silent_at = now + self.tmux.silence();
                    self.enter(&mut phase, Phase::Active).await?;
                }
                Ok(Ok(0)) => return Ok(phase != Phase::Fresh),
                Ok(Err(error)) => {
                    tracing::warn!(event = "pane.output_lost", %error);
                    return Ok(phase != Phase::Fresh);
                }
            }
        }
    }

    async fn enter(&self, phase: &mut Phase, next: Phase) -> Result<(), Deaf> {
        if *phase == next {
            return Ok(());
        }
        let news = if next == Phase::Silent { PaneNews::Silent } else { PaneNews::Active };
        *phase = next;
        self.news.send(news).await.map_err(|_| Deaf)
    }
}
