//! `ccmux inbox`: the messages, and what people do to them.

use std::io::{self, Write};
use std::path::Path;

use ccmux_wire::control::Request;
use ccmux_wire::inbox::{InboxMessage, InboxRequest};
use ccmux_wire::receipt::{Legs, MessageState};
use serde_json::Value;

use crate::arguments::{InboxOptions, InboxVerb};
use crate::client::Client;
use crate::failure::Failure;
use crate::paper::{Ink, Paper, ago, harmless, span};

/// Characters of a text that a list shows.
const PREVIEW: usize = 60;

pub fn run(dir: &Path, options: InboxOptions) -> Result<(), Failure> {
    let (request, json) = match options.verb {
        InboxVerb::List { state, channel, limit, json } => {
            (InboxRequest::List { state, channel, limit }, json)
        }
        InboxVerb::Show { id, json } => (InboxRequest::Show { message: id }, json),
        InboxVerb::Retry(named) => (InboxRequest::Retry { messages: named.ids }, named.json),
        InboxVerb::Drop(named) => (InboxRequest::Drop { messages: named.ids }, named.json),
    };
    let shows_one = matches!(request, InboxRequest::Show { .. });
    let answer = Client::ask(dir, Request::Inbox(request))?;
    let mut out = io::stdout();
    if json {
        for message in answer.raw["messages"].as_array().map(Vec::as_slice).unwrap_or_default() {
            writeln!(out, "{message}")?;
        }
        return Ok(());
    }
    let none = || Failure::of_nonsense("it holds no messages");
    let messages = answer.reply.messages.as_deref().ok_or_else(none)?;
    let paper = Paper::stdout();
    match messages {
        [message] if shows_one => write!(out, "{}", whole(message, paper))?,
        _ => write!(out, "{}", rows(messages, paper))?,
    }
    Ok(())
}

/// One line a message.
fn rows(messages: &[InboxMessage], paper: Paper) -> String {
    let width = |of: fn(&InboxMessage) -> usize| messages.iter().map(of).max().unwrap_or(0);
    let ids = width(|message| message.receipt.id.chars().count());
    let channels = width(|message| message.receipt.channel.as_str().len());
    let row = |message: &InboxMessage| {
        let receipt = &message.receipt;
        let state = paper.ink(ink_of(receipt.state), &format!("{:9}", receipt.state.word()));
        let id = harmless(&receipt.id);
        let said = receipt.reason.as_deref().map(|why| format!("({why}) ")).unwrap_or_default();
        let text = format!("{}{}", harmless(&said), preview(&message.preview));
        let age = ago(receipt.accepted_at);
        format!("{state}  {id:ids$}  {:channels$}  {age:>12} ago  {text}\n", receipt.channel.as_str())
    };
    messages.iter().map(row).collect()
}

fn preview(text: &str) -> String {
    let flat: String = harmless(text).chars().map(|c| if c == '\n' || c == '\t' { ' ' } else { c }).collect();
    match flat.char_indices().nth(PREVIEW) {
        Some((end, _)) => format!("{}...", &flat[..end]),
        None => flat,
    }
}

/// Everything about one message, its text last.
fn whole(message: &InboxMessage, paper: Paper) -> String {
    let receipt = &message.receipt;
    let shown = message.shown.as_deref().unwrap_or(receipt.channel.as_str());
    let mut lines = vec![
        ("message", format!("{} on {}", harmless(&receipt.id), harmless(shown))),
        ("state", state_in_words(message, paper)),
        ("accepted", format!("{} ago", ago(receipt.accepted_at))),
    ];
    lines.extend(receipt.legs.map(|legs| ("took", legs_in_words(legs))));
    lines.extend(
        receipt.turn_seq.map(|seq| ("answer", format!("ccmux tail --since {}", seq.0.saturating_sub(1)))),
    );
    lines.extend(Some(("typed", attempts_in_words(message))).filter(|(_, words)| !words.is_empty()));
    lines
        .extend(message.meta.as_ref().map(|meta: &Value| ("meta", harmless(&meta.to_string()).into_owned())));
    let line =
        |(name, value): &(&str, String)| format!("{} {value}\n", paper.ink(Ink::Dim, &format!("{name:8}")));
    let head: String = lines.iter().map(line).collect();
    format!("{head}\n{}\n", harmless(message.content.as_deref().unwrap_or(&message.preview)))
}

fn attempts_in_words(message: &InboxMessage) -> String {
    let batch = message.batch.map(|batch| format!("batch {batch}"));
    let failures = (message.failures > 0).then(|| format!("failed {} times", message.failures));
    let again = message.redelivered.then(|| "redelivered".to_owned());
    batch.into_iter().chain(failures).chain(again).collect::<Vec<_>>().join(", ")
}

fn state_in_words(message: &InboxMessage, paper: Paper) -> String {
    let receipt = &message.receipt;
    let word = paper.ink(ink_of(receipt.state), receipt.state.word());
    let proof = receipt.proof.map(|proof| format!(", proved by its {}", proof.word()));
    let reason = receipt.reason.as_deref().map(|why| format!(": {}", harmless(why)));
    format!("{word}{}{}", proof.unwrap_or_default(), reason.unwrap_or_default())
}

/// `waited 2 s, typed in 210 ms, proved in 80 ms, answered in 1 min 3 s`
pub fn legs_in_words(legs: Legs) -> String {
    let time = |ms: u64| if ms < 1_000 { format!("{ms} ms") } else { span((ms / 1_000).cast_signed()) };
    let leg = |what: &str, ms: Option<u64>| ms.map(|ms| format!("{what} {}", time(ms)));
    let legs = [
        leg("waited", legs.queued_ms),
        leg("typed in", legs.typed_ms),
        leg("proved in", legs.proved_ms),
        leg("answered in", legs.answered_ms),
    ];
    legs.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn ink_of(state: MessageState) -> Ink {
    match state {
        MessageState::Delivered | MessageState::Answered => Ink::Green,
        MessageState::Accepted | MessageState::InFlight => Ink::Cyan,
        MessageState::Uncertain => Ink::Yellow,
        MessageState::Failed | MessageState::Expired => Ink::Red,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(fields: &str) -> InboxMessage {
        let line = format!(r#"{{"id":"a","channel":"x","accepted_at":0,"bytes":1,{fields}}}"#);
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn a_row_shows_what_is_wrong_and_no_control_characters() {
        let row =
            rows(&[message(r#""state":"failed","reason":"poison","preview":"a\n\u001bb""#)], Paper::plain());
        assert!(row.starts_with("failed     a  x  "), "{row}");
        assert!(row.ends_with("(poison) a \u{fffd}b\n"), "{row}");
    }

    #[test]
    fn a_whole_message_ends_with_its_text() {
        let text = whole(
            &message(
                r#""state":"answered","proof":"hook","turn_seq":7,"legs":{"queued_ms":2000,"proved_ms":80},"preview":"one","content":"one\ntwo""#,
            ),
            Paper::plain(),
        );
        assert!(text.contains("state    answered, proved by its hook\n"), "{text}");
        assert!(text.contains("took     waited 2 s, proved in 80 ms\n"), "{text}");
        assert!(text.contains("ccmux tail --since 6") && text.ends_with("\n\none\ntwo\n"), "{text}");
    }
}
