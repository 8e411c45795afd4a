//! A notice that is heard: a word of ours, or of the user's settings, or a file of theirs; never a text that came from
//! outside.
//!
//! ```text
//! permission ─► files.permission | file | texts.permission | "needs input" ─► the first program that plays or says it
//! ```
//!
//! What is said is an argument behind `--`; no shell reads it. A program that is not done in its time is ended, and the
//! next one is asked: nobody can tell one that hangs from one that plays. What plays for longer than other routes may take
//! plays on, until the next sound takes its place: at most one of a route does.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::TRY_WITHIN;
use super::program::{ProgramError, run};
use super::route::RouteError;
use crate::settings::expand;
use crate::settings::routes::SoundSettings;

/// What speaks, by platform; the first one that works.
const SPEAKERS: [&[&str]; 3] = [&["spd-say", "--wait", "--"], &["espeak-ng", "--"], &["say", "--"]];
/// What plays a file; `afplay` knows no `--`, and an absolute path begins with none.
const PLAYERS: [&[&str]; 3] = [&["paplay", "--"], &["aplay", "-q", "--"], &["afplay"]];

/// A file is played for so long; how long it is, nobody knows before.
const PLAYED_WITHIN: Duration = Duration::from_secs(60);
/// A voice needs that long to begin,
const SPOKEN_WITHIN: Duration = Duration::from_secs(5);
/// and for each character: slow ones say ten in a second.
const SPOKEN_WITHIN_MORE: Duration = Duration::from_millis(100);

/// What is heard.
#[derive(Debug, Clone)]
pub struct Sound {
    file: Option<String>,
    files: BTreeMap<String, String>,
    texts: BTreeMap<String, String>,
    /// Ends the one that plays on.
    plays_on: Arc<Mutex<CancellationToken>>,
}

impl Sound {
    /// From the settings.
    pub fn new(settings: &SoundSettings, home: &Path) -> Self {
        let expanded = |path: &String| expand(path, home).display().to_string();
        let files = settings.files.iter().map(|(kind, path)| (kind.clone(), expanded(path)));
        Self {
            file: settings.file.as_ref().map(expanded),
            files: files.collect(),
            texts: settings.texts.clone(),
            plays_on: Arc::default(),
        }
    }

    /// What of the machine is missing for it; the doctor asks.
    pub fn lack(&self, is_there: impl Fn(&str) -> bool) -> Option<String> {
        let plays = self.file.is_some() || !self.files.is_empty();
        let speaks = self.file.is_none() || !self.texts.is_empty();
        let wanted = [(plays, &PLAYERS), (speaks, &SPEAKERS)].into_iter().filter(|(wanted, _)| *wanted);
        let mut lacks = wanted.filter(|(_, programs)| !names(&programs[..]).any(&is_there));
        lacks.next().map(|(_, programs)| no_sound(&programs[..]).to_string())
    }

    /// Plays or says it, once.
    pub(super) async fn make(&self, kind: &str) -> Result<(), RouteError> {
        match (self.files.get(kind), self.texts.get(kind), &self.file) {
            (Some(file), _, _) | (None, None, Some(file)) => self.play(file).await,
            (None, Some(text), _) => say(text).await,
            (None, None, None) => say(spoken(kind)).await,
        }
    }

    /// What is replaced by a later sound was heard.
    async fn play(&self, file: &str) -> Result<(), RouteError> {
        self.replace();
        let mut played = pin!(first_of(&PLAYERS, file, PLAYED_WITHIN));
        if let Ok(done) = timeout(TRY_WITHIN, &mut played).await {
            return done;
        }
        let replaced = self.replace();
        tokio::select! {
            biased;
            done = played => done,
            () = replaced.cancelled() => Ok(()),
        }
    }

    /// Ends the one that plays on. Returns what ends the next one.
    fn replace(&self) -> CancellationToken {
        let mut plays_on = self.plays_on.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *plays_on).cancel();
        plays_on.clone()
    }
}

async fn say(text: &str) -> Result<(), RouteError> {
    let characters = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    let within = SPOKEN_WITHIN.saturating_add(SPOKEN_WITHIN_MORE.saturating_mul(characters));
    first_of(&SPEAKERS, text, within.min(PLAYED_WITHIN)).await
}

/// The word for a kind.
fn spoken(kind: &str) -> &'static str {
    match kind {
        "reply" | "subagent_reply" => "task complete",
        "permission" | "question" => "needs input",
        _ => "info",
    }
}

/// One that is there may have no server or no device, or hang: then the next one is asked.
async fn first_of(programs: &[&[&'static str]], last: &str, within: Duration) -> Result<(), RouteError> {
    let mut failed = None;
    for program in programs {
        let argv: Vec<String> = program.iter().chain([&last]).map(|word| (*word).to_owned()).collect();
        match timeout(within, run(&argv, Vec::new())).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(ProgramError::NotStarted { .. })) => {}
            Ok(Err(error)) => failed = failed.or(Some(RouteError::Program(error))),
            // All of it once more would take as long again: this is what counts.
            Err(_elapsed) => {
                failed = Some(RouteError::Unending { program: argv[0].clone(), seconds: within.as_secs() });
            }
        }
    }
    Err(failed.unwrap_or_else(|| no_sound(programs)))
}

fn names<'a>(programs: &'a [&[&'static str]]) -> impl Iterator<Item = &'static str> + use<'a> {
    programs.iter().filter_map(|program| program.first().copied())
}

fn no_sound(programs: &[&[&'static str]]) -> RouteError {
    RouteError::NoSound(names(programs).collect::<Vec<_>>().join(", "))
}
