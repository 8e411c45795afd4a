//! Acceptance B4: 10,000 messages over 50 channels, the daemon killed with -9 every 200 ms.
//!
//! Whoever holds a FIFO open keeps what is in the pipe, as systemd's descriptor store does: then every message whose
//! write returned is accepted once, in order. Without a holder what is in the pipe when the daemon dies dies with it;
//! the second test says how much that was.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ccmux_tests::House;

const CHANNELS: usize = 50;
const EACH: usize = 200;
const LIFE: Duration = Duration::from_millis(200);
/// The writers take at least so long, so that many daemons die meanwhile.
const PAUSE: Duration = Duration::from_millis(60);

fn house() -> House {
    let house = House::builder().settings("[limits]\nqueue_messages = 100000\n").ready();
    // Nothing is to go in meanwhile.
    house.write("in.work", "slow: 600\n");
    house.wait_for_prompt("slow: ");
    for channel in 0..CHANNELS {
        house.fifo(&name(channel));
    }
    house.kill9();
    house
}

fn name(channel: usize) -> String {
    format!("in.c{channel:02}")
}

/// Lines of very different lengths.
fn line(channel: usize, n: usize) -> String {
    format!("{n:03} {}\n", "x".repeat((channel * 31 + n * 17) % 900))
}

fn spawn(house: &House) -> Child {
    let mut command = house.command(house.bin("ccmuxd"));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Lets daemons live and die until `done`; how many did.
fn kill_until(house: &House, done: &AtomicBool) -> usize {
    let mut kills = 0;
    while !done.load(Ordering::Relaxed) {
        let mut daemon = spawn(house);
        thread::sleep(LIFE);
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        kills += 1;
    }
    kills
}

/// Runs a writer a channel while daemons die; whatever a writer returns, and the number of the dead.
fn write_under_fire<T: Send>(house: &House, write: impl Fn(usize) -> T + Sync) -> (Vec<T>, usize) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let killer = scope.spawn(|| kill_until(house, &done));
        let write = &write;
        let writers: Vec<_> = (0..CHANNELS).map(|channel| scope.spawn(move || write(channel))).collect();
        let written = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        (written, killer.join().unwrap())
    })
}

/// The numbers that were accepted, by channel, in order; at least so many all in all, once they are there.
fn accepted(house: &House, at_least: usize) -> Vec<Vec<usize>> {
    house.wait_within(Duration::from_secs(60), "the messages to be accepted", || {
        let mut numbers = vec![Vec::new(); CHANNELS];
        let stored = house.stored();
        for (channel, content) in &stored {
            if let Some(channel) = channel.strip_prefix('c') {
                numbers[channel.parse::<usize>().unwrap()].push(content[..3].parse().unwrap());
            }
        }
        (numbers.iter().map(Vec::len).sum::<usize>() >= at_least).then_some(numbers)
    })
}

/// Acceptance B4. Field fault 8.
#[test]
fn b4_with_fifos_that_somebody_holds_every_message_is_accepted_once_and_in_order() {
    let house = house();
    let held: Vec<File> = (0..CHANNELS)
        .map(|channel| {
            let path = house.run_dir().join(name(channel));
            OpenOptions::new().read(true).write(true).open(path).unwrap()
        })
        .collect();
    let begun = Instant::now();
    let (_, kills) = write_under_fire(&house, |channel| {
        let mut fifo = held[channel].try_clone().unwrap();
        for n in 0..EACH {
            fifo.write_all(line(channel, n).as_bytes()).unwrap();
            thread::sleep(PAUSE);
        }
    });
    house.start();
    let accepted = accepted(&house, CHANNELS * EACH);
    println!("{} messages, {kills} kills, {:?}", CHANNELS * EACH, begun.elapsed());
    for (channel, numbers) in accepted.iter().enumerate() {
        assert!(numbers.iter().copied().eq(0..EACH), "channel {channel}: {numbers:?}");
    }
    assert!(kills >= 20, "{kills} kills");
}

/// Acceptance B4.
#[test]
fn b4_without_a_holder_only_what_was_in_the_pipe_is_lost() {
    let house = house();
    let begun = Instant::now();
    let write = |channel: usize, n: usize| {
        let path = house.run_dir().join(name(channel));
        // As `echo` does: waits for a reader, writes, leaves. The reader may die in between.
        while OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut fifo| fifo.write_all(line(channel, n).as_bytes()))
            .is_err()
        {}
    };
    let (_, kills) = write_under_fire(&house, |channel| {
        for n in 0..EACH {
            write(channel, n);
            thread::sleep(PAUSE);
        }
    });
    house.start();
    for channel in 0..CHANNELS {
        write(channel, EACH);
    }
    let last_of_all = house.wait_within(Duration::from_secs(60), "the last message of each channel", || {
        let accepted = accepted(&house, 0);
        accepted.iter().all(|numbers| numbers.last() == Some(&EACH)).then_some(accepted)
    });
    let came: usize = last_of_all.iter().map(|numbers| numbers.len() - 1).sum();
    let lost = CHANNELS * EACH - came;
    println!(
        "{came} of {} messages, {lost} were in the pipe at one of {kills} kills, {:?}",
        CHANNELS * EACH,
        begun.elapsed()
    );
    for (channel, numbers) in last_of_all.iter().enumerate() {
        assert!(numbers.is_sorted_by(|one, next| one < next), "channel {channel}: {numbers:?}");
    }
    assert!(kills >= 20, "{kills} kills");
}
