//! Answers from afar: Claude's permissions and questions go to a channel, and answers come back to the hook that waits.
//!
//! ```text
//! PermissionRequest ─► Answers::ask ─► code, message to out.CHANNEL          Waiting ─► the hook's second line
//! in.CHANNEL ─► inbox (answers) ─► Keeper ─┐                                    ▲
//! ccmux permission, ccmux answer ──────────┼─► Answers::answer ─► policy's Afar ┘
//! a route with buttons ────────────────────┘
//! state file, screen, hooks ─► Answers::event, Answers::hook ─► released: the dialog is gone
//! transcript, while several dialogs are open ─► Follower ─► released: its call is settled; or what was passed on is proved
//! answered, or gone ─► the attendant: it waits no more, and is not told again
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`ask`] | a hook's payload → what is asked; a decision → what the hook prints |
//! | [`calls`] | lines of a transcript → what became of the calls that are asked about |
//! | [`follower`] | the transcript as a proof, while several dialogs are open |
//! | [`keeper`] | the task: answers that came by the channel, time, and looks where there is no state file |
//!
//! Who answers first, who may, and when it is too late is decided in the policy's `afar`; here are the texts, and the hooks
//! that wait. Codes and answers that came by the channel stand in `inbox.db` ([`crate::inbox`]); the hooks' connections
//! don't outlive the daemon, so that every code of an earlier one is closed.

pub mod ask;
pub mod calls;
pub mod follower;
pub mod keeper;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ccmux_policy::attention::afar::line::{self, Reply as Line};
use ccmux_policy::attention::afar::{Afar, AfarRules, End, Verdict};
use ccmux_policy::attention::{Selection, Source};
use ccmux_policy::{Event, UnixMs};
use ccmux_wire::afar::{Code, OpenAsk, Reply};
use ccmux_wire::channel::ChannelName;
use ccmux_wire::hook::HookFrame;
use ccmux_wire::id::SessionId;
use serde_json::Value;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::attention::{Ears, Heard};
use crate::clock::Clock;
use crate::inbox::{AnswersLeft, Inbox};
use crate::outlet::{OutletError, Outlets};
use crate::prompt::sanitise;
use crate::settings::PermissionSettings;
use ask::Ask;
use follower::{Marked, PassedOn, Told, spoken};

pub use ccmux_policy::attention::afar::By;
pub use keeper::Keeper;

/// A channel that nobody reads is tried again after that long, while it is not too late.
const TOLD_AGAIN: Duration = Duration::from_secs(5);
/// So many asks can be open at once; further ones are left to the terminal.
const MOST_OPEN: usize = 64;

/// Why an answer decided nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnswered {
    /// There never was such a code, or it is forgotten.
    #[error("there is no code {0}: `ccmux permission` lists what can be answered")]
    Unknown(String),
    /// It is over.
    #[error("too late: {}", .0.words())]
    TooLate(End),
    /// Not by them.
    #[error("the sender may not answer (permission.allowed)")]
    NotAllowed,
    /// It does not fit what is asked, which stays open.
    #[error("{0}")]
    Unclear(String),
}

/// What became of a waiting hook.
#[derive(Debug, Clone, PartialEq)]
enum Outcome {
    Waits,
    /// Print this.
    Print(Value),
    /// Go, and print nothing.
    Go,
}

/// An ask that is open.
#[derive(Debug)]
struct Open {
    ask: Arc<Ask>,
    since: UnixMs,
    /// Each hook that waits listens, and nobody else: who left is known by their number.
    outcome: watch::Sender<Outcome>,
    call: Option<Marked>,
    /// Cancelled when it is open no more.
    over: CancellationToken,
    _over: DropGuard,
}

impl Open {
    fn new(ask: Arc<Ask>, since: UnixMs, outcome: watch::Sender<Outcome>, call: Option<Marked>) -> Self {
        let over = CancellationToken::new();
        Self { ask, since, outcome, call, _over: over.clone().drop_guard(), over }
    }
}

#[derive(Debug)]
struct State {
    policy: Afar,
    open: BTreeMap<Code, Open>,
    passed_on: BTreeMap<Code, PassedOn>,
    /// Transcripts with a [`follower`].
    followed: BTreeSet<PathBuf>,
    settings: PermissionSettings,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Something changed that the keeper's next deadline depends on.
    changed: Notify,
    /// The same, for the followers.
    moved: watch::Sender<()>,
    /// No transcript outside is ever read.
    projects_dir: PathBuf,
    clock: Clock,
    inbox: Inbox,
    outlets: Outlets,
    ears: Ears,
}

/// Whoever answers for somebody far away holds one. Clones are the same.
#[derive(Debug, Clone)]
pub struct Answers(Arc<Inner>);

impl Answers {
    /// Goes on with the codes that an earlier daemon issued: all are closed.
    pub fn new(
        settings: PermissionSettings,
        left: &AnswersLeft,
        (inbox, outlets, ears): (Inbox, Outlets, Ears),
        (clock, projects_dir): (Clock, PathBuf),
    ) -> Self {
        let policy = Afar::new(rules_of(&settings), left.codes.clone(), clock.now());
        let (open, passed_on, followed) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let state = Mutex::new(State { policy, open, passed_on, followed, settings });
        let (changed, moved) = (Notify::new(), watch::Sender::new(()));
        Self(Arc::new(Inner { state, changed, moved, projects_dir, clock, inbox, outlets, ears }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers an open ask, and says what was done: in a word, if that is certain. Where another dialog is open the transcript
    /// must prove it, which takes a moment, 5 s at most. The first answer wins: for whatever comes by several ways (a
    /// channel, the client, a button) this is the one place. `code` is what people typed, in any case; `reply` need not be
    /// cleaned. `by`: [`By::Trusted`] where the way itself proves who answers, else [`By::Sender`], which is checked against
    /// `permission.allowed`.
    ///
    /// The hooks that wait have the answer when this returns.
    ///
    /// # Errors
    /// Why it decided nothing, in a sentence for whoever answered.
    pub async fn answer(&self, code: &str, reply: &Reply, by: By<'_>) -> Result<&'static str, NotAnswered> {
        let unknown = || NotAnswered::Unknown(sanitise(code).chars().take(20).collect());
        let code = Code::of(code.trim()).ok_or_else(unknown)?;
        let reply = match reply {
            Reply::Allow => Line::Allow,
            Reply::Deny { reason } => {
                Line::Deny(reason.as_deref().filter(|reason| !reason.trim().is_empty()))
            }
            Reply::Text { text } => Line::Text(text),
        };
        let told = self.decide(&code, reply, by)?;
        self.proved(told).await
    }

    /// The same for a line as people write it on the channel: `y bcdfg`, `n bcdfg reason`, `bcdfg 2`. `None`: it names no
    /// code that was issued within a day.
    pub async fn answer_line(&self, text: &str, by: By<'_>) -> Option<Result<&'static str, NotAnswered>> {
        match self.decide_line(text, by)? {
            Ok(told) => Some(self.proved(told).await),
            Err(error) => Some(Err(error)),
        }
    }

    fn decide_line(&self, text: &str, by: By<'_>) -> Option<Result<Told, NotAnswered>> {
        let text = sanitise(text);
        let said = line::parse(&text)?;
        let known = self.state().policy.knows(&said.code);
        known.then(|| self.decide(&said.code, said.reply, by))
    }

    fn decide(&self, code: &Code, reply: Line<'_>, by: By<'_>) -> Result<Told, NotAnswered> {
        let now = self.0.clock.now();
        let mut state = self.state();
        let decision = match state.policy.answer(code, reply, by, now) {
            Verdict::Decided(decision) => decision,
            Verdict::Unclear(misfit) => return Err(NotAnswered::Unclear(misfit.words(code))),
            Verdict::TooLate(end) => return Err(NotAnswered::TooLate(end)),
            Verdict::NotAllowed => return Err(NotAnswered::NotAllowed),
            Verdict::Unknown => return Err(NotAnswered::Unknown(code.to_string())),
        };
        let word = spoken(decision.word());
        let mut told = Told::Sure(word);
        if let Some(open) = state.open.remove(code) {
            tracing::info!(event = "permission.answered", session = %open.ask.session, tool = %open.ask.tool, word);
            if !state.policy.is_certain(code) {
                let (prove, proof) = oneshot::channel();
                state.passed_on.insert(code.clone(), PassedOn { call: open.call, told: prove });
                told = Told::PassedOn(code.clone(), proof);
            }
            open.outcome.send_replace(Outcome::Print(open.ask.printed(&decision)));
            self.no_more(&open.ask);
        }
        drop(state);
        self.note_closed(vec![code.clone()], now.wall);
        Ok(told)
    }

    /// What can be answered now, oldest first.
    pub fn open_asks(&self) -> Vec<OpenAsk> {
        let now = self.0.clock.now();
        let state = self.state();
        let asks = state.open.iter().map(|(code, open)| OpenAsk {
            code: code.clone(),
            kind: open.ask.kind().to_owned(),
            tool: open.ask.tool.clone(),
            text: open.ask.text.clone(),
            since_ms: open.since.0,
            expires_in_ms: state.policy.expires_at(code).map_or(0, |at| at.since(now.mono)),
        });
        let mut asks: Vec<OpenAsk> = asks.collect();
        asks.sort_by_key(|ask| ask.since_ms);
        asks
    }

    /// Whether a channel is set: without one nothing can be answered from afar.
    pub fn are_told(&self) -> bool {
        !self.state().settings.channel.is_empty()
    }

    /// The code of an attention item (its key's session and subject), while it can be answered: for notices with buttons.
    pub fn code_of(&self, session: &SessionId, subject: &str) -> Option<Code> {
        self.state().policy.code_of(session, subject).cloned()
    }

    /// Other settings, from the next ask on.
    pub fn change(&self, settings: PermissionSettings) {
        let mut state = self.state();
        state.policy.change(rules_of(&settings));
        state.settings = settings;
    }

    /// A hook of the owned session asks. `Some`: it is to wait. Never waits itself. `doubled`: another hook of the same
    /// event came before, so that this is no ask of its own.
    pub fn ask(&self, frame: &HookFrame, session: SessionId, doubled: bool) -> Option<Waiting> {
        let ask = Ask::of(frame, session)?;
        let now = self.0.clock.now();
        let mut state = self.state();
        let wait_s = state.settings.wait_s();
        let same = state.policy.same(&ask.session, &ask.subject, now).cloned();
        if let Some((code, open)) = same.and_then(|code| state.open.get_key_value(&code)) {
            return Some(Waiting {
                answers: self.clone(),
                code: code.clone(),
                wait_s,
                outcome: open.outcome.subscribe(),
            });
        }
        if doubled || state.settings.channel.is_empty() || state.open.len() >= MOST_OPEN {
            return None;
        }
        let code = issue(&mut state.policy, &ask, now)?;
        if ask.of_sub_agent {
            state.policy.asked_by_sub_agent(&code);
        }
        let (outcome, waits) = watch::channel(Outcome::Waits);
        let ask = Arc::new(ask);
        tracing::info!(event = "permission.asked", session = %ask.session, tool = %ask.tool, kind = ask.kind());
        let call = ask.call.clone().and_then(|asked| Marked::of(asked, &self.0.projects_dir));
        state.open.insert(code.clone(), Open::new(Arc::clone(&ask), now.wall, outcome, call));
        let channel = state.settings.channel.clone();
        let forgotten = state.policy.forget(now);
        drop(state);
        self.0.changed.notify_one();
        self.follow();
        tokio::spawn(self.clone().tell(code.clone(), ask, channel, forgotten));
        Some(Waiting { answers: self.clone(), code, wait_s, outcome: waits })
    }

    /// Kept before anybody hears of it: a line that begins with it must be known after a crash, too.
    async fn tell(self, code: Code, ask: Arc<Ask>, channel: String, forgotten: Vec<Code>) {
        let inbox = &self.0.inbox;
        let kept = inbox.keep_code(code.clone(), self.0.clock.now().wall).await;
        if let Err(error) = kept.and(inbox.forget_codes(forgotten).await) {
            tracing::error!(event = "inbox.failed", %error);
        }
        let over = match self.state().open.get(&code) {
            Some(open) => open.over.clone(),
            None => return,
        };
        tokio::select! {
            () = self.tell_until_told(&channel, ask.message(&code)) => {}
            () = over.cancelled() => {}
        }
    }

    async fn tell_until_told(&self, channel: &str, message: String) {
        let mut told_off = false;
        loop {
            let error = match self.0.outlets.send(channel, message.clone()).await {
                Ok(()) | Err(OutletError::Stopping) => return,
                Err(error) => error,
            };
            if !std::mem::replace(&mut told_off, true) {
                tracing::warn!(event = "permission.not_told", channel, %error);
            }
            sleep(TOLD_AGAIN).await;
        }
    }

    /// A hook of the owned session that is no ask: a turn's end closes what was asked in it.
    pub fn hook(&self, frame: &HookFrame, session: &SessionId) {
        if !matches!(frame.event.as_str(), "Stop" | "StopFailure" | "SessionEnd") {
            return;
        }
        let now = self.0.clock.now();
        let closed = self.state().policy.turn_over(session, now);
        self.release(closed, End::AtTerminal);
    }

    /// What the event loop hears says of dialogs. Never waits.
    pub fn event(&self, event: &Event) {
        let now = self.0.clock.now();
        match event {
            Event::StateFileRead { state } => self.state().policy.file_says(state.clone(), now),
            Event::ScreenSeen { seen, .. } => self.state().policy.screen_shows(seen.class, now),
            Event::AgentExited { .. } | Event::AgentMissing { .. } => {
                let closed = self.state().policy.agent_gone(now);
                self.release(closed, End::Left);
            }
            _ => return,
        }
        if !self.state().open.is_empty() {
            self.0.changed.notify_one();
        }
    }

    /// Nobody waits there any more: no further notice of it. (What expired still waits at the terminal.)
    fn no_more(&self, ask: &Ask) {
        let (session, subject) = (ask.session.clone(), Some(ask.subject.clone()));
        let which = Selection { source: Source::Claude, session, kind: Some(ask.attention_kind()), subject };
        self.0.ears.tell(Heard::Over(vec![which]));
    }

    /// The hooks go in silence.
    fn release(&self, codes: Vec<Code>, end: End) {
        if codes.is_empty() {
            return;
        }
        let mut state = self.state();
        for open in codes.iter().filter_map(|code| state.open.remove(code)) {
            tracing::info!(event = "permission.closed", session = %open.ask.session, tool = %open.ask.tool, ?end);
            open.outcome.send_replace(Outcome::Go);
            if end == End::AtTerminal {
                self.no_more(&open.ask);
            }
        }
        drop(state);
        self.note_closed(codes, self.0.clock.now().wall);
    }

    /// A hook waits no more; the last one takes the ask with it.
    fn left(&self, code: &Code) {
        let mut state = self.state();
        let is_last = state.open.get(code).is_some_and(|open| open.outcome.receiver_count() <= 1);
        let closed = is_last && state.policy.left(code, self.0.clock.now());
        drop(state);
        if closed {
            self.release(vec![code.clone()], End::Left);
        }
    }

    /// When it was closed only says when it is forgotten: nobody waits for that to be kept.
    fn note_closed(&self, codes: Vec<Code>, at: UnixMs) {
        let inbox = self.0.inbox.clone();
        self.0.changed.notify_one();
        self.0.moved.send_replace(());
        tokio::spawn(async move {
            if let Err(error) = inbox.close_codes(codes, at).await {
                tracing::warn!(event = "inbox.failed", %error);
            }
        });
    }

    /// Whether a channel's text is an answer: it names a code that was issued, on the channel where they are told.
    fn is_answer(&self, channel: &ChannelName, text: &str) -> bool {
        let text = sanitise(text);
        let Some(said) = line::parse(&text) else { return false };
        let state = self.state();
        state.settings.channel == channel.as_str() && state.policy.knows(&said.code)
    }
}

/// A hook that waits for an answer. Dropped, it waits no more.
#[derive(Debug)]
pub struct Waiting {
    answers: Answers,
    code: Code,
    wait_s: u32,
    outcome: watch::Receiver<Outcome>,
}

impl Waiting {
    /// How long at most.
    pub fn wait_s(&self) -> u32 {
        self.wait_s
    }

    /// What to print, once that is known; `None`: nothing.
    pub async fn outcome(&mut self) -> Option<Value> {
        match self.outcome.wait_for(|outcome| *outcome != Outcome::Waits).await {
            Ok(outcome) => match &*outcome {
                Outcome::Print(value) => Some(value.clone()),
                Outcome::Go | Outcome::Waits => None,
            },
            Err(_gone) => None,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.answers.left(&self.code);
    }
}

fn rules_of(settings: &PermissionSettings) -> AfarRules {
    AfarRules { wait_ms: u64::from(settings.wait_s()) * 1000, allowed: settings.allowed.clone() }
}

/// Draws until a code is new. Without randomness there is none, and the terminal alone answers.
fn issue(policy: &mut Afar, ask: &Ask, now: ccmux_policy::Now) -> Option<Code> {
    for _ in 0..100 {
        let code = match draw() {
            Ok(code) => code,
            Err(error) => {
                tracing::error!(event = "permission.no_code", %error);
                return None;
            }
        };
        if let Some(code) = code
            && policy.open(code.clone(), ask.session.clone(), ask.subject.clone(), ask.shape.clone(), now)
        {
            return Some(code);
        }
    }
    None
}

fn draw() -> io::Result<Option<Code>> {
    let mut random = [0u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(Code::from_random(&random))
}

#[cfg(test)]
mod tests;
