//! `ccmux notify`, `listen`, `ask`, `questions`, `answer`, `acknowledge`: what agents of one repository leave for each
//! other. All of it works without a daemon; one that is there is told, so that people hear of it, too.
//!
//! | module | what it holds |
//! |---|---|
//! | [`arguments`] | what can be said on the command line |
//! | [`notify`] | leaves a note, or clears the queue |
//! | [`listen`] | takes notes |
//! | [`questions`] | asks, lists, answers, acknowledges |
//!
//! What a note is, and how it is kept, stands in `ccmux-notify`.

pub mod arguments;
pub mod listen;
pub mod notify;
pub mod questions;

use std::env;
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ccmux_notify::folder::{Folder, FolderError};
use ccmux_notify::note::{MAX_MESSAGE_BYTES, NoteError};
use ccmux_notify::question::QuestionError;
use ccmux_notify::queue::TakeError;
use ccmux_notify::repository::{Repository, RepositoryError};
use ccmux_wire::control::Request;
use ccmux_wire::notes::NotesNews;

use crate::client::Client;
use crate::failure::Failure;

/// The daemon hears of it within that time, or not at all: nobody waits for it.
const TELL_WITHIN: Duration = Duration::from_millis(500);
/// So much is read of a message that may be too long, to tell how long it is.
const MOST_READ: usize = MAX_MESSAGE_BYTES * 4;
/// Who is said to speak where nothing tells.
const NOBODY: &str = "system";

/// The repository's notes, and under which name this process speaks and listens.
struct Place {
    repository: Repository,
    folder: Folder,
    name: String,
}

impl Place {
    /// Of the current directory. A name that is given wins over `CCMUX_AGENT_ID`, that over the worktree's.
    fn here(name: Option<String>) -> Result<Self, Failure> {
        let here = env::current_dir()
            .map_err(|error| Failure::Failed(format!("there is no current directory: {error}")))?;
        let repository = Repository::find(&here)?;
        let folder = Folder::open(&repository)?;
        let agent = || env::var("CCMUX_AGENT_ID").ok().filter(|id| !id.is_empty());
        let name = name.or_else(agent).or_else(|| repository.worktree.clone());
        Ok(Self { repository, folder, name: name.unwrap_or_else(|| NOBODY.to_owned()) })
    }

    /// News about it for the daemon.
    fn news(&self) -> NotesNews {
        NotesNews { repository: self.repository.root.to_string_lossy().into_owned(), ..NotesNews::default() }
    }
}

/// Tells the daemon, if there is one. Whatever becomes of that is no matter: the files are the truth.
fn tell(dir: &Path, news: NotesNews) {
    let (dir, (done, told)) = (dir.to_owned(), mpsc::channel());
    thread::spawn(move || {
        let asked = Client::ask(&dir, Request::Notify(news));
        done.send(asked.is_ok())
    });
    let _ = told.recv_timeout(TELL_WITHIN);
}

/// The words, joined by blanks; a lone `-` reads stdin. Bytes that are no text become U+FFFD.
fn text_of(words: &[OsString]) -> Result<String, Failure> {
    if words.len() == 1 && words[0] == "-" {
        let mut text = Vec::new();
        let input = io::stdin().lock().take(MOST_READ as u64);
        { input }
            .read_to_end(&mut text)
            .map_err(|error| Failure::Failed(format!("can't read stdin: {error}")))?;
        if text.len() == MOST_READ {
            let why = format!("the message has more than {MOST_READ} bytes, {MAX_MESSAGE_BYTES} are taken");
            return Err(Failure::Refused(format!("{why}: write it to a file and send the file's name")));
        }
        let text = String::from_utf8_lossy(&text);
        return Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned());
    }
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    Ok(words.join(" "))
}

/// In so many seconds; what no clock can tell is never.
fn deadline_in(seconds: Option<u64>) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_secs(seconds?))
}

impl From<RepositoryError> for Failure {
    fn from(error: RepositoryError) -> Self {
        match error {
            RepositoryError::Pointer { .. } | RepositoryError::Foreign { .. } => {
                Self::Refused(error.to_string())
            }
            RepositoryError::None { .. } | RepositoryError::Io { .. } => Self::Failed(error.to_string()),
        }
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::Full { .. } => Self::Full(error.to_string()),
            FolderError::Refused { .. } => Self::Refused(error.to_string()),
            FolderError::Locked { .. } | FolderError::Moved { .. } | FolderError::Io { .. } => {
                Self::Failed(error.to_string())
            }
        }
    }
}

impl From<NoteError> for Failure {
    fn from(error: NoteError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<TakeError> for Failure {
    fn from(error: TakeError) -> Self {
        match error {
            TakeError::Folder(error) => error.into(),
            TakeError::Output(error) => Self::Output(error),
            TakeError::Stay(_) => Self::Failed(error.to_string()),
        }
    }
}

impl From<QuestionError> for Failure {
    fn from(error: QuestionError) -> Self {
        match error {
            QuestionError::Folder(error) => error.into(),
            QuestionError::Note(error) => error.into(),
            QuestionError::Tidied(_) => Self::Failed(error.to_string()),
            QuestionError::Unknown(_) | QuestionError::Closed { .. } => Self::Refused(error.to_string()),
        }
    }
}
