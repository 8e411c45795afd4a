//! Any capture of a pane: it has one class, for which reasons are told; only an empty box is ready, and nothing that is
//! not on the screen is ours.
#![no_main]

use std::sync::OnceLock;

use ccmux_policy::screen::{BoxHolds, ScreenClass};
use ccmux_runtime::screen::{PromptBox, Rules, Screen, box_holds, classify, explain, plain_text};

libfuzzer_sys::fuzz_target!(|ansi: &str| {
    let screen = classify(rules(), ansi);
    assert_eq!(explain(rules(), ansi).screen, screen);
    class_fits_the_box(&screen);
    what_is_not_there_is_not_ours(screen.prompt_box.as_ref());
    assert!(plain_text(ansi).len() <= ansi.len());
});

fn class_fits_the_box(screen: &Screen) {
    let is_empty = screen.prompt_box.as_ref().map(PromptBox::is_empty);
    match screen.class {
        ScreenClass::Ready => assert_eq!(is_empty, Some(true), "{screen:?}"),
        ScreenClass::Draft => assert_eq!(is_empty, Some(false), "{screen:?}"),
        _ => {}
    }
    assert!(screen.dialog.is_none() || screen.class == ScreenClass::Dialog, "{screen:?}");
}

fn what_is_not_there_is_not_ours(found: Option<&PromptBox>) {
    let Some(found) = found else { return };
    let text = found.rows.join("\n");
    for text in [text.as_str(), "[14:30 telegram] hello", ""] {
        let holds = box_holds(Some(found), text);
        assert_eq!(holds == BoxHolds::Nothing, found.is_empty(), "{found:?}");
    }
    let shows = found.rows.iter().any(|row| row.chars().any(|c| c.is_ascii_alphanumeric() && c != 'Q'));
    if shows {
        assert_ne!(box_holds(Some(found), "QQQQ"), BoxHolds::Ours, "{found:?}");
    }
}

fn rules() -> &'static Rules {
    static RULES: OnceLock<Rules> = OnceLock::new();
    RULES.get_or_init(|| Rules::builtin("claude-code").expect("the built-in rules"))
}
