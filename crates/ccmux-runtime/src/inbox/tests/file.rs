//! The database file: crashes, damage, migrations.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

#[tokio::test]
async fn the_file_is_for_its_owner_alone_and_can_be_read_while_the_daemon_runs() {
    let place = Place::new();
    let daemon = place.open();
    daemon.accept("hi").await;
    for name in ["inbox.db", "inbox.db-wal", "inbox.db-shm"] {
        let mode = fs::metadata(place.dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(place.contents(), ["hi"]);
    let journal: String = place.look().query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(journal, "wal");
    let synchronous: i64 = daemon
        .opened
        .inbox
        .ask(|w| {
            w.connection.query_row("PRAGMA synchronous", [], |r| r.get(0)).map_err(InboxError::during("test"))
        })
        .await
        .unwrap();
    assert_eq!(synchronous, 2);
}

#[test]
fn a_file_that_others_may_read_is_closed_to_them() {
    let place = Place::new();
    fs::write(place.path(), "").unwrap();
    fs::set_permissions(place.path(), PermissionsExt::from_mode(0o644)).unwrap();
    place.open();
    assert_eq!(fs::metadata(place.path()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_is_no_plain_file_of_ours_is_refused_and_untouched() {
    let place = Place::new();
    let target = place.dir.path().join("target");
    fs::write(&target, "precious").unwrap();
    std::os::unix::fs::symlink(&target, place.path()).unwrap();
    assert!(matches!(place.try_open(), Err(InboxError::File { .. })));
    fs::remove_file(place.path()).unwrap();
    fs::hard_link(&target, place.path()).unwrap();
    assert!(matches!(place.try_open(), Err(InboxError::Refused { .. })));
    fs::remove_file(place.path()).unwrap();
    nix::unistd::mkfifo(&place.path(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(place.try_open(), Err(InboxError::Refused { .. })));
    assert_eq!(fs::read_to_string(target).unwrap(), "precious");
}

#[tokio::test]
async fn a_database_of_a_newer_ccmux_is_left_alone() {
    let place = Place::new();
    place.open().opened.inbox.close().await;
    place.look().pragma_update(None, "user_version", 99).unwrap();
    let Err(error) = place.try_open() else { panic!("opened") };
    assert!(matches!(error, InboxError::Newer { found: 99, .. }), "{error}");
    assert!(place.path().exists());
}

/// Opens over a damaged file and looks at what was done.
async fn goes_on_without(place: &Place, damage: &[u8]) {
    let daemon = place.open();
    let aside = daemon.opened.damaged.clone().expect("not noticed");
    assert!(aside.file_name().unwrap().to_str().unwrap().starts_with("inbox.db.damaged-"));
    assert_eq!(fs::read(&aside).unwrap(), damage);
    assert!(daemon.opened.waiting.is_empty());
    daemon.accept("after").await;
    assert_eq!(place.contents(), ["after"]);
}

#[tokio::test]
async fn a_file_of_random_bytes_is_moved_aside() {
    let place = Place::new();
    let noise: Vec<u8> = (0..20_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(place.path(), &noise).unwrap();
    goes_on_without(&place, &noise).await;
    // A second one in the same second gets a name of its own.
    let again = Place { dir: place.dir, settings: place.settings };
    for name in ["inbox.db", "inbox.db-wal", "inbox.db-shm"] {
        let _ = fs::remove_file(again.dir.path().join(name));
    }
    fs::write(again.path(), &noise).unwrap();
    goes_on_without(&again, &noise).await;
}

#[tokio::test]
async fn a_truncated_database_is_moved_aside() {
    let place = Place::new();
    let daemon = place.open();
    for _ in 0..50 {
        daemon.accept(&"long text ".repeat(500)).await;
    }
    daemon.opened.inbox.close().await;
    let whole = fs::read(place.path()).unwrap();
    let half = &whole[..whole.len() / 2];
    fs::write(place.path(), half).unwrap();
    goes_on_without(&place, half).await;
}

#[tokio::test]
async fn a_database_with_a_bad_page_is_moved_aside() {
    let place = Place::new();
    let daemon = place.open();
    for n in 0..2_000 {
        daemon.accept(&format!("text {n}")).await;
    }
    daemon.opened.inbox.close().await;
    let mut bytes = fs::read(place.path()).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096].fill(0xA5);
    fs::write(place.path(), &bytes).unwrap();
    goes_on_without(&place, &bytes).await;
}

#[tokio::test]
async fn a_damaged_log_beside_a_whole_database_loses_only_what_it_held() {
    let place = Place::new();
    let daemon = place.open();
    daemon.accept("kept").await;
    daemon.opened.inbox.close().await;
    fs::write(place.dir.path().join("inbox.db-wal"), vec![0x5A; 9000]).unwrap();
    let daemon = place.open();
    assert_eq!((daemon.opened.damaged, place.contents()), (None, vec!["kept".to_owned()]));
}

/// Written by the first version that had an inbox: answered, delivered and waiting messages, and half a line.
const SCHEMA_1: &[u8] = include_bytes!("../../../tests/fixtures/inbox/schema_1.db");

#[tokio::test]
async fn a_database_of_the_first_schema_is_taken_over_with_all_that_is_in_it() {
    let place = Place::new();
    fs::write(place.path(), SCHEMA_1).unwrap();
    let daemon = place.open();
    let inbox = &daemon.opened.inbox;
    assert_eq!(place.contents(), ["say: yes", "say: ok", "slow: 60", "waits", "first"]);
    assert_eq!(daemon.opened.waiting.iter().map(|message| message.id.0).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(
        (daemon.opened.next_batch, daemon.opened.partials.as_slice()),
        (BatchId(4), [channel("x")].as_slice())
    );
    let receipt = inbox.receipt(MessageId(1)).await.unwrap();
    assert_eq!((receipt.id.as_str(), receipt.state), ("a1", MessageState::Answered));
    assert!(receipt.legs.is_some_and(|legs| legs.queued_ms.is_some() && legs.typed_ms.is_none()));
    let id = daemon.message_in(9, MessageState::Answered).await;
    assert!(inbox.receipt(id).await.unwrap().answered_at.is_some());
    let asked = |pragma: &str| place.look().query_row(pragma, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((asked("PRAGMA user_version"), asked("PRAGMA auto_vacuum")), (3, 2));
    inbox.close().await;
    assert_eq!(place.open().opened.waiting.len(), 2);
}

/// As the `sqlite3` tool or a script would, from another process.
#[tokio::test]
async fn another_process_reads_while_the_daemon_writes() {
    let place = Place::new();
    let daemon = place.open();
    daemon.accept("seen from outside").await;
    let script = "import sqlite3, sys\n\
        inbox = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True)\n\
        print(inbox.execute('SELECT state, content FROM messages').fetchall())";
    let read = std::process::Command::new("python3").args(["-c", script]).arg(place.path()).output().unwrap();
    let said = String::from_utf8_lossy(&read.stdout) + String::from_utf8_lossy(&read.stderr);
    assert_eq!(said.trim(), "[('accepted', 'seen from outside')]");
    daemon.accept("and on").await;
}
