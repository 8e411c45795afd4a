//! `ccmux adapter cron`: messages at times, each occurrence once.
//!
//! ```text
//! alarm ─► Schedule::due(now) ─► waiting ─► post, again and again ─► the daemon has it
//!            crontab, what was seen            id = line's hash + occurrence
//! ```
//!
//! It stores nothing. An occurrence has the same id whoever computes it, so a second process, a restart in the same
//! minute, or a clock that is set back changes nothing: the daemon accepts an id once. What came due while no adapter
//! ran is left out, but for what `--catch-up` reaches.

mod alarm;
mod crontab;
mod moment;
mod schedule;

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::time::Duration;

use ccmux_wire::control::SendRequest;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use self::alarm::{Alarm, Wake};
use self::crontab::Entry;
use self::schedule::{Due, Schedule};
use super::arguments::CronOptions;
use super::{is_refusal, note, post};
use crate::failure::Failure;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// So many occurrences wait for a daemon that is away; then the oldest go.
const MOST_WAITING: usize = 10_000;

pub fn run(dir: &Path, options: CronOptions) -> Result<(), Failure> {
    let now = Timestamp::now();
    let entries = read(&options, now)?;
    let failed = |error| Failure::Failed(format!("can't keep times: {error}"));
    let alarm = Alarm::new().map_err(failed)?;
    let schedule = Schedule::new(entries, now, options.catch_up);
    let mut cron = Cron { dir, options, schedule, waiting: VecDeque::new(), pause: FIRST_PAUSE };
    loop {
        let at_most = cron.step(Timestamp::now());
        match alarm.wait(cron.schedule.next(), at_most).map_err(failed)? {
            Wake::Alarm => {}
            Wake::Reload => cron.reload(Timestamp::now()),
            Wake::End => break,
        }
    }
    cron.say_goodbye();
    Ok(())
}

/// The entries of the file, or of the command line.
fn read(options: &CronOptions, now: Timestamp) -> Result<Vec<Entry>, Failure> {
    let Some(path) = &options.file else {
        let pairs = options.at.chunks_exact(2);
        let entry = |pair: &[String]| {
            Entry::new(&pair[0], &pair[1], options.channel.clone(), TimeZone::system(), now)
        };
        return pairs.map(entry).collect::<Result<_, _>>().map_err(Failure::Refused);
    };
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::Failed(format!("can't read {}: {error}", path.display())))?;
    crontab::parse(&text, &options.channel, now).map_err(|bad| {
        let lines: Vec<String> = bad.iter().map(|line| format!("{}, {line}", path.display())).collect();
        Failure::Refused(lines.join("; "))
    })
}

/// What was due, and what the daemon does not have yet.
struct Cron<'a> {
    dir: &'a Path,
    options: CronOptions,
    schedule: Schedule,
    waiting: VecDeque<Due>,
    pause: Duration,
}

impl Cron<'_> {
    /// Sends what is due; the time until another attempt makes sense, if one failed.
    fn step(&mut self, now: Timestamp) -> Option<Duration> {
        let (due, missed) = self.schedule.due(now);
        if let Some(missed) = missed {
            note("cron", &format!("left out what came due before {missed}: --catch-up would reach further"));
        }
        self.waiting.extend(due);
        self.drop_oldest();
        while let Some(due) = self.waiting.front() {
            match post(self.dir, message(due)) {
                Err(failure) if !is_refusal(&failure) => return Some(self.try_later(&failure)),
                Err(failure) => note("cron", &format!("{failure}: {}", due.id)),
                Ok(_) => {}
            }
            self.waiting.pop_front();
            self.pause = FIRST_PAUSE;
        }
        None
    }

    /// In one note, however many: the log must not be flooded either.
    fn drop_oldest(&mut self) {
        let too_many = self.waiting.len().saturating_sub(MOST_WAITING);
        if let Some(last) = self.waiting.drain(..too_many).next_back() {
            note("cron", &format!("dropped {too_many}: too many wait for the daemon: up to {}", last.id));
        }
    }

    /// Tells the first of several failures in a row.
    fn try_later(&mut self, failure: &Failure) -> Duration {
        if self.pause == FIRST_PAUSE {
            note("cron", &format!("{failure}; trying on"));
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause
    }

    /// A file that can't be kept changes nothing.
    fn reload(&mut self, now: Timestamp) {
        match read(&self.options, now) {
            Ok(entries) => self.schedule.replace(entries, now),
            Err(failure) => note("cron", &format!("{failure}: the old lines stay")),
        }
    }

    fn say_goodbye(&self) {
        if !self.waiting.is_empty() {
            let count = self.waiting.len();
            note(
                "cron",
                &format!("{count} wait for the daemon and are not sent: start again with --catch-up"),
            );
        }
    }
}

fn message(due: &Due) -> SendRequest {
    SendRequest {
        channel: Some(due.channel.to_string()),
        content: due.text.clone(),
        id: Some(due.id.clone()),
        // When it was due, however late the daemon gets it.
        ts: Some(due.at.as_second() as f64),
        meta: None,
        wait: None,
        timeout_s: None,
    }
}
