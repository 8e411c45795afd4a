//! What a container may ask: hooks, Claude's tools, and to tell or to ask somebody. Nothing of the owner's, nothing of
//! another container's.
//!
//! A hook's session is put behind the container's own name before anybody looks at it, so that no container can speak of a
//! session that is not its own: `c-k3f9c2ab-<session>`.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ccmux_policy::attention::Kind;
use ccmux_policy::event::Origin;
use ccmux_wire::container::{ContainerId, GuestQuestion, GuestRequest, MAX_TEXT_BYTES, SenderEvent};
use ccmux_wire::control::{ErrorCode, Reply, Request};
use ccmux_wire::hook::{HookFrame, HookReply};
use serde::Serialize;
use serde_json::Value;
use tokio::time::timeout;

use super::book::Refusal;
use super::host::session_of;
use super::rate::Rate;
use super::{only, reply_of};
use crate::attention::fact::Fact;
use crate::attention::{GuestNews, Heard};
use crate::control::hooks::session_of as session_in;
use crate::control::principal::Principal;
use crate::control::server::parse;
use crate::control::{Desk, tools};
use crate::terminal::Terminal;

/// The longest that an answer is waited for on one connection.
const MAX_WAIT_S: u64 = 600;
/// As much of a session's id as goes behind the container's.
const MAX_SESSION_CHARS: usize = 40;

/// So many sessions of one container are told apart at a time.
const MAX_SESSIONS: usize = 16;
/// So many words of its own at once, and how often one more: each may go to somebody's phone.
const WORDS: u32 = 20;
const WORD_EVERY: Duration = Duration::from_secs(2);

/// A container, and what it has used of its share.
#[derive(Debug)]
pub struct Guest {
    /// Which.
    pub id: ContainerId,
    sessions: Mutex<VecDeque<String>>,
    words: Mutex<Rate>,
}

impl Guest {
    /// One that has used nothing.
    pub fn new(id: ContainerId) -> Self {
        Self { id, sessions: Mutex::default(), words: Mutex::new(Rate::new(WORDS, WORD_EVERY)) }
    }

    fn may_speak(&self) -> bool {
        self.words.lock().unwrap_or_else(PoisonError::into_inner).try_take()
    }

    /// Notes a session; the one that spoke longest ago, where there are too many.
    fn note(&self, session: &str) -> Option<String> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|known| known != session);
        sessions.push_back(session.to_owned());
        if sessions.len() > MAX_SESSIONS { sessions.pop_front() } else { None }
    }
}

/// What a line leads to.
pub(super) enum Answer {
    Line(Vec<u8>),
    Channels,
}

/// Answers a line of a container.
pub(super) async fn guest<T: Terminal>(desk: &Desk<T>, guest: &Guest, line: &[u8]) -> Answer {
    let id = &guest.id;
    let request = match parse(line) {
        Ok(request) => request,
        Err(reply) => return line_of(&reply),
    };
    if !Principal::Container(id.clone()).may(&request) {
        tracing::warn!(event = "container.not_allowed", container = %id);
        return line_of(&Reply::refused(ErrorCode::NotAllowed, "this verb is not for a container"));
    }
    match request {
        Request::Channels => Answer::Channels,
        Request::Hook(frame) => line_of(&hook(desk, guest, frame)),
        Request::Tool(call) => line_of(&tools::tool(&desk.tools, call).await),
        Request::Guest(request) => line_of(&verb(desk, guest, request).await),
        _ => line_of(&Reply::refused(ErrorCode::NotAllowed, "this verb is not for a container")),
    }
}

/// Never waits, and never touches the policy of the owned session.
fn hook<T: Terminal>(desk: &Desk<T>, guest: &Guest, mut frame: HookFrame) -> HookReply {
    desk.metrics.hooked(&frame.event);
    let Some(session) = session_in(&frame.payload) else { return HookReply::ok() };
    let short: String = session.as_str().chars().take(MAX_SESSION_CHARS).collect();
    let session = format!("{}-{short}", session_of(&guest.id));
    if let Some(session) = guest.note(&session) {
        desk.attention.ears.tell(Heard::Guest(GuestNews::Gone { session }));
    }
    frame.payload["session_id"] = Value::String(session.clone());
    // What it says of processes and tokens is about nothing here.
    (frame.token, frame.claude_pid) = (None, None);
    if desk.hooks.came_already(&frame, Origin::Foreign) {
        return HookReply::ok();
    }
    if let Some(fact) = Fact::of(&frame, false) {
        desk.attention.ears.tell(Heard::Guest(GuestNews::Hook { session, fact }));
    }
    HookReply { stdout: desk.instruction(&frame.event), ..HookReply::ok() }
}

async fn verb<T: Terminal>(desk: &Desk<T>, guest: &Guest, request: GuestRequest) -> Reply {
    let id = &guest.id;
    if !matches!(request, GuestRequest::Answer { .. }) && !guest.may_speak() {
        return reply_of(Err(Refusal::Full("word: 20 at once, and one more every 2 s")));
    }
    let done = match request {
        GuestRequest::Notify { event, message } => return notify(desk, id, event, &message),
        GuestRequest::Ask { question, wait_s } => match desk.containers.question(id, question).await {
            Ok(asked) => {
                tell(desk, id, Kind::Question, Some(asked.id.clone()), &asked.question);
                answered(desk, id, asked, wait_s).await
            }
            refused => refused,
        },
        GuestRequest::Answer { question, wait_s } => match desk.containers.read(id, &question, false).await {
            Ok(known) => answered(desk, id, known, wait_s).await,
            refused => refused,
        },
    };
    reply_of(done.map(only))
}

/// The question with its answer, or as it is when the time is over.
async fn answered<T: Terminal>(
    desk: &Desk<T>,
    id: &ContainerId,
    known: GuestQuestion,
    wait_s: Option<u64>,
) -> Result<GuestQuestion, Refusal> {
    let limit = Duration::from_secs(wait_s.unwrap_or(0).min(MAX_WAIT_S));
    if limit.is_zero() || known.answer.is_some() {
        return Ok(known);
    }
    timeout(limit, desk.containers.read(id, &known.id, true)).await.unwrap_or(Ok(known))
}

fn notify<T: Terminal>(desk: &Desk<T>, id: &ContainerId, event: SenderEvent, message: &str) -> Reply {
    if message.trim().is_empty() || message.len() > MAX_TEXT_BYTES {
        return Reply::refused(ErrorCode::Rejected, Refusal::Text("the message").to_string());
    }
    let kind = kind_of(event);
    tell(desk, id, kind, None, message);
    tracing::info!(event = "container.notified", container = %id, kind = kind.word());
    Reply::ok()
}

fn tell<T: Terminal>(desk: &Desk<T>, id: &ContainerId, kind: Kind, subject: Option<String>, text: &str) {
    let session = session_of(id);
    desk.attention.ears.tell(Heard::Guest(GuestNews::Began {
        session,
        kind,
        subject,
        text: text.to_owned(),
    }));
}

/// What somebody is waited for by, when a sender without a session says so.
pub(crate) fn kind_of(event: SenderEvent) -> Kind {
    match event {
        SenderEvent::Complete => Kind::Reply,
        SenderEvent::Question => Kind::Question,
        SenderEvent::Info => Kind::Message,
    }
}

fn line_of(reply: &impl Serialize) -> Answer {
    let mut line =
        serde_json::to_vec(reply).unwrap_or_else(|_| br#"{"ok":false,"code":"internal"}"#.to_vec());
    line.push(b'\n');
    Answer::Line(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_can_not_make_the_daemon_remember_without_end() {
        let guest = Guest::new("abcd".to_owned().try_into().unwrap());
        let forgotten: Vec<_> =
            (0..1000).filter_map(|number| guest.note(&format!("c-abcd-{number}"))).collect();
        assert_eq!(forgotten.len(), 1000 - MAX_SESSIONS);
        assert_eq!(forgotten[0], "c-abcd-0");
        assert_eq!(guest.note("c-abcd-999"), None, "a known one costs nobody a place");
    }

    #[tokio::test(start_paused = true)]
    async fn it_can_not_flood_a_phone() {
        let guest = Guest::new("abcd".to_owned().try_into().unwrap());
        assert_eq!((0..1000).filter(|_| guest.may_speak()).count(), WORDS as usize);
        tokio::time::advance(WORD_EVERY + Duration::from_millis(1)).await;
        assert!(guest.may_speak() && !guest.may_speak());
    }
}
