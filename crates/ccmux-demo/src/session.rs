//! Which conversation the agent opens: a new one, or one that a transcript tells of.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use crate::cli::Conversation;
use crate::conversation::Mark;
use crate::ids;
use crate::paths::Paths;

/// So many entries of an old conversation are shown.
const SHOWN_AGAIN: usize = 60;

/// A conversation opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opened {
    pub session: String,
    /// As SessionStart hooks are told.
    pub source: &'static str,
    /// Last line of the transcript's chain.
    pub parent: Option<String>,
    pub prompts: u64,
    pub seconds_since: u64,
    /// What was said before, to be shown again.
    pub said: Vec<(Mark, String)>,
}

impl Opened {
    /// The conversation that the command line asks for; the error is Claude's own line.
    pub fn open(wanted: &Conversation, paths: &Paths) -> Result<Self, String> {
        match wanted {
            Conversation::New => Ok(Self::fresh(ids::uuid(), "startup")),
            Conversation::Named(id) if paths.transcript(id).exists() => {
                Err(format!("Error: Session ID {id} is already in use."))
            }
            Conversation::Named(id) => Ok(Self::fresh(id.clone(), "startup")),
            Conversation::Resume(id) => Self::resume(&paths.transcript(id), id)
                .ok_or(format!("No conversation found with session ID: {id}")),
            Conversation::Newest => newest(&paths.project())
                .and_then(|path| Self::resume(&path, path.file_stem()?.to_str()?))
                .ok_or("No conversation found to continue".to_owned()),
        }
    }

    /// What follows `/clear`.
    pub fn cleared() -> Self {
        Self::fresh(ids::uuid(), "clear")
    }

    fn fresh(session: String, source: &'static str) -> Self {
        Self { session, source, ..Self::default() }
    }

    fn resume(transcript: &Path, id: &str) -> Option<Self> {
        let text = String::from_utf8_lossy(&std::fs::read(transcript).ok()?).into_owned();
        let mut opened = Self::fresh(id.to_owned(), "resume");
        let written = transcript.metadata().and_then(|meta| meta.modified()).ok();
        let since = written.and_then(|written| SystemTime::now().duration_since(written).ok());
        opened.seconds_since = since.unwrap_or_default().as_secs();
        for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            opened.take_in(&line);
        }
        let surplus = opened.said.len().saturating_sub(SHOWN_AGAIN);
        opened.said.drain(..surplus);
        Some(opened)
    }

    fn take_in(&mut self, line: &Value) {
        if let (Some(uuid), Some(false)) = (line["uuid"].as_str(), line["isSidechain"].as_bool()) {
            self.parent = Some(uuid.to_owned());
        }
        let content = &line["message"]["content"];
        match line["type"].as_str() {
            Some("user") => {
                if let (Some(prompt), None) = (content.as_str(), line["isMeta"].as_bool()) {
                    self.prompts += 1;
                    self.said.push((Mark::Prompt, prompt.to_owned()));
                }
            }
            Some("assistant") => {
                let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
                let texts = blocks.iter().filter_map(|block| block["text"].as_str());
                self.said.extend(texts.map(|text| (Mark::Reply, text.to_owned())));
            }
            _ => {}
        }
    }
}

fn newest(project: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(project).ok()?.flatten();
    let transcripts =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "jsonl"));
    transcripts
        .max_by_key(|path| path.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::transcript::{Message, Transcript};

    fn spoken(directory: &Path, id: &str) -> Paths {
        let paths = Paths::new(directory.into(), "/x".into());
        let mut transcript = Transcript::new(paths.transcript(id), id, Path::new("/x"), "default");
        transcript.prompt("P", "say: hi", "typed");
        let block = serde_json::json!({"type": "text", "text": "hi"});
        transcript.block(&mut Message::default(), &block, Some("end_turn"), Duration::ZERO);
        paths
    }

    #[test]
    fn a_resumed_conversation_goes_on_where_it_ended() {
        let directory = tempfile::tempdir().unwrap();
        let paths = spoken(directory.path(), "abc");
        for wanted in [Conversation::Resume("abc".into()), Conversation::Newest] {
            let opened = Opened::open(&wanted, &paths).unwrap();
            assert_eq!((opened.session.as_str(), opened.source, opened.prompts), ("abc", "resume", 1));
            assert_eq!(opened.said, [(Mark::Prompt, "say: hi".into()), (Mark::Reply, "hi".into())]);
            assert!(opened.parent.is_some());
        }
    }

    #[test]
    fn what_is_not_there_is_said_in_claudes_words() {
        let directory = tempfile::tempdir().unwrap();
        let paths = Paths::new(directory.path().into(), "/y".into());
        let error = |wanted| Opened::open(&wanted, &paths).unwrap_err();
        assert_eq!(error(Conversation::Resume("n".into())), "No conversation found with session ID: n");
        assert_eq!(error(Conversation::Newest), "No conversation found to continue");
        let used = spoken(directory.path(), "abc");
        let error = Opened::open(&Conversation::Named("abc".into()), &used).unwrap_err();
        assert!(error.contains("already in use"));
    }
}
