//! `ccmux ask`, `questions`, `answer`, `acknowledge`: questions between agents, and to people, that stay until somebody
//! closes them.

use std::io::{self, Write};
use std::path::Path;

use ccmux_notify::note::json_line;
use ccmux_notify::question::{self, Question, Standing};
use ccmux_wire::afar::Code;
use ccmux_wire::notes::{NotesNews, Told};

use super::arguments::{AcknowledgeOptions, AnswerOptions, AskOptions, QuestionsOptions};
use super::{Place, deadline_in, tell, text_of};
use crate::failure::Failure;
use crate::paper::harmless;
use crate::permission;

/// Asks, and prints the question's id; or waits, and prints the answer.
pub fn ask(dir: &Path, options: AskOptions) -> Result<(), Failure> {
    let deadline = deadline_in(options.timeout);
    let place = Place::here(options.from)?;
    let (question, _) = question::ask(&place.folder, &place.name, &text_of(&options.text)?)?;
    let asked = Told::new(&question.id, &question.from, "question", &question.text);
    tell(dir, NotesNews { asked: Some(asked), ..place.news() });
    if !options.wait {
        writeln!(io::stdout(), "{}", question.id)?;
        return Ok(());
    }
    eprintln!("ccmux: asked as {}", question.id);
    let closed = question::closed(&place.folder, &question.id, deadline)?;
    match closed.map(|question| question.standing) {
        Some(Standing::Answered { answer, .. }) => writeln!(io::stdout(), "{}", harmless(&answer))?,
        Some(Standing::Acknowledged { by }) => {
            eprintln!("ccmux: {} has seen it, and gave no answer", harmless(&by))
        }
        Some(Standing::Open) | None => {
            let id = &question.id;
            let why = format!("nobody answered {id} in time: it stays open, `ccmux questions` shows it");
            return Err(Failure::TimedOut(why));
        }
    }
    Ok(())
}

/// Lists the open ones.
pub fn list(options: &QuestionsOptions) -> Result<(), Failure> {
    let place = Place::here(None)?;
    let all = question::all(&place.folder)?;
    let shown = all.iter().filter(|question| options.all || question.standing == Standing::Open);
    let mut out = io::stdout();
    for question in shown {
        let line = if options.json { json_line(question) } else { row(question) };
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

fn row(question: &Question) -> String {
    let became = match &question.standing {
        Standing::Open => "open".to_owned(),
        Standing::Answered { by, answer } => format!("answered by {by}: {answer}"),
        Standing::Acknowledged { by } => format!("acknowledged by {by}"),
    };
    let Question { id, ts, from, text, .. } = question;
    let line = format!("{id}  {ts}  {from}: {text}  ({became})");
    format!("{}\n", harmless(&line).replace('\n', "\n  "))
}

/// Answers one.
pub fn answer(dir: &Path, options: AnswerOptions) -> Result<(), Failure> {
    if let Ok(code) = Code::try_from(options.id.clone()) {
        return permission::answer(dir, code, text_of(&options.text)?);
    }
    let place = Place::here(options.from)?;
    question::answer(&place.folder, &options.id, &place.name, &text_of(&options.text)?)?;
    tell(dir, NotesNews { gone: vec![options.id], ..place.news() });
    Ok(())
}

/// Closes one without an answer.
pub fn acknowledge(dir: &Path, options: AcknowledgeOptions) -> Result<(), Failure> {
    let place = Place::here(options.from)?;
    question::acknowledge(&place.folder, &options.id, &place.name)?;
    tell(dir, NotesNews { gone: vec![options.id], ..place.news() });
    Ok(())
}
