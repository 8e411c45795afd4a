//! The database of lines and cursors.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use tempfile::TempDir;

use super::*;

fn open(dir: &TempDir) -> Store {
    Store::open(&dir.path().join(FILE_NAME), 1_740_000_000).unwrap().0
}

fn session() -> SessionId {
    SessionId::new("s1")
}

fn cursor(offset: u64) -> Cursor {
    Cursor { offset, prompt: Some(PromptId::new("P")), ..Cursor::start_of(Path::new("/p/t.jsonl")) }
}

fn turn(uuid: &str) -> NewTurn {
    let body = TurnBody {
        blocks: vec![json!({"type":"text","text":"hi"})],
        prompt_id: Some(PromptId::new("P")),
        last_uuid: Some(uuid.to_owned()),
        ..TurnBody::default()
    };
    NewTurn { session: session(), ts: 7, in_reply_to: Vec::new(), body }
}

fn append(store: &Store, uuid: &str) -> Option<Seq> {
    store.append_turns(vec![turn(uuid)], &session(), &cursor(9), 7).unwrap().first().map(Line::seq)
}

fn alert() -> Alert {
    Alert { kind: "stuck".into(), message: "m".into(), ..Alert::default() }
}

#[test]
fn a_turn_is_stored_once() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    assert_eq!(append(&store, "a"), Some(Seq(1)));
    assert_eq!(append(&store, "a"), None);
    assert_eq!(append(&store, "b"), Some(Seq(2)));
    assert_eq!(store.since(Seq(0), 10, 1000).unwrap().len(), 2);
}

#[test]
fn a_line_reads_as_documented() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    append(&store, "a");
    store.append_alert(alert(), None, 8).unwrap();
    let lines = store.since(Seq(0), 10, 1000).unwrap();
    let text: String = lines.iter().map(|line| String::from_utf8_lossy(line.bytes()).into_owned()).collect();
    assert_eq!(
        text,
        "{\"seq\":1,\"ts\":7,\"session\":\"s1\",\"prompt_id\":\"P\",\"in_reply_to\":[],\
         \"turn\":[{\"text\":\"hi\",\"type\":\"text\"}]}\n\
         {\"seq\":2,\"ts\":8,\"alert\":{\"kind\":\"stuck\",\"message\":\"m\"}}\n"
    );
}

#[test]
fn numbers_go_on_after_a_restart_and_after_deletions() {
    let dir = TempDir::new().unwrap();
    append(&open(&dir), "a");
    let store = open(&dir);
    assert_eq!((store.last_seq().unwrap(), append(&store, "b")), (Seq(1), Some(Seq(2))));
    locked(&store.writer).execute("DELETE FROM lines", []).unwrap();
    drop(store);
    let store = open(&dir);
    assert_eq!((store.last_seq().unwrap(), append(&store, "a")), (Seq(2), Some(Seq(3))));
}

#[test]
fn the_cursor_is_kept_with_the_turn() {
    let dir = TempDir::new().unwrap();
    append(&open(&dir), "a");
    assert_eq!(open(&dir).cursor(&session()).unwrap(), Some(cursor(9)));
    let odd = Cursor { dev: u64::MAX, ino: u64::MAX - 1, prompt: None, ..cursor(1) };
    open(&dir).set_cursor(&session(), &odd, 1).unwrap();
    assert_eq!(open(&dir).cursor(&session()).unwrap(), Some(odd));
    assert_eq!(open(&dir).cursor(&SessionId::new("s2")).unwrap(), None);
}

#[test]
fn cursors_of_old_sessions_are_forgotten() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    locked(&store.writer).pragma_update(None, "synchronous", "OFF").unwrap();
    for n in 0..=KEPT_CURSORS {
        store.set_cursor(&SessionId::new(n.to_string()), &cursor(1), i64::from(n)).unwrap();
    }
    assert_eq!(store.cursor(&SessionId::new("0")).unwrap(), None);
    assert!(store.cursor(&SessionId::new("1")).unwrap().is_some());
}

#[test]
fn pages_are_bounded_by_lines_and_by_bytes_but_never_empty() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    for uuid in ["a", "b", "c"] {
        append(&store, uuid);
    }
    let seqs = |after, limit, bytes| -> Vec<u64> {
        store.since(Seq(after), limit, bytes).unwrap().iter().map(|line| line.seq().0).collect()
    };
    assert_eq!(seqs(0, 2, 10_000), [1, 2]);
    assert_eq!(seqs(1, 9, 1), [2]);
    assert_eq!(seqs(3, 9, 10_000), [0; 0]);
}

#[test]
fn a_big_line_is_read_once_for_all_who_hold_it() {
    let dir = TempDir::new().unwrap();
    let store = open(&dir);
    for length in [10, 1_000_000] {
        let message = "x".repeat(length);
        store.append_alert(Alert { kind: "stuck".into(), message, ..Alert::default() }, None, 1).unwrap();
    }
    let read = || store.since(Seq(0), 9, 9_000_000).unwrap();
    let place = |line: &Line| line.bytes().as_ptr();
    let (one, two) = (read(), read());
    assert_eq!(place(&one[1]), place(&two[1]));
    assert_ne!(place(&one[0]), place(&two[0]));
    assert_eq!((one[1].seq(), one[1].bytes().len() > 1_000_000), (Seq(2), true));
    drop((one, two));
    assert!(store.big_lines.lock().unwrap().get(Seq(2)).is_none(), "it is kept alive");
    assert_eq!(read().len(), 2);
}

#[test]
fn a_damaged_file_is_moved_aside_and_numbers_still_grow() {
    for garbage_at in [0, 4096] {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join(FILE_NAME);
        append(&open(&dir), "a");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[garbage_at..garbage_at + 2000].fill(0xa5);
        std::fs::write(&path, &bytes).unwrap();
        let (store, aside) = Store::open(&path, 1_740_000_000).unwrap();
        assert_eq!(std::fs::read(aside.unwrap()).unwrap(), bytes);
        assert_eq!(append(&store, "b"), Some(Seq(1_740_000_001)));
        drop(store);
        assert!(Store::open(&path, 1).unwrap().1.is_none());
    }
}

#[test]
fn the_database_is_private_and_a_newer_one_is_left_alone() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join(FILE_NAME);
    let store = open(&dir);
    append(&store, "a");
    for name in [FILE_NAME.to_owned(), format!("{FILE_NAME}-wal")] {
        let mode = std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    locked(&store.writer).pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    assert!(matches!(Store::open(&path, 1), Err(StoreError::TooNew { version: 99, .. })));
    assert!(path.exists());
}
