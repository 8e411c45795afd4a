//! Acceptance D1 and D5 on the demo agent: many subscribers, slow ones, ordinary programs as subscribers, and going on where
//! one was.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ccmux_tests::crowd::{Crowd, raise_descriptors};
use ccmux_tests::doors::text_of;
use ccmux_tests::listening::Listening;
use ccmux_tests::{House, wait_for};
use serde_json::{Value, json};

/// How many subscribers; `CCMUX_SUBSCRIBERS=1000` asks for more.
fn crowd_size() -> usize {
    std::env::var("CCMUX_SUBSCRIBERS").ok().and_then(|size| size.parse().ok()).unwrap_or(100)
}

/// Turns of 50 KB, one after the other.
fn publish_turns(house: &House, count: usize) {
    for _ in 0..count {
        house.send("answered", "big: 50000");
    }
}

/// A line that every subscriber gets as an alert.
fn publish_alerts(house: &House, count: usize) {
    house.write("in.t", "{}\n".repeat(count));
}

/// Acceptance D1.
#[test]
fn d1_a_crowd_gets_every_line_though_one_never_reads_and_some_leave() {
    const TURNS: usize = 12;
    raise_descriptors();
    let house = House::builder().ready();
    let size = crowd_size();
    let socket = house.run_dir().join("output.sock");
    let crowd = Crowd::new(&socket, size);
    house.wait_until("all to be counted", || house.status().subscribers as usize == size);
    publish_turns(&house, TURNS);
    let all_read = crowd.hears(TURNS);
    let deaf = UnixStream::connect(&socket).unwrap();
    let leavers: Vec<UnixStream> = (0..10).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    house.wait_until("them to be counted", || house.status().subscribers as usize == size + 11);
    publish_turns(&house, TURNS / 2);
    drop(leavers);
    publish_turns(&house, TURNS / 2);
    let one_stalled = crowd.hears(TURNS);
    house.wait_until("the leavers to be gone", || house.status().subscribers as usize == size + 1);
    // Figures for people: a machine that does other things as well proves nothing by them.
    let ratio = one_stalled.p99.as_secs_f64() / all_read.p99.as_secs_f64();
    println!(
        "{size} subscribers, all read: {all_read:?}; one stalled: {one_stalled:?}; ratio of p99 {ratio:.2}"
    );
    drop(deaf);
}

/// Acceptance D1.
#[test]
fn d1_nc_and_socat_get_the_stream_whichever_way_they_half_close() {
    let house = House::builder().ready();
    house.send("answered", "say: before");
    let socket = house.run_dir().join("output.sock").display().to_string();
    let program = |line: &str, stdin: &str| {
        let words: Vec<String> = line.split(' ').map(|word| word.replace("SOCKET", &socket)).collect();
        let mut command = house.command(&words[0]);
        command.args(&words[1..]);
        Listening::to(command, stdin)
    };
    let listening = [
        program("nc -N -U SOCKET", ""),
        program("nc -N -U SOCKET", "{\"only\":\"turns\",\"since\":0}\n"),
        program("socat -t 60 - UNIX-CONNECT:SOCKET", ""),
        program("socat -t 60 - UNIX-CONNECT:SOCKET", "{\"since\":0}"),
        program("socat -u UNIX-CONNECT:SOCKET -", ""),
    ];
    house.wait_until("all to be counted", || house.status().subscribers == 5);
    house.send("answered", "say: after the half close");
    for program in &listening {
        program.wait_for("after the half close");
    }
    for (program, replays) in listening.iter().zip([false, true, false, true, false]) {
        let turns: Vec<Value> =
            program.values().into_iter().filter(|line| line.get("turn").is_some()).collect();
        assert_eq!(turns.iter().any(|turn| text_of(turn) == "before"), replays, "{program:?}");
    }
    drop(listening);
    house.wait_until("all to be gone", || house.status().subscribers == 0);
}

/// A connection to control.sock that asked for the stream.
fn subscribe_on_control(house: &House, wish: &str) -> UnixStream {
    let mut stream = UnixStream::connect(house.run_dir().join("control.sock")).unwrap();
    stream.write_all(format!("{{\"v\":1,\"type\":\"subscribe\"{wish}}}\n").as_bytes()).unwrap();
    stream
}

/// Acceptance D1.
#[test]
fn d1_control_sock_gives_the_same_stream_and_its_subscribers_take_no_clients_place() {
    raise_descriptors();
    let house = House::builder().ready();
    let mut same = subscribe_on_control(&house, ",\"since\":0");
    same.shutdown(std::net::Shutdown::Write).unwrap();
    let output = house.subscribe_with("{\"since\":0}\n");
    let many: Vec<UnixStream> = (0..600).map(|_| subscribe_on_control(&house, "")).collect();
    house.wait_until("all to be counted", || house.status().subscribers == 602);
    house.send("answered", "say: for both");
    let line = output.wait_for_text("for both").value;
    let mut reader = BufReader::new(&mut same);
    let mut heard = String::new();
    while !heard.contains("for both") {
        heard.clear();
        assert!(reader.read_line(&mut heard).unwrap() > 0, "the stream ended");
    }
    assert_eq!(serde_json::from_str::<Value>(&heard).unwrap(), line);
    drop(many);
    house.wait_until("they to be gone", || house.status().subscribers == 2);
}

/// `VmHWM` of the daemon, in MiB: the most memory that it ever had.
fn peak_mib(house: &House) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", house.daemon_pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Acceptance D1.
#[test]
fn d1_a_turn_of_20_mb_reaches_everybody_and_a_message_is_accepted_meanwhile() {
    let house = House::builder().ready();
    let socket = house.run_dir().join("output.sock");
    // More than the memory that is allowed, were the line not shared.
    let crowd = Crowd::new(&socket, 25);
    let deaf = UnixStream::connect(&socket).unwrap();
    house.wait_until("all to be counted", || house.status().subscribers == 26);
    house.write("in", "big: 20000000\n");
    house.wait_within(Duration::from_secs(60), "the turn to be written", || {
        house.transcript_files().iter().any(|file| file.metadata().unwrap().len() > 20_000_000).then_some(())
    });
    let begun = Instant::now();
    let receipt = house.send("accepted", "say: meanwhile");
    let accepted = begun.elapsed();
    assert!(accepted < Duration::from_secs(2), "{accepted:?}");
    house.ccmux_ok(&["send", "--id", &receipt.id, "--wait", "answered", "--timeout", "60", "say: meanwhile"]);
    let spread = crowd.hears(2);
    let peak = peak_mib(&house);
    println!("accepted after {accepted:?}; 25 subscribers: {spread:?}; the daemon had at most {peak} MiB");
    assert!(peak < 300, "{peak} MiB");
    drop(deaf);
}

/// One after the other and without a hole, from `first` on.
fn assert_no_gap_and_no_double(seqs: &[u64], first: u64) {
    let expected: Vec<u64> = (first..first + seqs.len() as u64).collect();
    assert_eq!(seqs, expected);
}

/// Publishes alerts as long as `work` runs.
fn while_publishing<T>(house: &House, work: impl FnOnce() -> T) -> T {
    let goes_on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let publisher = scope.spawn(|| {
            let mut fifo = house.open_fifo("in.t");
            while goes_on.load(Ordering::Relaxed) {
                // Each is committed by itself: the disk is the pace.
                fifo.write_all(b"{}\n{}\n{}\n").unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let done = work();
        goes_on.store(false, Ordering::Relaxed);
        publisher.join().unwrap();
        done
    })
}

/// Acceptance D5.
#[test]
fn d5_tail_goes_on_where_it_was_many_times_while_lines_are_published() {
    let house = House::builder().ready();
    publish_alerts(&house, 3);
    let seqs = while_publishing(&house, || {
        let mut seqs: Vec<u64> = Vec::new();
        for _ in 0..25 {
            let since = seqs.last().copied().unwrap_or(0).to_string();
            let tail = house.tail(&["--since", &since]);
            seqs.extend(wait_for(Duration::from_secs(30), "some lines", || {
                Some(tail.seqs()).filter(|seqs| seqs.len() > 15)
            }));
        }
        seqs
    });
    assert_no_gap_and_no_double(&seqs, 1);
}

/// Acceptance D5.
#[test]
fn d5_events_go_on_after_the_last_id_many_times_while_lines_are_published() {
    let house = House::builder().ready();
    publish_alerts(&house, 3);
    let seqs = while_publishing(&house, || {
        let mut seqs: Vec<u64> = Vec::new();
        for round in 0..25 {
            let last = seqs.last().copied().unwrap_or(0);
            let events = match round % 2 {
                0 => house.events(&format!("?since={last}"), &[]),
                _ => house.events("?since=0", &[&format!("Last-Event-ID: {last}")]),
            };
            seqs.extend(wait_for(Duration::from_secs(30), "some lines", || {
                Some(events.seqs()).filter(|seqs| seqs.len() > 15)
            }));
        }
        seqs
    });
    assert_no_gap_and_no_double(&seqs, 1);
}

/// Acceptance D5.
#[test]
fn d5_tail_retry_sees_every_line_over_restarts_and_kills_and_numbers_go_on() {
    let house = House::builder().ready();
    let tail = house.tail(&["--retry"]);
    // Its place is known once a line came.
    wait_for(Duration::from_secs(30), "the first line", || {
        publish_alerts(&house, 1);
        (!tail.seqs().is_empty()).then_some(())
    });
    let first = tail.seqs()[0];
    for round in 0..4 {
        match round % 2 {
            0 => house.kill9(),
            _ => assert!(house.stop().success()),
        }
        house.start();
        publish_alerts(&house, 5);
        house.send("answered", &format!("say: round {round}"));
        tail.wait_for(&format!("round {round}"));
    }
    assert_no_gap_and_no_double(&tail.seqs(), first);
    let all = house.tail(&["--since", "0"]);
    all.wait_for("round 3");
    assert_no_gap_and_no_double(&all.seqs(), 1);
    let ours: Vec<Value> = all.values().into_iter().skip(first as usize - 1).collect();
    assert_eq!(tail.values(), ours);
}

/// Acceptance D5.
#[test]
fn d5_tail_without_retry_ends_with_6_and_events_end_when_the_daemon_does() {
    let house = House::builder().ready();
    let mut events = house.events("", &[]);
    let mut command = house.command(house.bin("ccmux"));
    command.args(["tail", "--alerts"]);
    let tail = std::thread::scope(|scope| {
        let tail = scope.spawn(|| house.run_to_end(command));
        house.wait_until("both to be counted", || house.status().subscribers == 2);
        let begun = Instant::now();
        assert!(house.stop().success());
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        tail.join().unwrap()
    });
    assert_eq!(tail.status.code(), Some(6), "{}", String::from_utf8_lossy(&tail.stderr));
    wait_for(Duration::from_secs(5), "curl's end", || events.has_ended().then_some(()));
    assert!(house.log_events("mcp.stopped_late").is_empty());
    assert!(house.log_events("daemon.stopped_late").is_empty());
}

/// Acceptance D5.
#[test]
fn d5_what_is_no_longer_kept_is_told_and_the_database_stays_small() {
    let house = House::builder().settings("[retention]\nbytes = 16777216\n").ready();
    for _ in 0..14 {
        house.send("answered", "big: 2000000");
    }
    let file = house.state_dir().join("turns.db");
    house.wait_until("old turns to be forgotten", || {
        tail_once(&house, "1").first().is_some_and(|line| line.get("gap").is_some())
            && file.metadata().unwrap().len() < 21_000_000
    });
    let lines = tail_once(&house, "1");
    let (gap, first) = (&lines[0]["gap"], lines[1]["seq"].as_u64().unwrap());
    assert_eq!(gap, &json!({"after": 1, "before": first}));
    let seqs: Vec<u64> = lines[1..].iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_no_gap_and_no_double(&seqs, first);
    assert_eq!(seqs.last().copied(), house.status().last_seq.map(|seq| seq.0));
}

/// What is there behind a line.
fn tail_once(house: &House, since: &str) -> Vec<Value> {
    let last = house.status().last_seq.unwrap().0;
    let tail = house.tail(&["--since", since]);
    wait_for(Duration::from_secs(30), "the last line", || tail.seqs().contains(&last).then_some(()));
    tail.values()
}

/// Acceptance D1.
#[test]
fn d1_one_that_never_reads_is_told_goodbye_after_a_whole_line_over_http_too() {
    let house = House::builder().settings("[limits]\nsubscriber_bytes = 1000000\n").ready();
    let mut events = house.events("", &[]);
    house.wait_until("curl to be counted", || house.status().subscribers == 1);
    events.stop();
    let mut deaf = UnixStream::connect(house.run_dir().join("output.sock")).unwrap();
    house.wait_until("both to be counted", || house.status().subscribers == 2);
    let reads = house.subscribe();
    for n in 1..=10 {
        house.send("answered", "big: 1000000");
        reads.wait_for_turns(n);
    }
    house.wait_until("both to be let go", || house.status().subscribers == 1);
    let mut got = Vec::new();
    deaf.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    deaf.read_to_end(&mut got).unwrap();
    assert!(got.len() < 10_000_000, "it got everything, so nothing was tested");
    events.go_on();
    wait_for(Duration::from_secs(20), "curl's end", || events.has_ended().then_some(()));
    assert_eq!(house.log_events("subscriber.too_slow").len(), 2);
    assert!(events.values().len() < 10);
}
