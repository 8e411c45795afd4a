//! Answers from afar on the real Claude Code CLI, on a mock of the model's API.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::thread;
use std::time::{Duration, Instant};

use ccmux_tests::listening::Listening;
use ccmux_tests::{House, claude};
use ccmux_wire::status::StateWord;
use serde_json::Value;

const SETTINGS: &str = "[permission]\nchannel = \"phone\"\n";

/// Claude asks before each command.
fn in_default_mode(more: &str) -> Option<House> {
    let claude = claude::or_skip()?;
    let house = House::with_claude(&claude);
    house.write_settings(&format!("{SETTINGS}{more}"));
    let command = format!("{} --permission-mode default", claude.display());
    house.start_with(&[("CCMUX_AGENT_COMMAND", &command)]);
    house.wait_ready();
    Some(house)
}

fn open_asks(house: &House) -> Vec<Value> {
    serde_json::from_str(&house.ccmux_ok(&["permission", "--json"])).unwrap()
}

fn code(house: &House, phone: &Listening) -> String {
    let asks =
        house.wait_for("something to be asked", || Some(open_asks(house)).filter(|asks| !asks.is_empty()));
    let code = asks[0]["code"].as_str().unwrap().to_owned();
    phone.wait_for(&format!("code: {code}"));
    code
}

fn result(house: &House, text: &str) {
    house.wait_until(&format!("{text:?} in a tool's result"), || {
        house
            .transcript()
            .iter()
            .any(|line| line["type"] == "user" && line["message"]["content"].to_string().contains(text))
    });
}

/// Acceptance G7.
#[test]
fn a_permission_is_allowed_and_another_one_denied_with_a_reason() {
    let Some(house) = in_default_mode("") else { return };
    let phone = house.listen_to("out.phone");
    house.write("in.t", "bash: echo $((6 * 7)) > from-afar; cat from-afar\n");
    let allowed = code(&house, &phone);
    phone.wait_for("Claude asks for permission: Bash");
    house.write("in.phone", format!("y {allowed}\n"));
    result(&house, "42");
    phone.wait_for(&format!("{allowed}: allowed"));
    house.wait_ready();
    house.write("in.t", "bash: rm -r everything\n");
    let denied = code(&house, &phone);
    house.write("in.t", "say: afterwards\n");
    house.write("in.phone", format!("n {denied} not on a Friday\n"));
    result(&house, "not on a Friday");
    house.wait_until("the queue to go on", || {
        house.model_prompts().iter().any(|prompt| prompt.contains("say: afterwards"))
    });
    assert!(
        house.model_prompts().iter().all(|prompt| !prompt.contains(&denied)),
        "{:?}",
        house.model_prompts()
    );
}

/// Acceptance G7.
#[test]
fn a_question_is_answered_by_number_and_by_words_in_bypass_mode() {
    let Some(house) = claude::ready(SETTINGS) else { return };
    answered_both_ways(&house);
}

/// Acceptance G7.
#[test]
fn a_question_is_answered_by_number_and_by_words_in_default_mode() {
    let Some(house) = in_default_mode("") else { return };
    answered_both_ways(&house);
}

fn answered_both_ways(house: &House) {
    let phone = house.listen_to("out.phone");
    house.write("in.t", "ask: Which colour?\n");
    let number = code(house, &phone);
    phone.wait_for("  2. Beta");
    house.write("in.phone", format!("{number} 2\n"));
    result(house, "Beta");
    house.wait_ready();
    house.write("in.t", "ask: Which size?\n");
    let words = code(house, &phone);
    assert_eq!(house.ccmux_ok(&["answer", &words, "a size of my own"]), "answered\n");
    result(house, "a size of my own");
}

/// Acceptance G7.
#[test]
fn the_terminal_is_first_and_the_hook_goes() {
    let Some(house) = in_default_mode("") else { return };
    let phone = house.listen_to("out.phone");
    house.write("in.t", "bash: sleep 15; echo $((6 * 7)) > slow; cat slow\n");
    let late = code(&house, &phone);
    house.wait_for_state(StateWord::Dialog);
    house.wait_until("the dialog", || house.screen().contains("1. Yes"));
    let answered = Instant::now();
    // A dialog that was only just drawn may take no key yet.
    house.wait_until("the dialog to be answered", || {
        house.send_keys(&["Enter"]);
        !house.screen().contains("1. Yes")
    });
    house.wait_until("the hook to go", || open_asks(&house).is_empty());
    let took = answered.elapsed();
    // The command runs for 15 s: the dialog's end was enough. (Acceptance asks for a second; this machine may be loaded.)
    assert!(took < Duration::from_secs(10), "{took:?}");
    println!("terminal first: the hook was gone after {took:?}");
    house.write("in.phone", format!("n {late}\n"));
    phone.wait_for(&format!("{late}: too late: it was answered at the terminal"));
    result(&house, "42");
}

/// Two files outside of the project: Claude asks about both at once, and shows one dialog after the other. (Commands that
/// change something it runs one by one.)
fn two_dialogs(house: &House, phone: &Listening) -> [String; 2] {
    let files = ["one", "two"].map(|name| {
        let file = house.path(&format!("outside-{name}"));
        std::fs::write(&file, format!("this is {name}\n")).unwrap();
        file
    });
    let calls = files.map(|file| serde_json::json!(["Read", {"file_path": file}]));
    house.write("in.t", format!("tools: {}\n", serde_json::json!(calls)));
    let codes = ["outside-one", "outside-two"].map(|name| {
        house.wait_for("both to be asked", || {
            let ask =
                open_asks(house).into_iter().find(|ask| ask["text"].as_str().unwrap().contains(name))?;
            Some(ask["code"].as_str().unwrap().to_owned())
        })
    });
    codes.iter().for_each(|code| drop(phone.wait_for(&format!("code: {code}"))));
    house.wait_until("the dialog", || house.screen().contains("Do you want to proceed?"));
    codes
}

/// The file whose dialog is on the screen: 0 or 1.
fn shown(house: &House) -> Option<usize> {
    let screen = house.screen();
    let shows = |name: &str| screen.contains(&format!("Read({}", house.path(name).display()));
    let dialog = screen.contains("Do you want to proceed?");
    ["outside-one", "outside-two"].iter().position(|name| shows(name)).filter(|_| dialog)
}

/// A dialog that was only just drawn may take no key yet; one that did takes a moment to go, and the next one must not get it.
fn press_at_dialog(house: &House, key: &str, first: usize) {
    let mut pressed: Option<Instant> = None;
    house.wait_until("the dialog to be answered", || {
        let is_shown = shown(house) == Some(first);
        if is_shown && pressed.is_none_or(|at| at.elapsed() > Duration::from_secs(5)) {
            house.send_keys(&[key]);
            pressed = Some(Instant::now());
        }
        !is_shown
    });
}

/// Issue 8, point 4.
#[test]
fn of_two_dialogs_the_human_allows_the_first_and_the_second_is_answered_from_afar() {
    let Some(house) = in_default_mode("") else { return };
    let phone = house.listen_to("out.phone");
    let codes = two_dialogs(&house, &phone);
    let first = house.wait_for("a dialog", || shown(&house));
    let second = 1 - first;
    press_at_dialog(&house, "Enter", first);
    house.wait_until("the first ask to be over, and the second to wait", || {
        let open = open_asks(&house);
        open.len() == 1 && open[0]["code"] == codes[second].as_str()
    });
    house.write("in.phone", format!("n {}\n", codes[first]));
    phone.wait_for(&format!("{}: too late: it was answered at the terminal", codes[first]));
    house.write("in.phone", format!("n {} not on a Friday\n", codes[second]));
    result(&house, "not on a Friday");
    phone.wait_for(&format!("{}: denied", codes[second]));
}

/// Issue 8, point 4.
#[test]
fn an_answer_to_the_dialog_that_is_not_shown_is_proved_and_the_other_one_stays() {
    let Some(house) = in_default_mode("") else { return };
    let phone = house.listen_to("out.phone");
    let codes = two_dialogs(&house, &phone);
    let first = house.wait_for("a dialog", || shown(&house));
    let second = 1 - first;
    house.write("in.phone", format!("y {}\n", codes[second]));
    phone.wait_for(&format!("{}: allowed", codes[second]));
    house.wait_until("the human's dialog to stay", || shown(&house) == Some(first));
    assert_eq!(open_asks(&house)[0]["code"], codes[first].as_str());
    house.write("in.phone", format!("y {}\n", codes[first]));
    phone.wait_for(&format!("{}: allowed", codes[first]));
    result(&house, "this is one");
    result(&house, "this is two");
}

/// A sub-agent's calls are in a transcript of its own.
#[test]
fn two_sub_agents_ask_at_once_and_each_answer_is_proved() {
    let Some(house) = in_default_mode("") else { return };
    let phone = house.listen_to("out.phone");
    let calls = ["one", "two"].map(|name| {
        let input = serde_json::json!({
            "description": name, "subagent_type": "general-purpose", "prompt": format!("bash: echo {name} > made-by-{name}"),
        });
        serde_json::json!(["Agent", input])
    });
    house.write("in.t", format!("tools: {}\n", serde_json::json!(calls)));
    let codes = ["made-by-one", "made-by-two"].map(|name| {
        house.wait_for("both to be asked", || {
            let ask =
                open_asks(&house).into_iter().find(|ask| ask["text"].as_str().unwrap().contains(name))?;
            Some(ask["code"].as_str().unwrap().to_owned())
        })
    });
    house.write("in.phone", format!("y {}\n", codes[0]));
    phone.wait_for(&format!("{}: allowed", codes[0]));
    house.wait_until("the first command", || house.proj().join("made-by-one").exists());
    house.write("in.phone", format!("n {} not today\n", codes[1]));
    phone.wait_for(&format!("{}: denied", codes[1]));
    assert!(!house.proj().join("made-by-two").exists());
}

/// A no at the terminal is Claude's no to all calls of the message: the turn ends, and no hook is left.
#[test]
fn of_two_dialogs_the_human_rejects_the_first_and_both_are_over() {
    let Some(house) = in_default_mode("") else { return };
    let phone = house.listen_to("out.phone");
    let codes = two_dialogs(&house, &phone);
    let first = house.wait_for("a dialog", || shown(&house));
    press_at_dialog(&house, "Escape", first);
    house.wait_until("both to be over", || open_asks(&house).is_empty());
    // Of one that Claude itself ends the hook, before anything else tells, it is said that nobody waits any more.
    for code in &codes {
        house.write("in.phone", format!("y {code}\n"));
        phone.wait_for(&format!("{code}: too late: "));
    }
    result(&house, "doesn't want to proceed");
}

/// Acceptance G7.
#[test]
fn nobody_answers_in_time_and_claudes_own_dialog_stays() {
    let Some(house) = in_default_mode("wait = 3\n") else { return };
    let phone = house.listen_to("out.phone");
    house.write("in.t", "bash: echo $((6 * 7)) > slow; cat slow\n");
    let expired = code(&house, &phone);
    house.wait_until("the ask to be over", || open_asks(&house).is_empty());
    house.write("in.phone", format!("y {expired}\n"));
    phone.wait_for(&format!("{expired}: too late: nobody answered in time"));
    assert!(house.why().starts_with("closed: dialog"), "{}", house.why());
    house.send_keys(&["Enter"]);
    result(&house, "42");
}

#[test]
fn a_turn_is_interrupted_and_the_queue_goes_on() {
    let Some(house) = claude::ready(SETTINGS) else { return };
    let refused = house.ccmux(&["interrupt"]);
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    // Before any output: the prompt comes back into the box, and is cleared.
    thread::scope(|scope| {
        let waits = scope.spawn(|| house.ccmux(&["send", "--wait", "answered", "silent: 60"]));
        house.wait_until("the API to be asked", || {
            house.model_prompts().iter().any(|prompt| prompt.contains("silent: 60"))
        });
        house.wait_for_state(StateWord::Busy);
        house.write("in.t", "say: afterwards\n");
        assert_eq!(house.ccmux_ok(&["interrupt"]), "interrupted\n");
        let said = String::from_utf8_lossy(&waits.join().unwrap().stderr).into_owned();
        assert!(said.contains("its turn ended before Claude wrote anything"), "{said}");
    });
    house.wait_until("the queue to go on", || {
        house.model_prompts().iter().any(|prompt| prompt.ends_with("say: afterwards"))
    });
    house.wait_ready();
    house.write("in.t", "slow: 60\n");
    house.wait_for_screen("word3");
    assert_eq!(house.ccmux_ok(&["interrupt"]), "interrupted\n");
    house.wait_ready();
}
