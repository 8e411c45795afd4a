//! The hooks of settings files: the user's own and those of `--settings`, added together.
//!
//! Knows the shape of `{"hooks":{EVENT:[{"matcher","hooks":[...]}]}}`; does not run anything.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// One command to run at an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    pub command: String,
    /// Exec form: no shell.
    pub arguments: Option<Vec<String>>,
    pub timeout: Duration,
    /// Runs beside the turn and blocks nothing.
    pub detached: bool,
    /// Which tool (or source, reason, type) it wants; empty: all.
    matcher: String,
}

/// All hooks by event.
#[derive(Debug, Clone, Default)]
pub struct Hooks(BTreeMap<String, Vec<Hook>>);

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    hooks: BTreeMap<String, Vec<Group>>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    matcher: Option<String>,
    #[serde(default)]
    hooks: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    timeout: Option<f64>,
    #[serde(default, rename = "async")]
    detached: bool,
}

impl Hooks {
    /// Adds the hooks of a settings text.
    pub fn add(&mut self, text: &str) -> Result<(), serde_json::Error> {
        let file: File = serde_json::from_str(text)?;
        for (event, groups) in file.hooks {
            let known = self.0.entry(event).or_default();
            for group in groups {
                let matcher = group.matcher.unwrap_or_default();
                known.extend(group.hooks.into_iter().filter_map(|entry| entry.into_hook(&matcher)));
            }
        }
        Ok(())
    }

    /// Adds what `--settings` was given: inline JSON or a file.
    pub fn add_argument(&mut self, argument: &str) -> Result<(), String> {
        if argument.trim_start().starts_with('{') {
            return self.add(argument).map_err(|e| format!("--settings is not valid JSON: {e}"));
        }
        let text = std::fs::read_to_string(argument)
            .map_err(|e| format!("Settings file not found: {argument} ({e})"))?;
        self.add(&text).map_err(|e| format!("{argument} is not valid: {e}"))
    }

    /// Adds the user's file; a missing one is no error.
    pub fn add_user_file(&mut self, path: &Path) -> Result<(), String> {
        match std::fs::read_to_string(path) {
            Ok(text) => self.add(&text).map_err(|e| format!("{} is not valid: {e}", path.display())),
            Err(_) => Ok(()),
        }
    }

    /// Hooks of an event for a subject (a tool's name, a source, a reason; empty if it has none).
    pub fn of(&self, event: &str, subject: &str) -> Vec<Hook> {
        let hooks = self.0.get(event).map(Vec::as_slice).unwrap_or_default();
        hooks.iter().filter(|hook| matches(&hook.matcher, subject)).cloned().collect()
    }
}

impl Entry {
    fn into_hook(self, matcher: &str) -> Option<Hook> {
        // Other kinds (http, prompt) are not run here.
        let command = self.command.filter(|_| self.kind == "command" || self.kind.is_empty())?;
        let timeout = self.timeout.filter(|s| *s > 0.0 && *s < 86_400.0).map(Duration::from_secs_f64);
        Some(Hook {
            command,
            arguments: self.args,
            timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
            detached: self.detached,
            matcher: matcher.to_owned(),
        })
    }
}

/// A matcher is a list of alternatives, each whole or ending in `.*`; real Claude takes any regular expression.
fn matches(matcher: &str, subject: &str) -> bool {
    let one =
        |alternative: &str| match alternative.strip_suffix(".*").or_else(|| alternative.strip_suffix('*')) {
            Some(head) => subject.starts_with(head),
            None => alternative == subject,
        };
    matcher.is_empty() || subject.is_empty() || matcher.split('|').any(|alternative| one(alternative.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_of_several_files_add_up() {
        let mut hooks = Hooks::default();
        hooks
            .add(r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"a"}]}]},"theme":"x"}"#)
            .unwrap();
        hooks
            .add_argument(r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"b","args":["c"],"timeout":2,"async":true}]}]}}"#)
            .unwrap();
        let stop = hooks.of("Stop", "");
        assert_eq!(stop.iter().map(|hook| hook.command.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(stop[0].timeout, DEFAULT_TIMEOUT);
        assert_eq!(stop[1].arguments.as_deref(), Some(&["c".to_owned()][..]));
        assert!(stop[1].detached && stop[1].timeout == Duration::from_secs(2));
    }

    #[test]
    fn a_matcher_chooses_tools() {
        for (matcher, subject, expected) in [
            ("", "Bash", true),
            ("*", "Bash", true),
            ("Bash|Write", "Write", true),
            ("Bash", "Write", false),
            ("mcp__.*", "mcp__ccmux__x", true),
        ] {
            assert_eq!(matches(matcher, subject), expected, "{matcher} {subject}");
        }
    }

    #[test]
    fn broken_settings_are_named() {
        assert!(Hooks::default().add_argument("{oops").unwrap_err().contains("--settings"));
        assert!(Hooks::default().add_argument("/nowhere/x.json").unwrap_err().contains("/nowhere/x.json"));
    }
}
