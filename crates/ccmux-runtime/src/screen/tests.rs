use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;

fn rules() -> Rules {
    Rules::builtin("claude-code").unwrap()
}

fn fixtures() -> BTreeMap<String, String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/screens");
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "ansi") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            found.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
    found
}

fn expected(name: &str) -> &'static [ScreenClass] {
    let kind = name
        .strip_prefix("v197-")
        .or(name.strip_prefix("v20-"))
        .unwrap_or(name);
    match kind.split('-').next().unwrap() {
        "ready" => &[ScreenClass::Ready],
        "draft" => &[ScreenClass::Draft],
        "dialog" => &[ScreenClass::Dialog],
        "generating" => &[ScreenClass::Busy, ScreenClass::Queued],
        "exit" => &[ScreenClass::Shell, ScreenClass::Unknown],
        _ => panic!("the fixture {name} says no class in its name"),
    }
}

#[test]
fn every_fixture_has_the_class_that_its_name_says() {
    let rules = rules();
    let wrong: Vec<String> = fixtures()
        .iter()
        .filter_map(|(name, ansi)| {
            let screen = classify(&rules, ansi);
            (!expected(name).contains(&screen.class)).then(|| format!("{name}: {:?}", screen))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn fuzz_dir() {
    let Ok(dir) = std::env::var("FUZZ") else { return };
    let rules = rules();
    let mut bad = 0;
    for e in std::fs::read_dir(dir).unwrap() {
        let p = e.unwrap().path();
        if p.extension().is_some_and(|e| e == "sent") {
            let sent = std::fs::read_to_string(&p).unwrap();
            let screen = classify(
                &rules,
                &std::fs::read_to_string(p.with_extension("ansi")).unwrap(),
            );
            let holds = box_holds(screen.prompt_box.as_ref(), &sent);
            if holds != ccmux_policy::screen::BoxHolds::Ours {
                bad += 1;
                let b = screen.prompt_box.as_ref();
                println!(
                    "{p:?} {:?} {holds:?} hidden {:?} below {:?} rows {:?} width {:?} ours {:?}",
                    screen.class,
                    b.map(|b| b.hidden_above),
                    b.map(|b| b.hidden_below),
                    b.map(|b| b.rows.len()),
                    b.map(|b| b.width),
                    b.map(|b| wrap::row_count(&sent, b.width as usize))
                );
            }
        }
    }
    println!("bad {bad}");
}
