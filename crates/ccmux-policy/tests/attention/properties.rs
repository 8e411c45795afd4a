//! Promises that hold whatever happens, in any order: under random histories with restarts.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::world::World;
use crate::{plain, step};

/// What may happen, and how many ms later the next thing does.
fn history() -> impl Strategy<Value = Vec<(u64, String)>> {
    let session = 0..3u8;
    let kind = prop::sample::select(vec!["reply", "permission", "failure", "stuck"]);
    let event = prop_oneof![
        6 => (session.clone(), kind.clone(), 0..3u8).prop_map(|(s, k, p)| format!("began s{s} {k} p{p}")),
        2 => (session.clone(), kind, 0..3u8).prop_map(|(s, k, p)| format!("ended s{s} {k} p{p}")),
        2 => session.clone().prop_map(|s| format!("ended s{s}")),
        1 => session.clone().prop_map(|s| format!("human s{s}")),
        1 => session.clone().prop_map(|s| format!("key s{s}")),
        1 => (session, 0..40u8).prop_map(|(s, seconds)| format!("mute s{s} {seconds}")),
        1 => Just("restart".to_owned()),
    ];
    prop::collection::vec((0..20_000u64, event), 0..60)
}

fn run(world: &mut World, history: &[(u64, String)], also: &mut dyn FnMut(&World)) {
    for (pause, event) in history {
        world.until(world.ms + pause);
        let words: Vec<&str> = event.split(' ').collect();
        world.does(words[0], &words[1..]);
        also(world);
    }
}

proptest! {
    /// Every notice of an item is told once, and only after its hold.
    #[test]
    fn no_step_is_told_twice_between_two_beginnings(history in history()) {
        let mut rules = plain();
        rules.kinds[0].steps = vec![step(15, "a"), step(30, "b")];
        let mut world = World::new(rules);
        let mut begun: BTreeMap<String, usize> = BTreeMap::new();
        run(&mut world, &history, &mut |_| {});
        world.until(world.ms + 200_000);
        for (_, event) in &history {
            if let Some(what) = event.strip_prefix("began ") {
                *begun.entry(what.to_owned()).or_default() += 1;
            }
        }
        let mut told: BTreeMap<String, usize> = BTreeMap::new();
        for notice in &world.notices {
            let words: Vec<&str> = notice.split(' ').collect();
            *told.entry(words[1..5].join(" ")).or_default() += 1;
            let waited: u64 = words[7].parse().unwrap();
            let hold = match (words[2], words[4]) {
                ("reply", "#0") => 15,
                ("reply", _) => 30,
                ("permission", _) => 1,
                ("stuck", _) => 60,
                _ => 0,
            };
            prop_assert!(waited >= hold, "{notice}");
        }
        for (step, times) in told {
            let what = step.rsplit_once(' ').unwrap().0;
            prop_assert!(times <= begun[what], "{step}: {times} times");
        }
    }

    /// What was kept is what waits, always: a restart changes nothing.
    #[test]
    fn the_rows_are_the_items(history in history()) {
        let mut world = World::new(plain());
        run(&mut world, &history, &mut |world| {
            let waiting: Vec<_> = world.engine.waiting(world.now()).into_iter().map(|w| (w.key, w.told)).collect();
            let rows: Vec<_> = world.rows.values().map(|row| (row.key.clone(), row.step)).collect();
            assert_eq!(waiting, rows);
        });
    }

    /// Nothing waits for ever without being told, unless it ended: the last deadline leaves only told items.
    #[test]
    fn whatever_still_waits_in_the_end_was_told(history in history()) {
        let mut world = World::new(plain());
        run(&mut world, &history, &mut |_| {});
        world.until(world.ms + 1_000_000);
        prop_assert_eq!(world.engine.next_deadline(), None);
        for waiting in world.engine.waiting(world.now()) {
            prop_assert!(waiting.told == 1, "{:?}", waiting);
        }
    }

    /// Ended before its hold was over, and not begun again: silence.
    #[test]
    fn what_ends_in_time_is_never_told(history in history()) {
        let mut world = World::new(plain());
        let ends_at_once: Vec<(u64, String)> = history
            .into_iter()
            .filter(|(_, event)| event.starts_with("began") && !event.contains("failure"))
            .flat_map(|(pause, event)| {
                let end = event.replace("began", "ended");
                [(pause, event), (900, end)]
            })
            .collect();
        run(&mut world, &ends_at_once, &mut |_| {});
        world.until(world.ms + 1_000_000);
        prop_assert_eq!(&world.notices, &Vec::<String>::new());
    }
}
