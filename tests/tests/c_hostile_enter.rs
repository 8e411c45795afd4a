//! Acceptance C8 on the demo agent: an Enter that is swallowed, ignored or of the wrong form, a paste that is lost. Each
//! message arrives once, and nothing is called delivered before the agent's own transcript says so.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use ccmux_tests::House;
use ccmux_tests::patience::at_once;
use ccmux_wire::receipt::{MessageState, Proof};

/// More Enters than this are not pressed for one batch.
const MOST_ENTERS: u32 = 3;

/// Field fault 1. Acceptance C8.
#[test]
fn a_swallowed_enter_is_pressed_again_and_nothing_is_called_delivered_before() {
    at_once(1..MOST_ENTERS, |swallowed| {
        let house = House::builder().agent("CCMUX_DEMO_SWALLOW_ENTER", swallowed).ready();
        for n in 0..2 {
            let receipt = house.send("delivered", &format!("say: n{n}"));
            assert_eq!((receipt.state >= MessageState::Delivered, receipt.proof), (true, Some(Proof::Hook)));
            assert_eq!(house.log_events("batch.entered").len(), (n + 1) * (swallowed as usize + 1));
            house.claims_are_true();
        }
        house.arrived_once("default", &["say: n0".into(), "say: n1".into()]);
    });
}

/// Field fault 1. Acceptance C8.
#[test]
fn when_every_enter_is_swallowed_it_is_uncertain_and_a_humans_enter_mends_the_receipt() {
    at_once([MOST_ENTERS, MOST_ENTERS + 1], |swallowed| {
        let house = House::builder().agent("CCMUX_DEMO_SWALLOW_ENTER", swallowed).ready();
        let alerts = house.subscribe();
        let output = house.ccmux(&["send", "--wait", "delivered", "--timeout", "60", "say: stranded"]);
        assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
        alerts.wait_for_alert("uncertain");
        assert_eq!(house.log_events("batch.entered").len(), MOST_ENTERS as usize);
        assert!(house.prompts().is_empty() && house.log_events("batch.delivered").is_empty());
        assert_eq!(house.screen().matches("say: stranded").count(), 1, "{}", house.screen());
        // What comes meanwhile waits behind it.
        house.write("in.t", "say: behind it\n");
        house.wait_until("it to wait", || house.status().queue.messages == 1);
        for _ in MOST_ENTERS..=swallowed {
            house.send_keys(&["Enter"]);
        }
        house.wait_for_prompt("say: stranded");
        house.wait_until("the receipt to be mended", || !house.log_events("batch.delivered").is_empty());
        house.claims_are_true();
    });
}

/// Field fault 1. Acceptance C8.
#[test]
fn an_agent_that_is_deaf_after_a_paste_gets_each_message_once_and_no_claim_comes_early() {
    for deaf_ms in [[0, 20, 60, 100], [120, 160, 200, 250], [350, 500, 750, 1000]] {
        at_once(deaf_ms, |deaf_ms| {
            let house = House::builder().agent("CCMUX_DEMO_ENTER_DEAF_MS", deaf_ms).ready();
            let texts: Vec<String> = (0..3).map(|n| format!("say: after {deaf_ms} ms, n{n}")).collect();
            let mut fifo = house.open_fifo("in.t");
            for (n, text) in texts.iter().enumerate() {
                std::io::Write::write_all(&mut fifo, format!("{text}\n").as_bytes()).unwrap();
                house.wait_for_messages(n + 1);
            }
            house.wait_until("all receipts", || house.log_events("batch.delivered").len() >= 3);
            house.arrived_once("t", &texts);
            house.claims_are_true();
        });
    }
}

/// Field fault 2. Acceptance C8.
#[test]
fn an_enter_of_the_wrong_form_is_never_a_success_and_the_right_one_mends_the_receipt() {
    let forms: [(&str, &[&str]); 2] = [("lf", &["C-j"]), ("csi", &["-H", "1b", "5b", "31", "33", "75"])];
    let cases = forms.into_iter().flat_map(|form| [(form, ""), (form, "classic")]);
    at_once(cases, |((form, keys), renderer)| {
        let house = House::builder()
            .agent("CCMUX_DEMO_ENTER_FORM", form)
            .agent("CCMUX_DEMO_RENDERER", renderer)
            .ready();
        let alerts = house.subscribe();
        house.write("in.t", "say: a form of enter\n");
        alerts.wait_for_alert("uncertain");
        assert!(house.prompts().is_empty() && house.log_events("batch.delivered").is_empty(), "{form}");
        assert!(house.screen().contains("say: a form of enter"), "{form}: {}", house.screen());
        house.send_keys(keys);
        house.wait_until("the receipt to be mended", || !house.log_events("batch.delivered").is_empty());
        house.claims_are_true();
        house.arrived_once("t", &["say: a form of enter".into()]);
    });
    let house = House::builder().agent("CCMUX_DEMO_ENTER_FORM", "cr").ready();
    house.send("delivered", "say: the right form");
    house.claims_are_true();
}

/// Acceptance C8.
#[test]
fn lost_pastes_are_typed_again_until_one_stays_and_the_message_says_so() {
    at_once([1, 2, 3], |lost| {
        let house = House::builder().agent("CCMUX_DEMO_DROP_PASTE", lost).ready();
        house.write("in.t", "say: lost at first\n");
        let found = house.wait_within(Duration::from_secs(60), "the prompt", || house.prompts().pop());
        assert!(found.ends_with("t] (redelivered) say: lost at first"), "{found}");
        house.arrived_once("t", &["say: lost at first".into()]);
        house.claims_are_true();
        assert_eq!(house.log_events("batch.requeued").len(), lost, "{found}");
        house.gets_no_more_than(1);
    });
}
