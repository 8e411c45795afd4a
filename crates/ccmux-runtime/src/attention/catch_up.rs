//! A turn that ended while no daemon heard its hook: it is published at the start, and somebody is waited for.
//!
//! ```text
//! start ─► published, idle ─► the silence begins
//!       ─► a hook, busy, or the agent gone: whatever ends now is told by a hook, or by itself
//! ```
//!
//! Doesn't know how the turn was found.

use ccmux_policy::attention::Kind;
use ccmux_policy::event::FileState;
use ccmux_wire::id::SessionId;

use super::attendant::Attendant;
use super::fact::Fact;
use crate::terminal::Terminal;

/// What is known of the time before the start.
#[derive(Debug, Default)]
pub(super) struct CatchUp {
    published: Option<SessionId>,
    is_over: bool,
}

impl CatchUp {
    /// From now on hooks tell.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// A hook of our own session came.
    pub(super) fn heard(&mut self, fact: &Fact) {
        if matches!(fact, Fact::Prompted { .. } | Fact::Stopped { .. } | Fact::Failed { .. }) {
            self.end();
        }
    }
}

impl<T: Terminal> Attendant<T> {
    pub(super) fn published(&mut self, session: SessionId) {
        if self.own_session().as_ref() == Some(&session) {
            self.catch_up.published = Some(session);
            self.catch_up();
        }
    }

    /// Looks whether both are known: the turn, and that nothing runs.
    pub(super) fn catch_up(&mut self) {
        if self.catch_up.is_over {
            return;
        }
        let is_idle = match *self.file.borrow() {
            FileState::Absent => return,
            FileState::Idle => true,
            _ => false,
        };
        if !is_idle {
            return self.catch_up.end();
        }
        let Some(session) = self.catch_up.published.take() else { return };
        self.catch_up.end();
        let waits = self.texts.keys().any(|key| key.session == session && key.kind == Kind::Reply);
        if !waits {
            self.fact(session, Fact::Stopped { prompt: None, background: 0 });
        }
    }
}
