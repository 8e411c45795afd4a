//! Nothing can be written, no descriptor is left: bytes wait in the pipe, and it goes on by itself.
//!
//! Limits of a process are set in a process of its own: each test here runs itself again.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;

const CHILD: &str = "CCMUX_TEST_FULL_DISK";

/// True in the child; in the parent the child was run, and succeeded.
fn is_child(test: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("intake::tests::full_disk::{test}"), "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{out}");
    false
}

/// Sets a soft limit; returns what it was.
fn limit(resource: Resource, current: Option<u64>) -> Option<u64> {
    let old = getrlimit(resource);
    setrlimit(resource, Rlimit { current, ..old }).unwrap();
    old.current
}

fn stalled(why: &str) -> impl Fn(Option<&str>) -> bool {
    move |state| state.is_some_and(|state| state.starts_with("stalled: ") && state.contains(why))
}

fn lines(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{n:07}")).collect()
}

#[tokio::test]
async fn a_limit_on_files_keeps_bytes_in_the_pipe() {
    if !is_child("a_limit_on_files_keeps_bytes_in_the_pipe") {
        return;
    }
    let kind = tokio::signal::unix::SignalKind::from_raw(nix::sys::signal::Signal::SIGXFSZ as i32);
    let _handled = tokio::signal::unix::signal(kind).unwrap();
    let mut house = House::open();
    house.opened("default").await;
    let old = limit(Resource::Fsize, Some(0));
    let all = lines(30_000);
    let text: String = all.iter().map(|line| format!("{line}\n")).collect();
    let flood = tokio::spawn(write(house.path("in"), text));
    house.state("default", Direction::In, stalled("File too large")).await;
    assert!(!flood.is_finished(), "the writer waits");
    // A few bytes more: every file takes some, the rest of a file is written to the next one.
    limit(Resource::Fsize, Some(5_000));
    house.sink.wait_for(1_000).await;
    limit(Resource::Fsize, old);
    flood.await.unwrap();
    assert_eq!(house.sink.texts(30_000).await, all);
    house.opened("default").await;
}

/// The disk took the beginning of a line and not its end: silence says nothing then.
#[tokio::test]
async fn half_a_line_waits_while_the_rest_cannot_be_moved() {
    if !is_child("half_a_line_waits_while_the_rest_cannot_be_moved") {
        return;
    }
    let kind = tokio::signal::unix::SignalKind::from_raw(nix::sys::signal::Signal::SIGXFSZ as i32);
    let _handled = tokio::signal::unix::signal(kind).unwrap();
    let mut house = House::open();
    let mut open = patient_writer(&house.path("in")).await;
    open.write_all(b"half").unwrap();
    house.sink.holds("half").await;
    let old = limit(Resource::Fsize, Some(0));
    open.write_all(b" and the rest\n").unwrap();
    house.state("default", Direction::In, stalled("File too large")).await;
    let early = timeout(QUIET + Duration::from_secs(1), house.sink.wait_for(1)).await;
    assert!(early.is_err(), "{early:?} was accepted, and the rest was in the pipe");
    limit(Resource::Fsize, old);
    assert_eq!(house.sink.texts(1).await, ["half and the rest"]);
}

#[tokio::test]
async fn a_process_without_descriptors_loses_nothing() {
    if !is_child("a_process_without_descriptors_loses_nothing") {
        return;
    }
    let mut house = House::open();
    house.opened("default").await;
    let mut open = patient_writer(&house.path("in")).await;
    let lowest_free = File::open("/dev/null").unwrap().as_raw_fd() as u64;
    let old = limit(Resource::Nofile, Some(lowest_free));
    assert!(File::open("/dev/null").is_err(), "descriptors are left");
    open.write_all(b"one\n").unwrap();
    house.state("default", Direction::In, stalled("Too many open files")).await;
    limit(Resource::Nofile, old);
    assert_eq!(house.sink.texts(1).await, ["one"]);
    house.opened("default").await;
    house.make("in.x");
    house.opened("x").await;
}

/// A file system of 64 KiB, where one may be mounted.
struct Tiny<'a>(&'a Path);

impl<'a> Tiny<'a> {
    fn mount(at: &'a Path) -> Option<Self> {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(at).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(at))
    }
}

impl Drop for Tiny<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[tokio::test]
async fn a_full_disk_keeps_bytes_in_the_pipe() {
    let place = Place::new(0);
    fs::create_dir(place.logs()).unwrap();
    let logs = place.logs();
    let Some(_tiny) = Tiny::mount(&logs) else {
        println!("no tmpfs may be mounted here: only the limit on files was tested");
        return;
    };
    let mut house = place.open();
    house.opened("default").await;
    let all = lines(30_000);
    let text: String = all.iter().map(|line| format!("{line}\n")).collect();
    let flood = tokio::spawn(write(house.path("in"), text));
    house.state("default", Direction::In, stalled("No space left")).await;
    assert!(!flood.is_finished(), "the writer waits");
    house.sink.room.add_permits(10_000);
    flood.await.unwrap();
    assert_eq!(house.sink.texts(30_000).await, all);
    house.opened("default").await;
    house.close().await;
    assert_eq!(place.left(), [""; 0]);
}
