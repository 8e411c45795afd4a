//! `ccmux container`: the owner lists containers and answers them; from within one somebody is told or asked.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use ccmux_wire::container::{ContainerRequest, Containers, GuestQuestion, GuestRequest, SenderEvent};
use ccmux_wire::control::Request;

use crate::client::{Answer, Client, IO_LIMIT};
use crate::failure::Failure;
use crate::paper::{ago, harmless};
use crate::run::arguments::{ContainerOptions, ContainerVerb};

/// Longer is asked for again.
const ONE_WAIT_S: u64 = 300;

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
    let mut left = wait_s;
    let mut asked = guest(dir, GuestRequest::Ask { question, wait_s: Some(left.min(ONE_WAIT_S)) }, left)?;
    while asked.answer.is_none() && left > ONE_WAIT_S {
        left -= ONE_WAIT_S;
        let again = GuestRequest::Answer { question: asked.id, wait_s: Some(left.min(ONE_WAIT_S)) };
        asked = guest(dir, again, left)?;
    }
    match asked.answer {
        Some(answer) => writeln!(io::stdout(), "{}", harmless(&answer))?,
        None if wait_s == 0 => writeln!(io::stdout(), "{}", harmless(&asked.id))?,
        None => return Err(Failure::TimedOut(format!("nobody answered {} in time", harmless(&asked.id)))),
    }
    Ok(())
}

fn guest(dir: &Path, request: GuestRequest, wait_s: u64) -> Result<GuestQuestion, Failure> {
    let mut client = Client::connect(dir)?;
    client.send(Request::Guest(request))?;
    let answer = client.answer(Some(IO_LIMIT + Duration::from_secs(wait_s.min(ONE_WAIT_S))))?;
    if !answer.reply.ok {
        return Err(Failure::of_reply(&answer.reply));
    }
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
        let state = question.answer.as_ref().map_or("waits", |_| "answered");
        let (id, text) = (harmless(&question.id), harmless(&question.question));
        writeln!(out, "{}  {id}  {state}  {text}", question.container)?;
    }
    if containers.containers.is_empty() {
        writeln!(out, "no container is open")?;
    }
    Ok(())
}

fn containers(answer: Answer) -> Result<Containers, Failure> {
    let containers = answer.reply.container.map(|containers| *containers);
    containers.ok_or_else(|| Failure::of_nonsense("it says nothing of containers"))
}
