//! Transcripts: recorded, late, hostile.

mod finding;
mod opening;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ccmux_policy::event::Found;
use ccmux_wire::id::PromptId;
use nix::sys::stat::Mode;
use serde_json::{Value, json};
use tempfile::TempDir;

use self::finding::find;
use super::scan::same_words;
use super::*;

/// A projects directory with one transcript in it.
struct Projects {
    dir: TempDir,
}

impl Projects {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("-home-u-proj")).unwrap();
        Self { dir }
    }

    fn transcript(&self) -> PathBuf {
        self.dir.path().join("-home-u-proj/session.jsonl")
    }

    fn reader(&self) -> TranscriptReader {
        TranscriptReader { projects_dir: self.dir.path().to_owned() }
    }

    fn append(&self, lines: &[Value]) {
        append(&self.transcript(), lines);
    }

    fn read(&self, cursor: &Cursor, prompt: Option<&str>, last_message: Option<&str>) -> Read {
        self.reader().read_turn(cursor, &request(prompt, last_message)).unwrap()
    }
}

fn request(prompt: Option<&str>, last_message: Option<&str>) -> TurnRequest {
    TurnRequest::new(prompt.map(PromptId::new), last_message.map(str::to_owned))
}

fn append(path: &Path, lines: &[Value]) {
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    for line in lines {
        writeln!(file, "{line}").unwrap();
    }
}

fn user(prompt: &str, text: &str) -> Value {
    json!({"type":"user","promptId":prompt,"uuid":format!("u-{text}"),"isSidechain":false,"promptSource":"typed",
           "message":{"role":"user","content":text}})
}

fn says(message: &str, text: &str) -> Value {
    json!({"type":"assistant","uuid":format!("a-{text}"),"isSidechain":false,
           "message":{"id":message,"content":[{"type":"text","text":text}]}})
}

fn block(message: &str, block: &Value) -> Value {
    json!({"type":"assistant","uuid":format!("a-{message}"),"isSidechain":false,
           "message":{"id":message,"content":[block]}})
}

fn result(prompt: &str, id: &str) -> Value {
    json!({"type":"user","promptId":prompt,"uuid":"r","isSidechain":false,
           "message":{"role":"user","content":[{"type":"tool_result","tool_use_id":id,"content":"out"}]}})
}

fn texts(body: &TurnBody) -> Vec<&str> {
    body.blocks.iter().filter_map(line::block_text).collect()
}

fn the_turn(read: &Read) -> &TurnBody {
    assert_eq!(read.turns.len(), 1, "{read:?}");
    &read.turns[0]
}

#[test]
fn all_blocks_after_the_prompt_in_file_order() {
    let projects = Projects::new();
    projects.append(&[
        json!({"type":"mode","mode":"normal"}),
        user("P", "full: ls"),
        json!({"type":"attachment","attachment":{"type":"date"}}),
        block("m1", &json!({"type":"thinking","thinking":"hm"})),
        says("m1", "Running it."),
        block("m1", &json!({"type":"tool_use","id":"t1","name":"Bash","input":{}})),
        result("P", "t1"),
        says("m2", "done"),
        json!({"type":"system","subtype":"turn_duration"}),
    ]);
    let start = Cursor::start_of(&projects.transcript());
    let read = projects.read(&start, Some("P"), Some("done"));
    let kinds: Vec<_> = the_turn(&read).blocks.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use", "tool_result", "text"]);
    assert_eq!((the_turn(&read).partial, the_turn(&read).last_uuid.as_deref()), (false, Some("a-done")));
    assert_eq!(read.cursor.offset, fs::metadata(projects.transcript()).unwrap().len());
}

#[test]
fn every_turn_of_a_real_session_is_read_complete() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/transcripts/interactive-full-2.1.332.jsonl");
    let projects = Projects::new();
    fs::copy(fixture, projects.transcript()).unwrap();
    let read = projects.read(&Cursor::start_of(&projects.transcript()), None, None);
    assert_eq!(read.turns.len(), 14);
    for turn in &read.turns {
        assert!(!turn.partial && turn.prompt_id.is_some() && !turn.last_text.is_empty(), "{turn:?}");
    }
    let first = &read.turns[0];
    assert_eq!((texts(first), first.blocks.len()), (vec!["reply number 1"], 1));
    assert_eq!(read.turns[8].blocks.len(), 5);
    // The same, one turn at a time, as hooks would ask for them.
    let mut cursor = Cursor::start_of(&projects.transcript());
    for turn in &read.turns {
        let prompt = turn.prompt_id.as_ref().map(PromptId::as_str);
        let one = projects.read(&cursor, prompt, Some(&turn.last_text));
        assert_eq!(the_turn(&one), turn);
        cursor = one.cursor;
    }
}

/// Acceptance D3. Field fault 21.
#[test]
fn a_last_line_that_comes_0_to_1000_ms_late_is_waited_for() {
    for delay in [0, 5, 50, 300, 1000] {
        let projects = Projects::new();
        projects.append(&[user("P", "go"), says("m1", "the previous thing")]);
        let path = projects.transcript();
        let begun = Instant::now();
        let writer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(delay));
            // In two writes: a torn line is not a line.
            let line = format!("{}\n", says("m2", "the answer"));
            let mut file = File::options().append(true).open(path).unwrap();
            file.write_all(&line.as_bytes()[..20]).unwrap();
            thread::sleep(Duration::from_millis(10));
            file.write_all(&line.as_bytes()[20..]).unwrap();
        });
        let read = projects.read(&Cursor::start_of(&projects.transcript()), Some("P"), Some("the answer"));
        writer.join().unwrap();
        assert_eq!(texts(the_turn(&read)), ["the previous thing", "the answer"], "{delay} ms");
        assert!(!the_turn(&read).partial && begun.elapsed() < Duration::from_millis(delay + 700));
    }
}

#[test]
fn a_line_that_never_comes_makes_a_partial_turn_with_the_hooks_words() {
    let projects = Projects::new();
    projects.append(&[user("P", "go"), says("m1", "first")]);
    let begun = Instant::now();
    let read = projects.read(&Cursor::start_of(&projects.transcript()), Some("P"), Some("second"));
    assert!((2000..2700).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    assert_eq!(texts(the_turn(&read)), ["first", "second"]);
    assert!(the_turn(&read).partial);
}

#[test]
fn the_hooks_words_are_trimmed_by_claude_and_match_all_the_same() {
    assert!(same_words("word0 word1 ", "word0 word1"));
    assert!(!same_words("word0 word1", "word0"));
    let projects = Projects::new();
    projects.append(&[user("P", "go"), says("m", "one two "), says("m", "three\n")]);
    let begun = Instant::now();
    let read = projects.read(&Cursor::start_of(&projects.transcript()), Some("P"), Some("one two three"));
    assert!(!the_turn(&read).partial && begun.elapsed() < Duration::from_secs(1));
}

#[test]
fn without_the_hooks_words_the_end_of_the_turn_is_seen_from_the_transcript() {
    let projects = Projects::new();
    projects.append(&[user("P", "go"), says("m", "cut")]);
    let start = Cursor::start_of(&projects.transcript());
    let begun = Instant::now();
    assert_eq!(texts(the_turn(&projects.read(&start, Some("P"), None))), ["cut"]);
    assert!(begun.elapsed() >= Duration::from_secs(1), "nothing said that it was over");
    projects.append(&[json!({"type":"system","subtype":"turn_duration"})]);
    let begun = Instant::now();
    let read = projects.read(&start, Some("P"), None);
    assert!(!the_turn(&read).partial && begun.elapsed() < Duration::from_millis(250));
}

/// Chaos found it: a turn that ended while the daemon was away was told in two lines, since its last one was late.
/// Field fault 21.
#[test]
fn without_the_hooks_words_a_last_line_may_be_late_too() {
    let projects = Projects::new();
    projects.append(&[user("P", "go"), says("m1", "I look")]);
    let path = projects.transcript();
    let writer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(700));
        append(&path, &[says("m2", "done"), json!({"type":"system","subtype":"turn_duration"})]);
    });
    let read = projects.read(&Cursor::start_of(&projects.transcript()), Some("P"), None);
    writer.join().unwrap();
    assert_eq!(texts(the_turn(&read)), ["I look", "done"]);
}

#[test]
fn a_late_file_is_waited_for() {
    let projects = Projects::new();
    let path = projects.transcript();
    let writer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        append(&path, &[user("P", "go"), says("m", "here")]);
    });
    let read = projects.read(&Cursor::start_of(&projects.transcript()), Some("P"), Some("here"));
    writer.join().unwrap();
    assert_eq!(texts(the_turn(&read)), ["here"]);
}

#[test]
fn a_file_that_never_comes_is_missing() {
    let projects = Projects::new();
    let request = TurnRequest { wait: Duration::from_millis(50), ..request(Some("P"), None) };
    let read = projects.reader().read_turn(&Cursor::start_of(&projects.transcript()), &request);
    assert!(matches!(read, Err(TranscriptError::Missing { .. })), "{read:?}");
}

#[test]
fn sub_agents_are_no_part_of_the_turn() {
    let projects = Projects::new();
    let mut inner = says("m1", "inner words");
    inner["isSidechain"] = true.into();
    projects.append(&[user("P", "go"), inner, says("m2", "outer words")]);
    let read = projects.read(&Cursor::start_of(&projects.transcript()), Some("P"), Some("outer words"));
    assert_eq!((texts(the_turn(&read)), the_turn(&read).partial), (vec!["outer words"], false));
}

#[test]
fn a_turn_in_which_the_api_failed_is_none() {
    let projects = Projects::new();
    let mut error = says("m3", "API Error: 400");
    error["isApiErrorMessage"] = true.into();
    projects.append(&[user("P", "go"), says("m2", "half"), error]);
    let start = Cursor::start_of(&projects.transcript());
    assert_eq!(projects.read(&start, Some("P"), None).turns, []);
    projects.append(&[user("Q", "again"), says("m4", "whole")]);
    assert_eq!(texts(the_turn(&projects.read(&start, Some("Q"), Some("whole")))), ["whole"]);
}

/// Acceptance A4.
#[test]
fn turns_that_were_missed_come_before_the_wanted_one() {
    let projects = Projects::new();
    projects.append(&[user("O", "one"), says("m1", "first"), user("P", "two"), says("m2", "second")]);
    projects.append(&[user("Q", "three"), says("m3", "third"), user("R", "four"), says("m4", "fou")]);
    let read = projects.read(&Cursor::start_of(&projects.transcript()), Some("Q"), Some("third"));
    assert_eq!(read.turns.iter().map(texts).collect::<Vec<_>>(), [["first"], ["second"], ["third"]]);
    assert!(read.holds_wanted);
    assert_eq!(read.cursor.prompt, Some(PromptId::new("Q")));
    projects.append(&[says("m5", "fourth")]);
    let read = projects.read(&read.cursor, Some("R"), Some("fourth"));
    assert_eq!(texts(the_turn(&read)), ["fou", "fourth"], "the turn that ran was not touched");
}

#[test]
fn a_turn_that_runs_is_left_alone() {
    let projects = Projects::new();
    projects.append(&[user("P", "one"), says("m1", "first"), user("Q", "two"), says("m2", "half a sen")]);
    let start = Cursor::start_of(&projects.transcript());
    let text = fs::read_to_string(projects.transcript()).unwrap();
    let begins = text.split_inclusive('\n').take(2).map(str::len).sum::<usize>() as u64;
    let running = TurnRequest { running: Some(PromptId::new("Q")), ..request(None, None) };
    let until = TurnRequest { until: Some(begins), ..request(None, None) };
    for request in [running, until] {
        let read = projects.reader().read_turn(&start, &request).unwrap();
        assert_eq!(texts(the_turn(&read)), ["first"], "{request:?}");
        let next = projects.read(&read.cursor, Some("Q"), Some("half a sen"));
        assert_eq!(texts(the_turn(&next)), ["half a sen"]);
    }
}

#[test]
fn a_turn_whose_prompt_never_shows_does_not_take_anothers_blocks() {
    let projects = Projects::new();
    projects.append(&[user("Q", "runs"), says("m1", "not yet done")]);
    let read = projects.read(&Cursor::start_of(&projects.transcript()), Some("P"), Some("words"));
    assert_eq!((texts(the_turn(&read)), the_turn(&read).partial), (vec!["words"], true));
    projects.append(&[says("m2", "done")]);
    let read = projects.read(&read.cursor, Some("Q"), Some("done"));
    assert_eq!(texts(the_turn(&read)), ["not yet done", "done"]);
}

/// Lines as Claude Code 2.1.332 wrote them when a Stop hook of somebody else said `block`.
#[test]
fn a_stop_hook_that_blocks_does_not_close_the_turn() {
    let projects = Projects::new();
    let feedback = json!({"type":"user","isMeta":true,"promptId":"P","uuid":"f",
        "message":{"content":"Stop hook feedback:\nsay: not yet, go on"}});
    let summary = || json!({"type":"system","subtype":"stop_hook_summary","hasOutput":true});
    projects.append(&[user("P", "go"), says("m1", "one"), feedback, summary()]);
    let start = Cursor::start_of(&projects.transcript());
    let path = projects.transcript();
    let writer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(150));
        append(&path, &[says("m2", "two"), json!({"type":"system","subtype":"turn_duration"})]);
    });
    let read = projects.read(&start, None, None);
    writer.join().unwrap();
    assert_eq!(texts(the_turn(&read)), ["one", "two"]);
}

/// As `/branch` and `--fork-session` of 2.1.332 write it: the copies have the new session's first prompt id.
#[test]
fn a_copied_history_is_not_read_as_new() {
    let projects = Projects::new();
    let at = |mut line: Value, time: &str| {
        line["timestamp"] = format!("2026-11-28T{time}Z").into();
        line
    };
    projects.append(&[
        at(user("P", "of the other session"), "03:59:02.418"),
        at(says("m1", "old"), "03:59:02.508"),
        at(user("P", "after fork"), "04:00:19.354"),
        at(says("m2", "new"), "04:00:19.455"),
    ]);
    let bound: jiff::Timestamp = "2026-11-28T04:00:18Z".parse().unwrap();
    let start = Cursor::start_of(&projects.transcript());
    for prompt in [Some("P"), None] {
        let request = TurnRequest { old_before: Some(bound.as_second()), ..request(prompt, Some("new")) };
        let read = projects.reader().read_turn(&start, &request).unwrap();
        assert_eq!(texts(the_turn(&read)), ["new"]);
    }
}

#[test]
fn too_much_for_one_piece_is_read_in_pieces() {
    let projects = Projects::new();
    let big = "x".repeat(9 * 1024 * 1024);
    for n in 0..10 {
        projects.append(&[user(&format!("P{n}"), "go"), says(&format!("m{n}"), &format!("{n}{big}"))]);
    }
    let (mut cursor, mut pieces, mut starts) = (Cursor::start_of(&projects.transcript()), 0, Vec::new());
    loop {
        let read = projects.read(&cursor, Some("P9"), None);
        let held: usize = read.turns.iter().map(|turn| turn.last_text.len()).sum();
        assert!(held <= 5 * big.len(), "{held} bytes at once");
        starts.extend(read.turns.iter().map(|turn| turn.last_text[..1].to_owned()));
        (cursor, pieces) = (read.cursor, pieces + 1);
        if !read.more {
            assert!(read.holds_wanted);
            break;
        }
        assert!(!read.holds_wanted);
    }
    assert!(pieces > 1);
    assert_eq!(starts.concat(), "0123456789");
}

/// The cost of a turn is what it wrote, however much stands before it.
#[test]
fn a_turn_at_the_end_of_200_mb_costs_what_a_turn_of_a_new_file_costs() {
    let cost = |lines: usize| {
        let projects = Projects::new();
        let turn = format!("{}\n{}\n", user("O", "go"), says("m", &"x".repeat(1 << 20)));
        let mut file = File::create(projects.transcript()).unwrap();
        (0..lines).for_each(|_| file.write_all(turn.as_bytes()).unwrap());
        let length = fs::metadata(projects.transcript()).unwrap().len();
        let cursor = Cursor::end_of(&projects.transcript(), projects.dir.path()).unwrap();
        assert_eq!(cursor.offset, length);
        projects.append(&[user("P", "go"), says("m2", "new")]);
        let read = projects.read(&cursor, Some("P"), Some("new"));
        assert_eq!(texts(the_turn(&read)), ["new"]);
        assert_eq!(find(&projects, length, "go"), (Found::Whole, Some(PromptId::new("P"))));
        (length, read.bytes_read)
    };
    let (new, huge) = (cost(0), cost(200));
    assert!(huge.0 > 200_000_000);
    assert_eq!(huge.1, new.1, "bytes read at the end of {} and of {} bytes", huge.0, new.0);
}

#[test]
fn the_next_turn_is_not_taken_along() {
    let projects = Projects::new();
    projects.append(&[user("P", "go"), says("m", "one"), user("Q", "next"), says("m2", "two")]);
    let read = projects.read(&Cursor::start_of(&projects.transcript()), Some("P"), Some("one"));
    assert_eq!(texts(the_turn(&read)), ["one"]);
    let next = projects.read(&read.cursor, Some("Q"), Some("two"));
    assert_eq!(texts(the_turn(&next)), ["two"]);
}

#[test]
fn prompts_from_the_queue_are_answered_together() {
    let projects = Projects::new();
    let (mut one, mut two) = (user("P1", "queued one"), user("P2", "queued two"));
    one["promptSource"] = "queued".into();
    two["promptSource"] = "queued".into();
    projects.append(&[one, two, says("m", "both")]);
    let start = Cursor::start_of(&projects.transcript());
    for prompt in [Some("P1"), Some("P2"), None] {
        let read = projects.read(&start, prompt, Some("both"));
        assert_eq!(texts(the_turn(&read)), ["both"], "{prompt:?}");
    }
}

#[test]
fn a_prompt_that_was_interrupted_does_not_get_the_next_ones_answer() {
    let projects = Projects::new();
    projects.append(&[user("P", "go"), user("Q", "no, this"), says("m", "this it is")]);
    let start = Cursor::start_of(&projects.transcript());
    assert_eq!(projects.read(&start, Some("P"), None).turns, []);
    assert_eq!(texts(the_turn(&projects.read(&start, Some("Q"), Some("this it is")))), ["this it is"]);
}

#[test]
fn a_turn_that_goes_on_after_its_stop_gives_the_rest() {
    let projects = Projects::new();
    projects.append(&[user("P", "go"), says("m1", "one")]);
    let read = projects.read(&Cursor::start_of(&projects.transcript()), Some("P"), Some("one"));
    projects.append(&[says("m2", "two")]);
    let rest = projects.read(&read.cursor, Some("P"), Some("two"));
    assert_eq!(texts(the_turn(&rest)), ["two"]);
}

#[test]
fn a_turn_whose_prompt_was_written_before_the_cursor_is_known_by_the_hooks_words() {
    let projects = Projects::new();
    projects.append(&[user("P", "go"), says("m1", "seen before")]);
    let adopted = Cursor::end_of(&projects.transcript(), projects.dir.path()).unwrap();
    projects.append(&[result("P0", "t"), says("m2", "the answer")]);
    let read = projects.read(&adopted, Some("P"), Some("the answer"));
    assert_eq!((texts(the_turn(&read)), the_turn(&read).partial), (vec!["the answer"], false));
    projects.append(&[user("Q", "next"), says("m3", "next answer")]);
    let read = projects.read(&adopted, Some("Q"), Some("next answer"));
    assert_eq!(texts(the_turn(&read)), ["next answer"]);
}

#[test]
fn esc_ends_a_turn_at_once() {
    let projects = Projects::new();
    let note = json!({"type":"user","promptId":"P","uuid":"i","interruptedMessageId":"m1",
        "message":{"content":[{"type":"text","text":"[Request interrupted by user]"}]}});
    projects.append(&[user("P", "go"), says("m1", "half a sent"), note]);
    let begun = Instant::now();
    let read = projects.read(&Cursor::start_of(&projects.transcript()), Some("P"), None);
    assert!(begun.elapsed() < Duration::from_millis(250));
    assert_eq!((texts(the_turn(&read)), the_turn(&read).partial), (vec!["half a sent"], false));
}

#[test]
fn versions_without_prompt_ids_are_read_from_the_user_line_behind_the_cursor() {
    let projects = Projects::new();
    let plain = |text: &str| json!({"type":"user","uuid":text,"message":{"content":text}});
    projects.append(&[plain("one"), says("m1", "first")]);
    let read = projects.read(&Cursor::start_of(&projects.transcript()), None, Some("first"));
    assert_eq!((texts(the_turn(&read)), &the_turn(&read).prompt_id), (vec!["first"], &None));
    projects.append(&[plain("two"), says("m2", "second"), plain("three"), says("m3", "third")]);
    let read = projects.read(&read.cursor, None, None);
    assert_eq!(read.turns.iter().map(texts).collect::<Vec<_>>(), [["second"], ["third"]]);
}

#[test]
fn a_truncated_or_replaced_file_is_read_from_its_beginning() {
    let projects = Projects::new();
    projects.append(&[user("P", "a long line, so that the next file is shorter"), says("m", "one")]);
    let read = projects.read(&Cursor::start_of(&projects.transcript()), Some("P"), Some("one"));
    fs::write(projects.transcript(), "").unwrap();
    projects.append(&[user("Q", "x"), says("m", "two")]);
    let read = projects.read(&read.cursor, Some("Q"), Some("two"));
    assert_eq!(texts(the_turn(&read)), ["two"]);
    let other = projects.dir.path().join("other");
    append(&other, &[user("R", "y"), says("m", "three"), says("m9", "a long line, longer than before")]);
    fs::rename(other, projects.transcript()).unwrap();
    let read = projects.read(&read.cursor, None, None);
    assert_eq!(texts(the_turn(&read))[0], "three");
}

#[test]
fn the_end_of_a_file_is_the_end_of_its_last_whole_line() {
    let projects = Projects::new();
    let path = projects.transcript();
    let end = |text: &[u8]| {
        fs::write(&path, text).unwrap();
        Cursor::end_of(&path, projects.dir.path()).unwrap().offset
    };
    assert_eq!(end(b""), 0);
    assert_eq!(end(b"torn"), 0);
    assert_eq!(end(b"one\ntorn"), 4);
    assert_eq!(end(&[b"one\n", [b'x'; 10_000].as_slice()].concat()), 4);
    assert_eq!(end(&[[b'x'; 10_000].as_slice(), b"\n"].concat()), 10_001);
    fs::remove_file(&path).unwrap();
    assert_eq!(Cursor::end_of(&path, projects.dir.path()).unwrap(), Cursor::start_of(&path));
}
