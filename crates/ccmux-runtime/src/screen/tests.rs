//! Every recorded screen gets the class its name says.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ccmux_policy::screen::BoxHolds;

use super::*;

fn rules() -> Rules {
    Rules::builtin("claude-code").unwrap()
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/screens")
}

/// The fixtures with this extension, by name.
fn fixtures(extension: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == extension) {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            found.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
    assert!(!found.is_empty(), "no .{extension} in {}", folder().display());
    found
}

fn screen(name: &str) -> Screen {
    let path = folder().join(format!("{name}.ansi"));
    classify(&rules(), &std::fs::read_to_string(path).unwrap())
}

fn expected(name: &str) -> &'static [ScreenClass] {
    let kind = name.strip_prefix("v197-").or(name.strip_prefix("v20-")).unwrap_or(name);
    match kind.split('-').next().unwrap() {
        "ready" => &[ScreenClass::Ready],
        "draft" => &[ScreenClass::Draft],
        "dialog" => &[ScreenClass::Dialog],
        "generating" => &[ScreenClass::Busy, ScreenClass::Queued],
        "exit" => &[ScreenClass::Shell, ScreenClass::Unknown],
        _ => panic!("the fixture {name} says no class in its name"),
    }
}

/// Field faults 13, 16.
#[test]
fn every_fixture_has_the_class_that_its_name_says() {
    let rules = rules();
    let wrong = |(name, ansi): (&String, &String)| {
        let screen = classify(&rules, ansi);
        (!expected(name).contains(&screen.class)).then(|| format!("{name}: {screen:?}"))
    };
    let wrong: Vec<String> = fixtures("ansi").iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_dialog_has_a_name_and_nothing_else_has() {
    for (name, ansi) in fixtures("ansi") {
        let screen = classify(&rules(), &ansi);
        assert_eq!(screen.dialog.is_some(), screen.class == ScreenClass::Dialog, "{name}");
    }
    let named = |name: &str| screen(name).dialog.unwrap();
    assert_eq!(named("dialog-permission-bash"), "permission");
    assert_eq!(named("dialog-plan-approval"), "plan");
    assert_eq!(named("dialog-askuserquestion"), "question");
    assert_eq!(named("dialog-elicitation"), "elicitation");
    assert_eq!(named("dialog-trust"), "trust");
    assert_eq!(named("dialog-bypass-accept-nonroot"), "bypass warning");
    assert_eq!(named("v20-dialog-bypass-accept"), "bypass warning");
    assert_eq!(named("dialog-custom-api-key"), "API key");
    assert_eq!(named("v20-dialog-custom-api-key"), "API key");
    assert_eq!(named("dialog-settings-warning-bogus-event"), "settings error");
    assert_eq!(named("v197-dialog-settings-warning"), "settings error");
    assert_eq!(named("v20-dialog-settings-error"), "settings error");
    assert_eq!(named("dialog-fullscreen-upsell"), "renderer offer");
    assert_eq!(named("dialog-transcript-viewer"), "transcript viewer");
    assert_eq!(named("dialog-resume-picker"), "resume picker");
    assert_eq!(named("dialog-agents-view"), "agents view");
    assert_eq!(named("dialog-agents-view-typed"), "agents view");
    assert_eq!(named("dialog-background-pill"), "background tasks");
    assert_eq!(named("dialog-shell-mode"), "shell mode");
}

/// Field fault 16.
#[test]
fn queued_input_is_seen() {
    assert_eq!(screen("generating-with-queued").class, ScreenClass::Queued);
    assert_eq!(screen("generating-status-lines-queued").class, ScreenClass::Queued);
    assert_eq!(screen("generating-slow").class, ScreenClass::Busy);
}

/// Field fault 16.
#[test]
fn a_status_line_without_the_hint_leaves_the_spinner() {
    for name in ["generating-slow", "generating-bash", "generating-api-retry", "generating-slow-stop-hook"] {
        let ansi = std::fs::read_to_string(folder().join(format!("{name}.ansi"))).unwrap();
        let hidden = ansi.replace(" · esc to interrupt", "");
        assert_ne!(hidden, ansi);
        assert_eq!(classify(&rules(), &hidden).class, ScreenClass::Busy, "{name}");
    }
}

/// Field fault 16.
#[test]
fn a_spinner_may_have_any_glyph_and_wording() {
    for spinner in [
        "✻ Churning…",
        "* Denkt nach… (5m 28s)",
        "⠋ Hm… (ctrl+c to interrupt · 5m 28s)",
        "🌀 So it goes… (2s · ↓ 9 tokens)",
    ] {
        let ansi = format!("❯ hi\n\n{spinner}\n\n{}\n❯\u{a0}\n{}\n  status", rule(60), rule(60));
        assert_eq!(classify(&rules(), &ansi).class, ScreenClass::Busy, "{spinner}");
    }
    for done in ["✻ Churned for 6s · done 10:59 PM", "● I wonder…", "  ✻ a quoted spinner…", "❯ what now…"]
    {
        let ansi = format!("{done}\n\n{}\n❯\u{a0}\n{}\n  status", rule(60), rule(60));
        assert_eq!(classify(&rules(), &ansi).class, ScreenClass::Ready, "{done}");
    }
}

#[test]
fn facts_of_their_own_are_seen() {
    assert!(screen("draft-press-enter-to-send").press_enter);
    assert!(screen("ready-draft-stashed").stashed);
    assert!(!screen("ready-default").press_enter);
    assert!(!screen("ready-default").stashed);
    assert!(!screen("ready-vim-insert").vim_normal);
    let normal = format!("{}\n❯\u{a0}\n{}\n  -- NORMAL -- auto mode on", rule(60), rule(60));
    assert!(classify(&rules(), &normal).vim_normal);
}

#[test]
fn a_label_in_the_rule_is_read() {
    assert!(screen("generating-status-lines").prompt_box.unwrap().label.contains("ok"));
    let ansi = format!("─── 修正 🎉 {}\n❯\u{a0}\n{}\n  status", rule(48), rule(60));
    assert_eq!(classify(&rules(), &ansi).class, ScreenClass::Ready);
}

#[test]
fn a_scrolled_box_says_how_much_is_hidden() {
    let found = screen("draft-scrolled-lines-160x48").prompt_box.unwrap();
    assert_eq!((found.hidden_above, found.rows.len(), found.width), (41, 19, 156));
    let found = screen("draft-scrolled-cursor-up").prompt_box.unwrap();
    assert_eq!((found.hidden_above, found.hidden_below), (20, 21));
}

#[test]
fn a_text_of_ours_is_ours_in_every_width() {
    for (name, sent) in fixtures("sent") {
        assert_eq!(box_holds(screen(&name).prompt_box.as_ref(), &sent), BoxHolds::Ours, "{name}");
    }
}

#[test]
fn a_changed_text_is_foreign() {
    for (name, sent) in fixtures("sent") {
        let found = screen(&name).prompt_box;
        let last = sent.trim_end().chars().next_back().unwrap();
        let cut = sent.trim_end().strip_suffix(last).unwrap();
        let changed = [
            format!("{sent}x"),
            cut.to_owned(),
            format!("{cut}Q"),
            format!("{sent}\n[14:31 x] more"),
            String::new(),
        ];
        for other in changed {
            assert_eq!(box_holds(found.as_ref(), &other), BoxHolds::Foreign, "{name}");
        }
    }
}

/// Field fault 12.
#[test]
fn what_a_human_did_to_our_text_is_foreign() {
    for (name, sent) in fixtures("foreign") {
        assert_eq!(box_holds(screen(&name).prompt_box.as_ref(), &sent), BoxHolds::Foreign, "{name}");
    }
}

#[test]
fn a_text_with_another_beginning_out_of_sight_is_foreign() {
    let found = screen("draft-scrolled-lines-160x48").prompt_box;
    let (_, sent) = fixtures("sent").remove_entry("draft-scrolled-lines-160x48").unwrap();
    assert_eq!(box_holds(found.as_ref(), &format!("one line more\n{sent}")), BoxHolds::Foreign);
    let (_, shorter) = sent.split_once('\n').unwrap();
    assert_eq!(box_holds(found.as_ref(), shorter), BoxHolds::Foreign);
}

#[test]
fn a_blank_more_or_less_in_a_row_is_foreign() {
    let ansi = |text: &str| format!("{}\n❯\u{a0}{text}\n{}\n  status", rule(60), rule(60));
    let holds =
        |shown: &str, ours: &str| box_holds(classify(&rules(), &ansi(shown)).prompt_box.as_ref(), ours);
    assert_eq!(holds("[10:00 x] a b", "[10:00 x] a b"), BoxHolds::Ours);
    assert_eq!(holds("[10:00 x] ab", "[10:00 x] a b"), BoxHolds::Foreign);
    assert_eq!(holds("[10:00 x] a  b", "[10:00 x] a b"), BoxHolds::Foreign);
    assert_eq!(holds("mine [10:00 x] a b", "[10:00 x] a b"), BoxHolds::Foreign);
    assert_eq!(
        holds("[10:00 x] ab", "[10:00 x] a🫨b"),
        BoxHolds::Ours,
        "an emoji that the terminal doesn't know"
    );
    assert_eq!(holds("[10:00 x] acb", "[10:00 x] a🫨b"), BoxHolds::Foreign);
    assert_eq!(holds("[10:00 x] a🎉b", "[10:00 x] ab"), BoxHolds::Foreign);
}

/// Field fault 11. Measured on all code points of the first two planes, each between letters and before a joiner.
#[test]
fn what_tables_disagree_about_is_ours_all_the_same() {
    let holds = |shown: &str, ours: &str| {
        let ansi = format!("{0}\n❯\u{a0}[10:00 x] {shown}\n{0}\n  status", rule(60));
        box_holds(classify(&rules(), &ansi).prompt_box.as_ref(), &format!("[10:00 x] {ours}"))
    };
    assert_eq!(
        holds("ab", "a\u{2f06d}b"),
        BoxHolds::Ours,
        "between two extensions of CJK nothing is assigned"
    );
    assert_eq!(
        holds("ab", "a\u{2ebf0}b"),
        BoxHolds::Ours,
        "an extension that is younger than many a terminal"
    );
    assert_eq!(holds("ab", "a\u{a7db}b"), BoxHolds::Ours, "a letter that is younger than many a terminal");
    assert_eq!(holds("ab", "a\u{d3a}b"), BoxHolds::Ours, "a letter that tmux 3.3a leaves out");
    assert_eq!(holds("ab", "a\u{3098}b"), BoxHolds::Ours, "a hole among the kana");
    assert_eq!(holds("ab", "a\u{20000}b"), BoxHolds::Foreign);
    assert_eq!(holds("ab", "a\u{3042}b"), BoxHolds::Foreign);
    let (keys, letters) = ("1\u{20e3} ".repeat(30), "a\u{20e3} ".repeat(30));
    assert_eq!(wrap::row_count(keys.trim_end(), 30), 3, "two columns and a blank each");
    assert_eq!(wrap::row_count(letters.trim_end(), 30), 3, "Claude makes no difference");
}

/// Field fault 13.
#[test]
fn an_empty_box_a_placeholder_and_no_box_hold_nothing() {
    for name in ["ready-default", "generating-with-queued", "dialog-askuserquestion"] {
        assert_eq!(box_holds(screen(name).prompt_box.as_ref(), "[10:00 x] a"), BoxHolds::Nothing, "{name}");
    }
}

fn rule(columns: usize) -> String {
    "─".repeat(columns)
}

/// Field fault 16.
#[test]
fn a_box_that_a_message_quotes_is_no_box() {
    let quoted = format!("❯ look:\n  {0}\n  ❯\u{a0}\n  {0}\n  ⏵⏵ bypass permissions on", rule(58));
    let dialog =
        format!("{quoted}\n{}\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel", rule(60));
    assert_eq!(classify(&rules(), &dialog).class, ScreenClass::Dialog);
    assert_eq!(classify(&rules(), &quoted).class, ScreenClass::Unknown);
}

/// Field fault 16.
#[test]
fn a_dialog_that_a_message_quotes_is_no_dialog() {
    let quoted = "● Do you want to proceed?\n  ❯ 1. Yes\n    2. No\n\n  Esc to cancel · Tab to amend";
    let ansi = format!("{quoted}\n\n{0}\n❯\u{a0}\n{0}\n  status", rule(60));
    assert_eq!(classify(&rules(), &ansi).class, ScreenClass::Ready);
}

#[test]
fn a_box_over_a_dialog_is_not_ready() {
    for below in
        ["  Esc to cancel · Tab to amend", "  ❯ 1. Yes\n    2. No", "  Enter to confirm · Esc to cancel"]
    {
        let ansi = format!("{0}\n❯\u{a0}\n{0}\n{below}", rule(60));
        assert_eq!(classify(&rules(), &ansi).class, ScreenClass::Dialog, "{below}");
    }
}

#[test]
fn what_has_not_quite_the_shape_of_a_box_is_none() {
    let full = rule(60);
    for odd in [
        format!("{full}\n❯ \n{full}\n  status"),
        format!("{full}\n❯\u{a0}a\nnot indented\n{full}\n  status"),
        format!("{}\n❯\u{a0}\n{full}\n  status", rule(30)),
        format!("{full}\n\n{full}\n  status"),
        format!("{full}\n❯\u{a0}"),
    ] {
        assert!(classify(&rules(), &odd).prompt_box.is_none(), "{odd}");
    }
}

/// Field fault 29.
#[test]
fn a_shell_or_nothing_is_never_ready() {
    assert_eq!(classify(&rules(), "").class, ScreenClass::Unknown);
    assert_eq!(classify(&rules(), "user@host:~$").class, ScreenClass::Shell);
    let left = format!("{0}\n❯\u{a0}\n{0}\n  status\nuser@host:~$", rule(60));
    assert_eq!(classify(&rules(), &left).class, ScreenClass::Shell);
    let status = format!("{0}\n❯\u{a0}\n{0}\nctx 12%", rule(60));
    assert_eq!(classify(&rules(), &status).class, ScreenClass::Ready, "a status line without padding");
    let dead =
        format!("{0}\n❯\u{a0}\n{0}\n  status\nPane is dead (status 1, Sat Nov 28 01:00:00 2026)", rule(60));
    assert_eq!(classify(&rules(), &dead).class, ScreenClass::Shell);
}

#[test]
fn a_rules_file_with_an_unknown_key_is_refused_by_name() {
    let text = include_str!("../../../../config/agents/claude-code.toml");
    let why = Rules::from_toml(&format!("sings = 1\n{text}")).unwrap_err().to_string();
    assert!(why.contains("sings"), "{why}");
    let why = Rules::from_toml(&text.replace("'^Pane is dead\\b'", "'('")).unwrap_err().to_string();
    assert!(why.contains("\"(\" is no pattern"), "{why}");
    let why = Rules::from_toml(&text.replace("signs = [\"❯\\u00a0\", \">\\u00a0\"]", "signs = []"))
        .unwrap_err()
        .to_string();
    assert!(why.contains("prompt_box.signs"), "{why}");
    assert!(Rules::builtin("emacs").unwrap_err().to_string().contains("emacs"));
}
/// Field fault 11.
#[test]
fn a_box_that_grew_out_of_the_screen_holds_the_tail_of_our_text() {
    let found = screen("draft-cut-classic-160x48").prompt_box.unwrap();
    assert!(found.cut_above);
    let (_, sent) = fixtures("sent").remove_entry("draft-cut-classic-160x48").unwrap();
    let seen: Vec<&str> = sent.lines().rev().take(found.rows.len()).collect();
    let tail = seen.into_iter().rev().collect::<Vec<_>>().join("\n");
    assert_eq!(box_holds(Some(&found), &tail), BoxHolds::Foreign, "nothing of it is out of sight");
}

#[test]
fn indented_rows_over_a_rule_are_never_ready() {
    let viewer = format!(
        "  a long answer\n  of Claude's\n{}\n  Showing detailed transcript · ctrl+o to toggle",
        rule(60)
    );
    assert_eq!(classify(&rules(), &viewer).class, ScreenClass::Dialog);
    let blank = format!("\n\n\n{}\n  status", rule(60));
    assert_eq!(classify(&rules(), &blank).class, ScreenClass::Unknown);
}

#[test]
fn what_is_said_to_decide_fits_the_class_of_every_fixture() {
    for (name, ansi) in fixtures("ansi") {
        let Explanation { screen, decided_by, marks } = explain(&rules(), &ansi);
        assert_eq!(screen, classify(&rules(), &ansi), "{name}");
        let rule = decided_by.map(|mark| mark.rule);
        let rule = rule.as_deref().unwrap_or("none");
        let fits = match screen.class {
            ScreenClass::Ready | ScreenClass::Draft => rule == "prompt_box",
            ScreenClass::Busy => rule == "busy.below" || rule == "busy.above",
            ScreenClass::Queued => rule == "busy.queued_placeholder",
            ScreenClass::Dialog => {
                ["dialog ", "overlay.", "prompt_box.shell"].iter().any(|head| rule.starts_with(head))
            }
            ScreenClass::Shell => rule.starts_with("shell "),
            ScreenClass::Unknown => rule == "none",
        };
        assert!(fits, "{name}: {:?} by {rule}", screen.class);
        let fact = |rule: &str| marks.iter().any(|mark| mark.rule == rule);
        assert_eq!(screen.stashed, fact("facts.stashed"), "{name}");
        assert_eq!(screen.press_enter, fact("facts.press_enter"), "{name}");
    }
}

/// Rules, and the beginnings of their patterns, without a recorded screen; and why there is none.
const WITHOUT_FIXTURE: &[(&str, &str, &str)] = &[
    ("dialog theme", "", "shown to new users only, before any key is known: can't be had in the lab"),
    ("dialog login", "", "needs a real account"),
    ("dialog plan", "Would you like to proceed", "another wording of the same dialog"),
    ("dialog trust", r"\bDo you trust the files", "the wording of versions before 2.0.76"),
    ("facts.vim_normal", "", "2.1.332 shows nothing in that mode; the demo agent and other versions do"),
    // The net beneath: in the versions that were measured the box is gone while these are shown.
    ("overlay.placeholder", "", "the agents view's box has another sign"),
    ("overlay.above", "", "the agents view's box has another sign"),
    ("overlay.below", r"\b[Ee]sc to", "a dialog takes the box's place"),
    ("overlay.below", r"\b[Ss]pace to", "the agents view's box has another sign"),
    ("overlay.below", r"\bctrl", "the agents view's box has another sign"),
    ("overlay.below", r"\bShowing detailed transcript", "the viewer takes the box's place"),
    ("overlay.below", "^ *[❯>] [0-9]", "a menu takes the box's place"),
];

/// Each pattern of the rules with the name of its rule.
fn patterns() -> Vec<(String, String)> {
    let rules = rules();
    let mut all: Vec<(String, Vec<regex::Regex>)> = vec![
        ("busy.below".into(), rules.busy_below().to_vec()),
        ("busy.above".into(), rules.busy_above().to_vec()),
        ("busy.queued_placeholder".into(), rules.queued_placeholders().to_vec()),
        ("facts.press_enter".into(), rules.press_enter().to_vec()),
        ("facts.stashed".into(), rules.stashed().to_vec()),
        ("facts.vim_normal".into(), rules.vim_normal().to_vec()),
        ("overlay.placeholder".into(), rules.overlay_placeholders().to_vec()),
        ("overlay.above".into(), rules.overlay_above().to_vec()),
        ("overlay.below".into(), rules.overlay_below().to_vec()),
    ];
    all.extend(rules.dialogs().map(|(name, patterns)| (format!("dialog {name}"), patterns.to_vec())));
    all.extend(rules.shells().map(|(name, _, patterns)| (format!("shell {name}"), patterns.to_vec())));
    let flat = |(rule, patterns): (String, Vec<regex::Regex>)| {
        patterns.into_iter().map(move |pattern| (rule.clone(), pattern.as_str().to_owned()))
    };
    all.into_iter().flat_map(flat).collect()
}

/// Field fault 16.
#[test]
fn every_pattern_has_a_fixture_or_a_reason_for_having_none() {
    let mut seen: Vec<(String, String)> = Vec::new();
    for ansi in fixtures("ansi").values() {
        seen.extend(explain(&rules(), ansi).marks.into_iter().map(|mark| (mark.rule, mark.pattern)));
    }
    let excused = |(rule, pattern): &(String, String)| {
        WITHOUT_FIXTURE.iter().any(|(known, text, _)| rule == known && pattern.starts_with(text))
    };
    let (without, with): (Vec<_>, Vec<_>) = patterns().into_iter().partition(|one| !seen.contains(one));
    let missing: Vec<_> = without.iter().filter(|one| !excused(one)).collect();
    assert!(missing.is_empty(), "no fixture shows {missing:#?}");
    let idle: Vec<_> = with.iter().filter(|one| excused(one)).collect();
    assert!(idle.is_empty(), "these have a fixture now: take them off the list: {idle:#?}");
}

/// Field fault 75.
#[test]
fn only_versions_that_are_known_to_take_all_at_once_get_all_at_once() {
    let rules = Rules::builtin("claude-code").unwrap();
    for version in ["2.1.197", "2.1.332", "2.1.332 (Claude Code)", "2.2.0", "10.0.0", "0.1.0"] {
        assert!(rules.takes_all_at_once(version), "{version}");
    }
    for version in ["2.0.76", "2.1.20", "2.1.75 (Claude Code)", "2.1.128", "0.1.1", "", "new", "2.1.x"] {
        assert!(!rules.takes_all_at_once(version), "{version}");
    }
}
