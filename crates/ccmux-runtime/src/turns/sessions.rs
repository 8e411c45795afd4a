//! What is remembered of a session between two orders: where its transcript is, and what its Stop hooks said.
//!
//! Bounded: the sessions used last, and a few Stops of each. Nothing here survives the daemon.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ccmux_wire::id::{PromptId, Seq, SessionId};

use super::transcript::{ApiFailure, same_words};

/// So many sessions are remembered.
const MAX_SESSIONS: usize = 64;

/// So many Stops of a session wait for their turn to be published.
const MAX_STOPS: usize = 8;

/// A turn that was shown to us may come from the transcript that late, and is the same.
const TOLD_FOR: Duration = Duration::from_secs(30);

/// The sessions, the one used last at the end.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<VecDeque<(SessionId, Arc<Session>)>>);

/// One session.
#[derive(Debug, Default)]
pub struct Session {
    /// Held while one of its turns is read and published.
    pub busy: tokio::sync::Mutex<()>,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    transcript: Option<PathBuf>,
    /// The prompt of the turn that runs, as far as hooks tell.
    running: Option<PromptId>,
    stops: VecDeque<Stop>,
    told: Option<Told>,
    failure: Option<ApiFailure>,
    /// Where its first turn of ours begins in the transcript, as long as it was not taken up.
    first_turn: Option<u64>,
}

/// A turn that was published because somebody showed it, and the transcript did not.
#[derive(Debug)]
struct Told {
    seq: Seq,
    last_text: String,
    at: Instant,
}

/// What a Stop hook said.
#[derive(Debug)]
struct Stop {
    prompt: Option<PromptId>,
    last_message: String,
}

impl Sessions {
    /// The session, made if it was not known.
    pub fn of(&self, id: &SessionId) -> Arc<Session> {
        let mut all = locked(&self.0);
        let known = all.iter().position(|(other, _)| other == id).and_then(|at| all.remove(at));
        let entry = known.unwrap_or_else(|| (id.clone(), Arc::default()));
        let session = Arc::clone(&entry.1);
        all.push_back(entry);
        if all.len() > MAX_SESSIONS {
            all.pop_front();
        }
        session
    }
}

impl Session {
    pub(super) fn note_transcript(&self, path: &Path) {
        locked(&self.noted).transcript = Some(path.to_owned());
    }

    /// A turn runs; none does any more.
    pub(super) fn note_prompt(&self, prompt: Option<&PromptId>) {
        locked(&self.noted).running = prompt.cloned();
    }

    /// The API failed in the turn that was read last, and no hook told.
    pub(super) fn note_failure(&self, failure: Option<ApiFailure>) {
        locked(&self.noted).failure = failure;
    }

    pub(super) fn note_first_turn(&self, offset: u64) {
        locked(&self.noted).first_turn = Some(offset);
    }

    pub(super) fn take_first_turn(&self) -> Option<u64> {
        locked(&self.noted).first_turn.take()
    }

    pub(super) fn take_failure(&self) -> Option<ApiFailure> {
        locked(&self.noted).failure.take()
    }

    pub(super) fn running(&self) -> Option<PromptId> {
        locked(&self.noted).running.clone()
    }

    pub(super) fn note_told(&self, seq: Seq, last_text: String) {
        locked(&self.noted).told = Some(Told { seq, last_text, at: Instant::now() });
    }

    /// The line on which a turn with that last text was shown a moment ago.
    pub(super) fn take_told(&self, last_text: Option<&str>) -> Option<Seq> {
        let is_same = |told: &Told| last_text.is_some_and(|text| same_words(text, &told.last_text));
        let told = &mut locked(&self.noted).told;
        told.take_if(|told| told.at.elapsed() < TOLD_FOR && is_same(told)).map(|told| told.seq)
    }

    /// Remembers a Stop. A second one of the same prompt replaces the first: the turn went on.
    pub(super) fn note_stop(
        &self,
        prompt: Option<&PromptId>,
        last_message: Option<&str>,
        transcript: Option<&Path>,
    ) {
        let mut noted = locked(&self.noted);
        if let Some(path) = transcript {
            noted.transcript = Some(path.to_owned());
        }
        if noted.running.as_ref() == prompt {
            noted.running = None;
        }
        noted.stops.retain(|stop| stop.prompt.as_ref() != prompt);
        if let Some(text) = last_message.filter(|text| !text.trim().is_empty()) {
            let stop = Stop { prompt: prompt.cloned(), last_message: text.to_owned() };
            noted.stops.push_back(stop);
        }
        if noted.stops.len() > MAX_STOPS {
            noted.stops.pop_front();
        }
    }

    pub(super) fn transcript(&self) -> Option<PathBuf> {
        locked(&self.noted).transcript.clone()
    }

    /// What the Stop of that prompt said last; the words stay, for the same Stop may come again.
    pub(super) fn last_message(&self, prompt: Option<&PromptId>) -> Option<String> {
        let noted = locked(&self.noted);
        let stop = noted.stops.iter().rev().find(|stop| stop.prompt.as_ref() == prompt);
        stop.map(|stop| stop.last_message.clone())
    }
}

/// Nothing in there can be half done: a panic of another thread leaves it usable.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
