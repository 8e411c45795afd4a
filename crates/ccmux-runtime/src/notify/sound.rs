//! A notice that is heard: a word of ours, or of the user's settings, or a file of theirs; never a text that came from
//! outside.
//!
//! ```text
//! permission ─► files.permission | file | texts.permission | "needs input" ─► the first program that plays or says it
//! ```
//!
//! What is said is an argument behind `--`; no shell reads it.

use std::collections::BTreeMap;
use std::path::Path;

use super::program::{ProgramError, run};
use super::route::RouteError;
use crate::settings::expand;
use crate::settings::routes::SoundSettings;

/// What speaks, by platform; the first one that works.
const SPEAKERS: [&[&str]; 3] = [&["spd-say", "--wait", "--"], &["espeak-ng", "--"], &["say", "--"]];
/// What plays a file; `afplay` knows no `--`, and an absolute path begins with none.
const PLAYERS: [&[&str]; 3] = [&["paplay", "--"], &["aplay", "-q", "--"], &["afplay"]];

/// What is heard.
#[derive(Debug, Clone)]
pub struct Sound {
    file: Option<String>,
    files: BTreeMap<String, String>,
    texts: BTreeMap<String, String>,
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
            (Some(file), _, _) | (None, None, Some(file)) => first_of(&PLAYERS, file).await,
            (None, Some(text), _) => first_of(&SPEAKERS, text).await,
            (None, None, None) => first_of(&SPEAKERS, spoken(kind)).await,
        }
    }
}

/// The word for a kind.
fn spoken(kind: &str) -> &'static str {
    match kind {
        "reply" | "subagent_reply" => "task complete",
        "permission" | "question" => "needs input",
        _ => "info",
    }
}

/// One that is there may have no server or no device: then the next one is asked.
async fn first_of(programs: &[&[&'static str]], last: &str) -> Result<(), RouteError> {
    let mut failed = None;
    for program in programs {
        let argv: Vec<String> = program.iter().chain([&last]).map(|word| (*word).to_owned()).collect();
        match run(&argv, Vec::new()).await {
            Ok(()) => return Ok(()),
            Err(ProgramError::NotStarted { .. }) => {}
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.map_or_else(|| no_sound(programs), RouteError::Program))
}

fn names<'a>(programs: &'a [&[&'static str]]) -> impl Iterator<Item = &'static str> + use<'a> {
    programs.iter().filter_map(|program| program.first().copied())
}

fn no_sound(programs: &[&[&'static str]]) -> RouteError {
    RouteError::NoSound(names(programs).collect::<Vec<_>>().join(", "))
}
