//! FIFOs that come, go and are refused.

use super::*;

#[tokio::test]
async fn a_line_in_the_default_fifo_arrives() {
    let mut house = House::open();
    house.opened("default").await;
    assert!(house.path("in").symlink_metadata().unwrap().file_type().is_fifo());
    write(house.path("in"), "hello\n").await;
    assert_eq!(house.sink.wait_for(1).await, [("default".to_owned(), "hello".to_owned())]);
}

#[tokio::test]
async fn what_was_there_before_the_start_is_found() {
    let keep = tempfile::tempdir().unwrap();
    let dir = Arc::new(RuntimeDir::claim(&keep.path().join("ccmux")).unwrap());
    for name in ["in.telegram", "out.telegram", "in.x.swp", "index"] {
        mkfifo(&dir.path().join(name), Mode::S_IRWXU).unwrap();
    }
    let sink = Recorder::new(10, 0);
    let registry = Registry::new(dir, sink, logs_in(&keep), CancellationToken::new());
    let mut channels = registry.channels();
    let task = tokio::spawn(registry.run());
    let listed = timeout(LIMIT, channels.wait_for(|list| list.len() >= 3)).await.unwrap().unwrap().clone();
    let listed: Vec<_> = listed.iter().map(|c| (c.name.as_str(), c.direction, c.state.as_str())).collect();
    let (incoming, outgoing) = (Direction::In, Direction::Out);
    let wanted =
        [("default", incoming, "open"), ("telegram", incoming, "open"), ("telegram", outgoing, "open")];
    assert_eq!(listed, wanted);
    task.abort();
}

/// Acceptance B2.
#[tokio::test]
async fn a_new_fifo_is_usable_within_a_tenth_of_a_second() {
    let mut house = House::open();
    house.opened("default").await;
    let mut waits = Vec::new();
    for round in 0..21 {
        let started = Instant::now();
        let path = house.make(&format!("in.c{round}"));
        patient_writer(&path).await;
        waits.push(started.elapsed());
    }
    waits.sort();
    println!("median {:?}, longest {:?}", waits[10], waits[20]);
    assert!(waits[10] < Duration::from_millis(100), "{waits:?}");
}

/// Field fault 36.
#[tokio::test]
async fn a_fifo_deleted_and_made_again_at_once_loses_nothing() {
    let mut house = House::open();
    house.opened("default").await;
    for round in 0..1_000 {
        let path = house.make("in.x");
        write(path.clone(), format!("{round}\n")).await;
        fs::remove_file(path).unwrap();
    }
    let wanted: Vec<String> = (0..1_000).map(|round| round.to_string()).collect();
    assert_eq!(house.sink.texts(1_000).await, wanted);
    house.state("x", Direction::In, |state| state.is_none()).await;
}

#[tokio::test]
async fn a_writer_that_opened_before_the_deletion_may_still_write() {
    let mut house = House::open();
    let path = house.make("in.x");
    house.opened("x").await;
    let mut early = writer(&path).unwrap();
    fs::remove_file(&path).unwrap();
    house.state("x", Direction::In, |state| state.is_none()).await;
    early.write_all(b"late\n").unwrap();
    assert_eq!(house.sink.texts(1).await, ["late"]);
}

#[tokio::test]
async fn what_is_no_fifo_of_ours_is_refused_and_untouched() {
    let mut house = House::open();
    fs::create_dir(house.path("in.dir")).unwrap();
    symlink("/dev/null", house.path("in.link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(house.path("in.sock")).unwrap();
    fs::hard_link(house.make("other"), house.path("in.linked")).unwrap();
    fs::write(house.path("in.b d"), "").unwrap();
    fs::write(house.path("in.default"), "").unwrap();
    house.refused("dir", "directory").await;
    house.refused("link", "symbolic link").await;
    house.refused("sock", "socket").await;
    house.refused("linked", "2 names").await;
    fs::remove_file(house.path("other")).unwrap();
    house.opened("linked").await;
}

#[tokio::test]
async fn another_users_fifo_is_refused() {
    if !Uid::effective().is_root() {
        return; // Only root can make one.
    }
    let mut house = House::open();
    let path = house.make("in.theirs");
    nix::unistd::chown(&path, Some(Uid::from_raw(65534)), None).unwrap();
    house.refused("theirs", "uid 65534").await;
}

#[tokio::test]
async fn an_out_channel_is_listed_and_never_opened() {
    let mut house = House::open();
    let path = house.make("out.x");
    house.state("x", Direction::Out, |state| state == Some("open")).await;
    assert!(writer(&path).is_err(), "somebody reads it");
    fs::remove_file(&path).unwrap();
    house.state("x", Direction::Out, |state| state.is_none()).await;
}

#[tokio::test]
async fn the_fifo_after_the_last_allowed_one_waits_for_a_place() {
    let mut house = House::open();
    house.opened("default").await;
    for number in 1..MAX_CHANNELS {
        house.make(&format!("in.c{number}"));
    }
    house.opened(&format!("c{}", MAX_CHANNELS - 1)).await;
    house.make("in.z");
    house.refused("z", "256").await;
    fs::remove_file(house.path("in.c1")).unwrap();
    house.opened("z").await;
}

/// Field fault 36.
#[tokio::test]
async fn a_tmp_cleaner_does_no_lasting_harm() {
    let mut house = House::open();
    house.opened("default").await;
    fs::remove_file(house.path("in")).unwrap();
    write_soon(&house, "after the fifo").await;
    assert_eq!(house.sink.texts(1).await, ["after the fifo"]);
    let _control = house.dir.bind_socket(&house.path("control.sock")).unwrap();
    let mut lost = house.dir.lost_sockets();
    fs::remove_dir_all(house.dir.path()).unwrap();
    timeout(LIMIT, lost.changed()).await.expect("nobody noticed").unwrap();
    write_soon(&house, "after the directory").await;
    assert_eq!(house.sink.texts(2).await, ["after the fifo", "after the directory"]);
    house.make("in.x");
    house.opened("x").await;
}

/// Writes to `in` as soon as it is there again.
async fn write_soon(house: &House, text: &str) {
    let mut open = patient_writer(&house.path("in")).await;
    open.write_all(format!("{text}\n").as_bytes()).unwrap();
}
