//! The file is removed, replaced or written over under a running daemon.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};

use super::*;

fn aside(place: &Place) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let is_aside = |path: &PathBuf| {
        path.to_string_lossy().contains(".damaged-") && !path.to_string_lossy().ends_with("m")
    };
    entries.filter(is_aside).filter(|path| !path.to_string_lossy().ends_with("-wal")).collect()
}

async fn goes_on(place: &Place, daemon: &mut Daemon, contents: &[&str]) {
    assert_eq!(place.contents(), contents);
    let mode = fs::metadata(place.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    daemon.opened.inbox.close().await;
    let again = place.open();
    assert_eq!(
        (again.opened.damaged, place.contents()),
        (None, contents.iter().map(|c| c.to_string()).collect())
    );
}

/// Everything behind that offset, and nothing of it is left in the log.
fn write_over(place: &Place, from: u64) {
    place.look().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let file = fs::OpenOptions::new().write(true).open(place.path()).unwrap();
    let length = file.metadata().unwrap().len() - from;
    file.write_all_at(&vec![0x5A; length as usize], from).unwrap();
}

#[tokio::test]
async fn a_removed_file_is_written_again_with_all_that_was_in_it() {
    for ending in ["", "-wal"] {
        let place = Place::new();
        let mut daemon = place.open();
        daemon.accept("before").await;
        fs::remove_file(place.path()).unwrap();
        if !ending.is_empty() {
            fs::remove_file(place.dir.path().join(format!("inbox.db{ending}"))).unwrap();
        }
        daemon.accept("after").await;
        let notices = daemon.notices();
        assert!(notices.len() == 1 && notices[0].contains("not at its place"), "{notices:?}");
        assert!(aside(&place).is_empty());
        goes_on(&place, &mut daemon, &["before", "after"]).await;
    }
}

#[tokio::test]
async fn a_removed_file_is_noticed_although_nothing_is_ordered() {
    let place = Place::new();
    let mut daemon = place.open();
    daemon.accept("before").await;
    fs::remove_file(place.path()).unwrap();
    daemon.opened.inbox.look_after().await.unwrap();
    assert_eq!((daemon.notices().len(), place.contents()), (1, vec!["before".to_owned()]));
    daemon.opened.inbox.look_after().await.unwrap();
    assert_eq!(daemon.notices(), [""; 0]);
}

#[tokio::test]
async fn another_database_in_its_place_is_moved_aside() {
    let (place, other) = (Place::new(), Place::new());
    let stranger = other.open();
    stranger.accept("of somebody else").await;
    stranger.opened.inbox.close().await;
    let mut daemon = place.open();
    daemon.accept("before").await;
    fs::rename(other.path(), place.path()).unwrap();
    daemon.accept("after").await;
    let notices = daemon.notices();
    let aside = aside(&place);
    assert!(notices.len() == 1 && notices[0].contains(aside[0].to_str().unwrap()), "{notices:?} {aside:?}");
    goes_on(&place, &mut daemon, &["before", "after"]).await;
}

#[tokio::test]
async fn what_is_written_over_is_moved_aside_and_the_daemon_goes_on() {
    let place = Place::new();
    let mut daemon = place.open();
    for n in 0..2_000 {
        daemon.accept(&format!("text {n} {}", "long ".repeat(50))).await;
    }
    for _ in 0..2_000 {
        daemon.event().await;
    }
    write_over(&place, 0);
    daemon.opened.inbox.look_after().await.unwrap();
    assert_eq!(daemon.any_event().await, Event::InboxLost);
    let notices = daemon.notices();
    assert!(notices.len() == 1 && notices[0].contains("lost"), "{notices:?}");
    assert_eq!((aside(&place).len(), daemon.opened.inbox.queue()), (1, Default::default()));
    assert_eq!(daemon.accept("after").await, MessageId(2_001), "numbers go on");
    goes_on(&place, &mut daemon, &["after"]).await;
}

#[tokio::test]
async fn damage_in_the_middle_is_noticed_by_whoever_meets_it() {
    let place = Place::new();
    let mut daemon = place.open();
    let inbox = daemon.opened.inbox.clone();
    for n in 0..2_000 {
        daemon.accept(&format!("text {n} {}", "long ".repeat(50))).await;
    }
    write_over(&place, 4096 * 8);
    let met = inbox.bodies((1..=2_000).map(MessageId).collect()).await;
    assert!(met.is_err(), "it was not met");
    daemon.accept("after").await;
    let notices = daemon.notices();
    assert!(notices.len() == 1 && notices[0].contains("damaged"), "{notices:?}");
    goes_on(&place, &mut daemon, &["after"]).await;
}

#[tokio::test]
async fn what_can_not_be_put_right_is_said_once_and_tried_again() {
    let place = Place::new();
    let mut daemon = place.open();
    daemon.accept("before").await;
    // A folder that is not empty can't be removed.
    let rescued = place.dir.path().join("inbox.db.rescued");
    fs::create_dir_all(rescued.join("x")).unwrap();
    fs::remove_file(place.path()).unwrap();
    daemon.accept("meanwhile").await;
    daemon.accept("still").await;
    let notices = daemon.notices();
    assert!(notices.len() == 1 && notices[0].contains("can't be put right yet"), "{notices:?}");
    fs::remove_dir_all(rescued).unwrap();
    daemon.accept("after").await;
    assert_eq!(daemon.notices().len(), 1);
    goes_on(&place, &mut daemon, &["before", "meanwhile", "still", "after"]).await;
}
