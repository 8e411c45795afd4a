//! The transcript as the second witness of a delivery.

use super::*;

fn same(theirs: &str, ours: &str) -> bool {
    theirs == ours
}

fn contains(theirs: &str, ours: &str) -> bool {
    theirs.contains(ours)
}

pub(super) fn find(projects: &Projects, offset: u64, text: &str) -> (Found, Option<PromptId>) {
    find_batch(&projects.transcript(), projects.dir.path(), offset, Wanted { text, same, contains })
}

#[test]
fn a_batch_is_found_as_a_prompt_within_one_or_not_at_all() {
    let projects = Projects::new();
    projects.append(&[user("P", "hello"), says("m", "hello you"), user("Q", "a draft, hello there")]);
    assert_eq!(find(&projects, 0, "hello"), (Found::Whole, Some(PromptId::new("P"))));
    assert_eq!(find(&projects, 0, "a draft"), (Found::Within, Some(PromptId::new("Q"))));
    assert_eq!(find(&projects, 0, "you"), (Found::Absent, None));
}

#[test]
fn what_was_there_before_the_paste_is_no_witness() {
    let projects = Projects::new();
    projects.append(&[user("P", "hello")]);
    let offset = fs::metadata(projects.transcript()).unwrap().len();
    assert_eq!(find(&projects, offset, "hello"), (Found::Absent, None));
    projects.append(&[user("Q", "hello")]);
    assert_eq!(find(&projects, offset, "hello"), (Found::Whole, Some(PromptId::new("Q"))));
}

#[test]
fn input_that_claude_queued_or_put_into_the_running_turn_is_found() {
    let projects = Projects::new();
    projects.append(&[
        user("P", "go"),
        json!({"type":"queue-operation","operation":"enqueue","content":"joined"}),
        json!({"type":"queue-operation","operation":"enqueue","content":"waits"}),
        json!({"type":"attachment","attachment":{"type":"queued_command","prompt":"joined"}}),
    ]);
    assert_eq!(find(&projects, 0, "joined"), (Found::Whole, Some(PromptId::new("P"))));
    assert_eq!(find(&projects, 0, "waits").0, Found::Whole);
    projects.append(&[says("m", "done"), user("Q", "waits")]);
    assert_eq!(find(&projects, 0, "waits"), (Found::Whole, Some(PromptId::new("Q"))));
}

#[test]
fn absent_is_only_said_if_everything_was_read() {
    let projects = Projects::new();
    assert_eq!(find(&projects, 0, "x").0, Found::Absent, "the file is made with the first prompt");
    assert_eq!(find(&projects, 7, "x").0, Found::Unreadable, "it was there once");
    fs::write(projects.transcript(), r#"{"type":"user","mess"#).unwrap();
    assert_eq!(find(&projects, 0, "x").0, Found::Unreadable, "the last line is torn");
    fs::remove_file(projects.transcript()).unwrap();
    nix::unistd::mkfifo(&projects.transcript(), Mode::S_IRWXU).unwrap();
    assert_eq!(find(&projects, 0, "x").0, Found::Unreadable);
    let find_in = |path: &str| {
        let wanted = Wanted { text: "x", same, contains };
        find_batch(Path::new(path), Path::new("/nonexistent/projects"), 0, wanted).0
    };
    assert_eq!(find_in("/nonexistent/t.jsonl"), Found::Unreadable, "no place for a transcript");
    assert_eq!(
        find_in("/nonexistent/projects/x/t.jsonl"),
        Found::Absent,
        "a new home: the folders come with the file"
    );
}
