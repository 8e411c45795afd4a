//! What becomes of bytes: when they are taken, who waits for whom, and what shutdown does.

use super::*;

#[tokio::test]
async fn the_next_fifo_of_a_name_waits_until_the_last_one_is_taken() {
    let mut house = House::with(Recorder::new(0, 0));
    let path = house.make("in.x");
    house.opened("x").await;
    let mut offered = house.sink.offered.subscribe();
    write(path.clone(), "first\n").await;
    timeout(LIMIT, offered.wait_for(|times| *times == 1)).await.unwrap().unwrap();
    fs::remove_file(&path).unwrap();
    house.state("x", Direction::In, |state| state.is_none()).await;
    write(house.make("in.x"), "second\n").await;
    house.sink.room.add_permits(10);
    assert_eq!(house.sink.texts(2).await, ["first", "second"]);
}

#[tokio::test]
async fn an_unfinished_line_does_not_join_the_next_fifo_of_that_name() {
    let mut house = House::open();
    let path = house.make("in.x");
    house.opened("x").await;
    write(path.clone(), "half").await;
    fs::remove_file(&path).unwrap();
    write(house.make("in.x"), "whole\n").await;
    assert_eq!(house.sink.texts(2).await, ["half", "whole"]);
}

#[tokio::test]
async fn a_line_without_newline_waits_for_quiet() {
    let house = House::open();
    let mut open = patient_writer(&house.path("in")).await;
    open.write_all(b"no newline").unwrap();
    let written = Instant::now();
    assert_eq!(house.sink.texts(1).await, ["no newline"]);
    assert!(written.elapsed() >= QUIET - Duration::from_millis(100), "{:?}", written.elapsed());
    open.write_all(b"next\n").unwrap();
    assert_eq!(house.sink.texts(2).await, ["no newline", "next"], "the writer that stays is heard on");
}

/// Acceptance B1.
#[tokio::test]
async fn five_writers_and_a_line_of_a_mebibyte() {
    let mut house = House::open();
    let big = house.make("in.big");
    house.opened("big").await;
    let line = "x".repeat(1024 * 1024);
    let mut tasks = vec![tokio::spawn(write(big, line.clone() + "\n"))];
    for who in 0..5 {
        let lines: String = (0..200).map(|n| format!("{who}:{n}\n")).collect();
        let path = house.path("in");
        tasks.push(tokio::spawn(async move {
            for line in lines.split_inclusive('\n') {
                write(path.clone(), line.to_owned()).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let came = house.sink.wait_for(1001).await;
    assert_eq!(came.iter().filter(|(channel, text)| channel == "big" && *text == line).count(), 1);
    for who in 0..5 {
        let own = came.iter().filter_map(|(_, text)| text.strip_prefix(&format!("{who}:")));
        let own: Vec<usize> = own.map(|n| n.parse().unwrap()).collect();
        assert_eq!(own, (0..200).collect::<Vec<_>>(), "writer {who}");
    }
}

#[tokio::test]
async fn a_full_inbox_stops_the_writer_and_loses_nothing() {
    let house = House::with(Recorder::new(0, 0));
    let mut open = patient_writer(&house.path("in")).await;
    open.write_all(b"0\n").unwrap();
    let mut offered = house.sink.offered.subscribe();
    timeout(LIMIT, offered.wait_for(|times| *times == 1)).await.unwrap().unwrap();
    let mut written = 1;
    while open.write_all(format!("{written}\n").as_bytes()).is_ok() {
        written += 1;
        assert!(written < 1_000_000, "the writer is never stopped");
    }
    house.sink.room.add_permits(1_000);
    let wanted: Vec<String> = (0..written).map(|n| n.to_string()).collect();
    assert_eq!(house.sink.texts(written).await, wanted);
}

#[tokio::test]
async fn bytes_that_the_inbox_refused_are_offered_again() {
    let mut house = House::with(Recorder::new(100, 2));
    house.opened("default").await;
    write(house.path("in"), "").await;
    let mut open = patient_writer(&house.path("in")).await;
    open.write_all(b"once\n").unwrap();
    house.state("default", Direction::In, |state| state == Some("stalled: no space left")).await;
    assert_eq!(house.sink.texts(1).await, ["once"]);
    house.opened("default").await;
}

#[tokio::test]
async fn shutdown_takes_what_is_in_the_pipes() {
    let mut house = House::open();
    let path = house.make("in.x");
    house.opened("x").await;
    let (mut one, mut two) = (writer(&path).unwrap(), patient_writer(&house.path("in")).await);
    one.write_all("line\n".repeat(5_000).as_bytes()).unwrap();
    two.write_all(b"unfinished").unwrap();
    let sink = Arc::clone(&house.sink);
    let lines = house.close().await;
    assert_eq!(lines.len(), 5_000);
    let rest = sink.lines.lock().unwrap().rest[&ChannelName::default_channel()].clone();
    assert_eq!(rest, b"unfinished", "taken, and left to be finished after the restart");
}

#[tokio::test]
async fn shutdown_does_not_wait_for_an_inbox_that_hangs_or_a_writer_that_floods() {
    let house = House::with(Recorder::new(0, 0));
    let mut open = patient_writer(&house.path("in")).await;
    open.write_all(b"stuck\n").unwrap();
    let mut offered = house.sink.offered.subscribe();
    timeout(LIMIT, offered.wait_for(|times| *times == 1)).await.unwrap().unwrap();
    let asked = Instant::now();
    house.close().await;
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());

    let house = House::open();
    let mut flood = patient_writer(&house.path("in")).await;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let flooder =
        std::thread::spawn(move || while !stopped.is_cancelled() && !is_closed(flood.write(b"x\n")) {});
    house.sink.wait_for(10).await;
    let asked = Instant::now();
    house.close().await;
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    stop.cancel();
    flooder.join().unwrap();
}

fn is_closed(written: std::io::Result<usize>) -> bool {
    written.is_err_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
