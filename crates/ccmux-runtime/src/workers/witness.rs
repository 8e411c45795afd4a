//! Searches the transcript for a batch: the second witness of a delivery.
//!
//! It judges nothing: what follows from found, absent or unreadable is for the policy to decide.

use std::path::PathBuf;

use ccmux_policy::event::Found;
use ccmux_policy::{Effect, Event, UnixMs};
use ccmux_wire::id::{BatchId, PromptId, SessionId};
use tokio::sync::{mpsc, watch};

use super::on_the_way::OnTheWay;
use super::starter::AgentNow;
use crate::agent::state_file::others_live_in;
use crate::inbox::{Inbox, InboxError, stopped, until_done};
use crate::prompt::{contains_prompt, same_prompt};
use crate::turns::{FoundElsewhere, Mark, Turns};

/// What was found, the prompt of the line, and the session that has it where it is not the bound one.
type Witnessed = (Found, Option<PromptId>, Option<SessionId>);

/// The task.
#[derive(Debug)]
pub struct Witness {
    /// What is ordered.
    pub orders: mpsc::UnboundedReceiver<Effect>,
    /// What is answered.
    pub events: mpsc::Sender<Event>,
    /// Knows where to look.
    pub inbox: Inbox,
    /// Reads transcripts.
    pub turns: Turns,
    /// Where Claude's state files are, and the folder that the agent works in.
    pub sessions: (PathBuf, PathBuf),
    /// The agent that runs now.
    pub agent: watch::Receiver<Option<AgentNow>>,
    /// Texts between paste and receipt.
    pub on_the_way: OnTheWay,
}

impl Witness {
    /// Runs until nobody orders any more. Every order is answered while somebody listens.
    pub async fn run(mut self) {
        while let Some(order) = self.orders.recv().await {
            let Effect::FindInTranscript { batch } = order else {
                continue;
            };
            let Some((found, prompt, session)) = self.search(batch).await else {
                return;
            };
            tracing::debug!(event = "batch.searched", %batch, ?found, session = session.as_ref().map(SessionId::as_str));
            if self.events.send(Event::TranscriptSearched { batch, found, prompt, session }).await.is_err() {
                return;
            }
        }
    }

    /// `None`: the daemon stopped before the database answered.
    async fn search(&self, batch: BatchId) -> Option<Witnessed> {
        let unreadable = Some((Found::Unreadable, None, None));
        let Some(known) = self.on_the_way.get(batch) else {
            return unreadable;
        };
        // A database that is locked for a while says nothing about the transcript.
        let read = || self.inbox.batch(batch);
        let row = until_done("read batch", InboxError::may_pass, stopped(&self.events), read).await?;
        let Ok(Some(row)) = row else {
            return unreadable;
        };
        let Some(path) = row.mark.transcript_path else {
            return unreadable;
        };
        let mark = Mark { path, offset: row.mark.offset };
        let same = |reported: &str, ours: &str| same_prompt(ours, reported);
        let text = known.text.to_string();
        let (found, prompt) = self.turns.find_batch(mark.clone(), text.clone(), same, contains_prompt).await;
        if matches!(found, Found::Whole | Found::Within) {
            return Some((found, prompt, None));
        }
        let since = UnixMs(row.pasted_at.unwrap_or(row.began_at).min(row.began_at));
        match self.turns.find_elsewhere(mark, since, text, same, contains_prompt).await {
            Some(other) => Some(self.taken_by(batch, other)),
            None if found == Found::Absent && self.others_live(known.pid) => {
                Some((Found::AbsentHere, prompt, None))
            }
            None => Some((found, prompt, None)),
        }
    }

    /// Neither the agent that the text was typed for, nor the one that runs now.
    fn others_live(&self, pid: i32) -> bool {
        let now = self.agent.borrow().as_ref().map(|agent| agent.pid);
        let own: Vec<i32> = std::iter::once(pid).chain(now).collect();
        others_live_in(&self.sessions.0, &self.sessions.1, &own)
    }

    /// Another session took it: its turns are ours from that line on.
    fn taken_by(&self, batch: BatchId, other: FoundElsewhere) -> Witnessed {
        let session = other.path.file_stem().and_then(|name| name.to_str()).map(SessionId::new);
        if let Some(session) = &session {
            tracing::warn!(event = "batch.taken_elsewhere", %batch, %session, "another session stands behind the screen");
            self.turns.note_first_turn(session, &other.path, other.offset);
        }
        (other.found, other.prompt, session)
    }
}
