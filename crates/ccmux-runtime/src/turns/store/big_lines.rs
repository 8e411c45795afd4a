//! Big lines that somebody holds: many replays at the same place share one copy, as live subscribers do.
//!
//! Nothing is kept alive here: a line is gone with the last subscriber that holds it.

use std::collections::HashMap;

use ccmux_wire::id::Seq;

use super::super::broadcast::{Line, WeakLine};

/// A shorter line is not worth the search.
const BIG: usize = 64 * 1024;

/// So many are looked through for those that are gone.
const MANY: usize = 64;

/// By number.
#[derive(Debug, Default)]
pub(super) struct BigLines(HashMap<u64, WeakLine>);

impl BigLines {
    /// The line, if somebody holds it.
    pub(super) fn get(&self, seq: Seq) -> Option<Line> {
        self.0.get(&seq.0)?.upgrade()
    }

    /// A line that was read.
    pub(super) fn note(&mut self, line: &Line) {
        if line.bytes().len() < BIG {
            return;
        }
        if self.0.len() >= MANY {
            self.0.retain(|_, line| line.upgrade().is_some());
        }
        self.0.insert(line.seq().0, line.downgrade());
    }
}
