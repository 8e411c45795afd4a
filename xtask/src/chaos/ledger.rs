//! The account: what the writers wrote against what the agents took, with ccmux's own records between them.
//!
//! ```text
//! writers ──► inbox.db ──► agents' journals ──► transcripts            each message: once in every column,
//! written     recorded     submitted            taken                  or uncertain with a reason
//! ```
//!
//! A message that an agent took and died of before its transcript had it is *lost with the agent*: the hook proved the
//! delivery, and the conversation is not ccmux's. It is counted, and only then is no entry in the transcript right.
//!
//! Pure: [`judge`] compares, others fetch.

use std::collections::{BTreeMap, BTreeSet};

use super::journal::{Life, Submitted};
use super::records::{Recorded, Told};
use super::token::Token;
use super::writers::Written;

/// A write without a holder that returned that shortly before a kill may have been in the pipe.
const IN_PIPE_WITHIN_MS: i64 = 2_000;

/// Everything that was seen.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// FIFOs were held: nothing may be lost in a pipe.
    pub holder: bool,
    pub written: Written,
    /// Taken out of pipes that died with their reader.
    pub in_pipe: BTreeSet<Token>,
    /// When daemons were killed, Unix ms.
    pub kills: Vec<i64>,
    pub recorded: Vec<Recorded>,
    pub lives: Vec<Life>,
    /// Agents that were killed.
    pub killed_agents: BTreeSet<i32>,
    pub submitted: Vec<Submitted>,
    /// In the transcripts, in order.
    pub taken: Vec<Token>,
    /// Prompts whose turns came to an end.
    pub finished: BTreeSet<String>,
    pub told: Vec<Told>,
    pub heard: Vec<u64>,
    /// What others found.
    pub findings: Vec<String>,
}

/// What came out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    pub written: usize,
    pub accepted: usize,
    pub taken: usize,
    pub uncertain: BTreeMap<String, usize>,
    pub lost_in_pipe: usize,
    pub lost_with_agent: usize,
    pub redelivered: usize,
    pub submitted_again: usize,
    pub losses: usize,
    pub doubles: usize,
    pub order_faults: usize,
    pub turns: usize,
    pub partial_turns: usize,
    /// Milliseconds from accepted to delivered, in order.
    pub took: Vec<i64>,
    pub by_hook: usize,
    /// What must not be.
    pub violations: Vec<String>,
}

impl Verdict {
    /// The duration that so many of a hundred messages stayed below.
    pub fn percentile(&self, percent: usize) -> i64 {
        let at = (self.took.len() * percent / 100).min(self.took.len().saturating_sub(1));
        self.took.get(at).copied().unwrap_or(0)
    }

    fn violated(&mut self, what: String) {
        self.violations.push(what);
    }
}

/// Compares.
pub fn judge(evidence: &Evidence) -> Verdict {
    let mut verdict =
        Verdict { written: evidence.written.len(), taken: evidence.taken.len(), ..Verdict::default() };
    verdict.violations.extend(evidence.findings.iter().cloned());
    let rows = rows(evidence, &mut verdict);
    acceptance(evidence, &rows, &mut verdict);
    let times = counted(&evidence.taken);
    for (token, row) in &rows {
        fate(evidence, *token, row, times.get(token).copied().unwrap_or(0), &mut verdict);
    }
    for token in times.keys().filter(|token| !rows.contains_key(token)) {
        verdict.violated(format!("{token} was taken, and the inbox does not know it"));
    }
    repeats(evidence, &mut verdict);
    order(evidence, &rows, &mut verdict);
    lines(evidence, &mut verdict);
    verdict.took.sort_unstable();
    verdict
}

fn counted(tokens: &[Token]) -> BTreeMap<Token, usize> {
    let mut times = BTreeMap::new();
    tokens.iter().for_each(|token| *times.entry(*token).or_default() += 1);
    times
}

fn rows<'a>(evidence: &'a Evidence, verdict: &mut Verdict) -> BTreeMap<Token, &'a Recorded> {
    let mut rows = BTreeMap::new();
    for row in &evidence.recorded {
        match row.tokens[..] {
            [token] => {
                if rows.insert(token, row).is_some() {
                    verdict.doubles += 1;
                    verdict.violated(format!("{token} was accepted twice"));
                }
            }
            _ => verdict.violated(format!("a message was torn or merged: {:?}", row.tokens)),
        }
    }
    verdict.accepted = rows.len();
    rows
}

fn acceptance(evidence: &Evidence, rows: &BTreeMap<Token, &Recorded>, verdict: &mut Verdict) {
    for (token, at) in evidence.written.iter().filter(|(token, _)| !rows.contains_key(token)) {
        let kill_followed =
            || evidence.kills.iter().any(|kill| (0..IN_PIPE_WITHIN_MS).contains(&(kill - at)));
        if !evidence.holder && (evidence.in_pipe.contains(token) || kill_followed()) {
            verdict.lost_in_pipe += 1;
            continue;
        }
        verdict.losses += 1;
        verdict.violated(format!("{token} was written at {at} and never accepted"));
    }
}

/// One message, taken so many times.
fn fate(evidence: &Evidence, token: Token, row: &Recorded, times: usize, verdict: &mut Verdict) {
    verdict.redelivered += usize::from(row.redelivered);
    if times > 1 {
        verdict.doubles += times - 1;
        verdict.violated(format!("{token} was taken {times} times"));
    }
    match row.state.as_str() {
        "delivered" | "answered" => delivered(evidence, token, row, times, verdict),
        "uncertain" => uncertain(evidence, token, row, verdict),
        state => {
            verdict.losses += usize::from(times == 0);
            let reason = row.reason.as_deref().unwrap_or("no reason");
            verdict.violated(format!("{token} was taken {times} times and ended {state} ({reason})"));
        }
    }
}

fn delivered(evidence: &Evidence, token: Token, row: &Recorded, times: usize, verdict: &mut Verdict) {
    verdict.took.extend(row.delivered_at.map(|at| at - row.accepted_at));
    verdict.by_hook += usize::from(row.proof.as_deref() == Some("hook"));
    if times > 0 {
        return;
    }
    let agent = evidence.submitted.iter().rev().find(|one| one.token == token).map(|one| one.pid);
    if row.proof.as_deref() == Some("hook") && agent.is_some_and(|pid| evidence.killed_agents.contains(&pid))
    {
        verdict.lost_with_agent += 1;
        return;
    }
    verdict.losses += 1;
    verdict.violated(format!("{token} is called delivered (proof {:?}) and was never taken", row.proof));
}

fn uncertain(evidence: &Evidence, token: Token, row: &Recorded, verdict: &mut Verdict) {
    let reason = row.reason.clone().unwrap_or_default();
    *verdict.uncertain.entry(reason.clone()).or_default() += 1;
    let had_it = |life: &&Life| Some(life.pid) == row.agent && life.at <= row.typed_at;
    let agent = evidence.lives.iter().filter(had_it).max_by_key(|life| life.at);
    if agent.is_none_or(|life| life.hooks) {
        verdict.violated(format!("{token} is uncertain although hooks were there: {reason}"));
    }
}

/// Whoever types a message again says so.
fn repeats(evidence: &Evidence, verdict: &mut Verdict) {
    let mut seen = BTreeSet::new();
    for one in &evidence.submitted {
        if seen.insert(one.token) {
            continue;
        }
        verdict.submitted_again += 1;
        if !one.redelivered {
            verdict.violated(format!("{} was submitted again at {} without saying so", one.token, one.at));
        }
    }
}

fn order(evidence: &Evidence, rows: &BTreeMap<Token, &Recorded>, verdict: &mut Verdict) {
    let mut last: BTreeMap<u16, Token> = BTreeMap::new();
    let is_certain = |token: &&Token| rows.get(token).is_none_or(|row| row.state != "uncertain");
    for token in evidence.taken.iter().filter(is_certain) {
        if let Some(before) = last.insert(token.channel, *token)
            && before >= *token
        {
            verdict.order_faults += 1;
            verdict.violated(format!("{token} came after {before}"));
        }
    }
}

/// What `output.sock` told: each line once, each prompt in one turn.
fn lines(evidence: &Evidence, verdict: &mut Verdict) {
    let told: BTreeSet<u64> = evidence.told.iter().map(|line| line.seq).collect();
    let heard: BTreeSet<u64> = evidence.heard.iter().copied().collect();
    let missed: Vec<_> = told.difference(&heard).take(5).collect();
    if !missed.is_empty() {
        verdict.violated(format!("the subscriber missed lines of output.sock, first {missed:?}"));
    }
    let unknown: Vec<_> = heard.difference(&told).take(5).collect();
    if !unknown.is_empty() {
        verdict.violated(format!("the subscriber heard lines that no database holds: {unknown:?}"));
    }
    let mut prompts: BTreeSet<&str> = BTreeSet::new();
    for (line, prompt) in evidence.told.iter().filter_map(|line| Some((line, line.prompt.as_deref()?))) {
        verdict.turns += 1;
        verdict.partial_turns += usize::from(line.partial);
        if !prompts.insert(prompt) {
            verdict.violated(format!("line {}: a second turn of one prompt", line.seq));
        }
    }
    for prompt in evidence.finished.iter().filter(|prompt| !prompts.contains(prompt.as_str())) {
        verdict.violated(format!("the turn of prompt {prompt} ended and was never told"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Token = Token { channel: 1, number: 1 };
    const B: Token = Token { channel: 1, number: 2 };

    fn row(token: Token, state: &str) -> Recorded {
        Recorded {
            tokens: vec![token],
            state: state.to_owned(),
            proof: (state == "delivered").then(|| "hook".to_owned()),
            accepted_at: 100,
            delivered_at: (state == "delivered").then_some(400),
            agent: Some(7),
            typed_at: 50,
            ..Recorded::default()
        }
    }

    fn submitted(token: Token, redelivered: bool) -> Submitted {
        Submitted { token, pid: 7, at: 5, redelivered }
    }

    /// Two messages, all well.
    fn well() -> Evidence {
        Evidence {
            holder: true,
            written: [(A, 1), (B, 2)].into(),
            recorded: vec![row(A, "delivered"), row(B, "delivered")],
            lives: vec![Life { pid: 7, at: 10, hooks: true }],
            submitted: vec![submitted(A, false), submitted(B, false)],
            taken: vec![A, B],
            finished: ["p".to_owned()].into(),
            told: vec![Told { seq: 1, prompt: Some("p".into()), partial: false }],
            heard: vec![1],
            ..Evidence::default()
        }
    }

    fn violations(change: impl FnOnce(&mut Evidence)) -> Vec<String> {
        let mut evidence = well();
        change(&mut evidence);
        judge(&evidence).violations
    }

    fn found(what: &str, change: impl FnOnce(&mut Evidence)) {
        let violations = violations(change);
        assert!(violations.iter().any(|one| one.contains(what)), "{what:?} is not among {violations:?}");
    }

    #[test]
    fn a_run_in_which_all_went_well_has_no_violations() {
        let verdict = judge(&well());
        assert_eq!(verdict.violations, Vec::<String>::new());
        assert_eq!((verdict.written, verdict.accepted, verdict.taken, verdict.by_hook), (2, 2, 2, 2));
        assert_eq!((verdict.percentile(50), verdict.percentile(99)), (300, 300));
    }

    #[test]
    fn every_kind_of_loss_and_double_is_found() {
        found("never accepted", |all| all.recorded.truncate(1));
        found("accepted twice", |all| all.recorded.push(row(A, "delivered")));
        found("torn or merged", |all| all.recorded[0].tokens.push(B));
        found("taken 2 times", |all| all.taken.push(B));
        found("never taken", |all| all.taken.truncate(1));
        found("ended accepted", |all| all.recorded[1] = row(B, "accepted"));
        found("does not know it", |all| all.taken.push(Token { channel: 9, number: 9 }));
        found("without saying so", |all| all.submitted.push(submitted(B, false)));
        found("came after", |all| all.taken = vec![B, A]);
        found("although hooks were there", |all| all.recorded[1] = row(B, "uncertain"));
        found("missed lines", |all| all.heard.clear());
        found("no database holds", |all| all.heard.push(2));
        found("a second turn", |all| {
            all.told.push(Told { seq: 2, prompt: Some("p".into()), partial: false })
        });
        found("never told", |all| all.finished.extend(["q".to_owned()]));
        found("typed", |all| all.findings.push("'x' typed outside a paste".into()));
    }

    #[test]
    fn what_died_with_its_agent_is_counted_and_no_violation() {
        let mut evidence = well();
        evidence.taken.pop();
        evidence.killed_agents.insert(7);
        let verdict = judge(&evidence);
        assert_eq!((verdict.lost_with_agent, verdict.violations.len()), (1, 0));
    }

    #[test]
    fn without_hooks_a_message_may_be_uncertain_and_must_say_why() {
        let mut evidence = well();
        evidence.recorded[1] = Recorded { reason: Some("its text is gone".into()), ..row(B, "uncertain") };
        evidence.lives.push(Life { pid: 7, at: 20, hooks: false });
        evidence.lives.push(Life { pid: 7, at: 90, hooks: true });
        let verdict = judge(&evidence);
        assert_eq!(verdict.uncertain, [("its text is gone".to_owned(), 1)].into());
        assert_eq!(verdict.violations, Vec::<String>::new());
    }

    #[test]
    fn only_without_a_holder_a_message_may_be_lost_in_a_pipe() {
        let mut evidence = well();
        evidence.holder = false;
        evidence.recorded.pop();
        evidence.taken.pop();
        assert_eq!(judge(&evidence).violations.len(), 1, "nothing was in a pipe");
        evidence.in_pipe.insert(B);
        let verdict = judge(&evidence);
        assert_eq!((verdict.lost_in_pipe, verdict.violations.len()), (1, 0));
        evidence.holder = true;
        assert_eq!(judge(&evidence).violations.len(), 1);
    }
}
