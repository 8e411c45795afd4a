//! Exits and failures of the real Claude Code: what each is taken for, and what follows.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ccmux_tests::{House, claude};
use ccmux_wire::status::StateWord;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// Claude takes its time to start.
const START: Duration = Duration::from_secs(60);

fn wait_ready(house: &House) {
    house.wait_within(START, "Claude to be ready", || {
        house.state().filter(|state| *state == StateWord::Ready)
    });
}

fn ready() -> Option<House> {
    let house = House::with_claude(&claude::or_skip()?);
    house.start();
    wait_ready(&house);
    Some(house)
}

fn types(house: &House, text: &str) {
    house.send_keys(&["-l", text]);
    house.wait_for_screen(text);
    house.send_keys(&["Enter"]);
}

/// Field fault 33.
#[test]
fn f33_a_usage_limit_is_waited_for_and_what_waits_goes_in_by_itself() {
    let Some(house) = ready() else { return };
    let (subscriber, told) = (house.subscribe(), house.listen_to("out.phone"));
    let resets_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 12;
    house.write("in.phone", format!("error: 429 Claude AI usage limit reached|{resets_at}\n"));
    subscriber.wait_for_alert("held");
    house.write("in.phone", "say: first of those that waited\n");
    house.write("in.phone", "say: second of those that waited\n");
    house.wait_until("both to wait", || house.status().queue.messages == 2);
    house.wait_for_state(StateWord::Held);
    assert!(house.why().starts_with("closed: held: Claude's usage limit is reached; "), "{}", house.why());
    subscriber.wait_for_text("first of those that waited");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(now >= resets_at, "{} s too early", resets_at - now);
    subscriber.wait_for_text("second of those that waited");
    subscriber.wait_for_alert("resumed");
    for kind in ["failure", "held", "resumed"] {
        assert_eq!(subscriber.alerts_of(kind).len(), 1, "{kind}: {:?}", subscriber.alerts());
    }
    let told = told.lines();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].starts_with("[ccmux] Claude gave no answer: ")
            && told[1].starts_with("[ccmux] Messages wait: ")
    );
}

/// Field fault 33. The words that Claude Code has for the API's answers, and what each leads to.
#[test]
fn f33_each_failure_of_the_api_is_held_as_long_as_it_lasts() {
    let Some(house) = ready() else { return };
    let subscriber = house.subscribe();
    for (text, held, why) in [
        ("error: 429 rejected", true, "Claude's usage limit is reached; nothing is sent until "),
        ("error: 529 overloaded", true, "the API is overloaded or can't be reached; nothing is sent until "),
        ("error: 401 bad key", true, "the API refuses Claude's login, account or model; "),
        ("error: 404 no such model", true, "the API refuses Claude's login, account or model; "),
        ("error: 400 bad request", false, ""),
    ] {
        let before = subscriber.alerts_of("failure").len();
        house.send("delivered", text);
        house.wait_until("the failure", || subscriber.alerts_of("failure").len() > before);
        if held {
            house.wait_for_state(StateWord::Held);
            assert!(house.why().contains(why), "{text}: {}", house.why());
            house.ccmux_ok(&["reload"]);
        }
        house.wait_ready();
    }
    assert_eq!(house.status().agent.restarts, 0);
}

/// Acceptance F4.
#[test]
fn f4_clear_and_compact_are_no_ends() {
    let Some(house) = ready() else { return };
    let (agent, before) = (house.agent_pid(), house.status().session);
    house.send("answered", "say: before");
    types(&house, "/clear");
    house.wait_until("another session", || house.status().session != before);
    house.wait_ready();
    house.send("answered", "say: after the clear");
    let cleared = house.status().session;
    types(&house, "/compact");
    house.wait_for_screen("ompacted");
    house.wait_ready();
    house.send("answered", "say: after the compact");
    assert_eq!(house.status().session, cleared);
    assert_eq!((house.agent_pid(), house.status().agent.restarts), (agent, 0));
}

/// Acceptance F4. An agent that ended is started again with its conversation, and the alert says how it ended.
#[test]
fn f4_every_end_is_told_and_followed_by_a_start_with_the_conversation() {
    let Some(house) = ready() else { return };
    let subscriber = house.subscribe();
    house.send("answered", "say: remember me");
    let session = house.status().session;
    let signal = |signal| kill(Pid::from_raw(house.agent_pid()), signal).unwrap();
    let ends: [(&dyn Fn(), &str); 4] = [
        (&|| types(&house, "/exit"), "with code 0"),
        (
            &|| {
                house.send_keys(&["C-c"]);
                house.wait_for_screen("again to exit");
                house.send_keys(&["C-c"]);
            },
            "with code 0",
        ),
        (&|| signal(Signal::SIGTERM), "with code 143"),
        (&|| signal(Signal::SIGHUP), "with code 129"),
    ];
    for (nth, (end, how)) in ends.into_iter().enumerate() {
        let old = house.agent_pid();
        end();
        house.wait_within(START, "another agent", || {
            (house.status().agent.restarts as usize == nth + 1 && house.agent_pid() != old).then_some(())
        });
        let alert = subscriber.alerts_of("agent_exited").pop().unwrap();
        let message = alert["alert"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(&format!("(pid {old}) ended {how}")), "{message}");
        wait_ready(&house);
        assert_eq!(house.status().session, session, "after {how}");
    }
    house.wait_for_screen("remember me");
}

/// Changes a file of Claude's own in a house that is not started yet.
fn change(house: &House, file: &str, change: impl FnOnce(&mut Value)) {
    let path = house.home().join(file);
    let mut content: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut content);
    fs::write(path, content.to_string()).unwrap();
}

/// Makes a house one in which Claude asks at its start.
type Prepare<'a> = &'a dyn Fn(&House);

/// Field fault 27. Acceptance C6.
#[test]
fn f27_every_dialog_at_the_start_is_named_with_its_remedy_and_gets_no_key() {
    let Some(claude) = claude::or_skip() else { return };
    let trust = |house: &House| change(house, ".claude.json", |state| state["projects"] = json!({}));
    let key =
        |house: &House| change(house, ".claude.json", |state| state["customApiKeyResponses"] = json!({}));
    let settings = |house: &House| {
        change(house, ".claude/settings.json", |settings| {
            settings["hooks"] = json!({"NoSuchEvent": [{"hooks": [{"type": "command", "command": "true"}]}]});
        });
    };
    let cases: [(Prepare<'_>, &str, &str); 3] = [
        (&trust, "trust", "ccmuxd setup"),
        (&key, "API key", "ccmuxd setup"),
        (&settings, "settings error", "mend the settings file"),
    ];
    for (prepare, name, remedy) in cases {
        let house = House::with_claude(&claude);
        prepare(&house);
        house.start();
        let subscriber = house.subscribe_with("{\"since\":0}\n");
        let said =
            house.wait_for(&format!("the alert about {name}"), || subscriber.alerts_of("start_dialog").pop());
        let said = said["alert"]["message"].to_string();
        assert!(said.contains(&format!("({name})")) && said.contains(remedy), "{name}: {said}");
        house.write("in.t", "say: too early\n");
        house.is_left_alone("closed: dialog: ");
        assert_eq!(
            (house.status().agent.restarts, subscriber.alerts_of("start_dialog").len()),
            (0, 1),
            "{name}"
        );
    }
}
