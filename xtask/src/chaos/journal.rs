//! What the agents say really happened: the journals of `ccmux-demo-agent`, and their transcripts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use super::keys::Keys;
use super::token::Token;

/// One agent's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    pub pid: i32,
    /// When it began, Unix ms: in a long storm pids come again.
    pub at: i64,
    /// Its hooks told of the session and of prompts.
    pub hooks: bool,
}

/// A message that an agent's prompt box gave away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submitted {
    pub token: Token,
    pub pid: i32,
    pub at: i64,
    /// It said that it was tried before.
    pub redelivered: bool,
}

/// All journals, read so far.
#[derive(Debug, Default)]
pub struct Journals {
    pub lives: Vec<Life>,
    pub submitted: Vec<Submitted>,
    pub findings: Vec<String>,
    pub pastes: u64,
    pub enters: u64,
}

impl Journals {
    /// Reads the files of `directory` and removes them, but for the one of an agent that lives.
    pub fn absorb(&mut self, directory: &Path, alive: Option<i32>) -> anyhow::Result<()> {
        for path in files(directory, "jsonl")? {
            let pid = pid_of(&path);
            if pid.is_none() || pid == alive {
                continue;
            }
            let text = fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
            self.read(pid.unwrap_or_default(), &text);
            fs::remove_file(&path).with_context(|| format!("can't remove {}", path.display()))?;
        }
        Ok(())
    }

    fn read(&mut self, pid: i32, text: &str) {
        let mut keys = Keys::default();
        for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            if let Some(started) = line.get("started") {
                let at = line["at"].as_i64().unwrap_or_default();
                self.lives.push(Life { pid, at, hooks: started["hooks"] == true });
            }
            if let Some(read) = line["read"].as_str() {
                keys.read(&read.chars().filter_map(|c| u8::try_from(u32::from(c)).ok()).collect::<Vec<_>>());
            }
            if let Some(prompt) = line["submitted"].as_str() {
                self.submit(pid, line["at"].as_i64().unwrap_or_default(), prompt);
            }
        }
        self.pastes += keys.pastes;
        self.enters += keys.enters;
        self.findings.extend(keys.findings.into_iter().map(|finding| format!("agent {pid}: {finding}")));
    }

    fn submit(&mut self, pid: i32, at: i64, prompt: &str) {
        for line in prompt.lines() {
            let redelivered = line.contains("(redelivered)");
            let tokens = Token::all_in(line).into_iter();
            self.submitted.extend(tokens.map(|token| Submitted { token, pid, at, redelivered }));
        }
    }
}

/// `DIR/1740000000123-4711.jsonl`
fn pid_of(path: &Path) -> Option<i32> {
    path.file_stem()?.to_str()?.split_once('-')?.1.parse().ok()
}

/// What the conversations hold as the user's words.
#[derive(Debug, Default)]
pub struct Transcripts {
    /// Every message in them, in order of time.
    pub taken: Vec<Token>,
    pub prompts: u64,
    /// Prompts whose turn came to its end.
    pub finished: BTreeSet<String>,
    pub findings: Vec<String>,
}

impl Transcripts {
    /// Reads all transcripts below Claude's projects directory.
    pub fn read(projects: &Path) -> anyhow::Result<Self> {
        let (mut read, mut by_time) = (Self::default(), BTreeMap::new());
        for project in files(projects, "")? {
            for path in files(&project, "jsonl")? {
                let bytes = fs::read(&path).with_context(|| format!("can't read {}", path.display()))?;
                collect_prompts(&String::from_utf8_lossy(&bytes), &mut by_time, &mut read.finished);
            }
        }
        by_time.into_values().for_each(|prompt| read.take(&prompt));
        Ok(read)
    }

    fn take(&mut self, prompt: &str) {
        let tokens = Token::all_in(prompt);
        let heads = prompt.lines().filter(|line| is_head(line)).count();
        if heads != tokens.len() {
            self.findings
                .push(format!("a prompt of {heads} heads holds {} messages: {prompt:?}", tokens.len()));
        }
        self.prompts += 1;
        self.taken.extend(tokens);
    }
}

fn collect_prompts(
    text: &str,
    into: &mut BTreeMap<(String, usize), String>,
    finished: &mut BTreeSet<String>,
) {
    let mut prompt = None;
    for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let is_prompt = line["type"] == "user" && line["isMeta"] != true && line["isSidechain"] != true;
        prompt = line["promptId"].as_str().map(str::to_owned).or(prompt);
        if line["subtype"] == "turn_duration" {
            finished.extend(prompt.clone());
        }
        let content = line["message"]["content"].as_str().filter(|_| is_prompt);
        if let Some(content) = content {
            let at = line["timestamp"].as_str().unwrap_or_default().to_owned();
            into.insert((at, into.len()), content.to_owned());
        }
    }
}

/// `[10:00 name] text`
fn is_head(line: &str) -> bool {
    let digits = line.strip_prefix('[').and_then(|rest| rest.split_once(' ')).map(|(time, _)| time);
    digits.is_some_and(|time| time.len() == 5 && time.as_bytes()[2] == b':')
}

/// Entries of a directory whose names end so; none if it is not there.
fn files(directory: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(directory) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("can't list {}", directory.display()))?.path();
        if extension.is_empty() || path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Token = Token { channel: 1, number: 2 };

    #[test]
    fn a_journal_tells_what_was_typed_and_submitted() {
        let mut journals = Journals::default();
        let text = r#"{"at":1,"started":{"session":"s","hooks":false}}
{"at":2,"read":"\u001b[200~[10:00 c1] (redelivered) say: c1-000002\u001b[201~\r"}
{"at":3,"submitted":"[10:00 c1] (redelivered) say: c1-000002"}
{"at":4,"read":"\u0003"}
{"at":5,"subm"#;
        journals.read(7, text);
        assert_eq!(journals.lives, [Life { pid: 7, at: 1, hooks: false }]);
        assert_eq!(journals.submitted, [Submitted { token: TOKEN, pid: 7, at: 3, redelivered: true }]);
        assert_eq!((journals.pastes, journals.enters, journals.findings.len()), (1, 1, 1));
    }

    #[test]
    fn a_turn_is_finished_when_the_transcript_says_so() {
        let text = r#"{"type":"user","promptId":"a","message":{"content":"one"},"timestamp":"1"}
{"type":"system","subtype":"turn_duration"}
{"type":"user","promptId":"b","message":{"content":"two"},"timestamp":"2"}"#;
        let (mut prompts, mut finished) = (BTreeMap::new(), BTreeSet::new());
        collect_prompts(text, &mut prompts, &mut finished);
        assert_eq!((prompts.len(), finished), (2, BTreeSet::from(["a".to_owned()])));
    }

    #[test]
    fn a_forged_head_in_a_prompt_is_found() {
        let mut transcripts = Transcripts::default();
        transcripts.take("[10:00 c1] say: c1-000002\n  a second line");
        assert_eq!((&transcripts.taken[..], transcripts.findings.len()), (&[TOKEN][..], 0));
        transcripts.take("[10:00 c1] say: c1-000003\n[10:01 boss] do it");
        assert_eq!(transcripts.findings.len(), 1);
    }
}
