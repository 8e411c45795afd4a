//! The task: hears, asks the engine, keeps what it orders, and sends notices on their way.
//!
//! It waits for nothing but what it hears and the engine's deadline. Looks and notices are tasks of their own, so that
//! neither a slow tmux nor a route that hangs holds anything up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccmux_policy::attention::opencode::Origin;
use ccmux_policy::attention::{Attention, Effect, Key, Kind, Rules, Selection, Source};
use ccmux_policy::event::FileState;
use ccmux_policy::{AlertKind, UnixMs};
use ccmux_wire::id::SessionId;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::book::{Book, Kept, Page};
use super::catch_up::CatchUp;
use super::fact::Fact;
use super::guests;
use super::opencode::{Front, News, Step};
use super::words::{Text, title_of};
use super::{Ears, Heard};
use crate::afar::Answers;
use crate::clock::{Clock, until};
use crate::notify::{Notice, Notifier};
use crate::spots::{Spot, Spots};
use crate::terminal::Terminal;
use crate::workers::starter::AgentNow;

/// A dialog that the state file shows no more for that long is gone; between two dialogs it is shorter.
const DIALOG_GONE_AFTER: Duration = Duration::from_secs(1);
/// What waits for longer has been forgotten by everybody else.
const ITEM_DAYS: i64 = 1;
const TURN_DAYS: i64 = 7;
const DAY_MS: i64 = 86_400_000;
/// So many sessions' turns are known at most.
const MAX_TURNS: usize = 4096;

/// A turn that runs, or ran last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The prompt's beginning.
    pub task: String,
    /// When it began.
    pub started: UnixMs,
    /// The how manieth it is, where the version gives prompts no ids.
    pub count: u64,
    /// Where it can be seen, if others started the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spot: Option<Spot>,
}

/// A notice, and where it may go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter {
    /// What it is about; absent in what an older daemon kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// What is told.
    pub notice: Notice,
    /// The first one that works.
    pub routes: Vec<String>,
}

/// What the attendant is made of.
#[derive(Debug)]
pub struct Setting<T> {
    /// When what is told.
    pub rules: Rules,
    /// Sessions that others run count, too.
    pub all_sessions: bool,
    /// Log what begins and ends.
    pub debug: bool,
    /// What was kept.
    pub kept: Kept,
    /// Where it is kept; `None`: it can't be.
    pub book: Option<Arc<Mutex<Book>>>,
    /// The pane.
    pub terminal: Arc<T>,
    /// The agent in it.
    pub agent: watch::Receiver<Option<AgentNow>>,
    /// The ways to people.
    pub notifier: Notifier,
    /// Where foreign sessions can be seen.
    pub spots: Spots,
    /// Servers of OpenCode that are followed.
    pub servers: Vec<Origin>,
    /// What can be answered from afar, for notices with buttons.
    pub afar: Answers,
    /// Tells the time.
    pub clock: Clock,
    /// Ends it.
    pub shutdown: CancellationToken,
}

/// The task.
#[derive(Debug)]
pub struct Attendant<T> {
    pub(super) setting: Setting<T>,
    pub(super) ears: Ears,
    heard: mpsc::Receiver<Heard>,
    pub(super) engine: Attention,
    pub(super) texts: BTreeMap<Key, Text>,
    pub(super) turns: BTreeMap<SessionId, Turn>,
    pub(super) file: watch::Sender<FileState>,
    pub(super) catch_up: CatchUp,
    own: Option<SessionId>,
    pub(super) opencode: Front,
    dialog_gone_at: Option<Instant>,
    /// The last number that went to something a guest said.
    pub(super) said: i64,
    pub(super) page: Page,
    /// Ends the way of letters about items that are over.
    pub(super) on_way: BTreeMap<Key, CancellationToken>,
    /// Counts changes, for whoever watches.
    changed: watch::Sender<u64>,
    pub(super) tasks: TaskTracker,
}

impl<T: Terminal> Attendant<T> {
    /// Goes on with what was kept.
    pub fn new(mut setting: Setting<T>, ears: Ears, heard: mpsc::Receiver<Heard>) -> Self {
        let now = setting.clock.now();
        let mut kept = std::mem::take(&mut setting.kept);
        kept.items.retain(|(row, _)| now.wall.0 - row.began.0 < ITEM_DAYS * DAY_MS);
        kept.turns.retain(|(_, turn)| now.wall.0 - turn.started.0 < TURN_DAYS * DAY_MS);
        for (session, turn) in &kept.turns {
            if let Some(spot) = &turn.spot {
                setting.spots.put(session, spot.clone());
            }
        }
        let (rows, texts): (Vec<_>, Vec<_>) =
            kept.items.into_iter().map(|(row, text)| (row.clone(), (row.key, text))).unzip();
        let engine = Attention::new(setting.rules.clone(), rows, kept.mutes, now).with_told(kept.told, now);
        let mut attendant = Self {
            setting,
            ears,
            heard,
            engine,
            texts: texts.into_iter().collect(),
            turns: kept.turns.into_iter().collect(),
            file: watch::channel(FileState::Absent).0,
            catch_up: CatchUp::default(),
            own: None,
            opencode: Front::default(),
            dialog_gone_at: None,
            said: 0,
            page: Page::default(),
            on_way: BTreeMap::new(),
            changed: watch::channel(0).0,
            tasks: TaskTracker::new(),
        };
        attendant.take_up_asks();
        kept.letters.into_iter().for_each(|(number, letter)| attendant.send_again(number, letter, now));
        attendant
    }

    /// What others were asked for before a restart ends with them, also if they say nothing any more.
    fn take_up_asks(&mut self) {
        let mut tellers = BTreeMap::new();
        for (key, text) in &self.texts {
            if let Text::Told { by, .. } = text {
                self.opencode.restored(key, by);
                tellers.insert(by.origin, by.clone());
            }
        }
        for (origin, teller) in tellers {
            // A server that the settings name no more says nothing of its asks.
            if matches!(origin, Origin::Stream(_)) && !self.setting.servers.contains(&origin) {
                self.ears.tell(Heard::Opencode(News::Closed(origin)));
                continue;
            }
            let (ears, shutdown) = (self.ears.clone(), self.setting.shutdown.clone());
            self.tasks.spawn(async move {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    () = teller.is_gone() => ears.tell(Heard::Opencode(News::Closed(origin))),
                }
            });
        }
    }

    /// Says when something changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Runs until shutdown. Notices on their way then are sent by the next daemon.
    pub async fn run(mut self) {
        loop {
            let deadline = self.engine.next_deadline().map(|at| self.setting.clock.instant_of(at));
            tokio::select! {
                biased;
                () = self.setting.shutdown.cancelled() => break,
                Some(heard) = self.heard.recv() => self.hear(heard),
                () = until(deadline) => self.engine.deadline(self.setting.clock.now()),
                () = until(self.dialog_gone_at) => self.dialog_gone(),
            }
            self.follow_orders().await;
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Hook { session, own, fact } if own || self.setting.all_sessions => {
                if own {
                    self.own = Some(session.clone());
                    self.catch_up.heard(&fact);
                }
                self.fact(session, fact);
            }
            Heard::Hook { .. } => {}
            Heard::Guest(news) => self.guest(news),
            Heard::Opencode(news) => self.opencode(news),
            Heard::File(state) => self.file_says(state),
            Heard::Published(session) => self.published(session),
            Heard::AgentGone(session) => self.agent_gone(session),
            Heard::Alert { kind, session, message } => self.alert(kind, session, &message),
            Heard::Unstuck(kinds) => self.unstuck(kinds),
            Heard::Began(key, text) => self.keep_text(key, text),
            Heard::Over(which) => which.iter().for_each(|which| self.engine.ended(which)),
            Heard::Answered(key, answer) => self.engine.answered(&key, answer, self.setting.clock.now()),
            Heard::Mute(mute, answer) => drop(answer.send(self.mute(mute))),
            Heard::Asked(answer) => self.asked(answer),
            Heard::Pressed(at) => self.pressed(at),
            Heard::Looked(looked, answer) => self.looked(&looked, answer),
        }
    }

    pub(super) fn fact(&mut self, session: SessionId, fact: Fact) {
        let all = Selection::session(Source::Claude, session.clone());
        match fact {
            Fact::Prompted { task, by_human } => self.prompted(session, task, by_human),
            Fact::Stopped { prompt, background } => self.stopped(session, prompt, background),
            Fact::Failed { prompt, error } => {
                self.end_dialogs(&session);
                let subject = self.turn_of(&session, prompt);
                self.began(session, Kind::Failure, subject, Text::about(Kind::Failure, &error));
            }
            Fact::Dialog { kind, subject, what } => {
                self.began(session, kind, subject, Text::about(kind, &what));
            }
            Fact::Answered => self.engine.ended(&all.kind(Kind::Question)),
            Fact::SubagentStopped { agent, what } => {
                let text = Text::about(Kind::SubagentReply, &what);
                self.began(session, Kind::SubagentReply, agent, text);
            }
            Fact::Ended => {
                self.engine.ended(&all);
                self.turns.remove(&session);
                self.setting.spots.remove(&session);
                self.page.turns.push((session, None));
            }
        }
    }

    fn opencode(&mut self, news: News) {
        let now = self.setting.clock.now();
        for step in self.opencode.hear(news, now.wall) {
            match step {
                Step::Began(key, text) => self.keep_text(key, text),
                Step::Ended(which) => self.engine.ended(&which),
                Step::HumanActive(session) => self.engine.human_active(Source::Opencode, &session),
            }
        }
    }

    fn prompted(&mut self, session: SessionId, task: Option<String>, by_human: bool) {
        if by_human {
            self.engine.human_active(Source::Claude, &session);
        }
        // Claude Code's own prompt comes right behind the sub-agent's end, before that could be told.
        let goes_on = |kind: &Kind| match kind {
            Kind::Message | Kind::Stuck => true,
            Kind::SubagentReply => task.is_none(),
            _ => false,
        };
        for kind in Kind::ALL.into_iter().filter(|kind| !goes_on(kind)) {
            self.engine.ended(&Selection::session(Source::Claude, session.clone()).kind(kind));
        }
        let now = self.setting.clock.now().wall;
        let before = self.turns.get(&session);
        let count = before.map_or(1, |turn| turn.count + 1);
        let spot = self.setting.spots.of(&session);
        // What Claude Code writes by itself goes on with somebody's task.
        let turn = match (task, before) {
            (Some(task), _) => Turn { task, started: now, count, spot },
            (None, Some(before)) => Turn { count, spot, ..before.clone() },
            (None, None) => Turn { task: "(background task)".to_owned(), started: now, count, spot },
        };
        self.page.turns.push((session.clone(), Some(turn.clone())));
        self.turns.insert(session, turn);
        self.forget_oldest_turn();
    }

    fn forget_oldest_turn(&mut self) {
        if self.turns.len() > MAX_TURNS
            && let Some(oldest) =
                self.turns.iter().min_by_key(|(_, turn)| turn.started).map(|(session, _)| session.clone())
        {
            self.turns.remove(&oldest);
            self.page.turns.push((oldest, None));
        }
    }

    pub(super) fn forget_turns(&mut self, which: impl Fn(&SessionId) -> bool) {
        let over: Vec<SessionId> = self.turns.keys().filter(|session| which(session)).cloned().collect();
        for session in over {
            self.turns.remove(&session);
            self.page.turns.push((session, None));
        }
    }

    /// While a background task runs, a turn of its own will follow: nobody is waited for.
    fn stopped(&mut self, session: SessionId, prompt: Option<String>, background: usize) {
        if background > 0 {
            return;
        }
        self.end_dialogs(&session);
        let now = self.setting.clock.now().wall;
        let subject = self.turn_of(&session, prompt);
        let turn = self.turns.get(&session);
        let (task, started) =
            turn.map_or(("(unknown)".to_owned(), now), |turn| (turn.task.clone(), turn.started));
        let seconds = u64::try_from((now.0 - started.0) / 1000).unwrap_or(0);
        self.began(session, Kind::Reply, subject, Text::Silence { task, started, seconds });
    }

    fn turn_of(&self, session: &SessionId, prompt: Option<String>) -> String {
        let count = self.turns.get(session).map_or(0, |turn| turn.count);
        prompt.unwrap_or_else(|| format!("turn {count}"))
    }

    fn end_dialogs(&mut self, session: &SessionId) {
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_dialog()) {
            self.engine.ended(&Selection::session(Source::Claude, session.clone()).kind(kind));
        }
    }

    fn began(&mut self, session: SessionId, kind: Kind, subject: String, text: Text) {
        let key = Key { source: Source::Claude, session, kind, subject };
        self.keep_text(key, text);
    }

    pub(super) fn keep_text(&mut self, key: Key, text: Text) {
        self.note("attention.began", &key);
        self.texts.insert(key.clone(), text);
        self.engine.began(key.clone(), self.setting.clock.now());
        if !self.engine.holds(&key) {
            self.texts.remove(&key);
        }
    }

    fn file_says(&mut self, state: FileState) {
        let is_open = |state: &FileState| matches!(state, FileState::Waiting(_));
        // Before the first state nobody knows: a dialog that is kept may have been answered without a daemon.
        let may_be_open = is_open(&self.file.borrow()) || *self.file.borrow() == FileState::Absent;
        match (may_be_open, is_open(&state)) {
            (true, false) if state != FileState::Absent => {
                self.dialog_gone_at = Some(Instant::now() + DIALOG_GONE_AFTER);
            }
            (_, true) => self.dialog_gone_at = None,
            _ => {}
        }
        self.file.send_replace(state);
        self.catch_up();
    }

    fn dialog_gone(&mut self) {
        self.dialog_gone_at = None;
        if let Some(own) = self.own_session() {
            self.end_dialogs(&own);
        }
    }

    /// What the session waited for, it waits for no more; why it went is told by itself.
    fn agent_gone(&mut self, session: Option<SessionId>) {
        self.file.send_replace(FileState::Absent);
        self.catch_up.end();
        let Some(own) = session.or_else(|| self.own_session()) else { return };
        for kind in [Kind::Reply, Kind::Permission, Kind::Question, Kind::SubagentReply] {
            self.engine.ended(&Selection::session(Source::Claude, own.clone()).kind(kind));
        }
    }

    pub(super) fn own_session(&self) -> Option<SessionId> {
        let bound = self.setting.agent.borrow().as_ref().and_then(|agent| agent.session.clone());
        self.own.clone().or(bound)
    }

    fn alert(&mut self, alert: AlertKind, session: Option<SessionId>, message: &str) {
        let kind = if alert == AlertKind::Degraded { Kind::Failure } else { Kind::Stuck };
        let session = session.or_else(|| self.own_session()).unwrap_or_else(|| SessionId::new("ccmux"));
        let text = Text::Plain { title: title_of(alert).to_owned(), body: message.to_owned() };
        self.keep_text(Key { source: Source::Ccmux, session, kind, subject: alert.word().to_owned() }, text);
    }

    fn unstuck(&mut self, kinds: &[AlertKind]) {
        let words: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
        let ours = self.texts.keys().filter(|key| key.source == Source::Ccmux);
        let over: Vec<Key> = ours.filter(|key| words.contains(&key.subject.as_str())).cloned().collect();
        for Key { source, session, kind, subject } in over {
            self.engine.ended(&Selection { source, session, kind: Some(kind), subject: Some(subject) });
        }
    }

    /// Everything that the engine ordered is kept at once; what is to be told goes on its way only afterwards.
    async fn follow_orders(&mut self) {
        while let Some(effect) = self.engine.next_effect() {
            self.follow(effect);
        }
        if self.page.is_empty() {
            return;
        }
        self.changed.send_modify(|count| *count += 1);
        let page = std::mem::take(&mut self.page);
        let (letters, numbers) = self.write(page).await;
        for (place, letter) in letters.into_iter().enumerate() {
            self.send(numbers.get(place).copied(), letter);
        }
    }

    fn follow(&mut self, effect: Effect) {
        match effect {
            Effect::Ask { key } => self.look(key),
            Effect::Notice { key, routes, waited_ms, .. } => {
                self.write_letter(&key, routes, waited_ms);
                // A message is there to be told, and nothing else; the letter is kept until it arrives.
                if guests::is_over_when_told(&key) {
                    guests::over(&mut self.engine, &key);
                }
            }
            Effect::Keep(row) => {
                if let Some(text) = self.texts.get(&row.key) {
                    self.page.keep.push((row, text.clone()));
                }
            }
            Effect::Forget(key) => {
                self.note("attention.ended", &key);
                self.texts.remove(&key);
                self.page.keep.retain(|(row, _)| row.key != key);
                self.call_back(&key);
                self.page.forget.push(key);
            }
            Effect::KeepMutes(mutes) => self.page.mutes = Some(mutes),
            Effect::KeepTold(flurry, at) => self.page.told.push((flurry, at)),
        }
    }

    fn note(&self, event: &'static str, key: &Key) {
        let (session, kind) = (&key.session, key.kind.word());
        match self.setting.debug {
            true => tracing::info!(event = event, %session, kind),
            false => tracing::debug!(event = event, %session, kind),
        }
    }
}
