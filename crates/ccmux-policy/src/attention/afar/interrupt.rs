//! Whether a turn may be stopped by Esc, and whether what comes back into the box afterwards may be cleared.
//!
//! Esc means something else everywhere but in a running turn: in a dialog it refuses, in a draft it clears.

use crate::screen::{BoxHolds, ScreenClass, Seen};

/// Why Esc is not pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing runs.
    NotBusy,
    /// A dialog is open.
    Dialog,
    /// Somebody's text is in the prompt box.
    Draft,
    /// Keys don't reach the agent.
    CopyMode,
    /// The screen can't be understood.
    Unknown,
}

impl Refusal {
    /// A sentence for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotBusy => "no turn runs: there is nothing to interrupt",
            Self::Dialog => {
                "a dialog is open, which Esc would refuse: answer it (ccmux permission, ccmux attach)"
            }
            Self::Draft => "somebody's text is in the prompt box, which Esc would clear",
            Self::CopyMode => "the pane is in copy mode: leave it first (press q)",
            Self::Unknown => "the agent's screen is not understood: see `ccmux screen`",
        }
    }
}

/// Asked with a look that was taken just now.
///
/// # Errors
/// Why not.
pub fn may_interrupt(seen: &Seen) -> Result<(), Refusal> {
    match seen.class {
        _ if seen.copy_mode => Err(Refusal::CopyMode),
        // Queued texts stand below the box; what stands in it is a human's.
        ScreenClass::Busy | ScreenClass::Queued if seen.holds == BoxHolds::Foreign => Err(Refusal::Draft),
        ScreenClass::Busy | ScreenClass::Queued => Ok(()),
        ScreenClass::Ready => Err(Refusal::NotBusy),
        ScreenClass::Draft => Err(Refusal::Draft),
        ScreenClass::Dialog => Err(Refusal::Dialog),
        ScreenClass::Shell | ScreenClass::Unknown => Err(Refusal::Unknown),
    }
}

/// What is to be done about the box after Esc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The turn has not ended yet, or the screen does not say.
    Wait,
    /// The prompt that we typed came back (F 48): a row of it is cleared.
    ClearRow,
    /// Nothing is left to do, or what is there is not ours.
    Done,
}

/// Asked with each look after Esc; the look compares the box with the batch that was delivered last.
pub fn after_interrupt(seen: &Seen) -> Next {
    match (seen.class, seen.holds) {
        _ if seen.copy_mode => Next::Done,
        (ScreenClass::Draft, BoxHolds::Ours) => Next::ClearRow,
        (ScreenClass::Busy | ScreenClass::Queued | ScreenClass::Unknown, _) => Next::Wait,
        _ => Next::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_running_turn_is_interrupted() {
        for (class, answer) in [
            (ScreenClass::Busy, Ok(())),
            (ScreenClass::Queued, Ok(())),
            (ScreenClass::Ready, Err(Refusal::NotBusy)),
            (ScreenClass::Draft, Err(Refusal::Draft)),
            (ScreenClass::Dialog, Err(Refusal::Dialog)),
            (ScreenClass::Shell, Err(Refusal::Unknown)),
            (ScreenClass::Unknown, Err(Refusal::Unknown)),
        ] {
            assert_eq!(may_interrupt(&Seen::plain(class, BoxHolds::Nothing)), answer, "{class:?}");
        }
    }

    #[test]
    fn a_draft_beneath_a_running_turn_and_copy_mode_are_left_alone() {
        let draft = Seen::plain(ScreenClass::Busy, BoxHolds::Foreign);
        assert_eq!(may_interrupt(&draft), Err(Refusal::Draft));
        let mode = Seen { copy_mode: true, ..Seen::plain(ScreenClass::Busy, BoxHolds::Nothing) };
        assert_eq!(may_interrupt(&mode), Err(Refusal::CopyMode));
    }

    #[test]
    fn only_our_own_prompt_is_cleared_and_only_at_rest() {
        let next = |class, holds| after_interrupt(&Seen::plain(class, holds));
        assert_eq!(next(ScreenClass::Busy, BoxHolds::Nothing), Next::Wait);
        assert_eq!(next(ScreenClass::Draft, BoxHolds::Ours), Next::ClearRow);
        assert_eq!(next(ScreenClass::Draft, BoxHolds::Foreign), Next::Done);
        assert_eq!(next(ScreenClass::Ready, BoxHolds::Nothing), Next::Done);
        assert_eq!(next(ScreenClass::Dialog, BoxHolds::Nothing), Next::Done);
    }
}
