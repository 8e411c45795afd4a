//! The agent without a terminal: bytes go in, time is stepped, rows come out.

use std::sync::mpsc::{Receiver, channel};

use tempfile::TempDir;

use super::*;
use crate::hooks::Verdict;

struct Stage {
    agent: Agent,
    events: Receiver<Event>,
    now: Instant,
    directory: TempDir,
}

impl Stage {
    /// An agent whose box is up.
    fn ready(variables: &[(&str, &str)]) -> Self {
        let mut stage = Self::begun(variables);
        stage.pass(Duration::from_millis(500));
        stage
    }

    fn begun(variables: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let lookup = |name: &str| variables.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned());
        let paths = Paths::new(directory.path().join("config"), directory.path().to_owned());
        let opened = Opened::open(&crate::cli::Conversation::New, &paths).unwrap();
        let (sender, events) = channel();
        let faults = Faults::from_lookup(lookup).unwrap();
        let size = Size { columns: 60, rows: 20 };
        let agent = Agent::new(&Options::default(), faults, paths, Hooks::default(), opened, sender, size);
        Self { now: agent.begun, agent, events, directory }
    }

    /// Lets time pass, from deadline to deadline, and takes in what the hooks answer.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.agent.tick(self.now);
            while let Ok(event) = self.events.try_recv() {
                self.agent.handle(event, self.now);
            }
            let next = self.agent.next_deadline(self.now).filter(|next| *next <= until);
            let Some(next) = next else { break };
            self.now = next.max(self.now + Duration::from_millis(1));
        }
        self.now = until;
    }

    fn types(&mut self, bytes: &[u8]) {
        self.agent.handle(Event::Input(bytes.to_vec()), self.now);
    }

    fn screen(&mut self) -> String {
        self.agent.view(self.now).map(|view| view.frame.rows.join("\n")).unwrap_or_default()
    }

    fn status(&self) -> Status {
        self.agent.status()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn nothing_is_drawn_and_no_enter_counts_before_the_box_is_up() {
    let mut stage = Stage::begun(&[]);
    stage.pass(Duration::from_millis(200));
    stage.types(b"early\r");
    assert_eq!(stage.screen(), "");
    stage.pass(SECOND);
    assert!(stage.screen().contains("❯\u{a0}early") && stage.agent.turn.is_none());
}

#[test]
fn a_slow_turn_takes_its_time_and_then_the_agent_is_silent() {
    let mut stage = Stage::ready(&[]);
    stage.types(b"slow: 3\r");
    stage.pass(2 * SECOND);
    assert_eq!(stage.status(), Status::Busy);
    assert!(stage.screen().contains("word3") && stage.screen().contains("esc to interrupt"));
    stage.pass(2 * SECOND);
    assert_eq!(stage.status(), Status::Idle);
    let (before, deadline) = (stage.screen(), stage.agent.next_deadline(stage.now));
    assert!(deadline.is_none_or(|at| at > stage.now + 50 * SECOND));
    stage.now += 10 * SECOND;
    assert_eq!(stage.screen(), before);
}

#[test]
fn a_dialog_is_reminded_of_once_after_six_seconds() {
    let mut stage = Stage::ready(&[]);
    stage.types(b"perm: ls\r");
    stage.pass(5 * SECOND);
    assert_eq!(stage.status(), Status::PermissionPrompt);
    let runs = stage.agent.last_run;
    stage.pass(3 * SECOND);
    assert_eq!(stage.agent.last_run, runs + 1);
    stage.pass(60 * SECOND);
    assert_eq!(stage.agent.last_run, runs + 1);
}

#[test]
fn a_late_verdict_of_an_interrupted_turn_changes_nothing() {
    let mut stage = Stage::ready(&[]);
    stage.types(b"say: x\r");
    let run = RunId(stage.agent.last_run);
    stage.types(b"\x1b");
    stage.pass(SECOND);
    assert!(stage.screen().contains("❯\u{a0}say: x"));
    stage.agent.handle(Event::HooksDone(run, Verdict::default()), stage.now);
    assert_eq!(stage.status(), Status::Idle);
}

#[test]
fn a_draft_while_busy_takes_the_offer_of_esc_from_the_footer() {
    let mut stage = Stage::ready(&[]);
    stage.types(b"silent: 9\r");
    stage.pass(SECOND);
    assert!(stage.screen().contains("esc to interrupt"));
    stage.types(b"draft");
    assert!(!stage.screen().contains("esc to interrupt"));
}

#[test]
fn enter_switches_decide_which_enter_submits() {
    for (variable, value, lost, counts) in [
        ("CCMUX_DEMO_ENTER_FORM", "csi", &b"\r\n"[..], &b"\x1b[13u"[..]),
        ("CCMUX_DEMO_ENTER_FORM", "lf", b"\r\x1b[13u", b"\n"),
        ("CCMUX_DEMO_SWALLOW_ENTER", "2", b"\r\r", b"\r"),
    ] {
        let mut stage = Stage::ready(&[(variable, value)]);
        stage.types(b"silent: 9");
        stage.types(lost);
        assert_eq!(stage.status(), Status::Idle, "{variable}={value}");
        stage.types(counts);
        assert_eq!(stage.status(), Status::Busy, "{variable}={value}");
    }
    let mut deaf = Stage::ready(&[("CCMUX_DEMO_ENTER_DEAF_MS", "300")]);
    deaf.types(b"\x1b[200~silent: 9\x1b[201~\r");
    assert_eq!(deaf.status(), Status::Idle);
    deaf.pass(SECOND);
    deaf.types(b"\r");
    assert_eq!(deaf.status(), Status::Busy);
}

#[test]
fn a_late_transcript_line_comes_after_the_stop() {
    let mut stage = Stage::ready(&[("CCMUX_DEMO_TRANSCRIPT_DELAY_MS", "3600000")]);
    stage.types(b"say: held back\r");
    stage.pass(2 * SECOND);
    assert_eq!(stage.status(), Status::Idle);
    let path = stage.agent.transcript.path.clone();
    assert!(path.starts_with(stage.directory.path()));
    assert!(!std::fs::read_to_string(&path).unwrap().contains("assistant"));
    stage.agent.finish();
    assert!(std::fs::read_to_string(&path).unwrap().contains("held back"));
}

#[test]
fn a_dialog_that_comes_by_itself_takes_keys_once_it_is_drawn() {
    let mut stage = Stage::ready(&[("CCMUX_DEMO_DIALOG_AFTER_PASTE_MS", "50")]);
    stage.types(b"\x1b[200~silent: 9\x1b[201~");
    stage.pass(SECOND);
    assert_eq!(stage.status(), Status::Idle);
    assert!(stage.screen().contains("touch APPROVED"));
    assert_eq!(stage.status(), Status::DialogOpen);
    stage.pass(SECOND);
    stage.types(b"\x1b");
    stage.pass(SECOND);
    assert!(stage.screen().contains("❯\u{a0}silent: 9"), "the text is still in the box");
    stage.types(b"\r");
    assert_eq!(stage.status(), Status::Busy);
}

#[test]
fn an_enter_in_the_dialog_that_came_by_itself_approves() {
    let mut stage = Stage::ready(&[("CCMUX_DEMO_DIALOG_AFTER_PASTE_MS", "0")]);
    stage.types(b"\x1b[200~silent: 1\x1b[201~");
    stage.screen();
    stage.types(b"\r");
    assert_eq!((stage.agent.shells.len(), stage.status()), (0, Status::Busy), "it was on its way");
    stage.pass(SECOND);
    stage.types(b"\r");
    assert_eq!(stage.agent.shells.len(), 1);
}

#[test]
fn a_poisoned_prompt_vanishes_from_the_box() {
    let mut stage = Stage::ready(&[("CCMUX_DEMO_POISON", "arsenic")]);
    stage.types(b"say: arsenic\r");
    assert_eq!(stage.status(), Status::Idle);
    assert!(!stage.screen().contains("arsenic"));
    stage.types(b"silent: 9\r");
    assert_eq!(stage.status(), Status::Busy);
}
