//! What is due when the clock goes on, jumps, or is set back.

use jiff::tz::TimeZone;

use super::*;

fn at(text: &str) -> Timestamp {
    format!("2026-05-01T{text}Z").parse().unwrap()
}

fn schedule(pattern: &str, started: &str, catch_up_s: u64) -> Schedule {
    let now = at(started);
    let entry = Entry::new(pattern, "x", "cron".parse().unwrap(), TimeZone::UTC, now).unwrap();
    Schedule::new(vec![entry], now, Duration::from_secs(catch_up_s))
}

fn times(due: &[Due]) -> Vec<Timestamp> {
    due.iter().map(|due| due.at).collect()
}

#[test]
fn an_occurrence_is_due_once() {
    let mut schedule = schedule("*/5 * * * *", "10:01:30", 0);
    assert_eq!(schedule.due(at("10:01:30")), (vec![], None));
    assert_eq!(schedule.next(), Some(at("10:05:00")));
    assert_eq!(schedule.due(at("10:04:59")), (vec![], None));
    assert_eq!(times(&schedule.due(at("10:05:00")).0), [at("10:05:00")]);
    assert_eq!(schedule.due(at("10:05:00")), (vec![], None));
    assert_eq!(schedule.next(), Some(at("10:10:00")));
}

#[test]
fn what_comes_due_while_something_is_sent_is_not_skipped() {
    let mut schedule = schedule("0 * * * *", "09:58:00", 0);
    schedule.due(at("09:59:59"));
    assert_eq!(schedule.next(), Some(at("10:00:00")), "whatever the clock shows meanwhile");
}

#[test]
fn other_entries_count_from_this_minute_on() {
    let mut schedule = schedule("0 10 * * *", "10:30:20", 0);
    schedule.due(at("10:30:20"));
    let now = at("10:30:30");
    let entry = Entry::new("30 10 * * *", "new", "cron".parse().unwrap(), TimeZone::UTC, now).unwrap();
    schedule.replace(vec![entry], now);
    assert_eq!(schedule.due(at("10:30:30")).0.len(), 1);
}

#[test]
fn a_restart_within_the_minute_brings_the_same_id_and_a_later_one_nothing() {
    let first = schedule("0 10 * * *", "09:59:59", 0).due(at("10:00:01")).0;
    let again = schedule("0 10 * * *", "10:00:30", 0).due(at("10:00:30")).0;
    assert_eq!(first.len(), 1);
    assert_eq!(first, again);
    assert_eq!(schedule("0 10 * * *", "10:01:01", 0).due(at("10:01:01")), (vec![], None));
}

#[test]
fn catching_up_reaches_as_far_as_it_is_told() {
    let mut schedule = schedule("0 * * * *", "10:30:00", 7_200);
    assert_eq!(times(&schedule.due(at("10:30:00")).0), [at("09:00:00"), at("10:00:00")]);
}

#[test]
fn a_clock_that_jumps_ahead_brings_no_flood_and_tells_what_is_left_out() {
    let mut schedule = schedule("*/10 * * * *", "10:01:00", 0);
    assert_eq!(schedule.due(at("10:01:00")), (vec![], None));
    let (due, missed) = schedule.due(at("18:00:20"));
    assert_eq!(times(&due), [at("18:00:00")]);
    assert_eq!(missed, Some(at("17:59:20")));
    assert_eq!(schedule.due(at("18:00:30")), (vec![], None));
}

#[test]
fn a_clock_that_is_set_back_brings_the_same_ids_again() {
    let mut schedule = schedule("0 * * * *", "09:59:30", 0);
    let first = schedule.due(at("10:00:00")).0;
    assert_eq!(first.len(), 1);
    assert_eq!(schedule.due(at("09:30:00")), (vec![], None));
    assert_eq!(schedule.due(at("10:00:10")).0, first);
}
