//! `ccmux attention`, `ccmux mute`, `ccmux notify --test`: what waits for somebody, and whom that is told.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use ccmux_wire::attention::{MuteRequest, Standing, WaitingItem};
use ccmux_wire::control::Request;

use crate::arguments::{AttentionOptions, MuteOptions};
use crate::client::{Answer, Client};
use crate::failure::Failure;
use crate::paper::{ago, harmless, ms_since, span};

/// A watched list is answered after a minute at the latest.
const WATCH_LIMIT: Duration = Duration::from_secs(75);
/// A sound is played to its end, by the second player if the first one hangs.
const TEST_LIMIT: Duration = Duration::from_secs(150);

/// Prints what waits; with `--watch` again whenever it changes.
pub fn run(dir: &Path, options: &AttentionOptions) -> Result<(), Failure> {
    let mut shown = show(Client::ask(dir, Request::Attention { unlike: None })?, options.json)?;
    loop {
        if !options.watch {
            return Ok(());
        }
        let mut client = Client::connect(dir)?;
        client.send(Request::Attention { unlike: Some(shown.clone()) })?;
        let answer = client.answer(Some(WATCH_LIMIT))?;
        let same = answer.reply.attention.as_deref().is_some_and(|now| now.timeless() == shown.timeless());
        if !same {
            shown = show(answer, options.json)?;
        }
    }
}

/// Mutes, and prints what is muted.
pub fn mute(dir: &Path, options: &MuteOptions) -> Result<(), Failure> {
    let request = MuteRequest { what: options.what.clone(), for_s: options.time.0 };
    let standing = standing_of(&Client::ask(dir, Request::Mute(request))?)?;
    let mut out = io::stdout();
    for mute in &standing.mutes {
        let left = whole_seconds(-ms_since(mute.until_ms));
        writeln!(out, "muted: {} for {}", harmless(&mute.what), span(left))?;
    }
    if standing.mutes.is_empty() {
        writeln!(out, "nothing is muted")?;
    }
    Ok(())
}

/// A second that has begun counts: what was muted for 90 min is so for 90 min.
fn whole_seconds(ms: i64) -> i64 {
    ms.max(0).saturating_add(999) / 1000
}

/// Sends a test notice.
pub fn test_route(dir: &Path, route: &str) -> Result<(), Failure> {
    Client::ask_within(dir, Request::TestRoute { route: route.to_owned() }, TEST_LIMIT)?;
    writeln!(io::stdout(), "sent by {}", harmless(route))?;
    Ok(())
}

fn show(answer: Answer, json: bool) -> Result<Standing, Failure> {
    let standing = standing_of(&answer)?;
    let mut out = io::stdout();
    if json {
        writeln!(out, "{}", answer.raw["attention"])?;
        return Ok(standing);
    }
    if standing.items.is_empty() {
        writeln!(out, "nothing waits for you")?;
    }
    for item in &standing.items {
        writeln!(out, "{}", row(item))?;
    }
    for mute in &standing.mutes {
        writeln!(out, "muted: {}", harmless(&mute.what))?;
    }
    Ok(standing)
}

fn row(item: &WaitingItem) -> String {
    let next = match item.next_in_ms {
        _ if item.muted => "muted".to_owned(),
        Some(ms) => format!("next notice in {}", span(i64::try_from(ms / 1000).unwrap_or(i64::MAX))),
        None if item.told == 0 => "nobody is told: no route".to_owned(),
        None => "told".to_owned(),
    };
    let (kind, session, what) = (harmless(&item.kind), harmless(&item.session), harmless(&item.what));
    format!("{kind:14}  {}  {session}  {what}  ({next})", ago(item.since_ms))
}

fn standing_of(answer: &Answer) -> Result<Standing, Failure> {
    let standing = answer.reply.attention.as_deref().cloned();
    standing.ok_or_else(|| Failure::of_nonsense("it does not say what waits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_whom_it_is_told_and_when() {
        let item = WaitingItem {
            kind: "reply".to_owned(),
            session: "s".to_owned(),
            since_ms: 0,
            told: 0,
            next_in_ms: None,
            muted: false,
            what: "it waits".to_owned(),
        };
        let ends_with =
            |item: &WaitingItem, words: &str| assert!(row(item).ends_with(words), "{}", row(item));
        ends_with(&item, "it waits  (nobody is told: no route)");
        ends_with(&WaitingItem { told: 1, ..item.clone() }, "(told)");
        ends_with(&WaitingItem { next_in_ms: Some(90_000), ..item.clone() }, "(next notice in 1 min 30 s)");
        ends_with(&WaitingItem { muted: true, ..item }, "(muted)");
    }

    #[test]
    fn what_is_left_of_a_mute_is_rounded_up() {
        assert_eq!(span(whole_seconds(90 * 60_000 - 7)), "1 h 30 min");
        assert_eq!([whole_seconds(0), whole_seconds(-5), whole_seconds(1)], [0, 0, 1]);
    }
}
