//! An event's JSON → what it means for the policy, and the few words of it that a notice shows.
//!
//! ```text
//! {"type":"session.error","properties":{"sessionID":"ses_…","error":{"name":"APIError","data":{"message":…,
//!  "statusCode":429,"responseHeaders":…,"responseBody":…,"metadata":{"url":…}}}}}     ─►  Failed, "APIError 429"
//! ```
//!
//! Only what is named here is read. Of an error that is its name and its status. OpenCode puts what the model's provider
//! answered into the message, and that holds secrets: one line of it, without addresses, is shown only where nothing was
//! answered. The plugin leaves all that out, too; this does not rely on it.

use ccmux_policy::attention::Kind;
use ccmux_policy::attention::opencode::Event;
use ccmux_wire::id::SessionId;
use ccmux_wire::opencode::OpencodeEvent;
use serde_json::Value;

use crate::attention::words::{TASK_CHARS, shortened};

/// As much of a title, a question or an error as a notice shows.
const MAX_CHARS: usize = 200;
/// Ids are shorter; what is longer is none.
const MAX_ID_BYTES: usize = 128;
const ABORTED: &str = "MessageAbortedError";

/// Why a model is asked again: in these words it is told. What else stands there may be the provider's.
const REASONS: [&str; 9] = [
    "Rate limited",
    "Too many requests",
    "Provider is overloaded",
    "Internal server error",
    "Bad gateway",
    "Service unavailable",
    "Gateway timeout",
    "Cannot connect to API",
    "Unable to connect",
];

/// What an event says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// OpenCode's id of the event.
    pub id: Option<String>,
    /// Whose.
    pub session: SessionId,
    /// What it means, in order.
    pub events: Vec<Event>,
    /// What a notice about it says.
    pub detail: Option<String>,
    /// The session's title.
    pub title: Option<String>,
    /// The beginning of what a human wrote.
    pub task: Option<String>,
}

impl Said {
    /// `None`: nothing that anybody waits for, or of another form.
    pub fn of(event: &OpencodeEvent) -> Option<Self> {
        let properties = &event.properties;
        let session = id_at(properties, "/sessionID")
            .or_else(|| id_at(properties, "/info/sessionID"))
            .or_else(|| id_at(properties, "/part/sessionID"))
            .or_else(|| id_at(properties, "/info/id"))?;
        let events = events_of(&event.name, properties)?;
        let is_prompt = event.name == "chat.message";
        let is_session = event.name.starts_with("session.");
        Some(Self {
            id: event.id.clone().filter(|id| id.len() <= MAX_ID_BYTES),
            session: SessionId::new(&session),
            detail: detail_of(&event.name, properties),
            title: text_at(properties, "/info/title").filter(|_| is_session).map(words),
            task: text_at(properties, "/text").filter(|_| is_prompt).map(|task| shortened(task, TASK_CHARS)),
            events,
        })
    }
}

fn events_of(name: &str, properties: &Value) -> Option<Vec<Event>> {
    let one = |event| Some(vec![event]);
    match name {
        "session.created" | "session.updated" => {
            one(Event::Info { parent: id_at(properties, "/info/parentID").map(|id| SessionId::new(&id)) })
        }
        "session.deleted" => one(Event::Deleted),
        "session.idle" => one(Event::Idle),
        "session.status" => one(status(text_at(properties, "/status/type")?)?),
        "session.error" => {
            one(Event::Failed { aborted: text_at(properties, "/error/name") == Some(ABORTED) })
        }
        "permission.asked" | "permission.v2.asked" => one(asked(Kind::Permission, properties)?),
        "question.asked" | "question.v2.asked" => one(asked(Kind::Question, properties)?),
        "permission.replied"
        | "permission.v2.replied"
        | "question.replied"
        | "question.v2.replied"
        | "question.rejected"
        | "question.v2.rejected" => one(Event::Answered { request: id_at(properties, "/requestID")? }),
        "message.updated" => one(message(properties)?),
        "message.part.updated" => one(part(properties)?),
        "chat.message" => {
            let message = id_at(properties, "/messageID")?;
            let synthetic = properties.get("synthetic") == Some(&Value::Bool(true));
            Some(vec![Event::UserMessage { message: message.clone() }, Event::Written { message, synthetic }])
        }
        _ => None,
    }
}

fn status(word: &str) -> Option<Event> {
    Some(match word {
        "busy" => Event::Busy,
        "retry" => Event::Retry,
        "idle" => Event::Idle,
        _ => return None,
    })
}

fn asked(kind: Kind, properties: &Value) -> Option<Event> {
    Some(Event::Asked { kind, request: id_at(properties, "/id")? })
}

/// A turn is complete with a `finish` other than for calling tools: one that was stopped while it waited has none.
fn message(properties: &Value) -> Option<Event> {
    if text_at(properties, "/info/role")? == "user" {
        return Some(Event::UserMessage { message: id_at(properties, "/info/id")? });
    }
    let finish = text_at(properties, "/info/finish").is_some_and(|finish| finish != "tool-calls");
    let failed = properties.pointer("/info/error").is_some_and(|error| !error.is_null());
    let is_summary = properties.pointer("/info/summary") == Some(&Value::Bool(true));
    Some(Event::Assistant { finished: finish && !failed && !is_summary })
}

fn part(properties: &Value) -> Option<Event> {
    match text_at(properties, "/part/type")? {
        "step-start" => Some(Event::Step),
        "text" => Some(Event::Written {
            message: id_at(properties, "/part/messageID")?,
            synthetic: properties.pointer("/part/synthetic") == Some(&Value::Bool(true)),
        }),
        _ => None,
    }
}

/// What a notice says of it.
fn detail_of(name: &str, properties: &Value) -> Option<String> {
    match name {
        "permission.asked" => Some(words(text_at(properties, "/permission")?)),
        "permission.v2.asked" => {
            let action = text_at(properties, "/action").or_else(|| text_at(properties, "/permission"));
            Some(words(action?))
        }
        "question.asked" | "question.v2.asked" => Some(words(text_at(properties, "/questions/0/question")?)),
        "session.status" => reason(text_at(properties, "/status/message")?),
        "session.error" => Some(error(properties.get("error").unwrap_or(&Value::Null))),
        _ => None,
    }
}

/// `APIError 422`, or where no provider answered `UnknownError: Model not found`.
fn error(error: &Value) -> String {
    let mut said = words(text_at(error, "/name").unwrap_or("Error"));
    let status = error.pointer("/data/statusCode").and_then(Value::as_u64);
    if let Some(status) = status.filter(|status| (100..600).contains(status)) {
        said.push_str(&format!(" {status}"));
    }
    let body = error.pointer("/data/responseBody");
    let is_answered = body.is_some_and(|body| !body.is_null() && body.as_str() != Some(""));
    if let Some(line) = text_at(error, "/data/message").filter(|_| !is_answered).and_then(one_line) {
        said.push_str(&format!(": {line}"));
    }
    said
}

/// One of the known ones.
fn reason(message: &str) -> Option<String> {
    let begins = |reason: &&&str| {
        message.get(..reason.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(reason))
    };
    REASONS.iter().find(begins).map(|reason| (*reason).to_owned())
}

/// One line without addresses; `None` for what is no sentence but a body.
fn one_line(text: &str) -> Option<String> {
    let line = text.trim().lines().next()?;
    if line.starts_with(['{', '[', '<']) {
        return None;
    }
    let shown = |word| if is_address(word) { "(address)" } else { word };
    Some(words(&line.split_whitespace().map(shown).collect::<Vec<_>>().join(" ")))
}

/// `https://…`, `user@host`, `host:8443`, `host.example/v1`.
fn is_address(word: &str) -> bool {
    let has_port = word.split(':').skip(1).any(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
    let has_domain = word
        .split('.')
        .skip(1)
        .any(|rest| rest.bytes().take_while(u8::is_ascii_alphabetic).count() >= 2 || rest.contains('/'));
    word.contains("://") || word.contains('@') || has_port || has_domain
}

fn words(text: &str) -> String {
    shortened(text, MAX_CHARS)
}

fn text_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

fn id_at(value: &Value, pointer: &str) -> Option<String> {
    let is_id = |id: &&str| {
        !id.is_empty() && id.len() <= MAX_ID_BYTES && id.bytes().all(|byte| byte.is_ascii_graphic())
    };
    text_at(value, pointer).filter(is_id).map(str::to_owned)
}

#[cfg(test)]
#[path = "said_tests.rs"]
mod tests;
