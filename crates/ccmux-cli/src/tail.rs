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
use std::thread::sleep;
use std::time::Duration;

use ccmux_wire::control::{Reply, Request};
use ccmux_wire::id::Seq;
use ccmux_wire::output::{AlertLine, Bye, Gap, GapLine, Only, Turn, Wish};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::arguments::TailOptions;
use crate::client::Client;
use crate::failure::Failure;
use crate::paper::{Ink, Paper, harmless, time_of_day};

/// How much of a tool's input is shown.
const TOOL_INPUT_CHARS: usize = 100;

/// With `--retry`: the first pause before the daemon is tried again; each is twice the one before,
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// up to this one.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

pub fn run(dir: &Path, options: &TailOptions) -> Result<(), Failure> {
    let mut tail = Tail { dir, options, last: options.since, pause: FIRST_PAUSE };
    let mut told = false;
    loop {
        let failure = match tail.follow() {
            Ok(never) => match never {},
            Err(failure) => failure,
        };
        if !options.retry || !failure.may_pass() {
            return Err(failure);
        }
        if tail.pause == FIRST_PAUSE {
            told = false;
        }
        if !std::mem::replace(&mut told, true) {
            eprintln!("ccmux: {failure}; trying again");
        }
        sleep(tail.pause);
        tail.pause = (tail.pause * 2).min(LONGEST_PAUSE);
    }
}

/// Where we are in the stream.
struct Tail<'a> {
    dir: &'a Path,
    options: &'a TailOptions,
    /// The last line that was shown, or left out.
    last: Option<Seq>,
    pause: Duration,
}

impl Tail<'_> {
    /// Prints what comes until it ends.
    fn follow(&mut self) -> Result<std::convert::Infallible, Failure> {
        if self.options.retry && self.last.is_none() {
            // Without a place to go on from, what is published while the daemon is lost would be missed.
            let status = Client::ask(self.dir, Request::Status)?.reply.status;
            self.last = Some(status.and_then(|status| status.last_seq).unwrap_or(Seq(0)));
        }
        let mut client = Client::connect(self.dir)?;
        client.send(Request::Subscribe(self.wish()))?;
        while let Some(line) = client.line(None)? {
            self.show(&line)?;
            self.pause = FIRST_PAUSE;
        }
        Err(client.hung_up())
    }

    fn show(&mut self, text: &str) -> Result<(), Failure> {
        let value: Value = serde_json::from_str(text).map_err(Failure::of_nonsense)?;
        let line = Line::read(&value)?;
        let (mut out, paper) = (io::stdout().lock(), Paper::stdout());
        match &line {
            Line::Done => {}
            Line::Bye(bye) => {
                // What we saw last counts: one that was turned away saw nothing of what the daemon sent last.
                let last = *self.last.get_or_insert(bye.last_seq);
                return Err(goodbye(&bye.bye, last));
            }
            _ if self.options.json => out.write_all(text.as_bytes())?,
            Line::Turn(turn) => out.write_all(turn_in_words(turn, paper).as_bytes())?,
            Line::Alert(alert) => out.write_all(alert_in_words(alert, paper).as_bytes())?,
            Line::Gap(gap) => out.write_all(gap_in_words(*gap, paper).as_bytes())?,
            Line::Unknown => {}
        }
        out.flush()?;
        self.last = line.reaches().or_else(|| value["seq"].as_u64().map(Seq)).or(self.last);
        Ok(())
    }

    fn wish(&self) -> Wish {
        let only = match (self.options.turns, self.options.alerts) {
            (true, _) => Some(Only::Turns),
            (_, true) => Some(Only::Alerts),
            _ => None,
        };
        Wish { only, since: self.last }
    }
}

/// What the daemon may say to a subscriber.
enum Line {
    Turn(Turn),
    Alert(AlertLine),
    /// Lines that are no longer kept.
    Gap(Gap),
    /// The daemon lets go of us.
    Bye(Bye),
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
        if says("gap") {
            return parse(value).map(|line: GapLine| Self::Gap(line.gap));
        }
        if says("bye") {
            return parse(value).map(Self::Bye);
        }
        if !says("ok") {
            return Ok(Self::Unknown);
        }
        let reply: Reply = parse(value)?;
        if reply.ok { Ok(Self::Done) } else { Err(Failure::of_reply(&reply)) }
    }

    /// The number that the next connection begins after.
    fn reaches(&self) -> Option<Seq> {
        match self {
            Self::Turn(turn) => Some(turn.seq),
            Self::Alert(alert) => Some(alert.seq),
            Self::Gap(gap) => Some(Seq(gap.before.0.saturating_sub(1))),
            Self::Bye(_) | Self::Done | Self::Unknown => None,
        }
    }
}

fn parse<T: DeserializeOwned>(value: &Value) -> Result<T, Failure> {
    serde_json::from_value(value.clone()).map_err(Failure::of_nonsense)
}

fn goodbye(why: &str, last: Seq) -> Failure {
    Failure::LetGo(format!("the daemon closed: {why}: go on with --since {last}"))
}

fn gap_in_words(gap: Gap, paper: Paper) -> String {
    let what = if gap.before > gap.after {
        format!("lines {} to {} are no longer kept", gap.after.0 + 1, gap.before.0.saturating_sub(1))
    } else {
        format!("the numbers began anew: there never was a line {}", gap.after)
    };
    paper.ink(Ink::Yellow, &what) + "\n\n"
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
            Line::Gap(gap) => gap_in_words(gap, Paper::plain()),
            Line::Bye(_) | Line::Done | Line::Unknown => String::new(),
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
        assert!(matches!(Line::read(&json!({"bye": "too slow", "last_seq": 3})), Ok(Line::Bye(_))));
    }

    #[test]
    fn a_gap_says_what_is_missing() {
        let text = words(json!({"gap": {"after": 5, "before": 9}}));
        assert_eq!(text, "lines 6 to 8 are no longer kept\n\n");
        let text = words(json!({"gap": {"after": 500, "before": 3}}));
        assert_eq!(text, "the numbers began anew: there never was a line 500\n\n");
    }
}
