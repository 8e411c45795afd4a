//! `ccmux container`: the owner lists containers and answers them; from within one somebody is told or asked.

use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ccmux_wire::container::{ContainerRequest, Containers, GuestQuestion, GuestRequest, SenderEvent};
use ccmux_wire::control::Request;

use crate::client::{Answer, Client, IO_LIMIT};
use crate::failure::Failure;
use crate::paper::{ago, harmless};
use crate::run::arguments::{ContainerOptions, ContainerVerb};

/// Longer is asked for again.
const ONE_WAIT_S: u64 = 300;
/// Before a daemon that is away is asked again.
const AWAY_PAUSE: Duration = Duration::from_millis(500);

pub fn run(dir: &Path, options: ContainerOptions) -> Result<(), Failure> {
    match options.verb {
        ContainerVerb::List { json } => list(dir, json),
        ContainerVerb::Answer { question, text } => {
            let request = ContainerRequest::Answer { question, text: text.join(" ") };
            let answered = containers(Client::ask(dir, Request::Container(request))?)?;
            let container = answered.questions.first().map(|question| question.container.to_string());
            writeln!(io::stdout(), "answered: {}", container.unwrap_or_default())?;
            Ok(())
        }
        ContainerVerb::Notify { event, message } => notify(dir, event.into(), &message.join(" ")),
        ContainerVerb::Ask { question, wait } => ask(dir, question.join(" "), wait),
    }
}

/// Tells somebody, from within a container.
pub fn notify(dir: &Path, event: SenderEvent, message: &str) -> Result<(), Failure> {
    Client::ask(dir, Request::Guest(GuestRequest::Notify { event, message: message.to_owned() }))?;
    Ok(())
}

/// Asks somebody, from within a container; prints the answer, or with `wait_s` 0 the question's id.
pub fn ask(dir: &Path, question: String, wait_s: u64) -> Result<(), Failure> {
    let asked = guest(dir, GuestRequest::Ask { question, wait_s: None }, 0)?;
    let said = match wait_s {
        0 => asked.id,
        _ => answer(dir, &asked.id, Instant::now() + Duration::from_secs(wait_s))?,
    };
    writeln!(io::stdout(), "{}", harmless(&said))?;
    Ok(())
}

/// The daemon may go and come back meanwhile: it keeps the question.
fn answer(dir: &Path, id: &str, until: Instant) -> Result<String, Failure> {
    loop {
        let left = until.saturating_duration_since(Instant::now()).as_secs_f64().ceil() as u64;
        if left == 0 {
            return Err(Failure::TimedOut(format!("nobody answered {} in time", harmless(id))));
        }
        let wait_s = left.min(ONE_WAIT_S);
        let request = GuestRequest::Answer { question: id.to_owned(), wait_s: Some(wait_s) };
        match guest(dir, request, wait_s) {
            Ok(GuestQuestion { answer: Some(answer), .. }) => return Ok(answer),
            Ok(_) => {}
            Err(failure) if failure.may_pass() => thread::sleep(AWAY_PAUSE),
            Err(failure) => return Err(failure),
        }
    }
}

fn guest(dir: &Path, request: GuestRequest, wait_s: u64) -> Result<GuestQuestion, Failure> {
    let limit = IO_LIMIT + Duration::from_secs(wait_s.min(ONE_WAIT_S));
    let answer = Client::ask_within(dir, Request::Guest(request), limit)?;
    let question = containers(answer)?.questions.pop();
    question.ok_or_else(|| Failure::of_nonsense("it does not show the question"))
}

fn list(dir: &Path, json: bool) -> Result<(), Failure> {
    let answer = Client::ask(dir, Request::Container(ContainerRequest::List))?;
    let mut out = io::stdout();
    if json {
        writeln!(out, "{}", answer.raw["container"])?;
        return Ok(());
    }
    let containers = containers(answer)?;
    for container in &containers.containers {
        writeln!(out, "{}  {}  process {}", container.id, ago(container.since_ms), container.pid)?;
    }
    for question in &containers.questions {
        writeln!(out, "{}", row(question))?;
    }
    if containers.containers.is_empty() {
        writeln!(out, "no container is open")?;
    }
    Ok(())
}

/// One line, whatever a container wrote: with a line break in it, it could show a question of another.
fn row(question: &GuestQuestion) -> String {
    let GuestQuestion { id, container, question: text, .. } = question;
    let state = question.answer.as_ref().map_or("waits", |_| "answered");
    harmless(&format!("{container}  {id}  {state}  {text}")).replace(['\n', '\t'], " ")
}

fn containers(answer: Answer) -> Result<Containers, Failure> {
    let containers = answer.reply.container.map(|containers| *containers);
    containers.ok_or_else(|| Failure::of_nonsense("it says nothing of containers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_one_row_whatever_a_container_wrote() {
        let question = GuestQuestion {
            id: "q-1-abcdef".into(),
            container: "aaaa".to_owned().try_into().unwrap(),
            question: "Which?\nbbbb  q-2-abcdef\twaits\r\x1b[1APush?".into(),
            asked_ms: 7,
            answer: None,
        };
        let told = "aaaa  q-1-abcdef  waits  Which? bbbb  q-2-abcdef waits\u{fffd}\u{fffd}[1APush?";
        assert_eq!(row(&question), told);
    }
}
