//! The lines of a crontab: five fields or a nickname, then the message. Pure: no clock, no file.
//!
//! ```text
//! # comments and empty lines                     CHANNEL=reports         for the lines below
//! */5 8-18 * * MON-FRI  look at the queue        CRON_TZ=Europe/Berlin   for the lines below
//! @daily                what happened yesterday?
//! ```

use ccmux_wire::channel::ChannelName;
use croner::Cron;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use sha2::{Digest, Sha256};

use super::moment::Moment;

/// How much of the hash is in an id: enough for any crontab, short enough to be read.
const HASH_BYTES: usize = 6;

const FORM: &str = "(minute hour day month weekday, as in */5 8-18 * * MON-FRI, or @daily)";

/// The fields of a line, what each may be, and nicknames for all five.
const FIELDS: [(&str, &str); 5] = [
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day", "1 to 31"),
    ("month", "1 to 12 or JAN to DEC"),
    ("weekday", "0 to 7 or SUN to SAT"),
];
const NICKNAMES: &str = "@hourly, @daily, @weekly, @monthly, @yearly";

/// A line that can't be kept: where, and why.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct BadLine {
    pub line: usize,
    pub why: String,
}

/// When which message goes to which channel.
#[derive(Debug, Clone)]
pub struct Entry {
    pub channel: ChannelName,
    pub text: String,
    pattern: Cron,
    zone: TimeZone,
}

impl Entry {
    /// From a pattern and a message; `now` only to see whether the pattern ever comes true.
    pub fn new(
        pattern: &str,
        text: &str,
        channel: ChannelName,
        zone: TimeZone,
        now: Timestamp,
    ) -> Result<Self, String> {
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let parsed = parser.parse(pattern).map_err(|error| {
            format!("the time {pattern:?}: {} {FORM}", objection(&parser, pattern, error))
        })?;
        if text.trim().is_empty() {
            return Err(format!("no message behind the time {pattern:?}"));
        }
        let entry = Self { channel, text: text.trim().to_owned(), pattern: parsed, zone };
        if entry.next_after(now).is_none() {
            return Err(format!("the time {pattern:?} never comes"));
        }
        Ok(entry)
    }

    /// The first time after that moment.
    pub fn next_after(&self, moment: Timestamp) -> Option<Timestamp> {
        let start = Moment(moment.to_zoned_datetime(self.zone.clone()));
        self.pattern.find_next_occurrence(&start, false).ok().map(|next| next.0.timestamp())
    }

    /// The same for the same line at the same time, whoever computes it.
    pub fn id_at(&self, occurrence: Timestamp) -> String {
        let hash = Sha256::digest(format!("{}\0{}", self.pattern.as_str(), self.text));
        let short: String = hash.iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect();
        format!("cron-{short}-{}", occurrence.as_second())
    }
}

/// What is wrong with a pattern: which field, since the parser tells a line as a whole.
fn objection(parser: &CronParser, pattern: &str, error: CronError) -> String {
    if pattern.starts_with('@') {
        return format!("there is no such nickname: use {NICKNAMES}");
    }
    let fields: Vec<&str> = pattern.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return format!("{} of {} fields", fields.len(), FIELDS.len());
    }
    let is_bad = |place: usize, part: &str| {
        let mut alone = ["*"; FIELDS.len()];
        alone[place] = part;
        parser.parse(&alone.join(" ")).is_err()
    };
    let parts =
        fields.iter().enumerate().flat_map(|(place, field)| field.split(',').map(move |part| (place, part)));
    match parts.into_iter().find(|(place, part)| is_bad(*place, part)) {
        Some((place, part)) => {
            let (name, limits) = FIELDS[place];
            format!("the {name} {part:?} can't be used: give {limits}")
        }
        None => error.to_string(),
    }
}

/// What lines say that others stand below.
struct Below {
    channel: ChannelName,
    zone: TimeZone,
}

/// Reads a crontab. Every bad line is told, not just the first one.
pub fn parse(text: &str, channel: &ChannelName, now: Timestamp) -> Result<Vec<Entry>, Vec<BadLine>> {
    let mut below = Below { channel: channel.clone(), zone: TimeZone::system() };
    let (mut entries, mut bad) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        match parse_line(line.trim(), &mut below, now) {
            Ok(entry) => entries.extend(entry),
            Err(why) => bad.push(BadLine { line: number + 1, why }),
        }
    }
    if bad.is_empty() { Ok(entries) } else { Err(bad) }
}

fn parse_line(line: &str, below: &mut Below, now: Timestamp) -> Result<Option<Entry>, String> {
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    if let Some((name, value)) = assignment(line) {
        below.set(name, value)?;
        return Ok(None);
    }
    let fields = if line.starts_with('@') { 1 } else { 5 };
    let (pattern, text) = split_fields(line, fields);
    Entry::new(&pattern, text, below.channel.clone(), below.zone.clone(), now).map(Some)
}

/// `NAME=value`, as crontabs have it; a message may hold a `=`, too.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end();
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    is_name.then(|| (name, value.trim().trim_matches('"')))
}

impl Below {
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "CHANNEL" => self.channel = value.parse().map_err(|error| format!("CHANNEL={value}: {error}"))?,
            "CRON_TZ" => {
                self.zone = TimeZone::get(value).map_err(|error| format!("CRON_TZ={value}: {error}"))?;
            }
            _ => return Err(format!("{name}= means nothing here: use CHANNEL= or CRON_TZ=")),
        }
        Ok(())
    }
}

/// The first fields, parted by one blank each, and the rest.
fn split_fields(line: &str, count: usize) -> (String, &str) {
    let (mut fields, mut rest) = (Vec::new(), line);
    for _ in 0..count {
        let (field, behind) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        fields.push(field);
        rest = behind.trim_start();
    }
    (fields.join(" ").trim_end().to_owned(), rest)
}

#[cfg(test)]
mod tests;
