//! Looks at panes for the engine: was a key pressed there, and is the dialog still open?
//!
//! ```text
//! the engine asks, a notice is due ──► one pane ──► Heard::Answered
//! somebody asks what waits         ──► the panes of what was all told ──► Heard::Looked ──► the list
//! a look that was taken anyway     ──► Heard::Pressed
//! ```
//!
//! What was all told asks for no look any more, so a key that was pressed since is found when somebody wants to know. Each
//! look is a task of its own; nothing is looked at while nobody asks.

use std::sync::Arc;
use std::time::Duration;

use ccmux_policy::UnixMs;
use ccmux_policy::attention::{Answer, Key, Source};
use ccmux_policy::event::FileState;
use ccmux_wire::attention::Standing;
use ccmux_wire::id::SessionId;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::Heard;
use super::attendant::Attendant;
use crate::terminal::Terminal;
use crate::tmux::Elsewhere;

/// A state file follows a dialog within that time (F 61: 0.2 s); when it does not, there is no dialog any more.
const FILE_FOLLOWS_WITHIN: Duration = Duration::from_millis(600);
/// Whoever asks what waits is answered by then, with what was seen so far.
const ASKED_WITHIN: Duration = Duration::from_millis(700);

/// Where a key was pressed last, and when.
pub type Looked = Vec<(Source, SessionId, UnixMs)>;

/// Where a session can be seen.
enum Pane<T> {
    Own(Arc<T>),
    Elsewhere(Elsewhere),
}

impl<T: Terminal> Pane<T> {
    async fn active_at(&self) -> Option<UnixMs> {
        match self {
            Self::Own(terminal) => terminal.last_typed().await.ok().flatten(),
            Self::Elsewhere(pane) => pane.active_at().await.ok().flatten(),
        }
    }
}

impl<T: Terminal> Attendant<T> {
    /// Whether somebody pressed a key, and whether the dialog is still there: the latter is known of our own pane only.
    pub(super) fn look(&self, key: Key) {
        let is_own = self.own_session().as_ref() == Some(&key.session);
        let (file, ears, is_dialog) = (self.file.subscribe(), self.ears.clone(), key.kind.is_dialog());
        let pane = self.pane_of(key.source, &key.session);
        self.spawn_look(async move {
            let gone = is_own && is_dialog && !is_open(file).await;
            let active_at = match pane {
                Some(pane) => pane.active_at().await,
                None => None,
            };
            ears.tell(Heard::Answered(key, Answer { gone, active_at }));
        });
    }

    /// Somebody asks what waits.
    pub(super) fn asked(&self, answer: oneshot::Sender<Standing>) {
        let mut panes = self.panes_of_told();
        if panes.is_empty() {
            return drop(answer.send(self.standing()));
        }
        let ears = self.ears.clone();
        panes.sort_by_key(|(_, _, pane)| !matches!(pane, Pane::Own(_)));
        self.spawn_look(async move {
            let (mut looked, deadline) = (Looked::new(), Instant::now() + ASKED_WITHIN);
            for (source, session, pane) in panes {
                let Ok(active_at) = timeout_at(deadline, pane.active_at()).await else { break };
                looked.extend(active_at.map(|at| (source, session, at)));
            }
            ears.tell(Heard::Looked(looked, answer));
        });
    }

    pub(super) fn looked(&mut self, looked: &Looked, answer: oneshot::Sender<Standing>) {
        for (source, session, at) in looked {
            self.engine.pressed(*source, session, *at);
        }
        drop(answer.send(self.standing()));
    }

    /// A look at our own pane showed when somebody was active there.
    pub(super) fn pressed(&mut self, at: UnixMs) {
        if let Some(own) = self.own_session() {
            self.engine.pressed(Source::Claude, &own, at);
        }
    }

    /// Of the sessions with something that is told no more.
    fn panes_of_told(&self) -> Vec<(Source, SessionId, Pane<T>)> {
        let waiting = self.engine.waiting(self.setting.clock.now()).into_iter();
        let told = waiting.filter(|waiting| waiting.next_in_ms.is_none() && !waiting.key.kind.is_dialog());
        let mut sessions: Vec<_> = told.map(|waiting| (waiting.key.source, waiting.key.session)).collect();
        sessions.dedup();
        let seen = sessions.into_iter().filter(|(source, _)| *source != Source::Ccmux);
        seen.filter_map(|(source, session)| {
            let pane = self.pane_of(source, &session)?;
            Some((source, session, pane))
        })
        .collect()
    }

    fn pane_of(&self, source: Source, session: &SessionId) -> Option<Pane<T>> {
        if self.own_session().as_ref() == Some(session) {
            return Some(Pane::Own(Arc::clone(&self.setting.terminal)));
        }
        let spot = match source {
            Source::Opencode => self.opencode.spot_of(session).cloned(),
            _ => self.setting.spots.of(session),
        };
        Some(Pane::Elsewhere(spot?.elsewhere()?))
    }

    /// A tmux that hangs must not keep the daemon from its end.
    fn spawn_look(&self, look: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.setting.shutdown.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = look => {}
            }
        });
    }
}

/// Without a state file nobody knows, and it counts as open.
async fn is_open(mut file: watch::Receiver<FileState>) -> bool {
    let open = file.wait_for(|state| matches!(state, FileState::Waiting(_) | FileState::Absent));
    timeout(FILE_FOLLOWS_WITHIN, open).await.is_ok()
}
