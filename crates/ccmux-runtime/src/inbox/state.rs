//! Which state of a message may follow which: the diagram of [`MessageState`], as a function.

use ccmux_wire::receipt::MessageState;

/// Whether a message in state `from` may become `to`.
pub fn may_become(from: MessageState, to: MessageState) -> bool {
    use MessageState::{Accepted, Answered, Delivered, Expired, Failed, InFlight, Uncertain};
    match from {
        Accepted => matches!(to, InFlight | Failed | Expired),
        InFlight => matches!(to, Accepted | Delivered | Uncertain | Failed),
        Uncertain => matches!(to, Delivered | Accepted | Failed),
        Delivered => to == Answered,
        Failed => to == Accepted,
        Answered | Expired => false,
    }
}

/// Whether a message in that state waits: it counts against the limits of the queue.
pub(super) fn is_queued(state: MessageState) -> bool {
    matches!(state, MessageState::Accepted | MessageState::InFlight)
}
