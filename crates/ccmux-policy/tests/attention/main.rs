//! Every rule of the attention engine, as a script of seconds and the notices that follow from it; and its promises
//! under random histories.

#![allow(clippy::unwrap_used)] // a world of tests, not in a #[test] itself

mod properties;
mod world;

use ccmux_policy::UnixMs;
use ccmux_policy::attention::{Kind, QuietHours, Rule, Rules, Source, Step};
use ccmux_wire::id::SessionId;
use world::{World, key, notices};

/// One step for each kind, as by default, and to one route; a cool-down for what comes in flurries.
pub fn plain() -> Rules {
    let rule = |seconds: u64| Rule { steps: vec![step(seconds, "a")], cooldown_ms: 0 };
    let off = Rule::default();
    let reply = Rule { cooldown_ms: 15_000, ..rule(15) };
    let kinds = [reply, rule(1), rule(1), off, rule(0), rule(60), rule(0)];
    Rules { kinds, dedup_ms: 2_000, focus_ms: 0, quiet: None }
}

pub fn step(seconds: u64, routes: &str) -> Step {
    Step { after_ms: seconds * 1000, routes: routes.split_whitespace().map(str::to_owned).collect() }
}

#[track_caller]
fn check_with(rules: Rules, script: &str, expected: &[&str]) {
    assert_eq!(notices(rules, script), expected, "{script}");
}

#[track_caller]
fn check(script: &str, expected: &[&str]) {
    check_with(plain(), script, expected);
}

#[test]
fn a_silence_is_told_once_after_its_threshold() {
    check("0 began s1 reply p1\n 600 end", &["15 s1 reply p1 #0 a after 15"]);
}

#[test]
fn a_prompt_or_a_key_press_before_the_threshold_keeps_it_silent() {
    check("0 began s1 reply p1\n 14.9 ended s1\n 60 end", &[]);
    check("0 began s1 reply p1\n 14.9 human s1\n 60 end", &[]);
    check("0 began s1 reply p1\n 9 key s1\n 60 end", &[]);
    check("5 key s1\n 6 began s1 reply p1\n 60 end", &["21 s1 reply p1 #0 a after 15"]);
}

#[test]
fn a_key_press_after_the_last_notice_ends_it_once_somebody_looks() {
    let press = |at_ms: i64, script: &str| {
        let mut world = World::new(plain());
        world.run(script);
        let at = UnixMs(world.now().wall.0 + at_ms);
        world.engine.pressed(Source::Claude, &SessionId::new("s1"), at);
        world.drain();
        let kinds = world.rows.keys().map(|key| format!("{} {}", key.session, key.kind.word()));
        (kinds.collect::<Vec<_>>().join(", "), world)
    };
    let told = "0 began s1 reply p1\n 0 began s2 reply p1\n 20 end";
    let (waits, mut world) = press(0, told);
    assert_eq!(waits, "s2 reply");
    world.run("21 began s1 reply p2\n 36 end");
    assert_eq!(world.notices.last().unwrap(), "36 s1 reply p2 #0 a after 15", "nothing cools down");
    assert_eq!(press(-20_000, told).0, "s1 reply, s2 reply", "pressed before it began");
    assert_eq!(press(0, "0 began s1 reply p1\n 9 end").0, "s1 reply", "its notice is due: it is asked then");
    assert_eq!(press(0, "0 began s1 permission p1\n 9 end").0, "s1 permission", "its dialog is open");
}

#[test]
fn the_next_turn_has_a_silence_of_its_own() {
    check(
        "0 began s1 reply p1\n 20 ended s1\n 30 began s1 reply p2\n 90 end",
        &["15 s1 reply p1 #0 a after 15", "45 s1 reply p2 #0 a after 15"],
    );
}

#[test]
fn a_turn_that_goes_on_after_its_stop_begins_the_silence_anew() {
    check("0 began s1 reply p1\n 10 began s1 reply p1\n 60 end", &["25 s1 reply p1 #0 a after 15"]);
    check("0 began s1 reply p1\n 10 began s1 reply p2\n 60 end", &["25 s1 reply p2 #0 a after 15"]);
    check("0 began s1 reply p1\n 20 began s1 reply p1\n 60 end", &["15 s1 reply p1 #0 a after 15"]);
}

#[test]
fn sessions_wait_apart() {
    check(
        "0 began s1 reply p1\n 1 began s2 reply p1\n 2 began s3 reply p1\n 3 ended s2\n 60 end",
        &["15 s1 reply p1 #0 a after 15", "17 s3 reply p1 #0 a after 15"],
    );
}

/// Acceptance G7.
#[test]
fn a_duplicate_within_two_seconds_is_the_same() {
    check(
        "0 began s1 failure p1\n 0.1 began s1 failure p1\n 1.9 began s1 failure p1\n 60 end",
        &["0 s1 failure p1 #0 a after 0"],
    );
    check("0 began s1 reply p1\n 0.5 ended s1\n 1.9 began s1 reply p1\n 60 end", &[]);
    check(
        "0 began s1 reply p1\n 0.5 ended s1\n 2 began s1 reply p1\n 60 end",
        &["17 s1 reply p1 #0 a after 15"],
    );
}

/// Acceptance G7.
#[test]
fn after_a_notice_of_completion_the_next_one_cools_down() {
    let mut rules = plain();
    rules.kinds[Kind::Reply as usize].steps = vec![step(4, "a")];
    check_with(
        rules.clone(),
        "0 began s1 reply p1\n 5 ended s1\n 6 began s1 reply p2\n 7 began s2 reply p1\n 60 end",
        &["4 s1 reply p1 #0 a after 4", "11 s2 reply p1 #0 a after 4", "19 s1 reply p2 #0 a after 13"],
    );
    let went_on = "0 began s1 reply p1\n 5 ended s1\n 6 began s1 reply p2\n 18 ended s1\n 60 end";
    check_with(rules.clone(), went_on, &["4 s1 reply p1 #0 a after 4"]);
    let human = "0 began s1 reply p1\n 5 human s1\n 6 began s1 reply p2\n 60 end";
    check_with(rules, human, &["4 s1 reply p1 #0 a after 4", "10 s1 reply p2 #0 a after 4"]);
    check(
        "0 began s1 permission p1\n 3 began s1 permission p2\n 60 end",
        &["1 s1 permission p1 #0 a after 1", "4 s1 permission p2 #0 a after 1"],
    );
    let mut cool = plain();
    cool.kinds[Kind::Permission as usize].cooldown_ms = 15_000;
    check_with(
        cool,
        "0 began s1 permission p1\n 3 began s1 permission p2\n 60 end",
        &["1 s1 permission p1 #0 a after 1", "16 s1 permission p2 #0 a after 13"],
    );
}

#[test]
fn the_cool_down_goes_on_over_a_restart() {
    let mut rules = plain();
    rules.kinds[Kind::Reply as usize].steps = vec![step(4, "a")];
    let told = ["4 s1 reply p1 #0 a after 4", "19 s1 reply p2 #0 a after 13"];
    check_with(
        rules.clone(),
        "0 began s1 reply p1\n 5 ended s1\n 5 restart\n 6 began s1 reply p2\n 60 end",
        &told,
    );
    let human = "0 began s1 reply p1\n 5 human s1\n 5 restart\n 6 began s1 reply p2\n 60 end";
    check_with(rules, human, &["4 s1 reply p1 #0 a after 4", "10 s1 reply p2 #0 a after 4"]);
}

#[test]
fn a_step_without_routes_is_not_told_and_cools_nothing_down() {
    let mut rules = plain();
    let steps = vec![step(2, ""), step(10, "b"), step(20, "")];
    rules.kinds[Kind::Reply as usize] = Rule { steps, cooldown_ms: 15_000 };
    let mut world = World::new(rules);
    world.does("began", &["s1", "reply", "p1"]);
    let standing = |world: &World| {
        let waiting = world.engine.waiting(world.now()).remove(0);
        (waiting.told, waiting.next_in_ms)
    };
    assert_eq!(standing(&world), (0, Some(10_000)));
    world.until(3_000);
    assert_eq!(standing(&world), (0, Some(7_000)));
    world.until(11_000);
    assert_eq!(standing(&world), (1, None), "nobody hears of the third");
    world.until(30_000);
    assert_eq!((world.notices.len(), standing(&world)), (1, (1, None)));
    let mut rules = plain();
    rules.kinds[Kind::Reply as usize].steps = vec![step(2, "")];
    let mut world = World::new(rules);
    world.does("began", &["s1", "reply", "p1"]);
    world.until(60_000);
    assert_eq!((world.notices.len(), standing(&world)), (0, (0, None)));
}

#[test]
fn a_second_and_a_third_step_go_elsewhere_and_a_prompt_ends_them() {
    let mut rules = plain();
    rules.kinds[Kind::Reply as usize].steps = vec![step(15, "desk"), step(30, "voice"), step(60, "phone")];
    let all = [
        "15 s1 reply p1 #0 desk after 15",
        "30 s1 reply p1 #1 voice after 30",
        "60 s1 reply p1 #2 phone after 60",
    ];
    check_with(rules.clone(), "0 began s1 reply p1\n 600 end", &all);
    check_with(rules.clone(), "0 began s1 reply p1\n 20 restart\n 600 end", &all);
    check_with(rules, "0 began s1 reply p1\n 45 ended s1\n 600 end", &all[..2]);
}

/// Field fault 39. Acceptance G7.
#[test]
fn what_is_approved_within_the_hold_is_silent() {
    check("0 began s1 permission p1\n 0.2 ended s1 permission p1\n 60 end", &[]);
    check("0 began s1 permission p1\n 0.2 gone s1\n 60 end", &[]);
}

/// Field fault 38.
#[test]
fn two_permissions_at_once_are_both_told_and_each_ends_by_its_own_answer() {
    let mut rules = plain();
    rules.kinds[Kind::Permission as usize].steps = vec![step(1, "a"), step(30, "b")];
    check_with(
        rules,
        "0 began s1 permission p1\n 0.1 began s1 permission p2\n 20 ended s1 permission p1\n 60 end",
        &[
            "1 s1 permission p1 #0 a after 1",
            "1.1 s1 permission p2 #0 a after 1",
            "30.1 s1 permission p2 #1 b after 30",
        ],
    );
}

/// Acceptance G7.
#[test]
fn further_steps_go_to_their_own_routes_while_it_waits() {
    let mut rules = plain();
    rules.kinds[Kind::Reply as usize].steps = vec![step(15, "a"), step(30, "b c"), step(60, "d")];
    check_with(
        rules.clone(),
        "0 began s1 reply p1\n 600 end",
        &["15 s1 reply p1 #0 a after 15", "30 s1 reply p1 #1 b|c after 30", "60 s1 reply p1 #2 d after 60"],
    );
    let key = "0 began s1 reply p1\n 40 key s1\n 600 end";
    check_with(rules, key, &["15 s1 reply p1 #0 a after 15", "30 s1 reply p1 #1 b|c after 30"]);
}

/// Acceptance G7.
#[test]
fn a_notice_waits_for_whoever_looks_at_the_pane_and_is_dropped_if_they_act() {
    let rules = Rules { focus_ms: 10_000, ..plain() };
    let at_the_pane = "5 key s1\n 6 began s1 permission p1\n";
    check_with(rules.clone(), &format!("{at_the_pane} 14 ended s1\n 60 end"), &[]);
    check_with(rules.clone(), &format!("{at_the_pane} 14 key s1\n 60 end"), &[]);
    let left = format!("{at_the_pane} 60 end");
    check_with(rules.clone(), &left, &["15 s1 permission p1 #0 a after 9"]);
    check_with(plain(), &left, &["7 s1 permission p1 #0 a after 1"]);
    let long_ago = "5 key s1\n 20 began s1 permission p1\n 60 end";
    check_with(rules, long_ago, &["21 s1 permission p1 #0 a after 1"]);
}

#[test]
fn a_look_without_an_answer_delays_a_notice_by_six_seconds_at_most() {
    check("0 deaf\n 0 began s1 permission p1\n 60 end", &["7 s1 permission p1 #0 a after 7"]);
}

#[test]
fn what_falls_into_a_mute_is_told_afterwards_if_it_still_waits() {
    let two = "0 began s1 reply p1\n 0 began s2 reply p1\n";
    check(
        &format!("{two} 1 mute s1 100\n 300 end"),
        &["15 s2 reply p1 #0 a after 15", "101 s1 reply p1 #0 a after 101"],
    );
    check(&format!("{two} 1 mute reply 100\n 50 ended s2\n 300 end"), &["101 s1 reply p1 #0 a after 101"]);
    check(
        "0 mute reply 100\n 1 mute reply 0\n 2 began s1 reply p1\n 60 end",
        &["17 s1 reply p1 #0 a after 15"],
    );
}

#[test]
fn a_mute_that_ends_early_ends_for_what_fell_into_it_too() {
    let muted = "0 began s1 reply p1\n 1 mute s1 1000\n";
    let early = ["20 s1 reply p1 #0 a after 20"];
    check(&format!("{muted} 20 mute s1 0\n 2000 end"), &early);
    check(&format!("{muted} 20 mute s1 10\n 2000 end"), &["30 s1 reply p1 #0 a after 30"]);
    check(&format!("{muted} 2 mute reply 50\n 20 mute s1 0\n 2000 end"), &["52 s1 reply p1 #0 a after 52"]);
    check(&format!("{muted} 5 mute s1 0\n 2000 end"), &["15 s1 reply p1 #0 a after 15"]);
    check(&format!("{muted} 20 mute s1 2000\n 1900 end"), &[]);
    let mut rules = plain();
    rules.kinds[Kind::Reply as usize].steps = vec![step(15, "a"), step(30, "b")];
    let both = [early[0], "35 s1 reply p1 #1 b after 35"];
    check_with(rules, &format!("{muted} 20 mute s1 0\n 2000 end"), &both);
}

#[test]
fn quiet_hours_that_are_given_up_hold_nothing_after_the_restart() {
    let quiet = Some(QuietHours { from: 12 * 60, to: 13 * 60 });
    let mut world = World::new(Rules { quiet, ..plain() });
    world.does("began", &["s1", "reply", "p1"]);
    world.until(100_000);
    world.rules.quiet = None;
    world.restart();
    world.until(200_000);
    assert_eq!(world.notices, ["100 s1 reply p1 #0 a after 100"]);
}

#[test]
fn steps_that_a_mute_put_off_do_not_come_all_at_once() {
    let mut rules = plain();
    rules.kinds[Kind::Reply as usize].steps = vec![step(15, "a"), step(30, "b")];
    check_with(
        rules,
        "0 began s1 reply p1\n 1 mute s1 100\n 300 end",
        &["101 s1 reply p1 #0 a after 101", "116 s1 reply p1 #1 b after 116"],
    );
}

#[test]
fn quiet_hours_put_notices_off_to_their_end() {
    let quiet = Some(QuietHours { from: 12 * 60, to: 13 * 60 });
    check_with(
        Rules { quiet, ..plain() },
        "0 began s1 reply p1\n 3599 began s2 reply p1\n 4000 end",
        &["3600 s1 reply p1 #0 a after 3600", "3614 s2 reply p1 #0 a after 15"],
    );
}

#[test]
fn a_restart_neither_repeats_nor_forgets() {
    let told = &["15 s1 reply p1 #0 a after 15"];
    check("0 began s1 reply p1\n 10 restart\n 60 end", told);
    check("0 began s1 reply p1\n 20 restart\n 60 end", told);
    let mut rules = plain();
    rules.kinds[Kind::Reply as usize].steps = vec![step(15, "a"), step(30, "b")];
    let both = &["15 s1 reply p1 #0 a after 15", "30 s1 reply p1 #1 b after 30"];
    check_with(rules, "0 began s1 reply p1\n 20 restart\n 25 restart\n 60 end", both);
    check("0 began s1 reply p1\n 1 mute s1 50\n 20 restart\n 90 end", &["51 s1 reply p1 #0 a after 51"]);
}

#[test]
fn a_silence_that_passed_its_threshold_without_a_daemon_is_told_at_once() {
    let mut world = World::new(plain());
    world.does("began", &["s1", "reply", "p1"]);
    world.ms = 100_000;
    world.restart();
    world.until(101_000);
    assert_eq!(world.notices, ["100 s1 reply p1 #0 a after 100"]);
}

#[test]
fn a_kind_without_steps_is_off() {
    check("0 began s1 subagent_reply p1\n 60 end", &[]);
}

#[test]
fn a_human_at_one_session_says_nothing_about_another() {
    check(
        "0 began s1 reply p1\n 0 began s10 reply p1\n 0 began s1 permission p2\n 0.5 human s1\n 60 end",
        &["15 s10 reply p1 #0 a after 15"],
    );
}

#[test]
fn a_thousand_waiting_sessions_cost_nothing_until_their_deadline() {
    let mut world = World::new(plain());
    for n in 0..1_000 {
        world.does("began", &[&format!("s{n}"), "reply", "p1"]);
    }
    world.until(14_999);
    assert_eq!((world.asked, world.notices.len()), (0, 0));
    world.until(15_000);
    assert_eq!((world.asked, world.notices.len()), (1_000, 1_000));
    assert_eq!(world.engine.next_deadline(), None, "all was said, and nothing is polled");
    let standing = world.engine.waiting(world.now());
    assert_eq!(standing.len(), 1_000);
    assert!(standing.iter().all(|waiting| waiting.told == 1 && waiting.next_in_ms.is_none()));
    world.does("ended", &["s7"]);
    assert!(world.rows.len() == 999 && !world.rows.contains_key(&key("s7", Kind::Reply, "p1")));
}
