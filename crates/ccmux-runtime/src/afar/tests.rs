//! Real FIFOs and a real inbox; hooks are what holds a `Waiting`.

use std::os::unix::fs::OpenOptionsExt;

use ccmux_wire::hook::AgentMarks;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::inbox::{InboxSettings, Texts};
use crate::outlet::OutletSettings;

/// No fact takes longer.
const LIMIT: Duration = Duration::from_secs(60);

struct Desk {
    answers: Answers,
    inbox: Inbox,
    out: std::fs::File,
    heard: mpsc::Receiver<Heard>,
    dir: tempfile::TempDir,
    shutdown: CancellationToken,
}

async fn desk(change: impl FnOnce(&mut PermissionSettings)) -> Desk {
    let dir = tempfile::tempdir().unwrap();
    mkfifo(&dir.path().join("out.phone"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let mut options = std::fs::OpenOptions::new();
    let out = options.read(true).write(true).custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits());
    let out = out.open(dir.path().join("out.phone")).unwrap();
    let texts = Texts::plain();
    let path = dir.path().join("inbox.db");
    let inbox = Inbox::open(&path, InboxSettings::default(), texts, mpsc::channel(16).0).unwrap().inbox;
    let second = Duration::from_secs(1);
    let patience = OutletSettings { wait: second, linger: second, finish: second };
    let shutdown = CancellationToken::new();
    let channels = watch::channel(Vec::new()).1;
    let outlets = Outlets::new(dir.path().to_owned(), patience, channels, shutdown.clone());
    let mut settings = PermissionSettings { channel: "phone".into(), ..PermissionSettings::default() };
    change(&mut settings);
    let left = inbox.answers_left().await.unwrap();
    let (ears, heard) = Ears::new();
    let around = (Clock::default(), dir.path().join("projects"));
    let answers = Answers::new(settings, &left, (inbox.clone(), outlets, ears), around);
    let keeper = Keeper::new(answers.clone(), left, mpsc::channel(16).0, shutdown.clone()).await.unwrap();
    tokio::spawn(keeper.run());
    Desk { answers, inbox, out, heard, dir, shutdown }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

fn permission(command: &str) -> HookFrame {
    frame_of(json!({"tool_name": "Bash", "tool_input": {"command": command}, "prompt_id": "p"}))
}

fn frame_of(payload: Value) -> HookFrame {
    HookFrame {
        event: "PermissionRequest".into(),
        token: None,
        claude_pid: None,
        marks: AgentMarks::default(),
        spot: None,
        payload,
    }
}

impl Desk {
    fn ask(&self, command: &str) -> Option<Waiting> {
        self.answers.ask(&permission(command), SessionId::new("s"), false)
    }

    /// What the channel was told, until it holds the text.
    async fn told(&mut self, text: &str) -> String {
        let mut told = String::new();
        let wait = async {
            while !told.contains(text) {
                let mut bytes = [0; 4096];
                match self.out.read(&mut bytes) {
                    Ok(count) => told.push_str(&String::from_utf8_lossy(&bytes[..count])),
                    Err(_empty) => sleep(Duration::from_millis(10)).await,
                }
            }
        };
        timeout(LIMIT, wait).await.unwrap_or_else(|_| panic!("{text:?} was not told"));
        told
    }

    fn code(&self) -> Code {
        self.answers.open_asks().last().unwrap().code.clone()
    }
}

async fn outcome(waiting: &mut Waiting) -> Option<Value> {
    timeout(LIMIT, waiting.outcome()).await.unwrap()
}

#[tokio::test]
async fn hooks_that_ask_the_same_get_the_same_answer_and_later_answers_are_told_so() {
    let desk = desk(|_| {}).await;
    let (mut first, mut second) = (desk.ask("ls").unwrap(), desk.ask("ls").unwrap());
    let mut other = desk.ask("rm").unwrap();
    assert_eq!(desk.answers.open_asks().len(), 2);
    let code = first.code.clone();
    assert_eq!(
        desk.answers.answer(&code.as_str().to_uppercase(), &Reply::Allow, By::Trusted).await,
        Ok(follower::PASSED_ON),
        "which one is answered at the terminal, no transcript tells here"
    );
    let printed = outcome(&mut first).await.unwrap();
    assert_eq!(printed["hookSpecificOutput"]["decision"], json!({"behavior": "allow"}));
    assert_eq!(outcome(&mut second).await, Some(printed));
    let again = desk.answers.answer(code.as_str(), &Reply::Deny { reason: None }, By::Trusted).await;
    assert_eq!(again, Err(NotAnswered::TooLate(End::Answered)));
    assert!(timeout(Duration::from_millis(50), other.outcome()).await.is_err(), "the other one waits on");
    let unknown = desk.answers.answer("no code", &Reply::Allow, By::Trusted).await.unwrap_err();
    assert!(unknown.to_string().contains("no code no code"), "{unknown}");
}

#[tokio::test]
async fn an_ask_is_over_when_its_last_hook_is_gone() {
    let desk = desk(|_| {}).await;
    let (first, second) = (desk.ask("ls").unwrap(), desk.ask("ls").unwrap());
    let code = desk.code();
    drop(first);
    assert_eq!(desk.answers.open_asks().len(), 1);
    drop(second);
    assert_eq!(desk.answers.open_asks().len(), 0);
    let late = desk.answers.answer(code.as_str(), &Reply::Allow, By::Trusted).await;
    assert_eq!(late, Err(NotAnswered::TooLate(End::Left)));
}

/// Whoever tells of it waits for a reader, and is no hook: nothing is allowed that nobody waits for.
#[tokio::test]
async fn an_ask_that_nobody_was_told_of_is_over_too_when_its_last_hook_is_gone() {
    let desk = desk(|settings| settings.channel = "nobody".into()).await;
    let waiting = desk.ask("ls").unwrap();
    let code = desk.code();
    let is_kept = async {
        while desk.inbox.answers_left().await.unwrap().codes.is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, is_kept).await.unwrap();
    // The task that kept it goes on to tell.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    drop(waiting);
    assert_eq!(desk.answers.open_asks().len(), 0);
    let late = desk.answers.answer(code.as_str(), &Reply::Allow, By::Trusted).await;
    assert_eq!(late, Err(NotAnswered::TooLate(End::Left)));
}

#[tokio::test]
async fn a_line_of_the_channel_answers_and_is_no_message() {
    let mut desk = desk(|_| {}).await;
    let mut waiting = desk.ask("ls").unwrap();
    let told = desk.told("code: ").await;
    let code = desk.code();
    assert!(told.ends_with(&format!("\ncode: {code}\n")), "{told}");
    let line = format!("N {code} \u{202e}later\n");
    let channel = "phone".parse().unwrap();
    let ingested = desk.inbox.ingest(&channel, 0, line.into_bytes()).await.unwrap();
    assert_eq!(ingested.accepted, 0);
    let printed = outcome(&mut waiting).await.unwrap();
    assert_eq!(printed["hookSpecificOutput"]["decision"], json!({"behavior": "deny", "message": "later"}));
    desk.told(&format!("{code}: denied\n")).await;
    let ordinary = desk.inbox.ingest(&channel, ingested.received, b"y hello\n".to_vec()).await.unwrap();
    assert_eq!(ordinary.accepted, 1);
    assert!(desk.dir.path().exists());
}

#[tokio::test]
async fn a_code_is_kept_before_anybody_is_told() {
    let mut desk = desk(|_| {}).await;
    let _waiting = desk.ask("ls").unwrap();
    desk.told("code: ").await;
    let left = desk.inbox.answers_left().await.unwrap();
    assert_eq!(left.codes, [(desk.code(), None)]);
}

#[tokio::test]
async fn without_a_channel_or_for_a_double_nothing_waits() {
    let off = desk(|settings| settings.channel = String::new()).await;
    assert!(off.ask("ls").is_none());
    let on = desk(|_| {}).await;
    assert!(on.answers.ask(&permission("ls"), SessionId::new("s"), true).is_none(), "its first hook is gone");
    let stop = HookFrame { event: "Stop".into(), ..permission("ls") };
    assert!(on.answers.ask(&stop, SessionId::new("s"), false).is_none());
}

#[tokio::test]
async fn only_so_many_are_open_at_once() {
    let desk = desk(|_| {}).await;
    let waiting: Vec<Waiting> = (0..MOST_OPEN).map(|n| desk.ask(&n.to_string()).unwrap()).collect();
    assert!(desk.ask("one more").is_none());
    drop(waiting);
    assert!(desk.ask("one more").is_some());
}

#[tokio::test]
async fn a_turns_end_time_and_the_agents_end_let_hooks_go() {
    let desk = desk(|settings| settings.wait = 1.0).await;
    let mut waiting = desk.ask("ls").unwrap();
    desk.answers.hook(&HookFrame { event: "Stop".into(), ..permission("ls") }, &SessionId::new("s"));
    assert_eq!(outcome(&mut waiting).await, None);
    let mut waiting = desk.ask("rm").unwrap();
    assert_eq!(outcome(&mut waiting).await, None, "time is up");
    let mut waiting = desk.ask("cp").unwrap();
    desk.answers.event(&Event::AgentMissing { session: None });
    assert_eq!(outcome(&mut waiting).await, None);
}

/// What the attendant was told to forget until now.
fn over(desk: &mut Desk) -> Vec<Selection> {
    let heard = std::iter::from_fn(|| desk.heard.try_recv().ok());
    let over = heard.map(|heard| match heard {
        Heard::Over(which) => which,
        other => panic!("{other:?}"),
    });
    over.flatten().collect()
}

#[tokio::test]
async fn what_was_answered_is_told_no_more_and_what_expired_still_waits() {
    let mut desk = desk(|settings| settings.wait = 1.0).await;
    let item = |subject: String| Selection {
        source: Source::Claude,
        session: SessionId::new("s"),
        kind: Some(ccmux_policy::attention::Kind::Permission),
        subject: Some(subject),
    };
    let subject = |command: &str| crate::attention::fact::subject_of(&permission(command).payload);
    let _waiting = desk.ask("ls").unwrap();
    let code = desk.code();
    assert_eq!(over(&mut desk), []);
    desk.answers.answer(code.as_str(), &Reply::Allow, By::Trusted).await.unwrap();
    assert_eq!(over(&mut desk), [item(subject("ls"))]);
    let _waiting = desk.ask("rm").unwrap();
    desk.answers.hook(&HookFrame { event: "Stop".into(), ..permission("rm") }, &SessionId::new("s"));
    assert_eq!(over(&mut desk), [item(subject("rm"))], "it was answered at the terminal");
    let mut waiting = desk.ask("cp").unwrap();
    assert_eq!(outcome(&mut waiting).await, None);
    assert_eq!(over(&mut desk), [], "it waits at the terminal");
}

#[tokio::test]
async fn without_a_channel_the_list_says_so() {
    let list = ccmux_wire::afar::PermissionRequest::List;
    let off = desk(|settings| settings.channel = String::new()).await;
    let reply = crate::control::permission::answer(&off.answers, list.clone()).await;
    assert_eq!(reply.asks, Some(Vec::new()));
    assert!(reply.done.unwrap().starts_with("permission.channel is empty"));
    let on = desk(|_| {}).await;
    assert_eq!(crate::control::permission::answer(&on.answers, list).await.done, None);
}

/// Asks about commands, and a transcript that tests write.
struct Transcript(std::path::PathBuf);

impl Transcript {
    fn of(desk: &Desk) -> Self {
        let path = desk.dir.path().join("projects/p/s.jsonl");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        Self(path)
    }

    fn ask(&self, desk: &Desk, command: &str) -> (Waiting, Code) {
        let payload = json!({"tool_name": "Bash", "tool_input": {"command": command}, "prompt_id": "p", "transcript_path": self.0});
        let waiting = desk.answers.ask(&frame_of(payload), SessionId::new("s"), false).unwrap();
        let code = waiting.code.clone();
        (waiting, code)
    }

    fn write(&self, line: Value) {
        use std::io::Write;
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&self.0).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn call(&self, command: &str) {
        let block = json!({"type": "tool_use", "id": command, "name": "Bash", "input": {"command": command}});
        self.write(json!({"type": "assistant", "message": {"content": [block]}}));
    }

    fn result(&self, command: &str, failed: bool) {
        let block =
            json!({"type": "tool_result", "tool_use_id": command, "is_error": failed, "content": "x"});
        let denial = failed.then_some("user-rejected");
        self.write(json!({"type": "user", "message": {"content": [block]}, "toolDenialKind": denial}));
    }
}

/// Issue 8, point 4.
#[tokio::test]
async fn of_two_dialogs_the_one_whose_call_is_settled_is_over_and_the_other_one_waits_on() {
    let desk = desk(|_| {}).await;
    let transcript = Transcript::of(&desk);
    transcript.call("ls");
    let (mut first, late) = transcript.ask(&desk, "ls");
    let (mut second, code) = transcript.ask(&desk, "rm");
    transcript.call("rm");
    transcript.result("ls", false);
    assert_eq!(outcome(&mut first).await, None, "it was answered at the terminal");
    let answer = async |code: &Code, reply| desk.answers.answer(code.as_str(), &reply, By::Trusted).await;
    assert_eq!(answer(&late, Reply::Allow).await, Err(NotAnswered::TooLate(End::AtTerminal)));
    assert_eq!(desk.answers.open_asks().len(), 1);
    let answered = tokio::spawn({
        let answers = desk.answers.clone();
        async move { answers.answer(code.as_str(), &Reply::Deny { reason: None }, By::Trusted).await }
    });
    assert!(outcome(&mut second).await.is_some());
    transcript.result("rm", true);
    assert_eq!(answered.await.unwrap(), Ok("denied"), "the transcript proves it");
    let all_ended = async {
        while !desk.answers.state().followed.is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LIMIT, all_ended).await.expect("nothing is followed any more");
}

#[tokio::test]
async fn an_answer_that_the_terminal_was_faster_than_is_told_that_it_is_too_late() {
    let mut desk = desk(|_| {}).await;
    let transcript = Transcript::of(&desk);
    let (mut first, code) = transcript.ask(&desk, "ls");
    let (_second, _) = transcript.ask(&desk, "rm");
    transcript.call("ls");
    let line = format!("n {code} not now\n");
    desk.inbox.ingest(&"phone".parse().unwrap(), 0, line.into_bytes()).await.unwrap();
    assert!(outcome(&mut first).await.is_some());
    transcript.result("ls", false);
    desk.told(&format!("{code}: too late: it was answered at the terminal\n")).await;
}

#[tokio::test]
async fn a_transcript_outside_of_claudes_folder_is_not_even_looked_for() {
    let desk = desk(|_| {}).await;
    let outside = Transcript(desk.dir.path().join("projects/../s.jsonl"));
    let (_first, _) = outside.ask(&desk, "ls");
    let (_second, _) = outside.ask(&desk, "rm");
    assert!(desk.answers.state().followed.is_empty());
}
