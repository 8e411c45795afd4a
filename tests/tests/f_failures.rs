//! Acceptance F on the demo agent: the API fails, and messages are held back until it may answer again.
//!
//! Names begin with the number of the fault from the field.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ccmux_tests::House;
use ccmux_tests::patience::{at_once, stays_quiet};
use ccmux_wire::status::StateWord;

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// What makes a turn fail for a usage limit that ends then.
fn limit_until(seconds: u64) -> String {
    format!("error: 429 Claude AI usage limit reached|{seconds}\n")
}

/// Field fault 33.
#[test]
fn f33_what_waits_for_a_usage_limit_goes_in_by_itself_and_its_senders_know() {
    let house = House::builder().ready();
    let (subscriber, told) = (house.subscribe(), house.listen_to("out.t"));
    let resets_at = seconds() + 5;
    house.write("in.t", limit_until(resets_at));
    let failure = subscriber.wait_for_alert("failure");
    assert_eq!(failure["alert"]["messages"][0], "m-1");
    house.write("in.t", "say: one\n");
    house.write("in.quiet", "say: two\n");
    house.wait_until("both to wait", || house.status().queue.messages == 2);
    house.wait_for_state(StateWord::Held);
    told.wait_for("[ccmux] Claude gave no answer: Claude's usage limit is reached; nothing is sent until ");
    told.wait_for("[ccmux] Messages wait: Claude's usage limit is reached; nothing is sent until ");
    subscriber.wait_for_text("one");
    assert!(seconds() >= resets_at, "{} s too early", resets_at - seconds());
    subscriber.wait_for_text("two");
    subscriber.wait_for_alert("resumed");
    assert_eq!(told.lines().len(), 2, "{:?}", told.lines());
    assert_eq!((subscriber.alerts_of("held").len(), subscriber.alerts_of("failure").len()), (1, 1));
}

/// Field fault 33. The transcript proves the failure although its hook is lost.
#[test]
fn f33_a_failure_whose_hook_is_lost_is_told_and_held_all_the_same() {
    let house = House::builder().agent("CCMUX_DEMO_HOOKS_DROP", "StopFailure").ready();
    let subscriber = house.subscribe();
    house.write("in.t", limit_until(seconds() + 3600));
    subscriber.wait_for_alert("held");
    assert_eq!(subscriber.alerts_of("failure").len(), 1);
    house.wait_for_state(StateWord::Held);
}

/// Field fault 33.
#[test]
fn f33_a_warning_and_a_failure_of_one_message_hold_nothing() {
    let house = House::builder().ready();
    let subscriber = house.subscribe();
    house.send("answered", "say: You've used 90% of your session limit · resets 3pm (UTC)");
    let refused = house.ccmux(&["send", "--wait", "answered", "error: 400"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(said.contains("nothing will answer it: the API failed in its turn"), "{said}");
    subscriber.wait_for_alert("failure");
    house.send("answered", "say: on it goes");
    assert!(subscriber.alerts_of("held").is_empty(), "{:?}", subscriber.alerts());
}

/// Field fault 33.
#[test]
fn f33_a_refused_login_is_held_without_a_restart_until_somebody_has_acted() {
    let house = House::builder().ready();
    let (subscriber, agent) = (house.subscribe(), house.agent_pid());
    house.send("delivered", "error: 401");
    subscriber.wait_for_alert("held");
    house.write("in.t", "say: afterwards\n");
    house.is_left_alone("closed: held: the API refuses Claude's login, account or model");
    assert_eq!((house.agent_pid(), house.status().agent.restarts), (agent, 0));
    // A human's own turn that ends well proves that it works again.
    house.send_keys(&["-l", "say: works again"]);
    house.wait_for_screen("say: works again");
    house.send_keys(&["Enter"]);
    subscriber.wait_for_text("afterwards");
    assert_eq!(subscriber.alerts_of("held").len(), 1);
}

/// Field fault 33.
#[test]
fn f33_a_hold_outlives_the_daemon_and_its_agent() {
    at_once([true, false], |kills_agent| {
        let house = House::builder().ready();
        let subscriber = house.subscribe();
        house.write("in.t", limit_until(seconds() + 3600));
        subscriber.wait_for_alert("held");
        house.kill9();
        if kills_agent {
            house.kill_agent();
        }
        house.start();
        house.wait_for_state(StateWord::Held);
        house.write("in.t", "say: later\n");
        house.wait_until("the message to wait", || house.status().queue.messages == 1);
        stays_quiet(Duration::from_secs(2), "it was sent", || {
            house.prompts().into_iter().find(|prompt| prompt.contains("later"))
        });
        house.ccmux_ok(&["reload"]);
        house.wait_for_prompt("say: later");
    });
}

/// Field fault 33. The agent is still the one that nobody has logged in.
#[test]
fn f33_a_daemon_that_comes_back_does_not_try_a_refused_login_anew() {
    let house = House::builder().ready();
    let subscriber = house.subscribe();
    house.send("delivered", "error: 401");
    subscriber.wait_for_alert("held");
    house.write("in.t", "say: afterwards\n");
    house.wait_until("the message to wait", || house.status().queue.messages == 1);
    house.kill9();
    house.start();
    house.is_left_alone("closed: held: the API refuses Claude's login, account or model");
    let all = house.subscribe_with("{\"since\":0}\n");
    all.wait_for_alert("held");
    assert_eq!(
        (all.alerts_of("failure").len(), all.alerts_of("resumed").len()),
        (1, 0),
        "{:?}",
        all.alerts()
    );
}

/// Field fault 33. Its failure still stands at the end of the transcript, and nobody tells again that it is mended.
#[test]
fn f33_a_login_that_was_mended_is_not_held_again_by_the_next_daemon() {
    let house = House::builder().ready();
    let subscriber = house.subscribe();
    house.send("delivered", "error: 401");
    subscriber.wait_for_alert("held");
    house.ccmux_ok(&["reload"]);
    subscriber.wait_for_alert("resumed");
    house.kill9();
    house.start();
    house.wait_until("the old failure to be read", || {
        fs::read_to_string(house.state_dir().join("timeline.log")).unwrap().contains("failure_read")
    });
    house.send("answered", "say: works again");
}
