//! Follows a transcript while several dialogs of a session are open, or an answer was passed on: nobody else sees which one
//! was answered at the terminal, and whose answer Claude took.
//!
//! ```text
//! a second ask beside an open one ─► follow ─► Follower: lines ─► Calls ─► judge ─► released, or a Proof for who answered
//!                                              ▲ waits for the file to grow; ends when nothing of it is open
//! ```
//!
//! One at a time for each transcript, and none while a single dialog is open: its end is proof enough. A hook of Claude's for
//! each tool call would tell the same, for a process each.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ccmux_policy::attention::afar::{End, Proof, Word};
use ccmux_wire::afar::Code;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::calls::{Asked, Calls};
use super::{Answers, NotAnswered, State};
use crate::dir_watch::{DirWatch, Watched};
use crate::turns::transcript::lines::{LineReader, Next};
use crate::turns::transcript::{TranscriptError, open_transcript};

/// What is said of an answer whose proof did not come in time: a human may have been first, unseen.
pub const PASSED_ON: &str = "passed on to Claude; another dialog was open: look at the terminal";
/// Claude writes a hook's decision within a fraction of a second.
const PROOF_WITHIN: Duration = Duration::from_secs(5);
/// A call is written shortly before it is asked about: that many bytes before are read.
const BEFORE: u64 = 4 * 1024 * 1024;

/// The call that an ask is about.
#[derive(Debug, Clone)]
pub(super) struct Marked {
    asked: Asked,
    /// Where the transcript ended when it was asked.
    end: u64,
}

impl Marked {
    /// Only the length of a file that may be a transcript is asked for.
    pub(super) fn of(asked: Asked, projects_dir: &Path) -> Option<Self> {
        let path = &asked.transcript;
        let goes_up = path.components().any(|part| part == std::path::Component::ParentDir);
        if goes_up || !path.starts_with(projects_dir) {
            return None;
        }
        let end = path.symlink_metadata().map_or(0, |found| found.len());
        Some(Self { asked, end })
    }
}

/// An answer that was passed on, and who waits for its proof.
#[derive(Debug)]
pub(super) struct PassedOn {
    pub(super) call: Option<Marked>,
    pub(super) told: oneshot::Sender<Proof>,
}

/// What is known of an answer at once.
#[derive(Debug)]
pub(super) enum Told {
    Sure(&'static str),
    PassedOn(Code, oneshot::Receiver<Proof>),
}

pub(super) fn spoken(word: Word) -> &'static str {
    match word {
        Word::Allowed => "allowed",
        Word::Denied => "denied",
        Word::Answered => "answered",
    }
}

impl State {
    /// The calls that only the transcript tells of.
    fn unproved(&self) -> impl Iterator<Item = (&Code, &Marked)> {
        let open = self.open.iter().filter_map(|(code, open)| Some((code, open.call.as_ref()?)));
        let passed_on =
            self.passed_on.iter().filter_map(|(code, passed)| Some((code, passed.call.as_ref()?)));
        open.chain(passed_on).filter(|(code, _)| self.policy.wants_proof(code))
    }
}

impl Answers {
    /// Waits for the proof of what was passed on.
    pub(super) async fn proved(&self, told: Told) -> Result<&'static str, NotAnswered> {
        let (code, proof) = match told {
            Told::Sure(word) => return Ok(word),
            Told::PassedOn(code, proof) => (code, proof),
        };
        match timeout(PROOF_WITHIN, proof).await {
            Ok(Ok(Proof::Holds(word))) => Ok(spoken(word)),
            Ok(Ok(Proof::Late | Proof::AtTerminal)) => Err(NotAnswered::TooLate(End::AtTerminal)),
            Ok(Err(_)) | Err(_) => {
                let mut state = self.state();
                state.passed_on.remove(&code);
                state.policy.give_up_proof(&code);
                drop(state);
                self.0.moved.send_replace(());
                Ok(PASSED_ON)
            }
        }
    }

    /// Every transcript that has to tell something is followed.
    pub(super) fn follow(&self) {
        let mut state = self.state();
        let wanted: Vec<(PathBuf, u64)> =
            state.unproved().map(|(_, call)| (call.asked.transcript.clone(), call.end)).collect();
        for (path, end) in wanted {
            if state.followed.insert(path.clone()) {
                let follower = Follower { answers: self.clone(), path, from: end.saturating_sub(BEFORE) };
                tokio::spawn(follower.run());
            }
        }
    }

    /// What a transcript tells so far. `false`: nothing more is wanted of it, and it is followed no more.
    fn judge(&self, path: &Path, calls: &Calls) -> bool {
        let now = self.0.clock.now();
        let mut state = self.state();
        let of_it = state.unproved().filter(|(_, call)| call.asked.transcript == path);
        let settled: Vec<_> = of_it
            .filter_map(|(code, call)| Some((code.clone(), calls.outcome(call.asked.print, call.end)?)))
            .collect();
        let mut at_terminal = Vec::new();
        for (code, how) in settled {
            match state.policy.settled(&code, how, now) {
                Some(Proof::AtTerminal) => at_terminal.push(code),
                Some(proof) => {
                    let passed_on = state.passed_on.remove(&code);
                    passed_on.map(|passed_on| passed_on.told.send(proof));
                }
                None => {}
            }
        }
        // Those are closed, and wanted no more.
        let more = state.unproved().any(|(_, call)| call.asked.transcript == path);
        if !more {
            state.followed.remove(path);
        }
        drop(state);
        self.release(at_terminal, End::AtTerminal);
        more
    }

    fn follow_no_more(&self, path: &Path) {
        self.state().followed.remove(path);
    }
}

struct Follower {
    answers: Answers,
    path: PathBuf,
    from: u64,
}

impl Follower {
    async fn run(self) {
        let mut watch = DirWatch::new(Watched::Contents);
        let mut moved = self.answers.0.moved.subscribe();
        let mut reading = Reading { lines: None, calls: Calls::default() };
        loop {
            // Before it is read, so that nothing is missed. A directory that is not there yet comes with its first line.
            let _ = self.path.parent().map(|dir| watch.follow(dir));
            let (path, from, dir) = (self.path.clone(), self.from, self.answers.0.projects_dir.clone());
            let read = spawn_blocking(move || {
                let result = reading.read(&path, from, &dir);
                (reading, result)
            });
            let Ok((so_far, result)) = read.await else { return self.answers.follow_no_more(&self.path) };
            reading = so_far;
            if let Err(error) = result {
                tracing::warn!(event = "transcript.unreadable", %error);
                return self.answers.follow_no_more(&self.path);
            }
            if !self.answers.judge(&self.path, &reading.calls) {
                return;
            }
            tokio::select! {
                () = watch.changed() => {}
                changed = moved.changed() => if changed.is_err() { return },
            }
        }
    }
}

struct Reading {
    lines: Option<LineReader<File>>,
    calls: Calls,
}

impl Reading {
    /// Everything that was written since. A file that is not there yet has nothing to tell.
    fn read(&mut self, path: &Path, from: u64, projects_dir: &Path) -> Result<(), TranscriptError> {
        let lines = match &mut self.lines {
            Some(lines) => lines,
            None => match open_transcript(path, projects_dir) {
                Ok(file) => self.lines.insert(LineReader::new(file, from)),
                Err(TranscriptError::Missing { .. }) => return Ok(()),
                Err(error) => return Err(error),
            },
        };
        loop {
            match lines.next_line().map_err(|source| TranscriptError::io(path, "read", source))? {
                Next::Line { bytes, start } => self.calls.feed(bytes, start),
                Next::TooLong => {}
                Next::StillLong | Next::End { .. } => return Ok(()),
            }
        }
    }
}
