//! Notes between agents of one repository, without a daemon: `notify`, `listen`, `ask`, `answer`. Nothing is lost, nothing
//! comes twice but after a kill between print and removal, and who waits costs nothing.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ccmux_tests::House;
use ccmux_tests::patience::at_once;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

fn texts(notes: &[Value]) -> Vec<&str> {
    notes.iter().map(|note| note["msg"].as_str().unwrap()).collect()
}

/// Acceptance G5.
#[test]
fn g5_a_note_left_before_or_while_somebody_listens_is_printed_and_gone() {
    let house = House::builder().build();
    let repository = house.repository("app");
    assert!(house.notify(&repository, &["--from", "w", "--type", "complete", "before"]).status.success());
    let notes = house.listen(&repository, &[]).notes();
    assert_eq!(texts(&notes), ["before"]);
    assert_eq!((&notes[0]["from"], &notes[0]["type"]), (&"w".into(), &"complete".into()));
    let listener = house.listen(&repository, &["--timeout", "300"]);
    assert!(house.notify(&repository, &["while", "you", "wait"]).status.success());
    let notes = listener.notes();
    assert_eq!(texts(&notes), ["while you wait"]);
    assert_eq!((&notes[0]["from"], &notes[0]["type"]), (&"system".into(), &"status".into()));
    assert_eq!(house.listen(&repository, &["--timeout", "0"]).notes(), [Value::Null; 0]);
    assert_eq!(house.git(&repository, &["status", "--porcelain"]), "", "kept out of git");
}

/// Acceptance G5.
#[test]
fn g5_a_thousand_writers_two_listeners_and_kills_lose_nothing() {
    const WRITERS: usize = 1000;
    let house = House::builder().build();
    let repository = house.repository("app");
    let left = AtomicBool::new(false);
    let mut got: Vec<Value> = thread::scope(|scope| {
        let writers: Vec<_> = (0..20)
            .map(|lane| {
                let (house, repository) = (&house, &repository);
                scope.spawn(move || {
                    for n in (lane..WRITERS).step_by(20) {
                        let output = house.notify(repository, &["--from", "w", &format!("note {n}")]);
                        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                    }
                })
            })
            .collect();
        let listeners: Vec<_> = (0..2)
            .map(|which| {
                let (house, repository, left) = (&house, &repository, &left);
                scope.spawn(move || {
                    let (mut got, mut round) = (Vec::new(), 0);
                    while !left.load(Ordering::Relaxed) {
                        round += 1;
                        let mut command = house.ccmux_in(repository, &["listen", "--timeout", "1"]);
                        if which == 0 && round % 5 == 0 {
                            command.env("CCMUX_NOTIFY_FAULT", "printed");
                        }
                        let output = command.stderr(Stdio::null()).output().unwrap();
                        let text = String::from_utf8(output.stdout).unwrap();
                        got.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
                    }
                    got
                })
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        left.store(true, Ordering::Relaxed);
        let got = listeners.into_iter().flat_map(|listener| listener.join().unwrap()).collect();
        ended.into_iter().for_each(|writer| writer.unwrap());
        got
    });
    got.extend(house.take_notes(&repository));
    let mut ids: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for note in &got {
        ids.entry(note["msg"].as_str().unwrap()).or_default().push(note["id"].as_str().unwrap());
    }
    assert_eq!(ids.len(), WRITERS, "of {} lines", got.len());
    let doubles = ids.values().filter(|same| same.len() > 1).count();
    assert!(ids.values().all(|same| same.iter().all(|id| *id == same[0])), "a line printed again has its id");
    println!("{} lines for {WRITERS} notes, {doubles} of them more than once after kills", got.len());
}

/// Acceptance G5.
#[test]
fn g5_two_listeners_never_share_a_line() {
    let house = House::builder().build();
    let repository = house.repository("app");
    for round in 0..5 {
        let listeners = [(); 2].map(|()| house.listen(&repository, &["--timeout", "3"]));
        house.notify(&repository, &[&format!("round {round}")]);
        let notes: Vec<Value> = listeners.into_iter().flat_map(|listener| listener.notes()).collect();
        assert_eq!(texts(&notes), [format!("round {round}")]);
    }
}

/// Acceptance G5.
#[test]
fn g5_a_listener_killed_after_printing_prints_it_again_with_the_same_id() {
    let house = House::builder().build();
    let repository = house.repository("app");
    let mut command = house.ccmux_in(&repository, &["listen"]);
    command.env("CCMUX_NOTIFY_FAULT", "printed");
    let listener = house.listen_by(command);
    let second = house.listen(&repository, &[]);
    house.notify(&repository, &["once or twice"]);
    let printed = second.notes();
    assert_eq!(texts(&printed), ["once or twice"], "the other one goes on");
    let before = listener.kill9();
    assert!(before.iter().all(|note| note["id"] == printed[0]["id"]));
    assert_eq!(house.take_notes(&repository), [Value::Null; 0]);

    house.notify(&repository, &["twice"]);
    let mut command = house.ccmux_in(&repository, &["listen"]);
    command.env("CCMUX_NOTIFY_FAULT", "printed");
    let first = house.listen_by(command).kill9();
    let again = house.take_notes(&repository);
    assert_eq!((texts(&first), &first[0]["id"]), (vec!["twice"], &again[0]["id"]));
}

/// Acceptance G5.
#[test]
fn g5_listeners_killed_at_any_moment_lose_nothing() {
    let house = House::builder().build();
    let repository = house.repository("app");
    let mut got = Vec::new();
    house.notify(&repository, &["the first"]);
    let begin = Instant::now();
    house.take_notes(&repository);
    let longest = begin.elapsed().as_micros() as u64;
    for round in 0..40_u64 {
        house.notify(&repository, &[&format!("note {round}")]);
        let mut command = house.ccmux_in(&repository, &["listen", "--timeout", "5"]);
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        // Not for anything to happen: the moment is to be a random one.
        thread::sleep(Duration::from_micros(round * 7919 % longest));
        let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        got.extend(text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()));
    }
    got.extend(house.take_notes(&repository));
    for round in 0..40 {
        assert!(texts(&got).contains(&format!("note {round}").as_str()), "note {round} is lost");
    }
}

/// Acceptance G5.
#[test]
fn g5_writers_killed_at_any_moment_leave_whole_lines() {
    let house = House::builder().build();
    let repository = house.repository("app");
    let mut acknowledged = Vec::new();
    let begin = Instant::now();
    house.notify(&repository, &["the first"]);
    let longest = begin.elapsed().as_micros() as u64;
    for round in 0..40_u64 {
        let text = format!("{round} {}", "x".repeat(100_000));
        let mut child = house.ccmux_in(&repository, &["notify", &text]).spawn().unwrap();
        // A random moment, as above.
        thread::sleep(Duration::from_micros(round * 7919 % longest));
        let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
        if child.wait().unwrap().success() {
            acknowledged.push(text);
        }
    }
    house.notify(&repository, &["the last"]);
    let notes = house.take_notes(&repository);
    let texts = texts(&notes);
    assert_eq!(texts.last(), Some(&"the last"));
    assert!(acknowledged.iter().all(|text| texts.contains(&text.as_str())), "an acknowledged note is lost");
    println!("{} of 40 writers were through, {} notes arrived", acknowledged.len(), texts.len() - 2);
    let is_whole = |text: &&str| text.starts_with("the ") || text.len() > 100_000;
    assert!(texts.iter().all(is_whole), "a torn one was printed");
}

/// Acceptance G5.
#[test]
fn g5_a_full_disk_refuses_the_new_note_and_keeps_the_old_ones_whole() {
    let house = House::builder().build();
    let repository = house.repository("app");
    house.notify(&repository, &["before"]);
    let mut limited = house.command("bash");
    let script = r#"ulimit -f 1; exec "$@""#;
    let long = "x".repeat(5000);
    limited
        .args(["-c", script, "bash"])
        .arg(house.bin("ccmux"))
        .args(["notify", &long])
        .current_dir(&repository);
    let output = house.run_to_end(limited);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("queue.jsonl"), "{output:?}");
    house.notify(&repository, &["after"]);
    assert_eq!(texts(&house.take_notes(&repository)), ["before", "after"]);
}

/// Acceptance G5.
#[test]
fn g5_worktrees_share_notes_and_speak_under_their_names() {
    let house = House::builder().build();
    let main = house.repository("app");
    house.git(&main, &["worktree", "add", "-q", "../app-fix"]);
    let fix = house.path("app-fix");
    let listener = house.listen(&main, &[]);
    house.notify(&fix, &["from the worktree"]);
    let notes = listener.notes();
    assert_eq!((&notes[0]["msg"], &notes[0]["from"]), (&"from the worktree".into(), &"app-fix".into()));
    house.notify(&main, &["from the main one"]);
    assert_eq!(texts(&house.take_notes(&fix)), ["from the main one"]);
    let mut named = house.ccmux_in(&fix, &["notify", "by name"]);
    named.env("CCMUX_AGENT_ID", "worker-7");
    assert!(house.run_to_end(named).status.success());
    assert_eq!(house.take_notes(&main)[0]["from"], "worker-7");
    assert_eq!(
        house.git(&main, &["status", "--porcelain"]) + &house.git(&fix, &["status", "--porcelain"]),
        ""
    );
}

/// Acceptance G5.
#[test]
fn g5_who_waits_does_not_wake_up_and_is_awake_within_50_ms() {
    let house = House::builder().build();
    let repository = house.repository("app");
    let mut best = Duration::MAX;
    for round in 0..10 {
        let listener = house.listen(&repository, &["--timeout", "300"]);
        if round == 0 {
            let before = wake_ups(listener.pid());
            // Time must pass for there to be something that could happen.
            thread::sleep(Duration::from_secs(3));
            assert_eq!(wake_ups(listener.pid()), before, "wake-ups and ticks while nothing happened");
        }
        let mut notify = house.ccmux_in(&repository, &["notify", "wake up"]).spawn().unwrap();
        let note = listener.notes().remove(0);
        let now = OffsetDateTime::now_utc();
        // The note's time is that of its making, before the bell rings; the end of the listener counts here, too.
        let made = OffsetDateTime::parse(note["ts"].as_str().unwrap(), &Rfc3339).unwrap();
        best = best.min(Duration::try_from(now - made).unwrap());
        notify.wait().unwrap();
    }
    println!("from the note to the end of who listens {best:?}, at best");
    assert!(best < Duration::from_millis(50), "{best:?}");
}

/// Switches and ticks of all its threads.
fn wake_ups(pid: i32) -> (Vec<String>, Vec<String>) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let switches = status.lines().filter(|line| line.contains("ctxt_switches")).map(str::to_owned).collect();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    (switches, after_name.split_whitespace().skip(11).take(2).map(str::to_owned).collect())
}

/// Acceptance G5.
#[test]
fn g5_nobody_waits_for_anybody() {
    let house = House::builder().build();
    let repository = house.repository("app");
    let begin = Instant::now();
    assert!(house.notify(&repository, &["nobody listens"]).status.success());
    assert!(begin.elapsed() < Duration::from_millis(1100), "{:?}", begin.elapsed());
    house.take_notes(&repository);
    // A listener that is stopped, and one whose reader never reads.
    let stopped = house.listen(&repository, &[]);
    kill(Pid::from_raw(stopped.pid()), Signal::SIGSTOP).unwrap();
    let begin = Instant::now();
    assert!(house.notify(&repository, &["a stopped one listens"]).status.success());
    assert!(begin.elapsed() < Duration::from_millis(1100), "{:?}", begin.elapsed());
    let begin = Instant::now();
    assert_eq!(house.listen(&repository, &["--timeout", "0"]).notes().len(), 1);
    assert!(begin.elapsed() < Duration::from_secs(2));
    kill(Pid::from_raw(stopped.pid()), Signal::SIGCONT).unwrap();
    drop(stopped);
    for _ in 0..10 {
        house.notify(&repository, &[&"x".repeat(50_000)]);
    }
    let stuck = house.ccmux_in(&repository, &["listen"]).stdout(Stdio::piped()).spawn().unwrap();
    let pid = stuck.id().cast_signed();
    let writes =
        || fs::read_to_string(format!("/proc/{pid}/wchan")).is_ok_and(|place| place.contains("pipe"));
    let _ = ccmux_tests::patience::wait_at_most(Duration::from_secs(2), || writes().then_some(()));
    let begin = Instant::now();
    assert!(house.notify(&repository, &["while one is stuck"]).status.success());
    assert!(begin.elapsed() < Duration::from_millis(1100), "{:?}", begin.elapsed());
    let begin = Instant::now();
    assert_eq!(house.listen(&repository, &["--timeout", "1"]).notes(), [Value::Null; 0]);
    assert!(begin.elapsed() < Duration::from_secs(3), "a timeout counts there, too: {:?}", begin.elapsed());
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    stuck.wait_with_output().unwrap();
    assert_eq!(house.take_notes(&repository).len(), 11);
}

#[test]
fn a_listener_whose_reader_went_takes_no_note_with_it() {
    let house = House::builder().build();
    let repository = house.repository("app");
    let mut command = house.ccmux_in(&repository, &["listen"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    house.wait_for("its end", || child.try_wait().unwrap());
    house.notify(&repository, &["for another"]);
    assert_eq!(house.take_notes(&repository).len(), 1);
}

#[test]
fn status_says_whether_somebody_listens_and_clear_empties() {
    let house = House::builder().build();
    let repository = house.repository("app");
    let status = || {
        let output = house.run_to_end(house.ccmux_in(&repository, &["listen", "--status"]));
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    house.notify(&repository, &["one"]);
    assert_eq!(status(), (Some(1), "nobody listens, 1 notes wait\n".to_owned()));
    assert_eq!(
        String::from_utf8(house.notify(&repository, &["--clear"]).stdout).unwrap(),
        "1 notes cleared\n"
    );
    let listener = house.listen(&repository, &[]);
    assert_eq!(status(), (Some(0), format!("process {} listens, 0 notes wait\n", listener.pid())));
    listener.kill9();
    assert_eq!(status().0, Some(1), "a stale pid file is nobody");
}

#[test]
fn what_can_not_be_done_is_said_in_one_line_with_its_code() {
    let house = House::builder().build();
    let repository = house.repository("app");
    let outside = house.path("outside");
    fs::create_dir(&outside).unwrap();
    let million = house.path("million");
    fs::write(&million, "x".repeat(1_000_000)).unwrap();
    let cases: [(&std::path::Path, &[&str], i32, &str); 9] = [
        (&repository, &["notify"], 2, "required"),
        (&repository, &["notify", "--type", "loud", "x"], 2, "complete, waiting"),
        (&repository, &["notify", "--from", "a\nb", "x"], 2, "control characters"),
        (&repository, &["listen", "--timeout", "soon"], 2, "timeout"),
        (&repository, &["notify", ""], 4, "empty"),
        (&repository, &["notify", "-"], 4, "1000000 bytes"),
        (&repository, &["answer", "q-1-x", "y"], 4, "there is no question"),
        (&outside, &["notify", "x"], 1, "git repository"),
        (&outside, &["listen"], 1, "git repository"),
    ];
    at_once(cases, |(dir, arguments, code, word)| {
        let mut command = house.ccmux_in(dir, arguments);
        command.stdin(fs::File::open(&million).unwrap());
        let output = house.run_to_end(command);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(word), "{arguments:?}: {said}");
        assert!(code == 2 || said.lines().count() == 1, "{said}");
    });
    assert_eq!(house.take_notes(&repository), [Value::Null; 0]);
}

#[test]
fn any_text_arrives_as_it_was() {
    let house = House::builder().build();
    let repository = house.repository("app");
    let text =
        "nul \0 esc \u{1b}[2J csi \u{9b}1m quote \" back\\ 你好\r\n".to_owned() + &"long ".repeat(20_000);
    fs::write(house.path("text"), [text.as_bytes(), b"\xff\n"].concat()).unwrap();
    let mut notify = house.ccmux_in(&repository, &["notify", "-"]);
    notify.stdin(fs::File::open(house.path("text")).unwrap());
    assert!(house.run_to_end(notify).status.success());
    let output = house.run_to_end(house.ccmux_in(&repository, &["listen"]));
    let line = String::from_utf8(output.stdout).unwrap();
    assert!(line.len() > 100_000 && !line.trim_end().contains(char::is_control));
    let note: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(note["msg"], text + "\u{fffd}");
}

#[test]
fn a_question_is_listed_answered_and_told_to_who_asked() {
    let house = House::builder().build();
    let repository = house.repository("app");
    let run = |arguments: &[&str]| {
        let output = house.run_to_end(house.ccmux_in(&repository, arguments));
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let lead = house.listen(&repository, &["--name", "lead"]);
    let mut asking = house.ccmux_in(&repository, &["ask", "--wait", "--from", "worker", "Which branch?"]);
    let asking = asking.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let asked = lead.notes();
    assert_eq!((&asked[0]["type"], &asked[0]["msg"]), (&"question".into(), &"Which branch?".into()));
    let id = asked[0]["question_id"].as_str().unwrap();
    assert!(id.starts_with("q-"), "{id}");
    assert!(run(&["questions"]).contains("worker: Which branch?  (open)"));
    run(&["answer", "--from", "lead", id, "main", "of", "course"]);
    let output = asking.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "main of course\n");
    assert_eq!(run(&["questions"]), "");

    let id = run(&["ask", "--from", "worker", "And then?"]);
    let lead = house.listen(&repository, &["--name", "lead"]).notes();
    assert_eq!(texts(&lead), ["And then?"]);
    let lead = house.listen(&repository, &["--name", "lead", "--timeout", "300"]);
    run(&["answer", "--from", "lead", id.trim(), "rest"]);
    let worker = house.listen(&repository, &["--name", "worker"]).notes();
    assert_eq!((&worker[0]["type"], &worker[0]["msg"]), (&"answer".into(), &"rest".into()));
    assert_eq!(lead.kill9(), [Value::Null; 0], "the answer is not for who gave it");
    let id = run(&["ask", "Never mind?"]);
    run(&["acknowledge", id.trim()]);
    let again = house.run_to_end(house.ccmux_in(&repository, &["answer", id.trim(), "late"]));
    assert_eq!(again.status.code(), Some(4));
    let late =
        house.run_to_end(house.ccmux_in(&repository, &["ask", "--wait", "--timeout", "0", "Anybody?"]));
    assert_eq!(late.status.code(), Some(3), "{}", String::from_utf8_lossy(&late.stderr));
}
