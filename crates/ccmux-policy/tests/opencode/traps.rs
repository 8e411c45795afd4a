//! What no recording shows: events that come twice, processes and streams that end, children nobody introduced.

use std::collections::BTreeSet;

use ccmux_policy::attention::Kind;
use ccmux_policy::attention::opencode::{Event, Opencode, Origin};
use ccmux_wire::id::SessionId;

use super::rules;
use super::world::World;

const TUI: Origin = Origin::Process(7);
const STREAM: Origin = Origin::Stream(0);

fn world() -> World {
    World::new(rules(15))
}

fn asked(request: &str) -> Event {
    Event::Asked { kind: Kind::Permission, request: request.to_owned() }
}

fn says(world: &mut World, origin: Origin, session: &str, events: &[Event]) {
    events.iter().for_each(|event| world.hears(origin, None, session, event.clone()));
}

fn root() -> Event {
    Event::Info { parent: None }
}

fn child_of(parent: &str) -> Event {
    Event::Info { parent: Some(SessionId::new(parent)) }
}

const DONE: [Event; 3] = [Event::Busy, Event::Assistant { finished: true }, Event::Idle];

#[test]
fn an_event_that_comes_again_is_the_same() {
    let mut world = world();
    world.hears(TUI, Some("e1"), "s", asked("p1"));
    world.hears(TUI, Some("e2"), "s", Event::Answered { request: "p1".into() });
    world.until(3_000);
    world.hears(TUI, Some("e1"), "s", asked("p1"));
    world.until(60_000);
    assert!(world.notices.is_empty(), "{:?}", world.notices);
    world.hears(Origin::Process(8), Some("e1"), "t", asked("p2"));
    world.until(120_000);
    assert_eq!(world.notices, ["61000 t permission p2"], "another process has ids of its own");
}

#[test]
fn with_its_last_connection_a_process_asks_nothing_any_more_but_stays_done() {
    let mut world = world();
    (0..2).for_each(|_| world.opencode.opened(TUI));
    says(&mut world, TUI, "s", &[Event::Busy, asked("p1")]);
    says(&mut world, TUI, "done", &[root()]);
    says(&mut world, TUI, "done", &DONE);
    world.opencode.closed(TUI);
    world.until(500);
    assert_eq!(world.engine.waiting(Default::default()).len(), 2, "the plugin is there once more");
    world.opencode.closed(TUI);
    world.until(60_000);
    assert_eq!(world.notices, ["15000 done reply turn 1"]);
}

#[test]
fn a_stream_of_the_same_process_is_joined_and_a_process_lives_while_one_of_them_does() {
    let mut world = world();
    world.opencode.opened(TUI);
    world.opencode.opened(STREAM);
    world.hears(STREAM, Some("e1"), "s", Event::Busy);
    world.hears(STREAM, Some("e2"), "s", asked("p1"));
    world.hears(TUI, Some("e1"), "s", Event::Busy);
    world.hears(TUI, Some("e2"), "s", asked("p1"));
    world.opencode.closed(STREAM);
    world.until(60_000);
    assert_eq!(world.notices, ["1000 s permission p1"]);
    assert!(!world.engine.waiting(Default::default()).is_empty(), "the process is there");
    world.opencode.closed(TUI);
    world.drain();
    assert!(world.engine.waiting(Default::default()).is_empty());
}

#[test]
fn a_child_nobody_introduced_completes_nothing() {
    let mut world = world();
    says(&mut world, TUI, "c", &DONE);
    says(&mut world, TUI, "s", &[root()]);
    says(&mut world, TUI, "c2", &[child_of("s"), Event::Busy, Event::Assistant { finished: true }]);
    says(&mut world, TUI, "c2", &[Event::Deleted, Event::Idle]);
    world.until(60_000);
    assert!(world.notices.is_empty(), "{:?}", world.notices);
}

#[test]
fn who_is_introduced_behind_the_end_of_a_turn_is_done_if_it_is_a_root() {
    let mut world = world();
    says(&mut world, TUI, "s", &DONE);
    says(&mut world, TUI, "s", &[root(), root()]);
    says(&mut world, TUI, "c", &DONE);
    says(&mut world, TUI, "c", &[child_of("s"), root()]);
    says(&mut world, TUI, "again", &DONE);
    says(&mut world, TUI, "again", &[Event::Busy, root()]);
    world.until(60_000);
    assert_eq!(world.notices, ["15000 s reply turn 1"]);
}

#[test]
fn a_root_that_waited_for_a_child_is_done_when_the_child_is_deleted() {
    let mut world = world();
    says(&mut world, TUI, "s", &[root()]);
    says(&mut world, TUI, "c", &[child_of("s"), Event::Busy]);
    says(&mut world, TUI, "s", &DONE);
    world.until(60_000);
    assert!(world.notices.is_empty(), "{:?}", world.notices);
    says(&mut world, TUI, "c", &[Event::Deleted]);
    world.until(120_000);
    assert_eq!(world.notices, ["75000 s reply turn 1"]);
}

#[test]
fn parents_in_a_circle_and_endless_asks_end() {
    let mut world = world();
    says(&mut world, TUI, "a", &[child_of("b")]);
    says(&mut world, TUI, "b", &[child_of("a")]);
    (0..1000).for_each(|n| says(&mut world, TUI, "a", &[asked(&format!("p{n}"))]));
    assert!(world.engine.waiting(Default::default()).len() <= 64);
    (0..4_500).for_each(|n| says(&mut world, TUI, &format!("s{n}"), &[Event::Busy, asked("p")]));
    assert!(world.engine.waiting(Default::default()).len() <= 4096);
}

#[test]
fn after_an_interruption_a_server_says_what_is_asked_and_what_is_over() {
    let mut world = world();
    says(&mut world, STREAM, "s", &[root(), Event::Busy, asked("p1"), asked("p2")]);
    says(
        &mut world,
        STREAM,
        "over",
        &[root(), Event::Busy, Event::Assistant { finished: true }, asked("p3")],
    );
    let busy = BTreeSet::from([SessionId::new("s")]);
    let ask = |session: &str, request: &str| (SessionId::new(session), Kind::Permission, request.to_owned());
    // An abort left p3 and p5 behind.
    let asks = [ask("s", "p2"), ask("s", "p4"), ask("over", "p3"), ask("never heard of", "p5")];
    world.opencode.reconciled(STREAM, &busy, &asks);
    world.until(60_000);
    assert_eq!(world.notices, ["1000 s permission p2", "1000 s permission p4"]);
}

#[test]
fn what_was_asked_before_a_restart_is_over_with_its_process_or_if_its_server_says_so() {
    let mut world = world();
    says(&mut world, TUI, "root", &[asked("gone")]);
    says(&mut world, STREAM, "s", &[asked("answered"), asked("open")]);
    says(&mut world, STREAM, "idle", &[asked("left"), Event::Retry]);
    let waiting = world.engine.waiting(Default::default());
    assert_eq!(waiting.len(), 5);
    world.opencode = Opencode::default();
    for key in waiting.into_iter().map(|waiting| waiting.key) {
        let origin = if key.session.as_str() == "root" { TUI } else { STREAM };
        world.opencode.restored(origin, &key.session.clone(), &key);
    }
    let asks = [(SessionId::new("s"), Kind::Permission, "open".to_owned())];
    world.opencode.reconciled(STREAM, &BTreeSet::from([SessionId::new("s")]), &asks);
    world.opencode.closed(TUI);
    world.drain();
    let open = world.engine.waiting(Default::default());
    let open: Vec<_> = open.iter().map(|waiting| waiting.key.to_string()).collect();
    assert_eq!(open, ["s permission open"]);
}

#[test]
fn a_model_that_answers_again_is_not_stuck() {
    let mut world = world();
    says(&mut world, TUI, "s", &[root(), Event::Busy, Event::Retry]);
    world.until(40_000);
    says(&mut world, TUI, "s", &[Event::Busy, Event::Retry, Event::Busy, Event::Step]);
    world.until(200_000);
    assert!(world.notices.is_empty(), "{:?}", world.notices);
    says(&mut world, TUI, "s", &[Event::Retry]);
    world.until(300_000);
    assert_eq!(world.notices, ["260000 s stuck s"]);
}

/// Acceptance G4.
#[test]
fn a_prompt_of_a_human_ends_all_of_the_session_one_of_opencodes_own_does_not() {
    for synthetic in [false, true] {
        let mut world = world();
        says(&mut world, TUI, "s", &[root(), Event::Busy]);
        says(&mut world, TUI, "c", &[child_of("s"), Event::Busy, asked("p1")]);
        let written = Event::Written { message: "m1".into(), synthetic };
        says(&mut world, TUI, "s", &[Event::UserMessage { message: "m1".into() }, written]);
        world.until(60_000);
        let expected: &[&str] = if synthetic { &["1000 s permission p1"] } else { &[] };
        assert_eq!(world.notices, expected, "synthetic: {synthetic}");
    }
}
