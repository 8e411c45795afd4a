//! `ccmux send`: puts a message into the inbox and waits until it is as far as asked.
//!
//! Exit code 0 means that the state was reached, nothing less.

use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::time::Duration;

use ccmux_wire::control::{Reply, Request, SendRequest};
use ccmux_wire::hook::MAX_FRAME_BYTES;
use ccmux_wire::receipt::{MessageState, Receipt};

use crate::arguments::{SendOptions, Wait};
use crate::client::{Answer, Client, IO_LIMIT};
use crate::failure::Failure;
use crate::paper::harmless;

/// The daemon keeps the time; this is its allowance before we stop believing in it.
const ALLOWANCE: Duration = Duration::from_secs(1);

pub fn run(dir: &Path, options: SendOptions) -> Result<(), Failure> {
    let (wait, json) = (options.wait, options.json);
    let answer = exchange(dir, options)?;
    if json {
        print_receipt(&answer)?;
    }
    check(&answer.reply, wait)?;
    if json { Ok(()) } else { print_for_people(&answer.reply, wait) }
}

fn exchange(dir: &Path, options: SendOptions) -> Result<Answer, Failure> {
    let limit = reply_limit(options.wait, options.timeout);
    let content = content(options.text)?;
    let again = what_to_do(options.id.as_deref());
    let mut client = Client::connect(dir)?;
    client.send(Request::Send(SendRequest {
        channel: options.channel.map(String::from),
        content,
        id: options.id,
        ts: None,
        meta: None,
        wait: Some(options.wait.into()),
        timeout_s: options.timeout,
    }))?;
    client.answer(limit).map_err(|failure| match failure {
        Failure::Unreachable { why, .. } => Failure::Uncertain(format!("{why} before it answered: {again}")),
        other => other,
    })
}

/// The daemon may have taken the message; a second one without an id would be another message.
fn what_to_do(id: Option<&str>) -> String {
    match id {
        Some(id) => {
            format!("`ccmux inbox show {id}` says what became of the message; the same --id is taken once")
        }
        None => {
            "`ccmux inbox list` says what became of the message; send it again only if it is not there".into()
        }
    }
}

/// Waiting for Claude has no limit unless given; being accepted needs no Claude.
fn reply_limit(wait: Wait, timeout_s: Option<u64>) -> Option<Duration> {
    match (wait, timeout_s) {
        (_, Some(seconds)) => Some(Duration::from_secs(seconds) + ALLOWANCE),
        (Wait::Accepted, None) => Some(IO_LIMIT),
        (Wait::Delivered | Wait::Answered, None) => None,
    }
}

fn content(words: Vec<String>) -> Result<String, Failure> {
    if words != ["-"] {
        return Ok(words.join(" "));
    }
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(MAX_FRAME_BYTES as u64).read_to_end(&mut bytes);
    read.map_err(|error| Failure::Failed(format!("can't read the message from stdin: {error}")))?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}

fn check(reply: &Reply, wait: Wait) -> Result<(), Failure> {
    if !reply.ok {
        return Err(Failure::of_reply(reply));
    }
    let receipt = receipt_of(reply)?;
    if reached(receipt.state, wait) {
        return Ok(());
    }
    let reason = receipt.reason.as_deref().unwrap_or("the daemon gave no reason");
    let words = format!("message {} is {}: {reason}", receipt.id, receipt.state.word());
    match receipt.state {
        MessageState::Uncertain => Err(Failure::Uncertain(words)),
        _ => Err(Failure::Failed(words)),
    }
}

fn receipt_of(reply: &Reply) -> Result<&Receipt, Failure> {
    reply.receipt.as_ref().ok_or_else(|| Failure::of_nonsense("it holds no receipt"))
}

/// Whatever became of a message later, accepted it was.
fn reached(state: MessageState, wait: Wait) -> bool {
    match wait {
        Wait::Accepted => true,
        Wait::Delivered => matches!(state, MessageState::Delivered | MessageState::Answered),
        Wait::Answered => state == MessageState::Answered,
    }
}

/// With Claude's answer, where it was waited for.
fn print_receipt(answer: &Answer) -> Result<(), Failure> {
    if let Some(mut receipt) = answer.raw.get("receipt").cloned() {
        if let (Some(fields), Some(words)) = (receipt.as_object_mut(), answer.raw.get("answer")) {
            fields.insert("answer".to_owned(), words.clone());
        }
        writeln!(io::stdout(), "{receipt}")?;
    }
    Ok(())
}

fn print_for_people(reply: &Reply, wait: Wait) -> Result<(), Failure> {
    let mut out = io::stdout();
    match (wait, &reply.answer) {
        // A program gets Claude's words as they are.
        (Wait::Answered, Some(answer)) if out.is_terminal() => writeln!(out, "{}", harmless(answer))?,
        (Wait::Answered, Some(answer)) => writeln!(out, "{answer}")?,
        (Wait::Answered, None) => {}
        _ => writeln!(out, "{}", receipt_in_words(receipt_of(reply)?))?,
    }
    Ok(())
}

fn receipt_in_words(receipt: &Receipt) -> String {
    let proof = receipt.proof.map_or_else(String::new, |proof| format!(", proved by its {}", proof.word()));
    format!("{}: {} on {}{proof}", receipt.state.word(), receipt.id, receipt.channel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_state_that_was_asked_for_is_success() {
        use MessageState::{Accepted, Answered, Delivered, Expired, Failed, InFlight, Uncertain};
        for state in [Accepted, InFlight, Uncertain, Failed, Expired] {
            assert!(!reached(state, Wait::Delivered) && !reached(state, Wait::Answered), "{state:?}");
        }
        assert!(reached(Delivered, Wait::Delivered) && !reached(Delivered, Wait::Answered));
        assert!(reached(Answered, Wait::Delivered) && reached(Answered, Wait::Answered));
    }

    #[test]
    fn only_waiting_for_claude_is_without_limit() {
        assert_eq!(reply_limit(Wait::Accepted, None), Some(IO_LIMIT));
        assert_eq!(reply_limit(Wait::Answered, None), None);
        assert_eq!(reply_limit(Wait::Delivered, Some(5)), Some(Duration::from_secs(6)));
    }
}
