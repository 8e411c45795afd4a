//! Regular files where FIFOs should be (field fault 35, B2).

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::*;

fn is_fifo(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.file_type().is_fifo())
}

/// Acceptance B2. Field fault 35.
#[tokio::test]
async fn fault_35_a_regular_file_is_adopted_every_line_accepted_and_a_fifo_takes_its_place() {
    let place = Place::new(1_000);
    let mut house = place.open();
    house.opened("default").await;
    fs::write(house.path("in.x"), "one\ntwo\nthree, unended").unwrap();
    house.opened("x").await;
    assert!(is_fifo(&house.path("in.x")));
    write(house.path("in.x"), "four\n").await;
    assert_eq!(house.sink.texts(4).await, ["one", "two", "three, unended", "four"]);
    let left: Vec<_> =
        fs::read_dir(house.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("adopt")), "{left:?}");
    house.close().await;
    assert_eq!(place.left(), [""; 0]);
}

#[tokio::test]
async fn the_default_fifo_may_be_a_file_too_and_one_that_was_there_before_the_start() {
    let place = Place::new(1_000);
    let dir = RuntimeDir::claim(&place.keep.path().join("ccmux")).unwrap();
    fs::write(dir.path().join("in"), "early\n").unwrap();
    drop(dir);
    let mut house = place.open();
    house.opened("default").await;
    assert!(is_fifo(&house.path("in")));
    assert_eq!(house.sink.texts(1).await, ["early"]);
}

#[tokio::test]
async fn an_open_block_in_a_file_does_not_swallow_what_comes_after() {
    let mut house = House::open();
    fs::write(house.path("in.x"), "line\n\0a\nb").unwrap();
    house.opened("x").await;
    write(house.path("in.x"), "after\n").await;
    // The sink of these tests knows lines only: what matters is the NUL that ends the block.
    assert_eq!(house.sink.texts(3).await, ["line", "\0a", "b\0after"]);
}

#[tokio::test]
async fn a_file_that_somebody_has_open_for_writing_waits() {
    let mut house = House::open();
    house.opened("default").await;
    let path = house.path("in.x");
    let mut open = File::create(&path).unwrap();
    open.write_all(b"one\n").unwrap();
    let first = Instant::now();
    house.state("x", Direction::In, |state| state.is_some_and(|state| state.contains("regular file"))).await;
    // The file `y`, which nobody holds, is adopted meanwhile: the second of quiet is over for both.
    fs::write(house.path("in.y"), "y\n").unwrap();
    house.opened("y").await;
    assert!(first.elapsed() >= Duration::from_secs(1), "{:?}", first.elapsed());
    assert!(!is_fifo(&path), "adopted while it is written to");
    open.write_all(b"two\n").unwrap();
    drop(open);
    house.opened("x").await;
    assert_eq!(house.sink.texts(3).await, ["y", "one", "two"]);
}

#[tokio::test]
async fn an_empty_file_becomes_a_fifo_and_leftovers_of_editors_stay() {
    let place = Place::new(1_000);
    let mut house = place.open();
    for name in ["in.x", "in.x~", "in.x.bak", "in.x.swp", "in.x.tmp"] {
        fs::write(house.path(name), if name == "in.x" { "" } else { "kept\n" }).unwrap();
    }
    house.opened("x").await;
    assert!(is_fifo(&house.path("in.x")));
    assert_eq!(fs::read(house.path("in.x.swp")).unwrap(), b"kept\n");
    assert_eq!(house.close().await, []);
    assert_eq!(place.left(), [""; 0]);
}

#[tokio::test]
async fn a_file_with_two_names_or_of_another_user_is_refused() {
    let mut house = House::open();
    fs::write(house.path("other"), "kept\n").unwrap();
    fs::hard_link(house.path("other"), house.path("in.linked")).unwrap();
    house.refused("linked", "2 names").await;
    if Uid::effective().is_root() {
        fs::write(house.path("in.theirs"), "kept\n").unwrap();
        nix::unistd::chown(&house.path("in.theirs"), Some(Uid::from_raw(65534)), None).unwrap();
        house.refused("theirs", "uid 65534").await;
    }
    assert_eq!(fs::read(house.path("in.linked")).unwrap(), b"kept\n");
}

#[tokio::test]
async fn a_daemon_that_died_while_it_adopted_a_file_leaves_the_rest_to_the_next() {
    let place = Place::new(1_000);
    let dir = RuntimeDir::claim(&place.keep.path().join("ccmux")).unwrap();
    let path = |name: &str| dir.path().join(name);
    let fifo = |name: &str| mkfifo(&path(name), Mode::S_IRWXU).unwrap();
    fs::create_dir(place.logs()).unwrap();
    // After step 1, after step 2, after step 4 with a FIFO and without.
    fs::write(path("in.a"), "a\n").unwrap();
    fifo(".adopt.in.a");
    fs::write(path(".adopt.in.b"), "b").unwrap();
    fifo("in.b");
    fs::write(place.logs().join("c.1_2_3_4.adopted"), "c\n").unwrap();
    fifo("in.c");
    fs::write(place.logs().join("d.1_2_3_4.adopted"), "d\n").unwrap();
    drop(dir);
    let house = place.open();
    let mut texts = house.sink.texts(4).await;
    texts.sort();
    assert_eq!(texts, ["a", "b", "c", "d"]);
    assert_eq!(house.close().await.len(), 4);
    assert_eq!(place.left(), [""; 0]);
}

#[tokio::test]
async fn a_file_comes_once_from_another_file_system_too() {
    let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else {
        return; // No second file system.
    };
    let place = Place::new(1_000);
    if elsewhere.path().metadata().unwrap().dev() == place.keep.path().metadata().unwrap().dev() {
        return;
    }
    fs::create_dir(place.logs()).unwrap();
    let dir = Arc::new(RuntimeDir::claim(&elsewhere.path().join("ccmux")).unwrap());
    // This one was copied before the daemon died, and not removed.
    let copied = dir.path().join(".adopt.in.x");
    fs::write(&copied, "once\n").unwrap();
    mkfifo(&dir.path().join("in.x"), Mode::S_IRWXU).unwrap();
    let found = copied.metadata().unwrap();
    let key = format!("{}_{}_{}_{}", found.mtime(), found.mtime_nsec(), found.dev(), found.ino());
    fs::copy(&copied, place.logs().join(format!("x.{key}.adopted"))).unwrap();
    fs::write(dir.path().join("in.y"), "from afar\n").unwrap();
    let stop = CancellationToken::new();
    let registry = Registry::new(dir, Arc::clone(&place.sink), logs_in(&place.keep), stop.clone());
    let task = tokio::spawn(registry.run());
    place.sink.wait_for(2).await;
    stop.cancel();
    task.await.unwrap();
    let mut lines = place.sink.lines.lock().unwrap().done.clone();
    lines.sort();
    let pair = |channel: &str, text: &str| (channel.to_owned(), text.to_owned());
    assert_eq!(lines, [pair("x", "once"), pair("y", "from afar")]);
    assert_eq!(place.left(), [""; 0]);
    assert!(!copied.exists());
}
