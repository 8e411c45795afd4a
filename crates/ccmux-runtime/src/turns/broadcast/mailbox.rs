//! What one subscriber has still to be sent.
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
    queue: Mutex<Queue>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<Line>,
    /// Bytes of all lines but the front one.
    behind: usize,
    overflowed: bool,
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
    pub(super) fn new(only: Option<Only>) -> Self {
        Self { only, queue: Mutex::default(), changed: Notify::new() }
    }

    /// Adds a line if it is wanted; false if the mailbox is closed (now or before).
    pub(super) fn push(&self, line: &Line, limit: usize) -> bool {
        if !line.is_wanted(self.only) {
            return true;
        }
        let mut queue = self.queue();
        queue.push(line, limit);
        let open = !queue.overflowed;
        drop(queue);
        self.changed.notify_one();
        open
    }

    pub(super) fn front(&self) -> Front {
        let queue = self.queue();
        match queue.lines.front() {
            Some(line) => Front::Line(line.clone()),
            None if queue.overflowed => Front::Overflowed,
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

    pub(super) fn has_overflowed(&self) -> bool {
        self.queue().overflowed
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
        if self.overflowed {
            return;
        }
        if !self.lines.is_empty() {
            if self.behind > 0 && self.behind + length > limit {
                *self = Self { overflowed: true, ..Self::default() };
                return;
            }
            self.behind += length;
        }
        self.lines.push_back(line.clone());
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

    #[test]
    fn the_line_being_written_does_not_count() {
        let mailbox = Mailbox::new(None);
        assert!(mailbox.push(&line(1, 1000), 100));
        assert!(mailbox.push(&line(2, 60), 100));
        assert!(mailbox.push(&line(3, 40), 100));
        assert!(!mailbox.push(&line(4, 1), 100));
        assert!(matches!(mailbox.front(), Front::Overflowed));
        assert!(!mailbox.push(&line(5, 1), 100));
    }

    #[test]
    fn what_is_taken_makes_room() {
        let mailbox = Mailbox::new(None);
        for seq in 1..1000 {
            assert!(mailbox.push(&line(seq, 60), 100));
            assert!(mailbox.push(&line(seq, 60), 100));
            mailbox.pop();
            mailbox.pop();
        }
        assert!(matches!(mailbox.front(), Front::Empty));
        assert_eq!(mailbox.queue().behind, 0);
    }

    #[test]
    fn lines_that_are_not_wanted_take_no_room() {
        let mailbox = Mailbox::new(Some(Only::Alerts));
        for seq in 0..100 {
            assert!(mailbox.push(&line(seq, 60), 100));
        }
        assert!(matches!(mailbox.front(), Front::Empty));
    }
}
