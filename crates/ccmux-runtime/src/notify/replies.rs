//! Follows the topics that buttons publish to, and passes on what comes.
//!
//! ```text
//! server ─► GET reply topic, since=… ─► thread ─► lines ─► Reply ─► whoever answers
//!             └ broken: again after 1, 2, 4 … 60 s, from the last id on; after 1 s if it brought something new
//! ```
//!
//! One thread a route, and none without a topic for answers: a read that waits for days costs nothing. Whoever knows the
//! topic can write to it, so that lines are short, few, and nothing but text; what they mean is decided elsewhere. A
//! message that comes twice, or was published before the daemon began, is none: codes don't outlive a daemon.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::post::{PostError, agent, unreachable};
use super::services::ntfy::Ntfy;

/// A server says every 45 s that it is there; after that long without a word it is not.
const SILENT_FOR: Duration = Duration::from_secs(150);
const CONNECTS_WITHIN: Duration = Duration::from_secs(30);
/// Pauses before it is tried again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A longer line is no answer.
const MAX_LINE_BYTES: u64 = 16 * 1024;
/// Nor is a longer text.
const MAX_TEXT_CHARS: usize = 1_000;
/// So many answers a minute are heard; who sends more is guessing.
const MAX_A_MINUTE: usize = 20;
/// So many ids are remembered.
const MAX_SEEN: usize = 256;
/// So many answers wait to be heard.
const QUEUE: usize = 64;

/// What somebody published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// By which route.
    pub route: String,
    /// What it says.
    pub text: String,
}

/// Where answers come out, until shutdown. The threads end with it, as soon as their streams say a word; nobody waits for
/// them.
#[derive(Debug)]
pub struct Replies {
    replies: mpsc::Receiver<Reply>,
    shutdown: CancellationToken,
}

impl Replies {
    /// Follows these routes' topics. `None`: there are none.
    pub fn follow(routes: Vec<(String, Ntfy)>, since_s: i64, shutdown: &CancellationToken) -> Option<Self> {
        if routes.is_empty() {
            return None;
        }
        let (said, replies) = mpsc::channel(QUEUE);
        for (route, ntfy) in routes {
            let (ending, ends) = channel();
            let token = shutdown.clone();
            // Wakes a thread out of its pause.
            tokio::spawn(async move {
                token.cancelled().await;
                drop(ending);
            });
            let follower = Follower::new(route, ntfy, since_s, said.clone(), ends);
            let thread = std::thread::Builder::new().name("replies".into());
            if let Err(error) = thread.spawn(move || follower.run()) {
                tracing::error!(event = "replies.not_followed", %error);
            }
        }
        Some(Self { replies, shutdown: shutdown.clone() })
    }

    /// Gives each to whoever answers, who says in words of his own what became of it.
    pub async fn run<E: Display, F: Future<Output = Result<&'static str, E>>>(
        mut self,
        answer: impl Fn(String) -> F,
    ) {
        while let Some(Reply { route, text }) = self.next().await {
            match answer(text).await {
                Ok(word) => tracing::info!(event = "reply.taken", route, word),
                Err(error) => tracing::warn!(event = "reply.refused", route, %error),
            }
        }
    }

    /// The next one. `None`: there will be none.
    async fn next(&mut self) -> Option<Reply> {
        tokio::select! {
            () = self.shutdown.cancelled() => None,
            reply = self.replies.recv() => reply,
        }
    }
}

/// A line of the stream.
#[derive(Debug, Deserialize)]
struct Line {
    id: String,
    #[serde(default)]
    time: i64,
    event: String,
    #[serde(default)]
    message: String,
}

/// Follows one topic, on a thread of its own.
struct Follower {
    route: String,
    ntfy: Ntfy,
    began_s: i64,
    said: mpsc::Sender<Reply>,
    ends: Receiver<()>,
    seen: VecDeque<String>,
    heard: VecDeque<Instant>,
    is_broken: bool,
}

impl Follower {
    fn new(route: String, ntfy: Ntfy, began_s: i64, said: mpsc::Sender<Reply>, ends: Receiver<()>) -> Self {
        let (seen, heard) = (VecDeque::new(), VecDeque::new());
        Self { route, ntfy, began_s, said, ends, seen, heard, is_broken: false }
    }

    fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            match self.listen() {
                Ok(is_new) if is_new || began.elapsed() >= LONGEST_PAUSE => pause = FIRST_PAUSE,
                Ok(_nothing_new) => {}
                Err(error) => self.broken(&error),
            }
            if self.said.is_closed() || self.ends.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Said once, until it works again.
    fn broken(&mut self, error: &PostError) {
        match std::mem::replace(&mut self.is_broken, true) {
            false => tracing::warn!(event = "replies.broken", route = self.route, %error),
            true => tracing::debug!(event = "replies.broken", route = self.route, %error),
        }
    }

    /// Until the stream ends; whether anything new came.
    fn listen(&mut self) -> Result<bool, PostError> {
        let url = format!("{}/json?since={}", self.ntfy.reply_url()?, self.since());
        let agent = agent(&url, |config| {
            let connects = Some(CONNECTS_WITHIN);
            let config = config.timeout_resolve(connects).timeout_connect(connects);
            config.timeout_recv_response(connects).timeout_per_read(Some(SILENT_FOR))
        })?;
        let mut request = agent.get(&url);
        if let Some(authorization) = self.ntfy.authorization()? {
            request = request.header("Authorization", authorization);
        }
        let answer = request.call().map_err(|error| unreachable(&error))?;
        match answer.status().as_u16() {
            200 => Ok(self.read(answer.into_body().into_with_config().limit(u64::MAX).reader())),
            status => Err(PostError::Status(status)),
        }
    }

    /// The last one that came, or when the daemon began.
    fn since(&self) -> String {
        self.seen.back().cloned().unwrap_or_else(|| self.began_s.to_string())
    }

    /// What can't be read is skipped to the line's end: were the stream ended there, the same would come again for ever.
    fn read(&mut self, stream: impl Read) -> bool {
        let (mut stream, mut any_new) = (BufReader::new(stream), false);
        let (mut line, mut is_rest) = (Vec::new(), false);
        loop {
            line.clear();
            let read = (&mut stream).take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
            if !read.is_ok_and(|count| count > 0) || self.said.is_closed() {
                return any_new;
            }
            let ends = line.last() == Some(&b'\n');
            if ends
                && !is_rest
                && let Ok(line) = serde_json::from_slice::<Line>(&line)
            {
                any_new |= self.hear(line);
            }
            is_rest = !ends;
        }
    }

    /// Whether it is a message that did not come before.
    fn hear(&mut self, line: Line) -> bool {
        if std::mem::take(&mut self.is_broken) {
            tracing::info!(event = "replies.followed", route = self.route);
        }
        let is_id = (1..=64).contains(&line.id.len()) && line.id.chars().all(|c| c.is_ascii_alphanumeric());
        if line.event != "message" || !is_id || self.seen.contains(&line.id) {
            return false;
        }
        self.seen.push_back(line.id);
        if self.seen.len() > MAX_SEEN {
            self.seen.pop_front();
        }
        if line.time < self.began_s || !self.is_patient() {
            return true;
        }
        let text: String = line.message.chars().filter(|c| !c.is_control()).take(MAX_TEXT_CHARS).collect();
        let reply = Reply { route: self.route.clone(), text };
        if self.said.try_send(reply).is_err() {
            tracing::warn!(event = "replies.dropped", route = self.route);
        }
        true
    }

    /// No more than so many a minute.
    fn is_patient(&mut self) -> bool {
        let now = Instant::now();
        self.heard.retain(|heard| now.duration_since(*heard) < Duration::from_secs(60));
        if self.heard.len() >= MAX_A_MINUTE {
            tracing::warn!(event = "replies.dropped", route = self.route);
            return false;
        }
        self.heard.push_back(now);
        true
    }
}

#[cfg(test)]
mod tests;
