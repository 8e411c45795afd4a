//! Answers from afar: which code stands for which ask, who may answer it, and which answer is the first.
//!
//! ```text
//! open ─► an answer that fits               ─► closed: answered      (the waiting hooks print it)
//!      ├► the dialog is gone, the turn over ─► closed: at terminal   (they go in silence)
//!      ├► another one waits, and its call
//!      │  is settled in the transcript      ─► closed: at terminal
//!      ├► `permission.wait` is over         ─► closed: expired
//!      └► no hook waits any more            ─► closed: left
//! closed ─► a day later: forgotten. Until then whoever answers is told that it is too late.
//! ```
//!
//! While several dialogs of a session are open nobody sees which one was answered at the terminal. Then the transcript is the
//! proof ([`Afar::settled`]): an ask that is open is over, and an answer that was passed on did hold, or came too late.
//!
//! It knows shapes, not texts: how many choices a question has, and where an answer begins in the line that it is given. What
//! is asked, and what is answered, stays with whoever calls. Codes come from outside, too: there is no randomness here.

pub mod interrupt;
pub mod line;

use std::collections::BTreeMap;

use ccmux_wire::afar::Code;
use ccmux_wire::id::SessionId;

use crate::event::FileState;
use crate::now::{Mono, Now, UnixMs};
use crate::screen::ScreenClass;
use line::{Choice, Misfit, Reply};

/// A closed code is remembered that long.
const REMEMBERED_MS: i64 = 24 * 60 * 60 * 1000;
/// Between two dialogs there is none for a moment; one that is gone for longer was answered.
const GONE_AFTER_MS: u64 = 300;
/// Claude runs all hooks of an event at once: what asks the same within that time is the same ask.
const SAME_WITHIN_MS: u64 = 2_000;
/// Two clocks that count the same time are not further apart.
const SAME_MOMENT_MS: u64 = 500;

/// What an ask may be answered by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Yes or no.
    Permission,
    /// One answer for each.
    Questions(Vec<QuestionShape>),
}

/// One question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuestionShape {
    /// So many choices are listed.
    pub choices: usize,
    /// Several may be chosen.
    pub several: bool,
}

/// Why an ask is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Somebody answered it from afar.
    Answered,
    /// Somebody answered it at the terminal, or the turn ended.
    AtTerminal,
    /// Nobody answered in time.
    Expired,
    /// No hook of Claude's waits any more; the daemon was started anew, for example.
    Left,
}

impl End {
    /// Finishes "too late: ...".
    pub fn words(self) -> &'static str {
        match self {
            Self::Answered => "it was answered before",
            Self::AtTerminal => "it was answered at the terminal",
            Self::Expired => "nobody answered in time; it waits at the terminal",
            Self::Left => "nobody waits for the answer any more; see the terminal",
        }
    }
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By<'a> {
    /// Somebody whom the way proves to be allowed: the user's client, or a route with a secret of its own.
    Trusted,
    /// A line of the channel, with its `meta.sender`.
    Sender(Option<&'a str>),
}

/// What became of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// It is the first one: the ask is closed.
    Decided(Decision<'a>),
    /// It does not fit; the ask stays open.
    Unclear(Misfit),
    /// The ask is over.
    TooLate(End),
    /// Not by them; the ask stays open.
    NotAllowed,
    /// There never was such a code, or it is forgotten.
    Unknown,
}

/// What Claude is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision<'a> {
    /// Yes.
    Allow,
    /// No, and why.
    Deny(Option<&'a str>),
    /// One for each question.
    Answers(Vec<Choice<'a>>),
}

/// What was said from afar, without its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Yes.
    Allowed,
    /// No.
    Denied,
    /// A question's answer.
    Answered,
}

impl Decision<'_> {
    /// In a word.
    pub fn word(&self) -> Word {
        match self {
            Self::Allow => Word::Allowed,
            Self::Deny(_) => Word::Denied,
            Self::Answers(_) => Word::Answered,
        }
    }
}

/// How the call that an ask is about came out, as the transcript has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Claude Code says that a hook granted it, or rejected it.
    ByHook {
        /// Granted.
        allowed: bool,
    },
    /// It was done.
    Granted,
    /// Somebody said no.
    Rejected,
    /// It failed; whether it was granted is not said.
    Failed,
}

/// What a settled call proves of an ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// It was open, and was answered at the terminal.
    AtTerminal,
    /// The answer that was passed on is what Claude did.
    Holds(Word),
    /// It is not: the terminal was first.
    Late,
}

/// Settings that count here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AfarRules {
    /// How long a hook waits.
    pub wait_ms: u64,
    /// `meta.sender` of those who may; empty: all.
    pub allowed: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Open { since: Mono, until: Mono, shown: bool },
    Closed { end: End, at: UnixMs },
}

#[derive(Debug)]
struct Ask {
    session: SessionId,
    /// The same ask has the same one.
    subject: String,
    shape: Shape,
    standing: Standing,
    /// Another one of the session was open at the same time.
    beside: bool,
    /// A sub-agent asks: it may run in the background, and then shows no dialog while a hook waits.
    of_sub_agent: bool,
    /// What was passed on to Claude, until it is proved.
    passed_on: Option<Word>,
}

/// Knows every code of the last day.
#[derive(Debug, Default)]
pub struct Afar {
    rules: AfarRules,
    asks: BTreeMap<Code, Ask>,
    file: FileState,
    gone_at: Option<Mono>,
}

impl Afar {
    /// Whatever an earlier daemon issued is over: its hooks are gone. With when it was closed, if that is known.
    pub fn new(rules: AfarRules, known: Vec<(Code, Option<UnixMs>)>, now: Now) -> Self {
        let closed = |at: Option<UnixMs>| Ask {
            session: SessionId::new(""),
            subject: String::new(),
            shape: Shape::Permission,
            standing: Standing::Closed { end: End::Left, at: at.unwrap_or(now.wall) },
            beside: false,
            of_sub_agent: false,
            passed_on: None,
        };
        let asks = known.into_iter().map(|(code, at)| (code, closed(at))).collect();
        Self { rules, asks, ..Self::default() }
    }

    /// Other settings; what is open keeps its time.
    pub fn change(&mut self, rules: AfarRules) {
        self.rules = rules;
    }

    /// The open ask that this one is: several hooks of one event ask the same.
    pub fn same(&self, session: &SessionId, subject: &str, now: Now) -> Option<&Code> {
        let same = |ask: &Ask| match ask.standing {
            Standing::Open { since, .. } => {
                ask.session == *session && ask.subject == subject && now.mono.since(since) <= SAME_WITHIN_MS
            }
            Standing::Closed { .. } => false,
        };
        self.asks.iter().find(|(_, ask)| same(ask)).map(|(code, _)| code)
    }

    /// The latest open ask of that subject.
    pub fn code_of(&self, session: &SessionId, subject: &str) -> Option<&Code> {
        let of_it = |ask: &&Ask| ask.session == *session && ask.subject == subject;
        let open = self.asks.iter().filter_map(|(code, ask)| match ask.standing {
            Standing::Open { since, .. } => Some((since, code)).filter(|_| of_it(&ask)),
            Standing::Closed { .. } => None,
        });
        open.max().map(|(_, code)| code)
    }

    /// A new ask; `false`: that code was issued before, draw another one.
    pub fn open(&mut self, code: Code, session: SessionId, subject: String, shape: Shape, now: Now) -> bool {
        if self.asks.contains_key(&code) {
            return false;
        }
        let shown = matches!(self.file, FileState::Waiting(_));
        let until = now.mono + self.rules.wait_ms;
        let standing = Standing::Open { since: now.mono, until, shown };
        let beside = self.stand_beside(&session);
        self.asks.insert(
            code,
            Ask { session, subject, shape, standing, beside, of_sub_agent: false, passed_on: None },
        );
        true
    }

    /// A sub-agent asks that: it outlasts the turn that began it, and other dialogs.
    pub fn asked_by_sub_agent(&mut self, code: &Code) {
        if let Some(ask) = self.asks.get_mut(code) {
            ask.of_sub_agent = true;
        }
    }

    fn stand_beside(&mut self, session: &SessionId) -> bool {
        let mut any = false;
        for ask in self.asks.values_mut().filter(|ask| ask.session == *session) {
            if matches!(ask.standing, Standing::Open { .. }) {
                (ask.beside, any) = (true, true);
            }
        }
        any
    }

    /// Whether an answer surely was the first one; else the transcript tells, if anything does.
    pub fn is_certain(&self, code: &Code) -> bool {
        self.asks.get(code).is_none_or(|ask| !ask.beside)
    }

    /// Whether the transcript tells what becomes of it: another dialog was open, or a sub-agent asks; and it is open, or its
    /// answer was passed on.
    pub fn wants_proof(&self, code: &Code) -> bool {
        let is_open = |ask: &Ask| matches!(ask.standing, Standing::Open { .. });
        self.asks
            .get(code)
            .is_some_and(|ask| (ask.beside || ask.of_sub_agent) && (is_open(ask) || ask.passed_on.is_some()))
    }

    /// The transcript has what became of the call that it is about. `None`: that proves nothing.
    pub fn settled(&mut self, code: &Code, how: Settled, now: Now) -> Option<Proof> {
        let ask = self.asks.get_mut(code)?;
        let proof = match (ask.standing, ask.passed_on) {
            (Standing::Open { .. }, _) => Proof::AtTerminal,
            (_, Some(word)) => proof_of(word, how)?,
            (_, None) => return None,
        };
        ask.passed_on = None;
        if !matches!(proof, Proof::Holds(_)) {
            ask.standing = Standing::Closed { end: End::AtTerminal, at: now.wall };
        }
        Some(proof)
    }

    /// Nobody waits for that proof any more.
    pub fn give_up_proof(&mut self, code: &Code) {
        if let Some(ask) = self.asks.get_mut(code) {
            ask.passed_on = None;
        }
    }

    /// Whether such a code was issued within a day: a line that begins with it is an answer, and no message.
    pub fn knows(&self, code: &Code) -> bool {
        self.asks.contains_key(code)
    }

    /// Until when an open ask is waited for.
    pub fn expires_at(&self, code: &Code) -> Option<Mono> {
        match self.asks.get(code)?.standing {
            Standing::Open { until, .. } => Some(until),
            Standing::Closed { .. } => None,
        }
    }

    /// Somebody answers.
    pub fn answer<'a>(&mut self, code: &Code, reply: Reply<'a>, by: By<'_>, now: Now) -> Verdict<'a> {
        let Some(ask) = self.asks.get_mut(code) else { return Verdict::Unknown };
        if !may_answer(&self.rules.allowed, by) {
            return Verdict::NotAllowed;
        }
        if let Standing::Closed { end, .. } = ask.standing {
            return Verdict::TooLate(end);
        }
        match line::decide(reply, &ask.shape) {
            Err(misfit) => Verdict::Unclear(misfit),
            Ok(decision) => {
                ask.standing = Standing::Closed { end: End::Answered, at: now.wall };
                ask.passed_on = Some(decision.word()).filter(|_| ask.beside);
                Verdict::Decided(decision)
            }
        }
    }

    /// No hook waits for it any more. `true`: it was open until now.
    pub fn left(&mut self, code: &Code, now: Now) -> bool {
        let Some(ask) = self.asks.get_mut(code) else { return false };
        let Standing::Open { until, .. } = ask.standing else { return false };
        // The hook counts the time, too, and may be the first to be through with it.
        let in_time = until.since(now.mono) > SAME_MOMENT_MS;
        let end = if in_time { End::Left } else { End::Expired };
        ask.standing = Standing::Closed { end, at: now.wall };
        true
    }

    /// The agent's state file changed.
    pub fn file_says(&mut self, state: FileState, now: Now) {
        match &state {
            FileState::Waiting(_) => self.dialog_shows(),
            FileState::Absent => {}
            FileState::Idle | FileState::Busy | FileState::Shell => self.dialog_is_gone(now),
        }
        self.file = state;
    }

    /// A look was taken: it counts where there is no state file.
    pub fn screen_shows(&mut self, class: ScreenClass, now: Now) {
        match class {
            _ if self.file != FileState::Absent => {}
            ScreenClass::Dialog => self.dialog_shows(),
            ScreenClass::Unknown | ScreenClass::Shell => {}
            ScreenClass::Ready | ScreenClass::Draft | ScreenClass::Busy | ScreenClass::Queued => {
                self.dialog_is_gone(now);
            }
        }
    }

    /// The turn is over. What a sub-agent asks may outlast it. Returns what was closed.
    pub fn turn_over(&mut self, session: &SessionId, now: Now) -> Vec<Code> {
        if matches!(self.file, FileState::Waiting(_)) {
            return Vec::new();
        }
        self.close(End::AtTerminal, now, |ask, _| ask.session == *session && !ask.of_sub_agent)
    }

    /// The agent is gone. Returns what was closed.
    pub fn agent_gone(&mut self, now: Now) -> Vec<Code> {
        (self.file, self.gone_at) = (FileState::Absent, None);
        self.close(End::Left, now, |_, _| true)
    }

    fn dialog_shows(&mut self) {
        self.gone_at = None;
        for ask in self.asks.values_mut() {
            if let Standing::Open { shown, .. } = &mut ask.standing {
                *shown = true;
            }
        }
    }

    fn dialog_is_gone(&mut self, now: Now) {
        let is_shown = |ask: &Ask| matches!(ask.standing, Standing::Open { shown: true, .. });
        if self.gone_at.is_none() && self.asks.values().any(is_shown) {
            self.gone_at = Some(now.mono + GONE_AFTER_MS);
        }
    }

    /// When to come back although nothing happened.
    pub fn next_deadline(&self) -> Option<Mono> {
        let open = self.asks.values().filter_map(|ask| match ask.standing {
            Standing::Open { until, .. } => Some(until),
            Standing::Closed { .. } => None,
        });
        open.chain(self.gone_at).min()
    }

    /// Whether a look must tell that the dialog is gone: something is open, and there is no state file.
    pub fn wants_looks(&self) -> bool {
        let is_open = |ask: &Ask| matches!(ask.standing, Standing::Open { .. });
        self.file == FileState::Absent && self.asks.values().any(is_open)
    }

    /// Time has passed. Returns what was closed, and with why.
    pub fn deadline(&mut self, now: Now) -> Vec<(Code, End)> {
        let mut closed = self.close(End::Expired, now, |_, until| now.mono >= until);
        let mut ends: Vec<(Code, End)> = closed.drain(..).map(|code| (code, End::Expired)).collect();
        if self.gone_at.is_some_and(|at| now.mono >= at) {
            self.gone_at = None;
            // The dialog may have been another one's, if a sub-agent asked beside it.
            let is_its_own = |ask: &Ask| !(ask.beside && ask.of_sub_agent);
            let shown =
                |ask: &Ask, _| is_its_own(ask) && matches!(ask.standing, Standing::Open { shown: true, .. });
            ends.extend(
                self.close(End::AtTerminal, now, shown).into_iter().map(|code| (code, End::AtTerminal)),
            );
        }
        ends
    }

    /// Codes that were closed a day ago are nobody's any more. Returns them.
    pub fn forget(&mut self, now: Now) -> Vec<Code> {
        let is_old = |ask: &Ask| match ask.standing {
            Standing::Closed { at, .. } => now.wall.0.saturating_sub(at.0) >= REMEMBERED_MS,
            Standing::Open { .. } => false,
        };
        let old: Vec<Code> =
            self.asks.iter().filter(|(_, ask)| is_old(ask)).map(|(code, _)| code.clone()).collect();
        old.iter().for_each(|code| drop(self.asks.remove(code)));
        old
    }

    fn close(&mut self, end: End, now: Now, which: impl Fn(&Ask, Mono) -> bool) -> Vec<Code> {
        let mut closed = Vec::new();
        for (code, ask) in &mut self.asks {
            if let Standing::Open { until, .. } = ask.standing
                && which(ask, until)
            {
                ask.standing = Standing::Closed { end, at: now.wall };
                closed.push(code.clone());
            }
        }
        closed
    }
}

/// Yes and no are seen in what Claude did; whose answer a question got, only where Claude Code says that a hook gave it.
fn proof_of(word: Word, how: Settled) -> Option<Proof> {
    match (word, how) {
        (_, Settled::Failed) | (Word::Answered, Settled::Granted) => None,
        (Word::Allowed, Settled::Granted | Settled::ByHook { allowed: true })
        | (Word::Denied, Settled::Rejected | Settled::ByHook { allowed: false })
        | (Word::Answered, Settled::ByHook { allowed: true }) => Some(Proof::Holds(word)),
        _ => Some(Proof::Late),
    }
}

/// `allowed` is about people whom only their `meta.sender` tells apart.
fn may_answer(allowed: &[String], by: By<'_>) -> bool {
    match by {
        By::Trusted => true,
        By::Sender(_) if allowed.is_empty() => true,
        By::Sender(sender) => sender.is_some_and(|sender| allowed.iter().any(|name| name == sender)),
    }
}

#[cfg(test)]
mod tests;
