//! What one subscriber has still to be sent.
//!
//! ```text
//! Counting   a replay runs: the store has the lines, so only their bytes are counted, since the subscriber last took any
//! Storing    live: the lines wait here
//! ```
//!
//! The front line is the one that is being written; it doesn't count as being behind, so a line of any size reaches a
//! subscriber that reads. When the others exceed the limit all are dropped and the mailbox is closed for ever.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ccmux_wire::output::Only;
use tokio::sync::Notify;

use super::Line;

/// A queue bounded by bytes; one end pushes, the other writes to a socket.
#[derive(Debug)]
pub(super) struct Mailbox {
    only: Option<Only>,
    limit: usize,
    queue: Mutex<Queue>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    mode: Mode,
    lines: VecDeque<Line>,
    /// Bytes of all lines but the front one; while counting: of those that went by since the last progress.
    behind: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Mode {
    #[default]
    Counting,
    Storing,
    Overflowed,
}

/// What the writer finds.
#[derive(Debug)]
pub(super) enum Front {
    /// The line to write, or to go on writing.
    Line(Line),
    /// Nothing, for now.
    Empty,
    /// The subscriber fell behind the limit.
    Overflowed,
}

impl Mailbox {
    /// One that counts.
    pub(super) fn new(only: Option<Only>, limit: usize) -> Self {
        Self { only, limit, queue: Mutex::default(), changed: Notify::new() }
    }

    /// Adds a line if it is wanted; false if the mailbox is closed (now or before).
    pub(super) fn push(&self, line: &Line) -> bool {
        if !line.is_wanted(self.only) {
            return true;
        }
        let mut queue = self.queue();
        queue.push(line, self.limit);
        let open = queue.mode != Mode::Overflowed;
        drop(queue);
        self.changed.notify_one();
        open
    }

    /// The replay is over: what is published from now on waits here.
    pub(super) fn store(&self) {
        *self.queue() = Queue { mode: Mode::Storing, ..Queue::default() };
    }

    pub(super) fn front(&self) -> Front {
        let queue = self.queue();
        match queue.lines.front() {
            Some(line) => Front::Line(line.clone()),
            None if queue.mode == Mode::Overflowed => Front::Overflowed,
            None => Front::Empty,
        }
    }

    /// The front line was written whole.
    pub(super) fn pop(&self) {
        let mut queue = self.queue();
        queue.lines.pop_front();
        let next = queue.lines.front().map_or(0, |line| line.bytes().len());
        queue.behind = queue.behind.saturating_sub(next);
        if queue.lines.is_empty() {
            // An idle subscriber costs nothing.
            queue.lines.shrink_to(1);
        }
    }

    /// A replay is slow by nature: only one that takes nothing at all falls behind.
    pub(super) fn progressed(&self) {
        let mut queue = self.queue();
        if queue.mode == Mode::Counting {
            queue.behind = 0;
        }
    }

    pub(super) fn has_overflowed(&self) -> bool {
        let queue = self.queue();
        match queue.mode {
            Mode::Overflowed => true,
            Mode::Counting => queue.behind > self.limit,
            Mode::Storing => false,
        }
    }

    /// Something was pushed since the last call.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn push(&mut self, line: &Line, limit: usize) {
        let length = line.bytes().len();
        match self.mode {
            Mode::Overflowed => {}
            Mode::Counting => self.behind = self.behind.saturating_add(length),
            Mode::Storing if self.lines.is_empty() => self.lines.push_back(line.clone()),
            Mode::Storing if self.behind > 0 && self.behind + length > limit => {
                *self = Self { mode: Mode::Overflowed, ..Self::default() };
            }
            Mode::Storing => {
                self.behind += length;
                self.lines.push_back(line.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ccmux_wire::id::Seq;

    use super::super::LineKind;
    use super::*;

    fn line(seq: u64, length: usize) -> Line {
        Line::new(Seq(seq), LineKind::Turn, "x".repeat(length))
    }

    fn storing(only: Option<Only>) -> Mailbox {
        let mailbox = Mailbox::new(only, 100);
        mailbox.store();
        mailbox
    }

    #[test]
    fn the_line_being_written_does_not_count() {
        let mailbox = storing(None);
        assert!(mailbox.push(&line(1, 1000)));
        assert!(mailbox.push(&line(2, 60)));
        assert!(mailbox.push(&line(3, 40)));
        assert!(!mailbox.push(&line(4, 1)));
        assert!(matches!(mailbox.front(), Front::Overflowed));
        assert!(!mailbox.push(&line(5, 1)));
    }

    #[test]
    fn what_is_taken_makes_room() {
        let mailbox = storing(None);
        for seq in 1..1000 {
            assert!(mailbox.push(&line(seq, 60)));
            assert!(mailbox.push(&line(seq, 60)));
            mailbox.pop();
            mailbox.pop();
        }
        assert!(matches!(mailbox.front(), Front::Empty));
        assert_eq!(mailbox.queue().behind, 0);
    }

    #[test]
    fn lines_that_are_not_wanted_take_no_room() {
        let mailbox = storing(Some(Only::Alerts));
        for seq in 0..100 {
            assert!(mailbox.push(&line(seq, 60)));
        }
        assert!(matches!(mailbox.front(), Front::Empty));
    }

    #[test]
    fn during_a_replay_nothing_is_stored_and_who_takes_nothing_falls_behind() {
        let mailbox = Mailbox::new(None, 100);
        for seq in 0..9 {
            assert!(mailbox.push(&line(seq, 60)));
            mailbox.progressed();
        }
        assert!(mailbox.push(&line(10, 60)) && !mailbox.has_overflowed());
        assert!(mailbox.push(&line(11, 60)) && mailbox.has_overflowed());
        assert!(matches!(mailbox.front(), Front::Empty));
        mailbox.store();
        assert!(!mailbox.has_overflowed());
    }
}
