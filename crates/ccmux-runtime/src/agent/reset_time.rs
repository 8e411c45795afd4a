//! When a usage limit ends, by what Claude Code says in a failed turn.
//!
//! ```text
//! You've hit your session limit · resets 3:05pm (Europe/Berlin)       the next 15:05 there
//! You've hit your weekly limit · resets Oct 12, 3pm (UTC)             that day, this year or the next
//! … · resets Jan 2, 2027, 3pm                                         in the machine's own zone
//! Claude AI usage limit reached|1749924000                            older versions: Unix seconds
//! ```
//!
//! The wording was read in 2.1.332. Where nothing of it is found, the time lies too far ahead to be one, its zone is not
//! known here, or it has only just passed (clocks differ, and tomorrow is not meant), the answer is `None`: then pauses grow. A mere warning (`90 % used · resets 3pm`) never comes here: only the text of a failure does.

use std::sync::LazyLock;

use ccmux_policy::UnixMs;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, ZonedDateTime};
use regex::{Captures, Regex};

/// A month's spend limit is the longest one.
const FARTHEST_DAYS: i64 = 32;

/// A time of the clock that passed within that time is not tomorrow's.
const JUST_PASSED_MS: i64 = 30 * 60_000;

/// The text tells minutes: the limit ends within the one that it names.
const MINUTE_MS: i64 = 60_000;

static IN_WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let date = r"(?:(?P<month>[A-Z][a-z]{2})[a-z]* (?P<day>\d{1,2})(?:, (?P<year>\d{4}))?(?:,? (?:at )?)?)?";
    let time = r"(?:(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))? ?(?P<half>[AaPp][Mm]))?";
    Regex::new(&format!(r"\bresets (?:at |on )?{date}{time}(?: \((?P<zone>[A-Za-z0-9_+/-]+)\))?")).ok()
});

static IN_SECONDS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"limit reached\|(?P<seconds>\d{10})\b").ok());

/// The end of the limit that the text tells of, seen from `now`.
pub fn reset_time(text: &str, now: UnixMs) -> Option<UnixMs> {
    let now = Timestamp::from_millisecond(now.0).ok()?;
    let at = in_seconds(text).or_else(|| in_words(text, now))?;
    let ahead = at.0.saturating_sub(now.as_millisecond());
    (0..=FARTHEST_DAYS * 86_400_000).contains(&ahead).then_some(at)
}

fn in_seconds(text: &str) -> Option<UnixMs> {
    let found = IN_SECONDS.as_ref()?.captures(text)?;
    let seconds: i64 = found["seconds"].parse().ok()?;
    Some(UnixMs(seconds * 1000))
}

fn in_words(text: &str, now: Timestamp) -> Option<UnixMs> {
    let found = IN_WORDS.as_ref()?.captures(text)?;
    let zone = match found.name("zone") {
        Some(zone) => TimeZone::get(zone.as_str()).ok()?,
        None => TimeZone::system(),
    };
    let now = now.to_zoned_datetime(zone);
    let time = time_of(&found);
    let at = match found.name("month") {
        Some(month) => on_day(&found, month.as_str(), time.unwrap_or(Time::midnight()), &now)?,
        None => next_at(time?, &now)?,
    };
    Some(UnixMs(at.timestamp().as_millisecond() + MINUTE_MS))
}

fn time_of(found: &Captures<'_>) -> Option<Time> {
    let hour: i8 = found.name("hour")?.as_str().parse().ok()?;
    let minute: i8 = found.name("minute").map_or(Ok(0), |minute| minute.as_str().parse()).ok()?;
    let noon = if found["half"].eq_ignore_ascii_case("pm") { 12 } else { 0 };
    Time::new(hour % 12 + noon, minute, 0, 0).ok()
}

/// Today, or tomorrow where that is long over.
fn next_at(time: Time, now: &ZonedDateTime) -> Option<ZonedDateTime> {
    let today = now.date().to_datetime(time).to_zoned_datetime(now.time_zone().clone()).ok()?;
    match now.timestamp().as_millisecond() - today.timestamp().as_millisecond() - MINUTE_MS {
        ..0 => Some(today),
        0..JUST_PASSED_MS => None,
        _ => today.checked_add(1.day()).ok(),
    }
}

/// Without a year: the next such day.
fn on_day(found: &Captures<'_>, month: &str, time: Time, now: &ZonedDateTime) -> Option<ZonedDateTime> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month =
        MONTHS.iter().position(|name| *name == month).and_then(|place| i8::try_from(place + 1).ok())?;
    let day: i8 = found.name("day")?.as_str().parse().ok()?;
    let year: Option<i16> = found.name("year").and_then(|year| year.as_str().parse().ok());
    let in_year = |year: i16| {
        let date = Date::new(year, month, day).ok()?;
        date.to_datetime(time).to_zoned_datetime(now.time_zone().clone()).ok()
    };
    match year {
        Some(year) => in_year(year),
        None => in_year(now.year()).filter(|at| at >= now).or_else(|| in_year(now.year() + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-28 12:00 UTC.
    const NOW: UnixMs = UnixMs(1_795_867_200_000);

    fn minutes_ahead(text: &str) -> Option<i64> {
        reset_time(text, NOW).map(|at| (at.0 - NOW.0) / 60_000 - 1)
    }

    /// Field fault 33.
    #[test]
    fn every_wording_of_a_reset_time_is_read() {
        for (text, minutes) in [
            ("You've hit your session limit · resets 3pm (UTC)", 180),
            ("You've hit your session limit · resets 3:05pm (UTC) · progress saved", 185),
            ("You've hit your limit · resets 12:30am (UTC)", 750),
            ("Your limit resets at 11am (UTC)", 23 * 60),
            ("You've hit your limit · resets 12pm (UTC)", 0),
            ("You've hit your session limit · resets 2pm (Europe/Berlin)", 60),
            ("You've hit your session limit · resets 9pm (Asia/Shanghai)", 60),
            ("5-hour limit reached ∙ resets 1 PM (UTC)", 60),
            ("You've hit your weekly limit · resets Dec 1, 3pm (UTC)", 3 * 1440 + 180),
            ("You've hit your weekly limit · resets Dec 1 at 3:30pm (UTC)", 3 * 1440 + 210),
            ("spend limit reached · resets Dec 1 (UTC)", 2 * 1440 + 720),
            ("weekly limit · resets Nov 30, 2026, 12pm (UTC)", 2 * 1440),
        ] {
            assert_eq!(minutes_ahead(text), Some(minutes), "{text}");
        }
        let epoch = "Claude AI usage limit reached|1795870800";
        assert_eq!(reset_time(epoch, NOW), Some(UnixMs(1_795_870_800_000)));
    }

    #[test]
    fn a_day_of_the_next_year_is_found_at_the_end_of_this_one() {
        let new_years_eve = UnixMs(1_798_718_400_000); // 2026-12-31 12:00 UTC
        let at = reset_time("weekly limit · resets Jan 2, 3pm (UTC)", new_years_eve).unwrap();
        assert_eq!((at.0 - new_years_eve.0) / 60_000 - 1, 2 * 1440 + 180);
    }

    #[test]
    fn what_is_no_time_or_no_limits_time_is_none() {
        for text in [
            "API Error: Request rejected (429)",
            "Claude AI usage limit reached|1749924000",
            "limit · resets soon",
            "limit · resets Jun 1, 3pm (UTC)",
            "limit · resets Foo 1, 3pm (UTC)",
            "limit · resets Feb 31, 3pm (UTC)",
            "limit · resets 99:99pm",
            "limit · resets 3pm (PST8)",
            "limit · resets 3pm (Nowhere/Land)",
            "limit · resets 11:59am (UTC)",
            "limit · resets 11:31am (UTC)",
            "",
        ] {
            assert_eq!(reset_time(text, NOW), None, "{text}");
        }
    }
}
