//! The way to the daemon: found again for ever, and a call never made twice.
//!
//! ```text
//!            not there ─────────────► wait, try again, at most 45 s: "nothing was done"
//! call ─►    hung up before it read ► the same
//!            says that it stops ────► the same
//!            hung up after it read ─► "it may have been done"; only `list_channels` is asked again
//! ```
//!
//! A call has a connection of its own; another one tells which channels there are. It knows no MCP.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ccmux_wire::control::{ErrorCode, Reply, Request};
use ccmux_wire::status::ChannelStatus;
use ccmux_wire::tools::{ChannelsLine, LIST, ToolCall, ToolDone};

use crate::client::Client;
use crate::failure::Failure;

/// So long a call waits for a daemon that is away. A restart takes seconds; common clients give a request up after 60 s
/// (Claude Code itself: after 30 minutes without a word, over stdio).
const AWAY: Duration = Duration::from_secs(45);

/// So long the daemon may take: a minute (`out.wait` at most) for a reader to come, and some seconds for it to read.
const ANSWERS_WITHIN: Duration = Duration::from_secs(90);

/// The first pause before the daemon is tried again; each is twice the one before,
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// up to this one while a call waits,
const CALL_PAUSE: Duration = Duration::from_millis(500);
/// and up to this one while nothing does.
const IDLE_PAUSE: Duration = Duration::from_secs(5);

/// How long things may take.
struct Patience {
    /// A daemon that is away.
    away: Duration,
    /// A daemon that has the call.
    answer: Duration,
}

/// What a call ran into.
enum Undone {
    /// The daemon did not read it, or did nothing.
    Nothing(String),
    /// It read it, and nobody knows more.
    Perhaps(String),
    /// It won't do it.
    Refused(String),
}

#[derive(Default)]
struct Known {
    /// The channels, once a daemon was there.
    channels: Option<Vec<ChannelStatus>>,
    /// The daemon was found, or not found.
    has_looked: bool,
}

/// The way.
pub struct Link {
    dir: PathBuf,
    patience: Patience,
    known: Mutex<Known>,
    changed: Condvar,
}

impl Link {
    pub fn new(dir: &Path) -> Self {
        let patience = Patience { away: AWAY, answer: ANSWERS_WITHIN };
        Self { dir: dir.to_owned(), patience, known: Mutex::default(), changed: Condvar::new() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever waits looks again.
    pub fn wake(&self) {
        drop(self.known());
        self.changed.notify_all();
    }

    /// Which channels there are, as far as is known by then; `None`: there was no daemon yet.
    pub fn channels_within(&self, limit: Duration) -> Option<Vec<ChannelStatus>> {
        let known = self.known();
        let waited = self.changed.wait_timeout_while(known, limit, |known| !known.has_looked);
        waited.unwrap_or_else(PoisonError::into_inner).0.channels.clone()
    }

    /// Follows the channels for ever; `told` whenever there are others.
    pub fn follow(&self, told: impl Fn()) {
        let mut pause = FIRST_PAUSE;
        loop {
            // Why it is away is for a call to tell.
            if self.follow_one(&told).is_ok() {
                pause = FIRST_PAUSE;
            }
            self.known().has_looked = true;
            self.changed.notify_all();
            thread::sleep(pause);
            pause = (pause * 2).min(IDLE_PAUSE);
        }
    }

    /// Follows until the daemon has gone.
    fn follow_one(&self, told: &impl Fn()) -> Result<(), Failure> {
        let mut client = Client::connect(&self.dir)?;
        client.send(Request::Channels)?;
        let mut is_there = Err(client.hung_up());
        while let Some(line) = client.line(None).unwrap_or(None) {
            let line: ChannelsLine = serde_json::from_str(&line).map_err(Failure::of_nonsense)?;
            is_there = Ok(());
            if self.learn(line.channels) {
                told();
            }
        }
        is_there
    }

    /// Whether these are others than before.
    fn learn(&self, channels: Vec<ChannelStatus>) -> bool {
        let mut known = self.known();
        known.has_looked = true;
        let is_news = known.channels.as_ref() != Some(&channels);
        known.channels = Some(channels);
        drop(known);
        self.changed.notify_all();
        is_news
    }

    /// Has a tool done. `None`: it is no longer wanted, and was not done.
    pub fn call(&self, call: &ToolCall, is_unwanted: &dyn Fn() -> bool) -> Option<ToolDone> {
        let until = Instant::now() + self.patience.away;
        let mut pause = FIRST_PAUSE;
        loop {
            if is_unwanted() {
                return None;
            }
            let why = match self.ask(call) {
                Ok(done) => return Some(done),
                Err(Undone::Refused(why)) => return Some(failed(why)),
                Err(Undone::Perhaps(why)) if call.name != LIST => return Some(failed(perhaps(call, &why))),
                Err(Undone::Nothing(why) | Undone::Perhaps(why)) => why,
            };
            if Instant::now() >= until {
                return Some(failed(away(&why, self.patience.away)));
            }
            self.rest(pause, is_unwanted);
            pause = (pause * 2).min(CALL_PAUSE);
        }
    }

    /// Waits so long, or until there is news.
    fn rest(&self, pause: Duration, is_unwanted: &dyn Fn() -> bool) {
        let known = self.known();
        if !is_unwanted() {
            drop(self.changed.wait_timeout(known, pause));
        }
    }

    fn ask(&self, call: &ToolCall) -> Result<ToolDone, Undone> {
        let nothing = |failure: Failure| Undone::Nothing(failure.to_string());
        let mut client = Client::connect(&self.dir).map_err(nothing)?;
        // The daemon acts on whole lines: what could not be written to the end was not heard.
        client.send(Request::Tool(call.clone())).map_err(nothing)?;
        let line = match client.read_line(Some(self.patience.answer)) {
            Ok(Some(line)) => line,
            // The kernel tells whether something was left unread.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                return Err(nothing(client.hung_up()));
            }
            Ok(None) => return Err(Undone::Perhaps("it went away before it answered".to_owned())),
            Err(error) => return Err(Undone::Perhaps(format!("it does not answer ({error})"))),
        };
        let reply: Reply = serde_json::from_str(&line)
            .map_err(|error| Undone::Perhaps(Failure::of_nonsense(error).to_string()))?;
        done_of(reply)
    }
}

fn done_of(reply: Reply) -> Result<ToolDone, Undone> {
    let why = reply.error.unwrap_or_else(|| "it gave no reason".to_owned());
    match (reply.tool, reply.code) {
        (Some(done), _) => Ok(done),
        (None, Some(ErrorCode::Stopping)) => Err(Undone::Nothing(why)),
        (None, Some(ErrorCode::BadFrame | ErrorCode::BadVersion)) => Err(Undone::Refused(format!(
            "the ccmux daemon is of another version than this `ccmux mcp` ({why}); nothing was done, tell the user"
        ))),
        (None, _) => Err(Undone::Refused(format!("the ccmux daemon refuses: {why}"))),
    }
}

fn failed(text: String) -> ToolDone {
    ToolDone { text, is_error: true }
}

fn away(why: &str, waited: Duration) -> String {
    let waited = waited.as_secs();
    format!("ccmux is away: {why} (waited {waited} s); nothing was done. Try again later, or tell the user")
}

fn perhaps(call: &ToolCall, why: &str) -> String {
    let channel = call.arguments.get("channel").and_then(|channel| channel.as_str()).unwrap_or("the channel");
    let channel: String = channel.chars().take(100).collect();
    format!(
        "ccmux took the message for {channel}, but {why}: it may have been written, or not. It is not sent again by \
         itself; send it again only if twice does no harm, else tell the user"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn impatient(dir: &Path) -> Link {
        let soon = Duration::from_millis(100);
        Link { patience: Patience { away: soon, answer: soon }, ..Link::new(dir) }
    }

    fn send() -> ToolCall {
        let arguments = serde_json::json!({"channel": "phone"}).as_object().cloned().unwrap();
        ToolCall { name: "send_to_channel".into(), arguments, token: None }
    }

    fn said(link: &Link, call: &ToolCall) -> String {
        let done = link.call(call, &|| false).unwrap();
        assert!(done.is_error, "{done:?}");
        done.text
    }

    #[test]
    fn a_daemon_that_does_not_come_back_is_named_and_nothing_was_done() {
        let dir = tempfile::tempdir().unwrap();
        let text = said(&impatient(&dir.path().join("gone")), &send());
        assert!(text.contains("control.sock") && text.contains("nothing was done. Try again"), "{text}");
    }

    #[test]
    fn a_daemon_that_hangs_leaves_it_open_what_became_of_the_message() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let _hangs = UnixListener::bind(dir.path().join("control.sock")).unwrap();
        let text = said(&impatient(dir.path()), &send());
        assert!(text.contains("message for phone") && text.contains("may have been written"), "{text}");
        let list = ToolCall { name: LIST.into(), ..send() };
        assert!(said(&impatient(dir.path()), &list).contains("nothing was done"));
    }

    #[test]
    fn a_call_that_nobody_wants_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(impatient(dir.path()).call(&send(), &|| true), None);
    }
}
