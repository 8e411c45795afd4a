//! What the demo prints: headings, the user's own commands, and the facts as they come, in colour on a terminal.

use std::env;
use std::io::{self, IsTerminal};
use std::time::Instant;

use serde_json::Value;

use super::watch::Fact;

/// How much of a line on output.sock is shown.
const LINE_CHARS: usize = 400;
/// How many rows of the agent's screen are shown.
const SCREEN_ROWS: usize = 16;

const BOLD: &str = "1";
const DIM: &str = "2";
const GREEN: &str = "32";
const CYAN: &str = "36";

/// Tells the story on stdout.
pub struct Narrator {
    coloured: bool,
    since: Instant,
    chapter: usize,
    last: String,
}

impl Narrator {
    /// Colour only on a terminal, and without `NO_COLOR`.
    pub fn stdout() -> Self {
        let wanted = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let coloured = wanted && io::stdout().is_terminal();
        Self { coloured, since: Instant::now(), chapter: 0, last: String::new() }
    }

    /// Begins a chapter; times count from here.
    pub fn chapter(&mut self, title: &str) {
        self.chapter += 1;
        (self.since, self.last) = (Instant::now(), String::new());
        println!("\n{}", self.ink(BOLD, &format!("{}. {title}", self.chapter)));
    }

    /// A command as the user would type it.
    pub fn command(&self, command: &str) {
        println!("  {}", self.ink(CYAN, &format!("$ {command}")));
    }

    /// Plain words.
    pub fn say(&self, words: &str) {
        println!("{words}");
    }

    /// A fact, if it is one that belongs to the story.
    pub fn fact(&mut self, fact: &Fact) {
        match fact {
            Fact::Log(event) => {
                if let Some((label, words)) = event_in_words(event) {
                    self.row(label, &words);
                }
            }
            Fact::Line(line) => self.row("output.sock", &shortened(&line.to_string(), LINE_CHARS)),
        }
    }

    /// One row: when, what, in words. What was just said is not said again.
    pub fn row(&mut self, label: &str, words: &str) {
        let said = format!("{label} {words}");
        if said != self.last {
            let when = format!("{:6.2} s", self.since.elapsed().as_secs_f64());
            println!("  {} {} {words}", self.ink(DIM, &when), self.ink(GREEN, &format!("{label:<11}")));
            self.last = said;
        }
    }

    /// The lower part of the agent's screen.
    pub fn screen(&self, screen: &str) {
        let rows: Vec<&str> = screen.lines().map(str::trim_end).filter(|row| !row.is_empty()).collect();
        for row in &rows[rows.len().saturating_sub(SCREEN_ROWS)..] {
            println!("  {} {row}", self.ink(DIM, "|"));
        }
    }

    fn ink(&self, code: &str, text: &str) -> String {
        if self.coloured { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The events that the story is about; the others are for the log.
fn event_in_words(event: &Value) -> Option<(&'static str, String)> {
    let field = |name: &str| match event.get(name).or_else(|| event["fields"].get(name)) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(value) => Some(value.to_string()),
        None => None,
    };
    let with = |words: &str, name: &str| {
        field(name).map_or_else(|| words.to_owned(), |value| format!("{words}: {value}"))
    };
    Some(match field("event")?.as_str() {
        "channel.opened" => ("channel", with("open", "channel")),
        "message.accepted" => {
            ("accepted", with("committed to the inbox, nothing can lose it now; channel", "channel"))
        }
        "gate.open" | "gate.opened" => {
            ("gate", "open: the agent is idle, its prompt box is empty".to_owned())
        }
        "gate.closed" => ("gate", with("closed", "reason")),
        "batch.pasted" | "batch.injected" => {
            ("pasted", "as text, guarded; now looks at the box again".to_owned())
        }
        "batch.entered" => ("Enter", "pressed: the box holds our text and nothing else".to_owned()),
        "batch.delivered" => {
            ("receipt", with("the agent itself proved that it took the prompt; proof", "proof"))
        }
        "turn.published" => ("turn", with("complete, goes to every subscriber; seq", "seq")),
        _ => return None,
    })
}

fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_told_wherever_the_fields_stand() {
        for event in [
            json!({"event": "gate.closed", "reason": "draft"}),
            json!({"level": "INFO", "fields": {"event": "gate.closed", "reason": "draft"}}),
        ] {
            assert_eq!(event_in_words(&event), Some(("gate", "closed: draft".to_owned())));
        }
        let numbered = json!({"fields": {"event": "turn.published", "seq": 7}});
        assert!(event_in_words(&numbered).is_some_and(|(_, words)| words.ends_with("seq: 7")));
    }

    #[test]
    fn events_of_other_stories_are_left_out() {
        for event in [json!({"event": "pane.resized"}), json!({"message": "x"}), json!(7)] {
            assert_eq!(event_in_words(&event), None);
        }
    }
}
