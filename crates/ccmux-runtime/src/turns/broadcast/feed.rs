//! The lines of one subscriber, whatever they are written to: first what the store has behind `sent`, then what is
//! published.
//!
//! ```text
//! new ─► replaying: pages from the store ──(nothing behind `sent`: the mailbox stores)──► live: the mailbox
//!             ▲                                                                              │
//!             └──────────────────────────── wish (a late one) ───────────────────────────────┘
//! ```
//!
//! The step from replay to live is taken under the lock of the broadcast, so nothing is published in between; numbers at or
//! below `sent` are never given again: no gap, no double. Numbers that the store has no more are told as a gap. It knows
//! no socket.

use std::collections::VecDeque;
use std::sync::Arc;

use ccmux_wire::id::Seq;
use ccmux_wire::output::{Gap, GapLine, Only, Wish};

use super::mailbox::{Front, Mailbox};
use super::{Broadcast, Counted, Line};

/// A replay reads so many lines, or so many bytes, at once.
const PAGE: (usize, usize) = (64, 256 * 1024);

/// Where a subscriber is in the sequence.
#[derive(Debug)]
pub(crate) struct Feed {
    broadcast: Broadcast,
    mailbox: Arc<Mailbox>,
    only: Option<Only>,
    /// The last line that was taken, or left out because it was not wanted.
    sent: Seq,
    /// What a replay has read and not given yet; `None`: live.
    page: Option<VecDeque<Line>>,
    /// To be told before anything else.
    gap: Option<Gap>,
    _counted: Counted,
}

/// What is to be sent next.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    /// A turn or an alert.
    Line(Line),
    /// Lines that are no longer kept.
    Gap(Gap),
}

/// Why there is nothing more to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Over {
    /// The subscriber fell behind the limit.
    #[error("too slow")]
    TooSlow,
    /// A replay could not be read.
    #[error("the store can't be read")]
    Unreadable,
}

impl Feed {
    /// What is published from now on, until a wish says otherwise.
    pub(super) fn new(broadcast: Broadcast, counted: Counted) -> Self {
        let (mailbox, sent) = broadcast.attach(None);
        Self {
            mailbox,
            broadcast,
            only: None,
            sent,
            page: Some(VecDeque::new()),
            gap: None,
            _counted: counted,
        }
    }

    /// Begins anew where the wish says.
    pub(crate) fn grant(&mut self, wish: Wish) {
        self.broadcast.detach(&self.mailbox);
        let (mailbox, last) = self.broadcast.attach(wish.only);
        (self.mailbox, self.only, self.page) = (mailbox, wish.only, Some(VecDeque::new()));
        match wish.since {
            // A number from the future is one of another database.
            Some(since) if since > last => {
                self.gap = Some(Gap { after: since, before: Seq(last.0 + 1) });
                self.sent = last;
            }
            since => self.sent = since.unwrap_or(self.sent),
        }
    }

    /// The next piece, as soon as there is one; the same again until it is [`taken`](Self::taken). `None`: the replay is
    /// over. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Piece>, Over> {
        loop {
            if let Some(gap) = self.gap {
                return Ok(Some(Piece::Gap(gap)));
            }
            let line = match &mut self.page {
                Some(page) => match page.front().cloned() {
                    Some(line) => line,
                    None if self.broadcast.go_live(&self.mailbox, self.sent) => {
                        self.page = None;
                        return Ok(None);
                    }
                    None => {
                        self.turn_page().await?;
                        continue;
                    }
                },
                None => match self.mailbox.front() {
                    Front::Line(line) => line,
                    Front::Overflowed => return Err(Over::TooSlow),
                    Front::Empty => {
                        self.mailbox.changed().await;
                        continue;
                    }
                },
            };
            self.gap = self.gap_before(&line);
            if self.gap.is_none() && (line.seq() <= self.sent || !line.is_wanted(self.only)) {
                self.passed(line.seq());
            } else if self.gap.is_none() {
                return Ok(Some(Piece::Line(line)));
            }
        }
    }

    /// That piece was sent whole.
    pub(crate) fn taken(&mut self, piece: &Piece) {
        match piece {
            Piece::Line(line) => self.passed(line.seq()),
            Piece::Gap(gap) => {
                self.gap = None;
                self.sent = self.sent.max(Seq(gap.before.0.saturating_sub(1)));
            }
        }
    }

    fn passed(&mut self, seq: Seq) {
        match &mut self.page {
            Some(page) => drop(page.pop_front()),
            None => self.mailbox.pop(),
        }
        self.sent = self.sent.max(seq);
    }

    /// Numbers have no holes but for what was deleted. Whoever asks for everything means what there is.
    fn gap_before(&self, line: &Line) -> Option<Gap> {
        let is_gap = self.page.is_some() && self.sent > Seq(0) && line.seq().0 > self.sent.0 + 1;
        is_gap.then(|| Gap { after: self.sent, before: line.seq() })
    }

    /// Reads on behind `sent`.
    async fn turn_page(&mut self) -> Result<(), Over> {
        let (store, sent) = (Arc::clone(&self.broadcast.0.store), self.sent);
        let published = self.broadcast.last_seq();
        let read = tokio::task::spawn_blocking(move || store.since(sent, PAGE.0, PAGE.1)).await;
        let page = read.map_err(|_| Over::Unreadable)?.map_err(|error| {
            tracing::error!(event = "replay.failed", %error);
            Over::Unreadable
        })?;
        // Waiting for the store is no fault of the subscriber's.
        self.mailbox.progressed();
        if page.is_empty() {
            // What is published was stored before; it was deleted since.
            self.gap = (sent > Seq(0)).then_some(Gap { after: sent, before: Seq(published.0 + 1) });
            self.sent = if self.gap.is_some() { sent } else { published };
        }
        self.page = Some(page.into());
        Ok(())
    }

    /// The subscriber took some bytes.
    pub(crate) fn progressed(&self) {
        self.mailbox.progressed();
    }

    /// It fell behind the limit, and is to be let go once it has what is being written.
    pub(crate) fn has_overflowed(&self) -> bool {
        self.mailbox.has_overflowed()
    }

    /// Something was published since the last call.
    pub(crate) async fn changed(&self) {
        self.mailbox.changed().await;
    }

    /// No replay runs.
    pub(crate) fn is_live(&self) -> bool {
        self.page.is_none()
    }

    /// The last line that was taken.
    pub(crate) fn last_seq(&self) -> Seq {
        self.sent
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.broadcast.detach(&self.mailbox);
    }
}

/// A gap as it goes out, newline included.
pub(crate) fn gap_line(gap: Gap) -> String {
    // Two numbers: there is nothing in it that JSON can't say.
    serde_json::to_string(&GapLine { gap }).unwrap_or_default() + "\n"
}
