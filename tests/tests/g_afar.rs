//! Answers from afar, on the demo agent: asked on a channel, answered from it or by the client, whoever is first.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ccmux_tests::House;
use ccmux_tests::listening::Listening;
use ccmux_tests::patience::stays_quiet;
use serde_json::{Value, json};

fn house_with(more: &str) -> House {
    House::builder().settings(&format!("[permission]\nchannel = \"phone\"\n{more}")).ready()
}

trait Afar {
    /// The code of what is asked, once it is told.
    fn code(&self, phone: &Listening) -> String;
    fn open_asks(&self) -> Vec<Value>;
    fn result(&self, text: &str);
}

impl Afar for House {
    fn code(&self, phone: &Listening) -> String {
        let asks =
            self.wait_for("something to be asked", || Some(self.open_asks()).filter(|asks| !asks.is_empty()));
        let code = asks.last().unwrap()["code"].as_str().unwrap().to_owned();
        phone.wait_for(&format!("code: {code}"));
        code
    }

    fn open_asks(&self) -> Vec<Value> {
        serde_json::from_str(&self.ccmux_ok(&["permission", "--json"])).unwrap()
    }

    /// A tool's result in the transcript.
    fn result(&self, text: &str) {
        self.wait_until(&format!("{text:?} in a tool's result"), || {
            let lines = self.transcript();
            lines
                .iter()
                .any(|line| line["type"] == "user" && line["message"]["content"].to_string().contains(text))
        });
    }
}

/// Acceptance G7.
#[test]
fn a_permission_is_asked_on_the_channel_and_allowed_from_there() {
    let house = house_with("");
    let phone = house.listen_to("out.phone");
    house.write("in.t", "perm: echo from afar\n");
    let code = house.code(&phone);
    phone.wait_for("Claude asks for permission: Bash");
    phone.wait_for("  command: echo from afar");
    house.write("in.t", "say: later\n");
    assert!(house.why().starts_with("closed: dialog"), "{}", house.why());
    house.write("in.phone", format!("Y {code}\n"));
    house.result("from afar");
    phone.wait_for(&format!("{code}: allowed"));
    house.wait_for_prompt("say: later");
    assert_eq!(house.open_asks(), Vec::<Value>::new());
    assert!(house.prompts().iter().all(|prompt| !prompt.contains(&code)), "{:?}", house.prompts());
    house.write("in.phone", format!("n {code}\n"));
    phone.wait_for(&format!("{code}: too late: it was answered before"));
}

/// Acceptance G7.
#[test]
fn a_permission_is_denied_with_a_reason_and_allowed_by_the_client() {
    let house = house_with("");
    let phone = house.listen_to("out.phone");
    house.write("in.t", "perm: echo one\n");
    let code = house.code(&phone);
    house.write("in.phone", format!("n {code} not on a Friday\n"));
    house.result("not on a Friday");
    house.wait_ready();
    house.write("in.t", "perm: echo two\n");
    let code = house.code(&phone);
    assert!(house.ccmux_ok(&["permission"]).contains("  command: echo two"));
    assert_eq!(house.ccmux_ok(&["permission", "allow", &code]), "allowed\n");
    house.result("two");
    let late = house.ccmux(&["permission", "deny", &code, "--reason", "x"]);
    assert_eq!(late.status.code(), Some(4));
    let said = String::from_utf8_lossy(&late.stderr).into_owned();
    assert!(said.contains("too late: it was answered before"), "{said}");
}

/// Acceptance G7.
#[test]
fn a_question_is_answered_by_number_and_by_words() {
    let house = house_with("");
    let phone = house.listen_to("out.phone");
    house.write("in.t", "ask: Which one?\n");
    let code = house.code(&phone);
    phone.wait_for("  2. Beta");
    house.write("in.phone", format!("{code} 9\n"));
    phone.wait_for(&format!("{code}: there are"));
    house.write("in.phone", format!("{code} 2\n"));
    house.result("=\\\"Beta\\\"");
    house.wait_ready();
    house.write("in.t", "ask: Which other?\n");
    let code = house.code(&phone);
    assert_eq!(house.ccmux_ok(&["answer", &code, "neither", "of", "them"]), "answered\n");
    house.result("=\\\"neither of them\\\"");
}

/// Acceptance G7.
#[test]
fn the_human_answers_first_and_the_hook_is_gone_within_a_second() {
    let house = house_with("");
    let phone = house.listen_to("out.phone");
    house.write("in.t", "perm: sleep 20; echo at the terminal\n");
    let code = house.code(&phone);
    house.wait_for_state(ccmux_wire::status::StateWord::Dialog);
    assert_eq!(hooks_that_wait(&house), 1);
    let answered = Instant::now();
    house.send_keys(&["Enter"]);
    house.wait_until("the hook to go", || hooks_that_wait(&house) == 0);
    let took = answered.elapsed();
    assert!(house.open_asks().is_empty());
    house.write("in.phone", format!("y {code}\n"));
    phone.wait_for(&format!("{code}: too late: "));
    // The tool runs for 20 s: what released the hook was not the turn's end.
    assert!(took < Duration::from_secs(10), "{took:?}");
}

fn hooks_that_wait(house: &House) -> usize {
    let agent = house.agent_pid();
    let processes =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes.filter(|pid| is_hook_of(*pid, agent)).count()
}

/// A shell may stand between the two.
fn is_hook_of(pid: i32, agent: i32) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let parent = |pid: i32| -> Option<i32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let parents = std::iter::successors(Some(pid), |pid| parent(*pid)).skip(1).take(2);
    name.trim() == "ccmux-hook" && parents.into_iter().any(|pid| pid == agent)
}

/// What a second dialog of the same session would ask: a hook of the agent's by hand, since the demo shows one at a time.
fn second_dialog(house: &House, command: &str) -> Child {
    let agent = house.agent_pid();
    let transcript = house.transcript_files().pop().unwrap();
    let session = transcript.file_stem().unwrap().to_str().unwrap().to_owned();
    let payload = json!({
        "session_id": session, "transcript_path": transcript, "hook_event_name": "PermissionRequest",
        "tool_name": "Bash", "tool_input": {"command": command},
    });
    let environment = fs::read(format!("/proc/{agent}/environ")).unwrap();
    let mut hook = Command::new(house.bin("ccmux-hook"));
    hook.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped());
    for variable in String::from_utf8_lossy(&environment).split('\0') {
        variable.split_once('=').map(|(name, value)| hook.env(name, value));
    }
    let mut hook = hook.env("CLAUDE_PID", agent.to_string()).spawn().unwrap();
    hook.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
    hook
}

/// Claude Code writes that this call of the second dialog is over.
fn second_result(house: &House, command: &str, denial: Option<&str>) {
    let mut file = fs::OpenOptions::new().append(true).open(house.transcript_files().pop().unwrap()).unwrap();
    let call = json!({"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {"command": command}});
    let result = json!({"type": "tool_result", "tool_use_id": "toolu_2", "is_error": denial.is_some(), "content": "x"});
    for line in [
        json!({"type": "assistant", "isSidechain": true, "message": {"role": "assistant", "content": [call]}}),
        json!({"type": "user", "isSidechain": true, "message": {"role": "user", "content": [result]}, "toolDenialKind": denial}),
    ] {
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

fn code_of(house: &House, command: &str) -> String {
    house.wait_for("it to be asked", || {
        let asks = house.open_asks();
        let ask = asks.iter().find(|ask| ask["text"].as_str().unwrap().contains(command))?;
        Some(ask["code"].as_str().unwrap().to_owned())
    })
}

/// Issue 8, point 4.
#[test]
fn of_two_dialogs_the_one_that_was_answered_at_the_terminal_is_over_and_the_other_one_is_answered() {
    let house = house_with("");
    let phone = house.listen_to("out.phone");
    house.write("in.t", "perm: echo first\n");
    let first = code_of(&house, "echo first");
    let mut hook = second_dialog(&house, "echo second");
    let second = code_of(&house, "echo second");
    second_result(&house, "echo second", None);
    house.wait_until("the second hook to go", || hook.try_wait().unwrap().is_some());
    assert_eq!(house.open_asks().len(), 1, "the first one waits on");
    house.write("in.phone", format!("n {second}\n"));
    phone.wait_for(&format!("{second}: too late: it was answered at the terminal"));
    house.write("in.phone", format!("y {first}\n"));
    house.result("first");
    phone.wait_for(&format!("{first}: allowed"));
}

/// Issue 8, point 4.
#[test]
fn an_answer_beside_another_dialog_is_proved_by_the_transcript_or_was_too_late() {
    let house = house_with("");
    let phone = house.listen_to("out.phone");
    house.write("in.t", "perm: echo first\n");
    let first = code_of(&house, "echo first");
    let hook = second_dialog(&house, "echo second");
    let second = code_of(&house, "echo second");
    house.write("in.phone", format!("y {second}\n"));
    let printed = hook.wait_with_output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&printed).contains("allow"), "{printed:?}");
    second_result(&house, "echo second", Some("user-rejected"));
    phone.wait_for(&format!("{second}: too late: it was answered at the terminal"));
    house.write("in.phone", format!("n {first} not now\n"));
    house.result("not now");
    phone.wait_for(&format!("{first}: denied"));
}

#[test]
fn nobody_answers_and_the_dialog_stays() {
    let house = house_with("wait = 2\n");
    let phone = house.listen_to("out.phone");
    house.write("in.t", "perm: echo patient\n");
    let code = house.code(&phone);
    house.wait_until("the ask to be over", || house.open_asks().is_empty());
    assert!(house.why().starts_with("closed: dialog"), "{}", house.why());
    house.write("in.phone", format!("y {code}\n"));
    phone.wait_for(&format!("{code}: too late: nobody answered in time"));
    house.send_keys(&["Enter"]);
    house.result("patient");
}

#[test]
fn a_line_with_a_code_that_was_never_issued_is_a_message() {
    let house = house_with("");
    let _phone = house.listen_to("out.phone");
    house.write("in.phone", "bcdfg say: hello\n");
    house.write("in.other", "y bcdfg\n");
    house.wait_for_prompt("bcdfg say: hello");
    house.wait_for_prompt("y bcdfg");
}

#[test]
fn only_allowed_senders_answer() {
    let house = house_with("allowed = [\"anna\"]\n");
    let phone = house.listen_to("out.phone");
    house.write("in.t", "perm: echo hello\n");
    let code = house.code(&phone);
    house.write("in.phone", format!("y {code}\n"));
    phone.wait_for(&format!("{code}: the sender may not answer"));
    house.write("in.phone", format!("{{\"content\":\"y {code}\",\"meta\":{{\"sender\":\"eve\"}}}}\n"));
    stays_quiet(Duration::from_secs(1), "answered", || house.open_asks().is_empty().then(String::new));
    house.write("in.phone", format!("{{\"content\":\"y {code}\",\"meta\":{{\"sender\":\"anna\"}}}}\n"));
    house.result("hello");
}

#[test]
fn an_answer_that_came_while_the_daemon_was_away_is_told_that_it_is_too_late() {
    let house = house_with("");
    let phone = house.listen_to("out.phone");
    house.write("in.t", "perm: echo hello\n");
    let code = house.code(&phone);
    // Held open, so that the bytes wait for the next daemon.
    let mut door = fs::OpenOptions::new().read(true).write(true).open(house.fifo("in.phone")).unwrap();
    house.kill9();
    door.write_all(format!("y {code}\n").as_bytes()).unwrap();
    house.start();
    phone.wait_for(&format!("{code}: too late: nobody waits for the answer any more"));
    assert!(house.why().starts_with("closed: dialog"), "{}", house.why());
    house.send_keys(&["Enter"]);
    house.result("hello");
    assert!(house.prompts().iter().all(|prompt| !prompt.contains(&code)), "{:?}", house.prompts());
}

#[test]
fn a_stopped_daemon_lets_the_hook_go() {
    let house = house_with("");
    let phone = house.listen_to("out.phone");
    house.write("in.t", "perm: echo hello\n");
    house.code(&phone);
    house.wait_until("a hook to wait", || hooks_that_wait(&house) == 1);
    house.stop();
    house.wait_until("the hook to go", || hooks_that_wait(&house) == 0);
    house.send_keys(&["Enter"]);
    house.result("hello");
}

/// Field fault 23.
#[test]
fn hooks_of_two_settings_files_are_one_ask_and_get_the_same_answer() {
    // A hook that gets no word within 300 ms, as on a busy machine, goes: then there is one, and nothing to see.
    assert!((0..5).any(|_| two_hooks_get_the_same_answer()), "two hooks never waited");
}

fn two_hooks_get_the_same_answer() -> bool {
    let house = House::builder().settings("[permission]\nchannel = \"phone\"\n").build();
    house.ccmux_ok(&["install", "--user"]);
    house.start();
    house.wait_ready();
    let phone = house.listen_to("out.phone");
    house.write("in.t", "perm: echo hello\n");
    let code = house.code(&phone);
    let until = Instant::now() + Duration::from_secs(5);
    while hooks_that_wait(&house) < 2 {
        if Instant::now() > until {
            return false;
        }
    }
    assert_eq!(house.open_asks().len(), 1);
    house.write("in.phone", format!("y {code}\n"));
    house.result("hello");
    house.wait_until("both to go", || hooks_that_wait(&house) == 0);
    assert_eq!(phone.lines().iter().filter(|line| line.starts_with("code: ")).count(), 1);
    true
}

#[test]
fn a_turn_is_interrupted_only_while_one_runs_and_the_queue_goes_on() {
    let house = House::builder().ready();
    let refused = |why: &str| {
        let output = house.ccmux(&["interrupt"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains(why), "{said}");
    };
    refused("no turn runs");
    // Claude said nothing: whoever waits for an answer is told that none comes.
    thread::scope(|scope| {
        let waits =
            scope.spawn(|| house.ccmux(&["send", "--id", "quiet", "--wait", "answered", "silent: 60"]));
        house.wait_for_state(ccmux_wire::status::StateWord::Busy);
        house.wait_until("the interrupt", || house.ccmux(&["interrupt"]).status.success());
        let output = waits.join().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains("its turn ended before Claude wrote anything"), "{said}");
    });
    let again = house.ccmux(&["send", "--id", "quiet", "--wait", "answered", "silent: 60"]);
    assert_eq!(again.status.code(), Some(4), "{again:?}");
    house.wait_ready();
    house.write("in.t", "slow: 60\n");
    house.wait_for_screen("word3");
    house.write("in.t", "say: afterwards\n");
    assert_eq!(house.ccmux_ok(&["interrupt"]), "interrupted\n");
    house.wait_for_prompt("say: afterwards");
    house.wait_ready();
    house.write("in.t", "perm: echo hello\n");
    house.wait_for_state(ccmux_wire::status::StateWord::Dialog);
    refused("a dialog is open");
    house.send_keys(&["Enter"]);
    house.result("hello");
    house.wait_ready();
    house.send_keys(&["a draft"]);
    house.wait_for_screen("a draft");
    refused("somebody's text is in the prompt box");
}
