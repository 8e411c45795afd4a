//! Something that is refused again and again: said once, shown as long as it lasts, tried again with growing pauses.

use std::time::Duration;

use ccmux_wire::channel::ChannelName;
use ccmux_wire::status::Direction;
use tokio::time::{Instant, sleep_until};

use super::board::{ChannelBoard, OPEN};

const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LAST: Duration = Duration::from_secs(5);

/// One thing of one channel that may be refused.
#[derive(Debug)]
pub(super) struct Trouble {
    channel: ChannelName,
    board: ChannelBoard,
    /// Times it was refused in a row.
    tries: u32,
    again_at: Option<Instant>,
}

impl Trouble {
    pub(super) fn none(channel: &ChannelName, board: &ChannelBoard) -> Self {
        Self { channel: channel.clone(), board: board.clone(), tries: 0, again_at: None }
    }

    /// It was refused: not again before a pause.
    pub(super) fn met(&mut self, error: &str) {
        if self.tries == 0 {
            tracing::warn!(event = "channel.stalled", channel = %self.channel, error);
        }
        let pause = RETRY_FIRST.saturating_mul(1 << self.tries.min(8)).min(RETRY_LAST);
        self.tries += 1;
        self.again_at = Some(Instant::now() + pause);
        self.board.set(&self.channel, Direction::In, &format!("stalled: {error}"));
    }

    /// It was not refused.
    pub(super) fn over(&mut self) {
        if std::mem::take(&mut self.tries) > 0 {
            tracing::info!(event = "channel.resumed", channel = %self.channel);
            self.board.set(&self.channel, Direction::In, OPEN);
        }
    }

    /// When it is tried again, while it pauses.
    pub(super) fn again_at(&self) -> Option<Instant> {
        self.again_at
    }

    pub(super) fn pauses(&self) -> bool {
        self.again_at.is_some()
    }

    /// Waits for the end of the pause; for ever if there is none. Cancel safe.
    pub(super) async fn pause_over(&mut self) {
        match self.again_at {
            Some(again_at) => sleep_until(again_at).await,
            None => std::future::pending().await,
        }
        self.again_at = None;
    }

    /// As [`Trouble::pause_over`], but at once if there is none.
    pub(super) async fn pause_over_if_any(&mut self) {
        if self.pauses() {
            self.pause_over().await;
        }
    }
}
