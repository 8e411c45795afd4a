//! Lines that are kept, lines that are not, and what the clock on the wall makes of them.

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-01-01T00:00:00Z")
}

fn entries(text: &str) -> Vec<Entry> {
    parse(text, &"cron".parse().unwrap(), now()).unwrap()
}

fn bad(text: &str) -> Vec<BadLine> {
    parse(text, &"cron".parse().unwrap(), now()).unwrap_err()
}

/// The first occurrences in Berlin behind a moment, as Unix times say them.
fn in_berlin(pattern: &str, after: &str, count: usize) -> Vec<String> {
    let entry = entries(&format!("CRON_TZ=Europe/Berlin\n{pattern} x")).remove(0);
    let first = entry.next_after(at(after));
    let all = std::iter::successors(first, |at| entry.next_after(*at));
    all.take(count).map(|at| at.to_string()).collect()
}

#[test]
fn comments_and_empty_lines_say_nothing_and_the_rest_of_a_line_is_the_message() {
    let found =
        entries("# a comment\n\n*/5 8-18 * * MON-FRI   look at  the queue = now\n@daily what happened?\n");
    let texts: Vec<&str> = found.iter().map(|entry| entry.text.as_str()).collect();
    assert_eq!(texts, ["look at  the queue = now", "what happened?"]);
    assert!(found.iter().all(|entry| entry.channel.as_str() == "cron"));
}

#[test]
fn a_channel_and_a_zone_count_for_the_lines_below() {
    let found =
        entries("CRON_TZ=UTC\n0 5 * * * a\nCHANNEL = \"reports\"\nCRON_TZ=Asia/Kolkata\n0 5 * * * b\n");
    let seen: Vec<(&str, Timestamp)> =
        found.iter().map(|entry| (entry.channel.as_str(), entry.next_after(now()).unwrap())).collect();
    assert_eq!(
        seen,
        [("cron", at("2026-01-01T05:00:00Z")), ("reports", at("2026-01-01T23:30:00Z"))],
        "5 o'clock in India has passed already"
    );
}

#[test]
fn every_bad_line_is_told_with_its_number() {
    let found = bad(
        "61 * * * * x\n* * * * * fine\n* * * *\n@never x\nMAILTO=root\nCHANNEL=a/b\nCRON_TZ=Mars/Base\n0 0 30 2 * x\n@daily\n",
    );
    let lines: Vec<usize> = found.iter().map(|line| line.line).collect();
    assert_eq!(lines, [1, 3, 4, 5, 6, 7, 8, 9], "{found:?}");
    let said = found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    for words in ["line 1: the time \"61 * * * *\": ", "never comes", "no message", "MAILTO= means nothing"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_bad_time_names_the_field_its_value_and_the_limits() {
    for (line, words) in [
        ("61 * * * * x", "the minute \"61\" can't be used: give 0 to 59"),
        ("* 8-24 * * * x", "the hour \"8-24\" can't be used: give 0 to 23"),
        ("* * 1,15,32 * * x", "the day \"32\" can't be used: give 1 to 31"),
        ("* * * JANUARY * x", "the month \"JANUARY\" can't be used: give 1 to 12 or JAN to DEC"),
        ("* * * 13 * x", "the month \"13\""),
        ("* * * * 8 x", "the weekday \"8\" can't be used: give 0 to 7 or SUN to SAT"),
        ("*/0 * * * * x", "the minute \"*/0\""),
        ("30-5 * * * * x", "the minute \"30-5\""),
        ("* * * x", "4 of 5 fields (minute hour day month weekday"),
        ("@never x", "there is no such nickname: use @hourly, @daily"),
    ] {
        let found = bad(line);
        assert!(found[0].why.contains(words), "{line}: {found:?}");
    }
    for nickname in NICKNAMES.split(", ") {
        assert_eq!(entries(&format!("{nickname} x")).len(), 1, "{nickname}");
    }
}

#[test]
fn seconds_and_years_are_no_fields_of_a_line() {
    let found = entries("0 12 1 1 * 2027 is a text\n");
    assert_eq!(found[0].text, "2027 is a text");
}

/// In Berlin the clock jumps from 2:00 to 3:00 on 29 March 2026.
#[test]
fn a_time_that_does_not_exist_comes_once_when_the_clock_has_jumped() {
    let found = in_berlin("30 2 * * *", "2026-03-28T12:00:00Z", 2);
    assert_eq!(found, ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
    let found = in_berlin("*/30 * * * *", "2026-03-29T00:30:00Z", 2);
    assert_eq!(found, ["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"]);
}

/// In Berlin the clock shows 2:00 to 3:00 twice on 25 October 2026.
#[test]
fn a_time_that_exists_twice_comes_once_and_an_interval_goes_on() {
    let found = in_berlin("30 2 * * *", "2026-10-24T12:00:00Z", 2);
    assert_eq!(found, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    let found = in_berlin("30 * * * *", "2026-10-25T00:00:00Z", 3);
    assert_eq!(found, ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"]);
}

#[test]
fn an_id_is_of_the_line_and_its_time() {
    let found = entries("0 5 * * * a\n0 5 * * * b\n1 5 * * * a\nCRON_TZ=UTC\n0 5 * * * a\n");
    let ids: Vec<String> = found.iter().map(|entry| entry.id_at(now())).collect();
    assert!(ids[0].starts_with("cron-") && ids[0].ends_with("-1767225600"), "{ids:?}");
    assert!(ids[0] != ids[1] && ids[0] != ids[2], "{ids:?}");
    assert_eq!(ids[0], ids[3], "the same text at the same time is the same message");
    assert_ne!(ids[0], found[0].id_at(at("2026-01-02T00:00:00Z")));
}
