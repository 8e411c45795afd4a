//! Agents that wake each other, as far as the daemon takes part: it hears of notes and questions (`notify`), so that people
//! hear of them, and leaves notes itself where an agent with a name stops.
//!
//! ```text
//! Stop of a session with CCMUX_AGENT_ID
//!   it is the primary one              ─► nothing: it is the one to wake
//!   background tasks run               ─► nothing: a turn of its own will follow
//!   it asked, and nobody answered      ─► question
//!   it said `--type complete` itself   ─► complete
//!   else                               ─► waiting      each into the queue, to people, and to its manager if that is ours
//! SessionStart with CCMUX_AGENT_ROLE=primary ─► the instruction to keep one `ccmux listen` running
//! ```
//!
//! A turn that failed, a compaction, a limit: no Stop comes, and no note. Without a daemon no hook leaves one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ccmux_notify::folder::Folder;
use ccmux_notify::note::{MAX_NAME_BYTES, Note, NoteKind, checked_name};
use ccmux_notify::question::{self, QuestionError, Standing};
use ccmux_notify::queue;
use ccmux_notify::repository::{Repository, RepositoryError};
use ccmux_policy::PolicyStatus;
use ccmux_policy::attention::{Key, Kind, Selection, Source};
use ccmux_wire::channel::ChannelName;
use ccmux_wire::control::{ErrorCode, Reply};
use ccmux_wire::hook::{AgentMarks, HookFrame, HookReply};
use ccmux_wire::id::SessionId;
use ccmux_wire::notes::{NotesNews, Told};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::gone::Gone;
use crate::attention::fact::SYNTHETIC;
use crate::attention::words::{Text, shortened};
use crate::attention::{Ears, Heard};
use crate::clock::unix_ms;
use crate::inbox::{Inbox, NewMessage};

/// As much of a text as a notice shows, or a note about a turn.
const MAX_CHARS: usize = 200;
/// As much of a repository's name.
const MAX_PLACE_CHARS: usize = 40;
/// The channel of messages to a manager.
const CHANNEL: &str = "agents";
/// A start waits that long for its instruction; the hook gives up a little later.
const INSTRUCTED_WITHIN: Duration = Duration::from_millis(150);
/// So many are remembered to have said that they are done.
const MOST_SAID: usize = 4096;

/// What a primary session is told.
const INSTRUCTION: &str = "\
You look after other agents that work in this repository. Keep exactly one `ccmux listen` running in the background (the Bash \
tool with run_in_background, no timeout): it ends as soon as an agent leaves a note, and prints notes as JSON lines \
{\"id\",\"ts\",\"from\",\"type\",\"msg\",\"question_id\"?}. When it has ended, read its output, act on every note, and start \
it again. A note with an id that you have seen is the same note. Answer a note that has a question_id with \
`ccmux answer QUESTION_ID TEXT`. `ccmux listen --status` says whether one is running: start no second one.";

/// Answers for notes.
#[derive(Debug)]
pub struct NotesDesk {
    /// The attendant.
    pub ears: Ears,
    /// Takes messages to a manager that is ours.
    pub inbox: Inbox,
    /// Knows the owned session.
    pub policy: watch::Receiver<PolicyStatus>,
    /// The owned session's own name, if its environment gives it one.
    pub own_name: Option<String>,
    /// Who said in this turn that the work is done.
    pub said: Said,
    /// What was taken or closed.
    pub gone: Gone,
}

/// Who said since its prompt that the work is done: repository and name. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Said(Arc<Mutex<BTreeSet<(PathBuf, String)>>>);

impl Said {
    fn note(&self, root: &Path, name: &str) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= MOST_SAID {
            said.clear();
        }
        said.insert((root.to_owned(), name.to_owned()));
    }

    fn take(&self, root: &Path, name: &str) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.remove(&(root.to_owned(), name.to_owned()))
    }
}

impl NotesDesk {
    /// Hears of notes and questions. Never waits.
    pub(super) fn news(&self, news: NotesNews) -> Reply {
        let names = news.left.iter().chain(&news.asked).flat_map(|told| [&told.id, &told.from]);
        if names.chain(&news.gone).any(|name| checked_name(name).is_err()) {
            let why = format!("ids and names have 1 to {MAX_NAME_BYTES} bytes and no control characters");
            return Reply::refused(ErrorCode::Rejected, why);
        }
        hear(&self.ears, &self.said, &self.gone, &news);
        Reply::ok()
    }

    /// What a hook of an agent with a name, or of a primary session, leads to.
    pub(super) async fn hook(&self, frame: &HookFrame) -> HookReply {
        let here = dirs_of(frame);
        match (frame.event.as_str(), &frame.marks.id) {
            ("SessionStart", _) if is_primary(&frame.marks) => return instruction(here).await,
            ("UserPromptSubmit", Some(name)) if !is_synthetic(&frame.payload) => self.turn_begins(name, here),
            ("Stop", Some(name)) if !is_primary(&frame.marks) && background_tasks(&frame.payload) == 0 => {
                self.stopped(name, here, frame)
            }
            _ => {}
        }
        HookReply::ok()
    }

    fn turn_begins(&self, name: &str, here: Vec<PathBuf>) {
        let (said, name) = (self.said.clone(), name.to_owned());
        tokio::task::spawn_blocking(move || {
            if let Ok(repository) = repository_of(&here) {
                said.take(&repository.root, &name);
            }
        });
    }

    /// Claude waits for no file: the hook is answered before.
    fn stopped(&self, name: &str, here: Vec<PathBuf>, frame: &HookFrame) {
        let last = text(&frame.payload, "last_assistant_message").unwrap_or_default();
        let last = shortened(last, MAX_CHARS);
        let (said, name, ears) = (self.said.clone(), name.to_owned(), self.ears.clone());
        let manager = frame.marks.manager.clone().filter(|manager| self.is_ours(manager));
        let (inbox, gone) = (self.inbox.clone(), self.gone.clone());
        tokio::spawn(async move {
            let leave = move || leave_note(&said, &name, &here, &last);
            let left = match tokio::task::spawn_blocking(leave).await {
                Ok(Ok(left)) => left,
                Ok(Err(error)) => return tracing::warn!(event = "note.failed", %error),
                Err(_) => return,
            };
            let (root, note) = left;
            tracing::info!(event = "note.left", from = %note.from, kind = note.kind.word());
            let told = Told::new(&note.id, &note.from, note.kind.word(), &note.msg);
            gone.unless(&note.id, || tell(&ears, &root, Kind::Message, &told));
            if manager.is_some() {
                tell_manager(&inbox, &note).await;
            }
        });
    }

    /// A manager is named by its session or by its name.
    fn is_ours(&self, manager: &str) -> bool {
        let session = self.policy.borrow().session.clone();
        session.is_some_and(|session| session.as_str() == manager)
            || self.own_name.as_deref() == Some(manager)
    }
}

/// What is gone may be told of before it is told that it came: who rings tells the daemon last.
fn hear(ears: &Ears, said: &Said, gone: &Gone, news: &NotesNews) {
    let root = Path::new(&news.repository);
    if let Some(left) = &news.left {
        if left.kind == NoteKind::Complete.word() {
            said.note(root, &left.from);
        }
        gone.unless(&left.id, || tell(ears, root, Kind::Message, left));
    }
    if let Some(asked) = &news.asked {
        gone.unless(&asked.id, || tell(ears, root, Kind::Question, asked));
    }
    if !news.gone.is_empty() {
        let all = Selection::session(Source::Ccmux, place_of(root));
        let over = news.gone.iter().map(|id| Selection { subject: Some(id.clone()), ..all.clone() });
        gone.note(&news.gone, || ears.tell(Heard::Over(over.collect())));
    }
}

/// Where a session belongs, then where it is now: Claude may have gone into a submodule, or out of all.
fn dirs_of(frame: &HookFrame) -> Vec<PathBuf> {
    let project = frame.marks.project.as_deref();
    project.into_iter().chain(text(&frame.payload, "cwd")).map(PathBuf::from).collect()
}

/// That of the first one that lies in any.
fn repository_of(dirs: &[PathBuf]) -> Result<Repository, RepositoryError> {
    let mut found = Err(RepositoryError::None { from: PathBuf::new() });
    for dir in dirs.iter().filter(|dir| dir.is_absolute()) {
        found = Repository::find(dir);
        if found.is_ok() {
            break;
        }
    }
    found
}

fn leave_note(said: &Said, name: &str, here: &[PathBuf], last: &str) -> Result<(PathBuf, Note), NotLeft> {
    let repository = repository_of(here)?;
    let folder = Folder::open(&repository)?;
    let asked = question::all(&folder)?;
    let open = asked.into_iter().rfind(|asked| asked.from == name && asked.standing == Standing::Open);
    let said = said.take(&repository.root, name);
    let (kind, msg) = match &open {
        Some(asked) => (NoteKind::Question, asked.text.as_str()),
        None if said => (NoteKind::Complete, last),
        None => (NoteKind::Waiting, last),
    };
    let msg = if msg.is_empty() { "the turn is over" } else { msg };
    let note = Note::new(name, kind, msg).map_err(QuestionError::from)?;
    let note = Note { question_id: open.map(|asked| asked.id), ..note };
    queue::add(&folder, &note)?;
    Ok((repository.root, note))
}

/// Why no note was left.
#[derive(Debug, thiserror::Error)]
enum NotLeft {
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    #[error(transparent)]
    Folder(#[from] ccmux_notify::folder::FolderError),
    #[error(transparent)]
    Note(#[from] QuestionError),
}

/// The note's id keeps it from coming twice.
async fn tell_manager(inbox: &Inbox, note: &Note) {
    let Ok(channel) = CHANNEL.parse::<ChannelName>() else { return };
    let message = NewMessage {
        shown: channel.to_string(),
        channel,
        content: format!("{} ({}): {}", note.from, note.kind.word(), note.msg),
        id: Some(note.id.clone()),
        meta: None,
        ts_ms: unix_ms().0,
    };
    if let Err(error) = inbox.accept(message).await {
        tracing::warn!(event = "note.not_told", %error);
    }
}

async fn instruction(here: Vec<PathBuf>) -> HookReply {
    let is_in_repository = tokio::task::spawn_blocking(move || repository_of(&here).is_ok());
    if !matches!(timeout(INSTRUCTED_WITHIN, is_in_repository).await, Ok(Ok(true))) {
        return HookReply::ok();
    }
    let said = json!({"hookEventName": "SessionStart", "additionalContext": INSTRUCTION});
    HookReply { stdout: Some(json!({"hookSpecificOutput": said})), ..HookReply::ok() }
}

/// An agent that has a manager is none, though it inherits the variable.
fn is_primary(marks: &AgentMarks) -> bool {
    marks.role.as_deref() == Some("primary") && marks.manager.is_none()
}

fn tell(ears: &Ears, root: &Path, kind: Kind, told: &Told) {
    let key = Key { source: Source::Ccmux, session: place_of(root), kind, subject: told.id.clone() };
    let (from, word) = (shortened(&told.from, MAX_CHARS), shortened(&told.kind, MAX_PLACE_CHARS));
    let title = match kind {
        Kind::Question => format!("ccmux - Question of {from}"),
        _ => format!("ccmux - Note of {from}: {word}"),
    };
    let (body, root) = (shortened(&told.text, MAX_CHARS), root.to_owned());
    ears.tell(Heard::Began(key, Text::Note { title, body, root }));
}

/// What stands where other items have their session.
fn place_of(root: &Path) -> SessionId {
    let name = root.file_name().map_or_else(|| "/".into(), |name| name.to_string_lossy());
    SessionId::new(shortened(&name, MAX_PLACE_CHARS))
}

fn text<'a>(payload: &'a Value, key: &str) -> Option<&'a str> {
    payload.get(key)?.as_str()
}

fn background_tasks(payload: &Value) -> usize {
    payload.get("background_tasks").and_then(Value::as_array).map_or(0, Vec::len)
}

/// Claude Code's own prompt goes on with the turn before.
fn is_synthetic(payload: &Value) -> bool {
    text(payload, "prompt").is_some_and(|prompt| prompt.trim_start().starts_with(SYNTHETIC))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_was_taken_before_the_daemon_heard_of_it_is_no_item() {
        let (ears, mut heard) = Ears::new();
        let (said, gone) = (Said::default(), Gone::default());
        let news = |left: Option<&str>, asked: Option<&str>, gone: &[&str]| NotesNews {
            repository: "/src/app".to_owned(),
            left: left.map(|id| Told::new(id, "w", "complete", "x")),
            asked: asked.map(|id| Told::new(id, "w", "question", "x")),
            gone: gone.iter().map(|id| (*id).to_owned()).collect(),
        };
        for news in [
            news(None, None, &["n-1", "q-1"]),
            news(Some("n-1"), None, &[]),
            news(None, Some("q-1"), &[]),
            news(Some("n-2"), None, &[]),
        ] {
            hear(&ears, &said, &gone, &news);
        }
        drop(ears);
        let mut began = Vec::new();
        while let Some(heard) = heard.blocking_recv() {
            if let Heard::Began(key, Text::Note { root, .. }) = heard {
                assert_eq!(root, Path::new("/src/app"));
                began.push(key.subject);
            }
        }
        assert_eq!(began, ["n-2"]);
        assert!(said.take(Path::new("/src/app"), "w"), "it said that it is done all the same");
    }

    fn repository_in(dir: &Path) -> PathBuf {
        for name in ["objects", "refs"] {
            std::fs::create_dir_all(dir.join(".git").join(name)).unwrap();
        }
        std::fs::write(dir.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        dir.canonicalize().unwrap()
    }

    #[test]
    fn a_session_that_went_into_another_repository_leaves_its_note_where_it_was_started() {
        let dir = tempfile::tempdir().unwrap();
        let [app, part] = ["app", "app/part"].map(|name| repository_in(&dir.path().join(name)));
        let root_with = |project: Option<&Path>| {
            let variable = |name: &str| match name {
                "CCMUX_AGENT_ID" => Some("w".to_owned()),
                "CLAUDE_PROJECT_DIR" => project.map(|dir| dir.display().to_string()),
                _ => None,
            };
            let frame = HookFrame::of(json!({"hook_event_name": "Stop", "cwd": part}), variable);
            repository_of(&dirs_of(&frame)).unwrap().root
        };
        assert_eq!(root_with(Some(&app)), app);
        assert_eq!(root_with(Some(&dir.path().join("gone"))), part);
        assert_eq!(root_with(None), part);
        assert!(repository_of(&[]).is_err() && repository_of(&["x".into()]).is_err());
    }
}
