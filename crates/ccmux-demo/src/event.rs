//! Everything that wakes the agent.

use crate::hooks::Verdict;
use crate::process::Outcome;

/// Tells runs of hooks and tools apart; a late one of an interrupted turn is recognised by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct RunId(pub u64);

/// A fact from outside the agent.
#[derive(Debug)]
pub enum Event {
    /// Bytes from the terminal.
    Input(Vec<u8>),
    /// The terminal is gone.
    InputClosed,
    Resized,
    /// A signal that ends the agent, with its number.
    Signal(i32),
    /// All hooks of a firing are done.
    HooksDone(RunId, Verdict),
    ToolDone(RunId, Outcome),
}
