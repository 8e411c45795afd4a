//! Events and effects as lines of text: what the recorder writes, what a test is, what `cargo xtask replay` runs.
//!
//! ```text
//! # A message that comes while Claude is idle goes in at once.     a comment
//! set idle_threshold_ms=0                                          a setting, before the first event
//! 0      > agent_found pid=100 session=s1                          at 0 ms this happened
//! 0      < look look=1                                             ... and this was ordered at once
//! 40     > screen_seen look=1 class=ready holds=nothing
//! 5000   < alert kind=stuck ...                                    a deadline; `...` leaves the rest open
//! 6000   = closed: draft: somebody's text is in the prompt box     what `ccmux why` would say
//! ```
//!
//! Behind `; ` a line of what `ccmux why` says may go on with what opens the gate, and when it is asked again.
//!
//! A recording of a real run has lines of one more kind, and every deadline is an event of its own (`> deadline_passed`): a
//! real clock is always a little late, so that nothing may pass by itself.
//!
//! ```text
//! 0      @ wall_ms=1764324000123 utc_offset_s=3600                 the wall clock, at first and wherever it jumped
//! ```
//!
//! Every order must be listed, in order, at its time: a timeline says everything that happens. Values are JSON, or plain
//! words where no quotes are needed. It knows no event by name: the names come from the types.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::effect::Effect;
use crate::event::Event;
use crate::now::{Mono, Now, UnixMs};
use crate::settings::PolicySettings;
use crate::supervisor::Supervisor;

/// The wall clock at 0 ms of a timeline: a round number that people recognise (2001-09-09T01:46:40Z).
pub const WALL_AT_ZERO: UnixMs = UnixMs(1_000_000_000_000);

/// An event as text.
pub fn event_line(event: &Event) -> String {
    line_of(event, "event")
}

/// An effect as text.
pub fn effect_line(effect: &Effect) -> String {
    line_of(effect, "effect")
}

/// What a policy is begun with.
pub fn settings_line(settings: &PolicySettings) -> String {
    let fields = serde_json::to_value(settings).ok().and_then(|value| value.as_object().cloned());
    format!("set{}", fields_text(fields.unwrap_or_default()))
}

/// What the wall clock shows at a moment, behind its `@`.
pub fn wall_line(now: Now) -> String {
    format!("wall_ms={} utc_offset_s={}", now.wall.0, now.utc_offset_s)
}

fn line_of(value: &impl Serialize, tag: &str) -> String {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(value) else {
        return "unprintable".to_owned();
    };
    let name = match fields.remove(tag) {
        Some(Value::String(name)) => name,
        _ => "unnamed".to_owned(),
    };
    name + &fields_text(fields)
}

fn fields_text(fields: Map<String, Value>) -> String {
    fields.iter().map(|(key, value)| format!(" {key}={}", value_text(value))).collect()
}

/// A word stands for itself unless it would read as something else.
fn value_text(value: &Value) -> String {
    match value {
        Value::String(word) if is_plain(word) => word.clone(),
        other => other.to_string(),
    }
}

fn is_plain(word: &str) -> bool {
    let plain = |c: char| !c.is_whitespace() && !"\"={}[],".contains(c);
    !word.is_empty() && word.chars().all(plain) && serde_json::from_str::<Value>(word).is_err()
}

/// Reads an event from its text.
///
/// # Errors
/// A sentence that says what does not fit.
pub fn parse_event(line: &str) -> Result<Event, String> {
    parse(line, "event")
}

fn parse<T: DeserializeOwned>(line: &str, tag: &str) -> Result<T, String> {
    let (name, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let mut fields = parse_fields(rest)?;
    fields.insert(tag.to_owned(), Value::String(name.to_owned()));
    serde_json::from_value(Value::Object(fields)).map_err(|error| format!("{line:?}: {error}"))
}

fn parse_fields(mut rest: &str) -> Result<Map<String, Value>, String> {
    let mut fields = Map::new();
    while let Some((key, tail)) = rest.trim_start().split_once('=') {
        let (value, after) = parse_value(tail).map_err(|error| format!("{key}: {error}"))?;
        fields.insert(key.to_owned(), value);
        rest = after;
    }
    match rest.trim() {
        "" => Ok(fields),
        left => Err(format!("{left:?} is not of the form key=value")),
    }
}

fn parse_value(text: &str) -> Result<(Value, &str), String> {
    if text.starts_with(['"', '{', '[']) {
        let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let value = stream.next().ok_or("a value is missing")?.map_err(|error| error.to_string())?;
        return Ok((value, &text[stream.byte_offset()..]));
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let word = &text[..end];
    let value = serde_json::from_str(word).unwrap_or_else(|_| Value::String(word.to_owned()));
    Ok((value, &text[end..]))
}

/// One line of a timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step<'a> {
    Happened(&'a str),
    Ordered(&'a str),
    Says(&'a str),
    Wall(&'a str),
}

/// Runs a timeline against a new policy.
///
/// # Errors
/// The first line that does not hold, with its number and what happened instead.
pub fn replay(text: &str) -> Result<(), String> {
    let mut run = Run::new(parse_settings(text)?);
    for (index, line) in text.lines().enumerate() {
        let line = line.split_once("  #").map_or(line, |(before, _)| before).trim();
        if line.is_empty() || line.starts_with('#') || line.starts_with("set ") {
            continue;
        }
        parse_step(line)
            .and_then(|(at, step)| run.step(at, &step))
            .map_err(|error| format!("line {}: {error}", index + 1))?;
    }
    run.nothing_left()
}

/// Runs the events of a timeline and writes what is ordered between them: how a new timeline, or one from the field, is
/// looked at.
///
/// # Errors
/// The first line that can't be read.
pub fn trace(text: &str) -> Result<String, String> {
    let mut run = Run::new(parse_settings(text)?);
    let mut written = String::new();
    for (index, line) in text.lines().enumerate() {
        let step = line.split_once("  #").map_or(line, |(before, _)| before).trim();
        if step.is_empty() || step.starts_with('#') || step.starts_with("set ") {
            written.push_str(&format!("{line}\n"));
            continue;
        }
        match parse_step(step).map_err(|error| format!("line {}: {error}", index + 1))? {
            (_, Step::Ordered(_)) => {}
            (at, Step::Happened(event)) => {
                written.push_str(&run.orders_until(at));
                written.push_str(&format!("{:<6} > {event}\n", at.0));
                run.policy.handle(parse_event(event)?, run.now());
                written.push_str(&run.orders_until(at));
            }
            (at, Step::Says(_)) => {
                written.push_str(&run.orders_until(at));
                written.push_str(&format!("{:<6} = {}\n", at.0, run.why()));
            }
            (at, Step::Wall(fields)) => {
                written.push_str(&run.orders_until(at));
                written.push_str(&format!("{line}\n"));
                run.set_wall(fields)?;
            }
        }
    }
    Ok(written)
}

fn parse_settings(text: &str) -> Result<PolicySettings, String> {
    let mut settings = PolicySettings::default();
    for line in text.lines().filter_map(|line| line.trim().strip_prefix("set ")) {
        for (key, value) in parse_fields(line)? {
            set(&mut settings, &key, &value)?;
        }
    }
    Ok(settings)
}

fn set(settings: &mut PolicySettings, key: &str, value: &Value) -> Result<(), String> {
    let number = value.as_u64().ok_or_else(|| format!("{key}: {value} is no number"));
    match key {
        "idle_threshold_ms" => settings.idle_threshold_ms = number?,
        "batch_bytes" => settings.batch_bytes = number?,
        "backoff_initial_ms" => settings.backoff_initial_ms = number?,
        "backoff_cap_ms" => settings.backoff_cap_ms = number?,
        "draft_max_hold_ms" => settings.draft_max_hold_ms = number?,
        "max_rss" => settings.max_rss = number?,
        "restart_on_exit" => settings.restart_on_exit = value == &Value::Bool(true),
        _ => return Err(format!("there is no setting {key:?}")),
    }
    Ok(())
}

fn parse_step(line: &str) -> Result<(Mono, Step<'_>), String> {
    let (time, rest) = line.split_once(char::is_whitespace).ok_or("a time alone says nothing")?;
    let ms = time.parse().map_err(|_| format!("{time:?} is no time in ms"))?;
    let rest = rest.trim();
    let step = match (rest.get(..1), rest.get(1..).map(str::trim)) {
        (Some(">"), Some(text)) => Step::Happened(text),
        (Some("<"), Some(text)) => Step::Ordered(text),
        (Some("="), Some(text)) => Step::Says(text),
        (Some("@"), Some(text)) => Step::Wall(text),
        _ => return Err(format!("{rest:?} begins with none of `>` `<` `=` `@`")),
    };
    Ok((Mono(ms), step))
}

/// A policy on simulated time.
struct Run {
    policy: Supervisor,
    at: Mono,
    wall_at_zero: i64,
    utc_offset_s: i32,
    /// A recording: deadlines pass where it says so.
    recorded: bool,
}

impl Run {
    fn new(settings: PolicySettings) -> Self {
        Self {
            policy: Supervisor::new(settings),
            at: Mono(0),
            wall_at_zero: WALL_AT_ZERO.0,
            utc_offset_s: 0,
            recorded: false,
        }
    }

    fn now(&self) -> Now {
        let wall = UnixMs(self.wall_at_zero + self.at.0 as i64);
        Now { mono: self.at, wall, utc_offset_s: self.utc_offset_s }
    }

    fn set_wall(&mut self, line: &str) -> Result<(), String> {
        let fields = parse_fields(line)?;
        let number = |key: &str| fields.get(key).and_then(Value::as_i64).ok_or(format!("{key} is missing"));
        self.wall_at_zero = number("wall_ms")? - self.at.0 as i64;
        self.utc_offset_s = i32::try_from(number("utc_offset_s")?).map_err(|error| error.to_string())?;
        self.recorded = true;
        Ok(())
    }

    fn step(&mut self, at: Mono, step: &Step<'_>) -> Result<(), String> {
        if at < self.at {
            return Err(format!("{at} is before {}", self.at));
        }
        match step {
            Step::Ordered(expected) => self.expect_order(at, expected),
            Step::Happened(text) => {
                self.advance_quietly(at)?;
                let event = parse_event(text)?;
                self.policy.handle(event, self.now());
                Ok(())
            }
            Step::Wall(fields) => {
                self.advance_quietly(at)?;
                self.set_wall(fields)
            }
            Step::Says(expected) => {
                self.advance_quietly(at)?;
                let said = self.why();
                let holds = [said.as_str(), said.split("; opens when ").next().unwrap_or_default()];
                let holds = holds.iter().any(|said| matches_line(expected, said));
                holds.then_some(()).ok_or_else(|| format!("ccmux why says {said:?}"))
            }
        }
    }

    fn why(&self) -> String {
        let status = self.policy.status(self.now());
        let look = status.next_look_ms.map_or("at the next event".to_owned(), |ms| format!("in {ms} ms"));
        format!("{}; opens when {}; next look {look}", status.gate, status.opens_when)
    }

    /// Lets deadlines pass until an order comes, at most until `at`.
    fn expect_order(&mut self, at: Mono, expected: &str) -> Result<(), String> {
        loop {
            if let Some(effect) = self.policy.next_effect() {
                let line = effect_line(&effect);
                return match matches_line(expected, &line) && self.at == at {
                    true => Ok(()),
                    false => Err(format!("at {} was ordered: {line}", self.at)),
                };
            }
            if !self.pass_deadline(at) {
                return Err("nothing was ordered".to_owned());
            }
        }
    }

    fn orders_until(&mut self, at: Mono) -> String {
        let mut lines = String::new();
        loop {
            while let Some(effect) = self.policy.next_effect() {
                lines.push_str(&format!("{:<6} < {}\n", self.at.0, effect_line(&effect)));
            }
            if !self.pass_deadline(at) {
                self.at = at;
                return lines;
            }
        }
    }

    fn advance_quietly(&mut self, at: Mono) -> Result<(), String> {
        loop {
            if let Some(effect) = self.policy.next_effect() {
                return Err(format!("not expected: {} < {}", self.at.0, effect_line(&effect)));
            }
            if !self.pass_deadline(at) {
                self.at = at;
                return Ok(());
            }
        }
    }

    fn pass_deadline(&mut self, until: Mono) -> bool {
        let deadline = self.policy.next_deadline().filter(|deadline| *deadline <= until && !self.recorded);
        let Some(deadline) = deadline else {
            return false;
        };
        // A deadline in the past passes now; time never stands still for ever.
        let next = deadline.max(self.at);
        if next == self.at && deadline < self.at {
            self.at = self.at + 1;
        } else {
            self.at = next;
        }
        self.policy.handle(Event::DeadlinePassed, self.now());
        true
    }

    fn nothing_left(mut self) -> Result<(), String> {
        match self.policy.next_effect() {
            None => Ok(()),
            Some(effect) => Err(format!("not expected at the end: {} < {}", self.at.0, effect_line(&effect))),
        }
    }
}

/// `...` at the end leaves the rest open.
fn matches_line(expected: &str, line: &str) -> bool {
    match expected.strip_suffix("...") {
        Some(head) => line.starts_with(head.trim_end()),
        None => line == expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_reads_back_from_its_line() {
        for line in [
            "daemon_started next_batch=7",
            "message_accepted bytes=12 channel=telegram id=3 rows=1",
            "session fact=turn_ended origin=own background=0 prompt=p1 session=s1",
            r#"state_file_read status=waiting waiting_for="permission prompt""#,
            "screen_seen active_at=1000 class=draft copy_mode=true holds=foreign look=9",
            "agent_exited pid=4 status={\"code\":1}",
            "pane_silent",
        ] {
            let event = parse_event(line).unwrap();
            let again = parse_event(&event_line(&event)).unwrap();
            assert_eq!(event, again, "{line}");
        }
    }

    #[test]
    fn a_session_whose_name_looks_like_a_number_stays_text() {
        let line = r#"agent_found pid=1 session="42""#;
        assert_eq!(event_line(&parse_event(line).unwrap()), line);
    }

    #[test]
    fn settings_read_back_from_their_line() {
        let settings =
            PolicySettings { idle_threshold_ms: 7, restart_on_exit: false, ..PolicySettings::default() };
        assert_eq!(parse_settings(&settings_line(&settings)).unwrap(), settings);
    }

    #[test]
    fn in_a_recording_deadlines_pass_where_it_says_so() {
        let begin = "0 @ wall_ms=5 utc_offset_s=0\n0 > agent_missing\n1 > agent_start_failed reason=x\n";
        let starts = |text: &str| trace(text).unwrap().matches("< start_agent").count();
        let late = format!("{begin}9000 > deadline_passed\n");
        assert_eq!((starts(&late), starts(&format!("{begin}9000 > pane_silent\n"))), (2, 2));
        assert_eq!((starts(begin), replay(&trace(&late).unwrap())), (1, Ok(())));
        assert!(trace(&late).unwrap().contains("9000   < start_agent"), "it is not ordered before");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        assert!(parse_event("explode now=1").unwrap_err().contains("explode"));
        assert!(replay("0 > daemon_started next_batch=1\n0 < start_agent").unwrap_err().contains("line 2"));
        assert!(replay("set speed=1").unwrap_err().contains("speed"));
    }

    #[test]
    fn an_order_that_a_timeline_does_not_list_is_an_error() {
        let error = replay("0 > agent_missing\n100 > pane_silent").unwrap_err();
        assert!(error.contains("start_agent"), "{error}");
    }
}
