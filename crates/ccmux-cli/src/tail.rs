//! `ccmux tail`: Claude's finished turns and the daemon's alerts as they come.
//!
//! ```text
//! 14:03:05 #7 in reply to m-17 on telegram
//! The build is green.
//!   [Bash] {"command":"cargo test"}
//!
//! 14:03:20 #8 alert permission_request: Bash waits for a decision
//! ```

use std::io::{self, Write};
use std::path::Path;

use ccmux_wire::control::{Reply, Request};
use ccmux_wire::output::{AlertLine, Bye, Only, Turn, Wish};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::arguments::TailOptions;
use crate::client::Client;
use crate::failure::Failure;
use crate::paper::{Ink, Paper, harmless, time_of_day};

/// How much of a tool's input is shown.
const TOOL_INPUT_CHARS: usize = 100;

pub fn run(dir: &Path, options: &TailOptions) -> Result<(), Failure> {
    let mut client = Client::connect(dir)?;
    client.send(Request::Subscribe(wish(options)))?;
    let (mut out, paper) = (io::stdout().lock(), Paper::stdout());
    while let Some(line) = client.line(None)? {
        let value: Value = serde_json::from_str(&line).map_err(Failure::of_nonsense)?;
        match Line::read(&value)? {
            Line::Done => {}
            _ if options.json => out.write_all(line.as_bytes())?,
            Line::Turn(turn) => out.write_all(turn_in_words(&turn, paper).as_bytes())?,
            Line::Alert(alert) => out.write_all(alert_in_words(&alert, paper).as_bytes())?,
            Line::Unknown => {}
        }
        out.flush()?;
    }
    Err(client.hung_up())
}

fn wish(options: &TailOptions) -> Wish {
    let only = match (options.turns, options.alerts) {
        (true, _) => Some(Only::Turns),
        (_, true) => Some(Only::Alerts),
        _ => None,
    };
    Wish { only, since: options.since }
}

/// What the daemon may say to a subscriber.
enum Line {
    Turn(Turn),
    Alert(AlertLine),
    /// The subscription itself was taken.
    Done,
    /// Of a newer daemon.
    Unknown,
}

impl Line {
    fn read(value: &Value) -> Result<Self, Failure> {
        let says = |key| value.get(key).is_some();
        if says("turn") {
            return parse(value).map(Self::Turn);
        }
        if says("alert") {
            return parse(value).map(Self::Alert);
        }
        if says("bye") {
            return Err(goodbye(&parse(value)?));
        }
        if !says("ok") {
            return Ok(Self::Unknown);
        }
        let reply: Reply = parse(value)?;
        if reply.ok { Ok(Self::Done) } else { Err(Failure::of_reply(&reply)) }
    }
}

fn parse<T: DeserializeOwned>(value: &Value) -> Result<T, Failure> {
    serde_json::from_value(value.clone()).map_err(Failure::of_nonsense)
}

fn goodbye(bye: &Bye) -> Failure {
    Failure::Failed(format!("the daemon closed: {}: go on with --since {}", bye.bye, bye.last_seq))
}

fn turn_in_words(turn: &Turn, paper: Paper) -> String {
    let messages: Vec<String> =
        turn.in_reply_to.iter().map(|message| format!("{} on {}", message.id, message.channel)).collect();
    let mut head = format!("{} #{}", time_of_day(turn.ts), turn.seq);
    if !messages.is_empty() {
        head.push_str(&format!(" in reply to {}", messages.join(", ")));
    }
    if turn.partial {
        head.push_str(" (incomplete)");
    }
    let mut text = paper.ink(Ink::Bold, &harmless(&head)) + "\n";
    for block in turn.turn.iter().filter_map(|block| block_in_words(block, paper)) {
        text.push_str(&block);
        text.push('\n');
    }
    text + "\n"
}

/// Text and tools; what Claude thought and what its tools answered is in `--json`.
fn block_in_words(block: &Value, paper: Paper) -> Option<String> {
    match block["type"].as_str()? {
        "text" => Some(harmless(block["text"].as_str()?.trim_end()).into_owned()),
        "tool_use" => {
            let name = block["name"].as_str()?;
            let line = format!("  [{name}] {}", shortened(&block["input"].to_string()));
            Some(paper.ink(Ink::Dim, &harmless(&line)))
        }
        _ => None,
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(TOOL_INPUT_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn alert_in_words(line: &AlertLine, paper: Paper) -> String {
    let head = format!("{} #{} alert {}", time_of_day(line.ts), line.seq, line.alert.kind);
    let mut text = paper.ink(Ink::Yellow, &harmless(&head));
    text.push_str(&format!(": {}", harmless(&line.alert.message)));
    if !line.alert.messages.is_empty() {
        text.push_str(&format!(" ({})", harmless(&line.alert.messages.join(", "))));
    }
    text + "\n\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(line: Value) -> String {
        match Line::read(&line).unwrap() {
            Line::Turn(turn) => turn_in_words(&turn, Paper::plain()),
            Line::Alert(alert) => alert_in_words(&alert, Paper::plain()),
            Line::Done | Line::Unknown => String::new(),
        }
    }

    #[test]
    fn a_turn_shows_its_text_and_one_line_a_tool() {
        let text = words(json!({"seq": 7, "ts": 0, "session": "s",
            "in_reply_to": [{"id": "m-17", "channel": "telegram"}],
            "turn": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "Green.\n"},
                {"type": "tool_use", "name": "Bash", "input": {"command": "x".repeat(200)}},
                {"type": "tool_result", "content": "ok"}]}));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with(" #7 in reply to m-17 on telegram"), "{text}");
        assert_eq!(lines[1], "Green.");
        assert!(lines[2].starts_with("  [Bash] {\"command\":\"xxx") && lines[2].ends_with("xx..."), "{text}");
        assert_eq!(lines[3..], [""]);
    }

    #[test]
    fn an_alert_is_one_line() {
        let text = words(
            json!({"seq": 8, "ts": 0, "alert": {"kind": "stuck", "message": "no\u{1b}[2J", "messages": ["a"]}}),
        );
        assert!(text.ends_with(" #8 alert stuck: no\u{fffd}[2J (a)\n\n"), "{text}");
    }

    #[test]
    fn lines_of_a_newer_daemon_are_skipped_and_refusals_are_not() {
        assert!(matches!(Line::read(&json!({"seq": 9, "ts": 0, "new": 1})), Ok(Line::Unknown)));
        assert!(matches!(Line::read(&json!({"ok": true})), Ok(Line::Done)));
        assert!(Line::read(&json!({"ok": false, "code": "not_allowed", "error": "no"})).is_err());
        assert!(Line::read(&json!({"bye": "too slow", "last_seq": 3})).is_err());
    }
}
