//! What counts as an answer, whose, and until when. They know times and codes, no text.

use super::*;

fn at(ms: u64) -> Now {
    Now { mono: Mono(ms), wall: UnixMs(1_000_000 + ms.cast_signed()), utc_offset_s: 0 }
}

fn code(text: &str) -> Code {
    Code::of(text).unwrap()
}

fn session() -> SessionId {
    SessionId::new("s")
}

fn rules(allowed: &[&str]) -> AfarRules {
    AfarRules { wait_ms: 600_000, allowed: allowed.iter().map(|name| (*name).to_owned()).collect() }
}

fn afar() -> Afar {
    Afar::new(rules(&[]), Vec::new(), at(0))
}

fn open(afar: &mut Afar, name: &str, ms: u64) {
    assert!(afar.open(code(name), session(), name.to_owned(), Shape::Permission, at(ms)));
}

fn allow(afar: &mut Afar, name: &str, ms: u64) -> Verdict<'static> {
    afar.answer(&code(name), Reply::Allow, By::Trusted, at(ms))
}

#[test]
fn the_first_answer_wins_and_later_ones_are_told_so() {
    let mut afar = afar();
    open(&mut afar, "bbbbb", 0);
    assert_eq!(allow(&mut afar, "bbbbb", 10), Verdict::Decided(Decision::Allow));
    let deny = afar.answer(&code("bbbbb"), Reply::Deny(None), By::Trusted, at(11));
    assert_eq!(deny, Verdict::TooLate(End::Answered));
    assert_eq!(allow(&mut afar, "ccccc", 12), Verdict::Unknown);
}

#[test]
fn an_answer_that_does_not_fit_leaves_the_ask_open() {
    let mut afar = afar();
    open(&mut afar, "bbbbb", 0);
    let unclear = afar.answer(&code("bbbbb"), Reply::Text("2"), By::Trusted, at(1));
    assert_eq!(unclear, Verdict::Unclear(Misfit::NeedsYesOrNo));
    assert_eq!(allow(&mut afar, "bbbbb", 2), Verdict::Decided(Decision::Allow));
}

#[test]
fn only_allowed_senders_answer() {
    let mut afar = Afar::new(rules(&["anna"]), Vec::new(), at(0));
    open(&mut afar, "bbbbb", 0);
    let mut by = |by| afar.answer(&code("bbbbb"), Reply::Allow, by, at(1));
    assert_eq!(by(By::Sender(None)), Verdict::NotAllowed);
    assert_eq!(by(By::Sender(Some("eve"))), Verdict::NotAllowed);
    assert_eq!(by(By::Sender(Some("anna"))), Verdict::Decided(Decision::Allow));
    assert_eq!(by(By::Sender(Some("eve"))), Verdict::NotAllowed, "who may not answer learns nothing");
    assert_eq!(by(By::Trusted), Verdict::TooLate(End::Answered));
}

#[test]
fn nobody_answers_in_time() {
    let mut afar = afar();
    open(&mut afar, "bbbbb", 0);
    assert_eq!(afar.next_deadline(), Some(Mono(600_000)));
    assert_eq!(afar.deadline(at(599_999)), []);
    assert_eq!(afar.deadline(at(600_000)), [(code("bbbbb"), End::Expired)]);
    assert_eq!(allow(&mut afar, "bbbbb", 600_001), Verdict::TooLate(End::Expired));
    assert_eq!(afar.next_deadline(), None);
}

/// Acceptance G7.
#[test]
fn a_dialog_that_is_gone_releases_within_a_second() {
    let mut afar = afar();
    afar.file_says(FileState::Busy, at(0));
    open(&mut afar, "bbbbb", 10);
    afar.file_says(FileState::Busy, at(20));
    assert_eq!(afar.deadline(at(5_000)), [], "it has not come yet");
    afar.file_says(FileState::Waiting("permission prompt".into()), at(5_100));
    afar.file_says(FileState::Busy, at(9_000));
    let due = afar.next_deadline().unwrap();
    assert!(due.since(Mono(9_000)) < 500);
    assert_eq!(afar.deadline(at(due.0)), [(code("bbbbb"), End::AtTerminal)]);
    assert_eq!(allow(&mut afar, "bbbbb", 10_000), Verdict::TooLate(End::AtTerminal));
}

#[test]
fn between_two_dialogs_nothing_is_released() {
    let mut afar = afar();
    let waiting = || FileState::Waiting("permission prompt".into());
    open(&mut afar, "bbbbb", 0);
    afar.file_says(waiting(), at(100));
    open(&mut afar, "ccccc", 200);
    afar.file_says(FileState::Busy, at(1_000));
    afar.file_says(waiting(), at(1_100));
    assert_eq!(afar.deadline(at(2_000)), []);
    afar.file_says(FileState::Idle, at(3_000));
    let closed = afar.deadline(at(3_300));
    assert_eq!(closed, [(code("bbbbb"), End::AtTerminal), (code("ccccc"), End::AtTerminal)]);
}

#[test]
fn without_a_state_file_the_screen_tells() {
    let mut afar = afar();
    assert!(!afar.wants_looks());
    open(&mut afar, "bbbbb", 0);
    assert!(afar.wants_looks());
    afar.screen_shows(ScreenClass::Busy, at(10));
    assert_eq!(afar.next_deadline(), Some(Mono(600_000)), "the dialog has not come yet");
    afar.screen_shows(ScreenClass::Dialog, at(700));
    afar.screen_shows(ScreenClass::Unknown, at(1_400));
    afar.screen_shows(ScreenClass::Busy, at(2_100));
    assert_eq!(afar.deadline(at(2_400)), [(code("bbbbb"), End::AtTerminal)]);
    open(&mut afar, "ccccc", 3_000);
    afar.file_says(FileState::Waiting("x".into()), at(3_100));
    afar.screen_shows(ScreenClass::Busy, at(3_200));
    assert!(afar.next_deadline().unwrap() > Mono(10_000), "the state file is asked first");
}

#[test]
fn a_turns_end_closes_what_was_asked_in_it_but_not_what_still_shows() {
    let mut afar = afar();
    open(&mut afar, "bbbbb", 0);
    assert_eq!(afar.turn_over(&SessionId::new("other"), at(1)), []);
    afar.file_says(FileState::Waiting("permission prompt".into()), at(2));
    assert_eq!(afar.turn_over(&session(), at(3)), [], "a sub-agent's outlasts the turn");
    afar.file_says(FileState::Absent, at(4));
    assert_eq!(afar.turn_over(&session(), at(5)), [code("bbbbb")]);
}

#[test]
fn hooks_of_one_event_are_one_ask_and_a_later_one_is_another() {
    let mut afar = afar();
    open(&mut afar, "bbbbb", 0);
    assert_eq!(afar.same(&session(), "bbbbb", at(1_500)), Some(&code("bbbbb")));
    assert_eq!(afar.same(&session(), "other", at(1_500)), None);
    assert_eq!(afar.same(&SessionId::new("t"), "bbbbb", at(1_500)), None);
    assert_eq!(afar.same(&session(), "bbbbb", at(2_500)), None, "Claude asks the same again");
    assert_eq!(afar.code_of(&session(), "bbbbb"), Some(&code("bbbbb")));
    allow(&mut afar, "bbbbb", 2_600);
    assert_eq!(afar.same(&session(), "bbbbb", at(2_601)), None);
    assert_eq!(afar.code_of(&session(), "bbbbb"), None);
}

#[test]
fn a_code_is_issued_once_a_day() {
    let mut afar =
        Afar::new(rules(&[]), vec![(code("bbbbb"), None), (code("ccccc"), Some(UnixMs(0)))], at(0));
    assert!(!afar.open(code("bbbbb"), session(), "x".into(), Shape::Permission, at(1)));
    assert_eq!(allow(&mut afar, "bbbbb", 2), Verdict::TooLate(End::Left), "its daemon is gone");
    assert!(afar.knows(&code("bbbbb")));
    let day = 24 * 60 * 60 * 1000;
    assert_eq!(afar.forget(at(day - 1)), [code("ccccc")]);
    assert_eq!(afar.forget(at(day)), [code("bbbbb")]);
    assert!(!afar.knows(&code("bbbbb")));
}

#[test]
fn hooks_that_are_gone_and_an_agent_that_is_gone_close() {
    let mut afar = afar();
    open(&mut afar, "bbbbb", 0);
    open(&mut afar, "ccccc", 0);
    assert!(afar.left(&code("bbbbb"), at(1)));
    assert!(!afar.left(&code("bbbbb"), at(2)));
    assert_eq!(afar.agent_gone(at(3)), [code("ccccc")]);
    open(&mut afar, "ddddd", 10);
    assert!(afar.left(&code("ddddd"), at(599_900)));
    assert_eq!(
        allow(&mut afar, "ddddd", 600_000),
        Verdict::TooLate(End::Expired),
        "the hook's clock was first"
    );
    assert_eq!(allow(&mut afar, "ccccc", 4), Verdict::TooLate(End::Left));
}

#[test]
fn an_answer_is_certain_only_if_no_other_dialog_was_open() {
    let mut afar = afar();
    open(&mut afar, "bbbbb", 0);
    assert!(afar.is_certain(&code("bbbbb")));
    assert!(afar.open(code("fffff"), SessionId::new("t"), "x".into(), Shape::Permission, at(1)));
    assert!(afar.is_certain(&code("bbbbb")), "that is another session's");
    open(&mut afar, "ccccc", 2);
    allow(&mut afar, "ccccc", 3);
    assert_eq!(allow(&mut afar, "bbbbb", 4), Verdict::Decided(Decision::Allow), "both can be answered");
    assert!(!afar.is_certain(&code("bbbbb")) && !afar.is_certain(&code("ccccc")));
    open(&mut afar, "ddddd", 5);
    assert!(afar.is_certain(&code("ddddd")), "nothing is open beside it");
}

/// Two asks, of which only the transcript tells what becomes of them.
fn two() -> Afar {
    let mut afar = afar();
    open(&mut afar, "bbbbb", 0);
    assert!(!afar.wants_proof(&code("bbbbb")), "the dialog's end is proof enough");
    open(&mut afar, "ccccc", 1);
    assert!(afar.wants_proof(&code("bbbbb")) && afar.wants_proof(&code("ccccc")));
    afar
}

#[test]
fn a_settled_call_closes_its_ask_and_no_other() {
    for how in [Settled::Granted, Settled::Rejected, Settled::Failed] {
        let mut afar = two();
        assert_eq!(afar.settled(&code("bbbbb"), how, at(2)), Some(Proof::AtTerminal));
        assert_eq!(afar.settled(&code("bbbbb"), how, at(3)), None, "that is known");
        assert_eq!(allow(&mut afar, "bbbbb", 4), Verdict::TooLate(End::AtTerminal));
        assert_eq!(allow(&mut afar, "ccccc", 5), Verdict::Decided(Decision::Allow));
    }
}

#[test]
fn what_was_passed_on_holds_or_came_too_late() {
    let mut afar = two();
    allow(&mut afar, "bbbbb", 2);
    assert!(afar.wants_proof(&code("bbbbb")));
    assert_eq!(afar.settled(&code("bbbbb"), Settled::Failed, at(3)), None, "whoever let it run");
    assert_eq!(afar.settled(&code("bbbbb"), Settled::Granted, at(3)), Some(Proof::Holds(Word::Allowed)));
    assert!(!afar.wants_proof(&code("bbbbb")));
    assert_eq!(allow(&mut afar, "bbbbb", 4), Verdict::TooLate(End::Answered));
    afar.answer(&code("ccccc"), Reply::Deny(None), By::Trusted, at(5));
    assert_eq!(
        afar.settled(&code("ccccc"), Settled::Granted, at(6)),
        Some(Proof::Late),
        "the human had said yes"
    );
    assert_eq!(allow(&mut afar, "ccccc", 7), Verdict::TooLate(End::AtTerminal));
}

#[test]
fn whose_answer_a_question_got_only_a_hooks_decision_tells() {
    for (how, proof) in [
        (Settled::Granted, None),
        (Settled::Rejected, Some(Proof::Late)),
        (Settled::ByHook { allowed: true }, Some(Proof::Holds(Word::Answered))),
    ] {
        let mut afar = afar();
        open(&mut afar, "bbbbb", 0);
        let shape = Shape::Questions(vec![QuestionShape { choices: 2, several: false }]);
        assert!(afar.open(code("ccccc"), session(), "q".into(), shape, at(1)));
        afar.answer(&code("ccccc"), Reply::Text("2"), By::Trusted, at(2));
        assert_eq!(afar.settled(&code("ccccc"), how, at(3)), proof);
    }
}

#[test]
fn a_proof_that_nobody_waits_for_is_none() {
    let mut afar = two();
    allow(&mut afar, "bbbbb", 2);
    afar.give_up_proof(&code("bbbbb"));
    assert!(!afar.wants_proof(&code("bbbbb")));
    assert_eq!(afar.settled(&code("bbbbb"), Settled::Rejected, at(3)), None);
    assert_eq!(afar.settled(&code("zzzzz"), Settled::Granted, at(3)), None);
}

/// Claude Code 2.1.332 shows no dialog of a background sub-agent while a hook waits, and the turn that began it ends.
#[test]
fn what_a_sub_agent_asks_outlasts_the_turn_and_the_dialog_of_another() {
    let mut afar = afar();
    open(&mut afar, "bbbbb", 0);
    afar.asked_by_sub_agent(&code("bbbbb"));
    assert!(afar.wants_proof(&code("bbbbb")));
    assert_eq!(afar.turn_over(&session(), at(1)), []);
    open(&mut afar, "ccccc", 2);
    afar.file_says(FileState::Waiting("permission prompt".into()), at(3));
    afar.file_says(FileState::Busy, at(4));
    assert_eq!(afar.deadline(at(400)), [(code("ccccc"), End::AtTerminal)]);
    assert_eq!(afar.settled(&code("bbbbb"), Settled::Granted, at(500)), Some(Proof::AtTerminal));
}

#[test]
fn a_sub_agents_only_dialog_that_is_gone_was_its_own() {
    let mut afar = afar();
    open(&mut afar, "bbbbb", 0);
    afar.asked_by_sub_agent(&code("bbbbb"));
    afar.file_says(FileState::Waiting("permission prompt".into()), at(3));
    afar.file_says(FileState::Busy, at(4));
    assert_eq!(afar.deadline(at(400)), [(code("bbbbb"), End::AtTerminal)]);
}
