//! `ccmux permission`, `ccmux answer CODE`, `ccmux interrupt`: what Claude asks, answered from here; and stopping its turn.

pub mod arguments;

use std::io::{self, Write};
use std::path::Path;

use ccmux_wire::afar::{Code, OpenAsk, PermissionRequest, Reply};
use ccmux_wire::control::Request;

use self::arguments::{PermissionOptions, PermissionVerb};
use crate::client::{Answer, Client};
use crate::failure::Failure;
use crate::paper::{ago, harmless, span};

/// Lists, allows, denies.
pub fn run(dir: &Path, options: PermissionOptions) -> Result<(), Failure> {
    match options.verb {
        None => list(dir, options.json),
        Some(PermissionVerb::List { json }) => list(dir, json || options.json),
        Some(PermissionVerb::Allow { code }) => decide(dir, code, Reply::Allow),
        Some(PermissionVerb::Deny { code, reason }) => decide(dir, code, Reply::Deny { reason }),
    }
}

/// Answers a question of Claude's by its code, with a choice's number or with words.
pub fn answer(dir: &Path, code: Code, text: String) -> Result<(), Failure> {
    decide(dir, code, Reply::Text { text })
}

/// Presses Esc in the agent's pane, if a turn runs there.
pub fn interrupt(dir: &Path) -> Result<(), Failure> {
    print_done(&Client::ask(dir, Request::Interrupt)?)
}

fn decide(dir: &Path, code: Code, reply: Reply) -> Result<(), Failure> {
    let request = PermissionRequest::Answer { code, reply };
    print_done(&Client::ask(dir, Request::Permission(request))?)
}

fn print_done(answer: &Answer) -> Result<(), Failure> {
    let done = answer.reply.done.as_deref().unwrap_or("done");
    writeln!(io::stdout(), "{}", harmless(done))?;
    Ok(())
}

fn list(dir: &Path, json: bool) -> Result<(), Failure> {
    let answer = Client::ask(dir, Request::Permission(PermissionRequest::List))?;
    let mut out = io::stdout();
    if json {
        writeln!(out, "{}", answer.raw["asks"])?;
        return Ok(());
    }
    let asks = answer.reply.asks.unwrap_or_default();
    if asks.is_empty() {
        writeln!(out, "{}", nothing(answer.reply.done.as_deref()))?;
    }
    for ask in &asks {
        writeln!(out, "{}", shown(ask))?;
    }
    Ok(())
}

/// With why, if the daemon says that.
fn nothing(why: Option<&str>) -> String {
    let why = why.map(|why| format!(": {}", harmless(why)));
    format!("nothing can be answered from here{}", why.unwrap_or_default())
}

fn shown(ask: &OpenAsk) -> String {
    let left = span(i64::try_from(ask.expires_in_ms / 1000).unwrap_or(i64::MAX));
    let text: Vec<String> = ask.text.lines().map(|line| format!("  {}", harmless(line))).collect();
    let (kind, since) = (harmless(&ask.kind), ago(ask.since_ms));
    format!("{}  {kind}  {since}, for {left} more\n{}", ask.code, text.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_says_why_if_that_is_known() {
        assert_eq!(nothing(None), "nothing can be answered from here");
        let why = nothing(Some("permission.channel is empty"));
        assert_eq!(why, "nothing can be answered from here: permission.channel is empty");
    }

    #[test]
    fn an_ask_is_shown_with_its_code_and_no_control_characters() {
        let ask = OpenAsk {
            code: Code::of("bcdfg").unwrap(),
            kind: "permission".into(),
            tool: "Bash".into(),
            text: "Claude asks for permission: Bash\n  command: \u{1b}[2Jls".into(),
            since_ms: 0,
            expires_in_ms: 90_000,
        };
        let text = shown(&ask);
        assert!(text.starts_with("bcdfg  permission  "), "{text}");
        assert!(text.contains("more\n  Claude asks for permission: Bash\n"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
