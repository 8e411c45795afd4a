//! A moment in a zone, as the search for matching times wants to see it: what the clock on the wall shows, and what
//! becomes of a time that it shows never (spring), or twice (autumn).
//!
//! It knows no patterns. `croner` searches, `jiff` knows the zones; this is the bridge between the two.

use std::cmp::Ordering;

use croner::errors::CronError;
use croner::{CivilDateTime, CronDateTime, Resolution, Weekday};
use jiff::civil::DateTime;
use jiff::tz::AmbiguousOffset;
use jiff::{SignedDuration, ZonedDateTime};

/// A moment and its zone.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment(pub ZonedDateTime);

impl CronDateTime for Moment {
    fn to_civil(&self) -> CivilDateTime {
        let at = self.0.datetime();
        let parts = [at.month(), at.day(), at.hour(), at.minute(), at.second()];
        let [month, day, hour, minute, second] = parts.map(|part| u32::from(part.unsigned_abs()));
        // jiff's parts are always a date: the other end is never taken.
        CivilDateTime::from_ymd_hms_opt(i32::from(at.year()), month, day, hour, minute, second)
            .unwrap_or_else(|| CivilDateTime::new(epoch(), midnight()))
    }

    fn civil_weekday(&self) -> Weekday {
        Weekday::from_days_from_sunday(u32::from(self.0.weekday().to_sunday_zero_offset().unsigned_abs()))
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Self>, CronError> {
        let shown = self.0.time_zone().to_ambiguous_zoned_datetime(datetime(civil)?);
        let moment =
            |zoned: Result<ZonedDateTime, jiff::Error>| zoned.map(Moment).map_err(|_| CronError::InvalidTime);
        Ok(match shown.offset() {
            AmbiguousOffset::Unambiguous { .. } => Resolution::Single(moment(shown.unambiguous())?),
            AmbiguousOffset::Fold { .. } => {
                Resolution::Ambiguous(moment(shown.clone().earlier())?, moment(shown.later())?)
            }
            AmbiguousOffset::Gap { .. } => Resolution::Gap,
        })
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Self> {
        self.0.checked_add(SignedDuration::from_secs(seconds)).map(Self).ok()
    }

    fn cmp_instant(&self, other: &Self) -> Ordering {
        self.0.timestamp().cmp(&other.0.timestamp())
    }
}

fn datetime(civil: CivilDateTime) -> Result<DateTime, CronError> {
    let year = i16::try_from(civil.year()).map_err(|_| CronError::InvalidDate)?;
    let part = |part: u32| i8::try_from(part).map_err(|_| CronError::InvalidDate);
    let (month, day) = (part(civil.month())?, part(civil.day())?);
    let (hour, minute, second) = (part(civil.hour())?, part(civil.minute())?, part(civil.second())?);
    DateTime::new(year, month, day, hour, minute, second, 0).map_err(|_| CronError::InvalidDate)
}

fn epoch() -> croner::CivilDate {
    croner::CivilDate::from_parts_unchecked(1970, 1, 1)
}

fn midnight() -> croner::CivilTime {
    croner::CivilTime::from_parts_unchecked(0, 0, 0)
}
