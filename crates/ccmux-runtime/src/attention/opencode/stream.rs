//! The second source: the stream of events of an `opencode serve`.
//!
//! ```text
//! GET /global/event ─► data: {"directory":…,"payload":{"id","type","properties"}}
//!    first line: what is busy, what is asked (GET /session/status, /permission, /question) ─► News::Reconciled
//!    broken or refused: again after 1 s, 2 s, … 60 s, and after 1 s if it was there for 10 s; refused: the server is gone
//! ```
//!
//! One thread a connection reads; what it hears goes to the attendant as the plugin's events do. A server sends a line
//! every 10 s: one that is silent for longer is left. It knows no event.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use ccmux_policy::attention::Kind;
use ccmux_policy::attention::opencode::Origin;
use ccmux_wire::id::SessionId;
use ccmux_wire::opencode::OpencodeEvent;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{News, Said};
use crate::attention::{Ears, Heard};
use crate::plain_file::read_text;
use crate::settings::expand;
use crate::settings::opencode::OpencodeServer;

/// Heartbeats come every 10 s.
const SILENT_FOR: Duration = Duration::from_secs(35);
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// A stream that lasts for less is none: there are servers that end each at its first line.
const LASTS_FOR: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Longer lines hold files and diffs; nobody waits for them.
const MAX_LINE_BYTES: u64 = 1 << 20;
const MAX_ANSWER_BYTES: u64 = 4 << 20;
const MAX_PASSWORD_BYTES: u64 = 8 * 1024;
/// So many asks and busy sessions of a server are believed.
const MAX_LISTED: usize = 256;

/// Why a server can't be followed; it never holds address or password.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The file with its password.
    #[error("can't read {path}: {source}")]
    Password {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It answered something else.
    #[error("it answered {0}: check url, username and password_file")]
    Status(u16),
    /// It did not.
    #[error("it can't be reached")]
    Unreachable,
    /// Its answer is none of OpenCode's.
    #[error("its answer can't be read")]
    Answer,
}

/// Follows one server.
#[derive(Debug, Clone)]
pub struct Stream {
    /// Its name in the settings.
    pub name: String,
    /// By that name: [`origin_of`].
    pub origin: Origin,
    /// Where it is.
    pub server: OpencodeServer,
    /// Where `~` is.
    pub home: PathBuf,
    /// Who is told.
    pub ears: Ears,
    /// Ends it.
    pub shutdown: CancellationToken,
}

impl Stream {
    /// Runs until shutdown.
    pub async fn run(self) {
        let (mut pause, mut is_open) = (FIRST_PAUSE, false);
        loop {
            let began = Instant::now();
            let was_heard = tokio::select! {
                () = self.shutdown.cancelled() => return,
                was_heard = self.hear(&mut is_open) => was_heard,
            };
            if was_heard && began.elapsed() >= LASTS_FOR {
                pause = FIRST_PAUSE;
            }
            if !was_heard && std::mem::take(&mut is_open) {
                self.tell(News::Closed(self.origin));
                tracing::info!(event = "opencode.gone", server = self.name);
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
            }
        }
    }

    /// One connection, to its end; `false`: there was none.
    async fn hear(&self, is_open: &mut bool) -> bool {
        let (news, mut heard) = mpsc::channel(64);
        let stream = self.clone();
        // No task of the runtime's, which would wait for it at its end.
        let reader = move || match stream.follow(&news) {
            Ok(()) => {}
            Err(error @ StreamError::Unreachable) => {
                tracing::debug!(event = "opencode.not_followed", server = stream.name, %error);
            }
            Err(error) => tracing::warn!(event = "opencode.not_followed", server = stream.name, %error),
        };
        if thread::Builder::new().name("opencode-stream".into()).spawn(reader).is_err() {
            return false;
        }
        let mut was_heard = false;
        while let Ok(Some(news)) = timeout(SILENT_FOR, heard.recv()).await {
            if !std::mem::replace(is_open, true) {
                tracing::info!(event = "opencode.connected", server = self.name);
                self.tell(News::Opened { origin: self.origin, spot: None });
            }
            was_heard = true;
            if let Some(news) = news {
                self.tell(news);
            }
        }
        was_heard
    }

    fn tell(&self, news: News) {
        self.ears.tell(Heard::Opencode(news));
    }

    /// `None` is a line that means nothing, but somebody is there.
    fn follow(&self, news: &mpsc::Sender<Option<News>>) -> Result<(), StreamError> {
        let password = self.password()?;
        let body = self.get("/global/event", &password, None)?;
        let mut lines = BufReader::new(body);
        self.reconcile(&password, news)?;
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut lines).take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
            if read.map_err(|_| StreamError::Unreachable)? == 0 {
                return Ok(());
            }
            let said = event_of(&line).as_ref().and_then(Said::of).map(Box::new);
            let said = said.map(|said| News::Said { origin: self.origin, said });
            if news.blocking_send(said).is_err() {
                return Ok(());
            }
        }
    }

    /// What happened while nobody followed. Who asks is introduced first: a sub-agent's ask names its root.
    fn reconcile(
        &self,
        password: &Option<String>,
        news: &mpsc::Sender<Option<News>>,
    ) -> Result<(), StreamError> {
        let busy = busy_of(&self.get_json("/session/status", password)?);
        let mut asks = asks_of(Kind::Permission, &self.get_json("/permission", password)?);
        asks.extend(asks_of(Kind::Question, &self.get_json("/question", password)?));
        for session in busy.iter().take(MAX_LISTED) {
            let info = self.get_json(&format!("/session/{session}"), password).unwrap_or_default();
            let properties = json!({"sessionID": session.as_str(), "info": info});
            let event = OpencodeEvent { id: None, name: "session.updated".to_owned(), properties };
            let said = Said::of(&event).map(Box::new);
            let _ = news.blocking_send(said.map(|said| News::Said { origin: self.origin, said }));
        }
        let _ = news.blocking_send(Some(News::Reconciled { origin: self.origin, busy, asks }));
        Ok(())
    }

    fn get_json(&self, path: &str, password: &Option<String>) -> Result<Value, StreamError> {
        let mut text = Vec::new();
        let body = self.get(path, password, Some(ANSWERS_WITHIN))?;
        body.take(MAX_ANSWER_BYTES).read_to_end(&mut text).map_err(|_| StreamError::Unreachable)?;
        serde_json::from_slice(&text).map_err(|_| StreamError::Answer)
    }

    fn get(
        &self,
        path: &str,
        password: &Option<String>,
        within: Option<Duration>,
    ) -> Result<impl Read + use<>, StreamError> {
        let config = ureq::Agent::config_builder()
            .timeout_connect(Some(ANSWERS_WITHIN))
            .timeout_recv_response(Some(ANSWERS_WITHIN))
            .timeout_per_read(Some(SILENT_FOR))
            .timeout_global(within)
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent("ccmux");
        let config = if self.server.is_local() { config.proxy(None) } else { config };
        let agent: ureq::Agent = config.build().into();
        let mut request = agent.get(format!("{}{path}", self.server.url.trim_end_matches('/')));
        if let Some(password) = password {
            let words = base64(format!("{}:{password}", self.server.username).as_bytes());
            request = request.header("Authorization", format!("Basic {words}"));
        }
        let answer = request.call().map_err(|_| StreamError::Unreachable)?;
        match answer.status().as_u16() {
            200 => Ok(answer.into_body().into_reader()),
            code => Err(StreamError::Status(code)),
        }
    }

    /// Read anew for each connection: a changed one counts at once.
    fn password(&self) -> Result<Option<String>, StreamError> {
        let Some(file) = &self.server.password_file else { return Ok(None) };
        let path = expand(file, &self.home);
        let text = read_text(&path, MAX_PASSWORD_BYTES);
        text.map(|text| Some(text.trim().to_owned())).map_err(|source| StreamError::Password { path, source })
    }
}

/// Whatever else the settings name, the next daemon knows a server's asks by the same number: its name's.
pub fn origin_of(name: &str) -> Origin {
    let hash = Sha256::digest(name);
    let number = hash.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte));
    Origin::Stream(number)
}

/// `/global/event` wraps each event with the project that it is of.
fn event_of(line: &[u8]) -> Option<OpencodeEvent> {
    let mut value: Value = serde_json::from_slice(line.strip_prefix(b"data:")?).ok()?;
    let event = value.get_mut("payload").map(Value::take).unwrap_or(value);
    serde_json::from_value(event).ok()
}

fn busy_of(status: &Value) -> Vec<SessionId> {
    let sessions = status.as_object().into_iter().flatten();
    let busy = sessions.filter(|(_, status)| matches!(status["type"].as_str(), Some("busy" | "retry")));
    let is_id =
        |id: &&String| id.len() <= 128 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    busy.map(|(session, _)| session).filter(is_id).map(SessionId::new).take(MAX_LISTED).collect()
}

/// The same as the events that told of them.
fn asks_of(kind: Kind, list: &Value) -> Vec<(SessionId, Kind, String, String)> {
    let name = format!("{}.asked", kind.word());
    let ask = |properties: &Value| {
        let event = OpencodeEvent { id: None, name: name.clone(), properties: properties.clone() };
        let said = Said::of(&event)?;
        match said.events.into_iter().next()? {
            ccmux_policy::attention::opencode::Event::Asked { request, .. } => {
                Some((said.session, kind, request, said.detail.unwrap_or_default()))
            }
            _ => None,
        }
    };
    list.as_array().into_iter().flatten().take(MAX_LISTED).filter_map(ask).collect()
}

/// As HTTP's Basic wants it.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number =
            chunk.iter().chain([&0, &0]).take(3).fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
        for place in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
