//! The command line: the part of Claude Code's that ccmux uses. Unknown flags are errors.

use crate::faults;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (ccmux-demo-agent)");

/// The number of the version that it says it is.
pub fn version_number() -> String {
    stated_version().unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned())
}

/// The answer to `--version`.
pub fn version() -> String {
    stated_version().map_or_else(|| VERSION.to_owned(), |number| format!("{number} (Claude Code)"))
}

fn stated_version() -> Option<String> {
    std::env::var("CCMUX_DEMO_VERSION").ok().filter(|number| !number.is_empty())
}

/// What to do with the conversations there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Conversation {
    #[default]
    New,
    /// `--session-id`: a new one with this id.
    Named(String),
    /// `--resume`: this one.
    Resume(String),
    /// `--continue`: the newest of the working directory.
    Newest,
}

/// A command line understood.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Files or inline JSON, in the order given.
    pub settings: Vec<String>,
    /// Files, in the order given.
    pub mcp_config: Vec<String>,
    pub conversation: Conversation,
    pub skip_permissions: bool,
    pub permission_mode: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Run(Options),
    Version,
    Help,
}

/// Reads the arguments after the program's name.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut options = Options::default();
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        let (flag, inline) = match argument.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag.to_owned(), Some(value.to_owned())),
            _ => (argument.clone(), None),
        };
        let mut value =
            || inline.clone().or_else(|| rest.next()).ok_or_else(|| format!("option '{flag}' needs a value"));
        match flag.as_str() {
            "--version" | "-v" => return Ok(Command::Version),
            "--help" | "-h" => return Ok(Command::Help),
            "--settings" => options.settings.push(value()?),
            "--mcp-config" => options.mcp_config.push(value()?),
            "--permission-mode" => options.permission_mode = Some(value()?),
            "--resume" | "-r" => options.conversation = Conversation::Resume(value()?),
            "--session-id" => options.conversation = Conversation::Named(value()?),
            "--continue" | "-c" => options.conversation = Conversation::Newest,
            "--strict-mcp-config" => {}
            "--dangerously-skip-permissions" => options.skip_permissions = true,
            _ if flag.starts_with('-') => return Err(format!("unknown option '{flag}'")),
            _ => return Err(format!("unexpected argument '{argument}'")),
        }
    }
    Ok(Command::Run(options))
}

/// The text of `--help`.
pub fn help() -> String {
    let mut text = String::from(
        "ccmux-demo-agent: a small terminal agent that behaves like Claude Code, without a model

Usage: ccmux-demo-agent [OPTIONS]

Options:
  --settings FILE-or-JSON         hooks, in addition to those of the user (repeatable)
  --mcp-config FILE               the server `ccmux` of type http in it answers the word mcp: (repeatable)
  --strict-mcp-config             accepted, not used
  --resume ID, -r                 go on with this conversation
  --continue, -c                  go on with the newest conversation of the directory
  --session-id ID                 a new conversation with this id
  --dangerously-skip-permissions  run tools unasked (the default here)
  --permission-mode MODE          what hooks are told
  --version, -v  --help, -h

A prompt's last line that starts with a word is a script, anything else is echoed:
  say: X   think: X   slow: S   silent: S   ping: S   gap: S   big: N   cut: X   error: STATUS [TEXT]
  bash: CMD   full: CMD   perm: CMD (asks first)   edit: PATH   tool: NAME JSON   mcp: CH MSG
  ask: Q   plan: X   task: PROMPT

Files: ${CLAUDE_CONFIG_DIR:-~/.claude}/{settings.json,projects/,sessions/}

Environment:
",
    );
    for (variable, meaning) in faults::TABLE {
        text.push_str(&format!("  {variable:<34} {meaning}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_flags_that_ccmux_passes_are_understood() {
        let line = "--dangerously-skip-permissions --settings a.json --mcp-config m.json --strict-mcp-config \
                    --settings={} --resume 12";
        let Ok(Command::Run(options)) = run(line) else { panic!("not a run") };
        assert_eq!(options.settings, ["a.json", "{}"]);
        assert_eq!(options.mcp_config, ["m.json"]);
        assert_eq!(options.conversation, Conversation::Resume("12".into()));
        assert!(options.skip_permissions);
    }

    #[test]
    fn what_is_unknown_or_incomplete_is_an_error() {
        assert_eq!(run("--bogus"), Err("unknown option '--bogus'".into()));
        assert_eq!(run("hello"), Err("unexpected argument 'hello'".into()));
        assert_eq!(run("--resume"), Err("option '--resume' needs a value".into()));
    }

    #[test]
    fn help_names_every_variable() {
        for (variable, _) in faults::TABLE {
            assert!(help().contains(variable));
        }
    }
}
