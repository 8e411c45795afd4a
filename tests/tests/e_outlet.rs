//! Acceptance E2: what Claude sends leaves whole, in order, or with an error that says so; with readers as people write
//! them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use ccmux_tests::House;
use ccmux_tests::patience::at_once;
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, SFlag, mknod};
use nix::unistd::{Uid, chown};
use serde_json::Value;

const MESSAGES: usize = 2000;

/// Shell loops that read `$0` and append what they get to `$1`.
const LOOPS: [(&str, &str); 3] = [
    // Opens the FIFO again after each end of file.
    ("again", r#"while :; do while IFS= read -r line; do printf '%s\n' "$line"; done < "$0" >> "$1"; done"#),
    // Opens it again for every line: between two nobody reads.
    ("each", r#"while :; do IFS= read -r line < "$0" && printf '%s\n' "$line" >> "$1"; done"#),
    // Has it open for good.
    ("long", r#"exec 3<> "$0"; while IFS= read -r line <&3; do printf '%s\n' "$line" >> "$1"; done"#),
];

/// A shell loop; ends with the value.
struct Loop(Child);

impl Loop {
    fn start(house: &House, channel: &str, script: &str) -> Self {
        let mut shell = house.command("sh");
        shell.args(["-c", script]).arg(house.fifo(&format!("out.{channel}"))).arg(house.path(channel));
        Self(shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(n: usize) -> String {
    // Some are longer than a pipe takes at once, so that a reader may come and go in their middle.
    format!("{n} {}", "z".repeat(if n.is_multiple_of(100) { 70_000 } else { n % 300 }))
}

/// 2,000 messages to each kind of loop, in bursts with pauses in which the FIFO may be closed.
fn nothing_is_lost(linger: &str) {
    let house = House::builder().settings(&format!("[out]\nwait = 20\nlinger = {linger}\n")).ready();
    at_once(LOOPS, |(channel, script)| {
        let _reader = Loop::start(&house, channel, script);
        let mut caller = house.caller();
        for n in 0..MESSAGES {
            caller.send(channel, &text(n)).unwrap();
            if n % 40 == 39 {
                sleep(Duration::from_millis(30));
            }
        }
        let got = || fs::read_to_string(house.path(channel)).unwrap_or_default();
        house.wait_within(Duration::from_secs(60), &format!("all lines of {channel}"), || {
            let last = format!("\n{}\n", text(MESSAGES - 1));
            got().ends_with(&last).then_some(())
        });
        let (got, sent): (String, String) = (got(), (0..MESSAGES).map(|n| text(n) + "\n").collect());
        let lines = got.lines().count();
        assert!(got == sent, "{channel}: {lines} lines of {MESSAGES} came, or not whole, or not in order");
    });
}

/// Acceptance E2.
#[test]
fn e2_of_2000_messages_no_shell_loop_misses_one() {
    nothing_is_lost("2");
}

/// Acceptance E2.
#[test]
fn e2_of_2000_messages_no_shell_loop_misses_one_though_the_fifo_is_closed_in_every_pause() {
    nothing_is_lost("0.01");
}

/// Somebody who has a FIFO open, and reads when told to.
fn open(house: &House, name: &str) -> File {
    let path = house.fifo(name);
    OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path).unwrap()
}

fn drain(reader: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = reader.read_to_end(&mut bytes);
    bytes
}

/// Acceptance E2.
#[test]
fn e2_what_is_no_fifo_of_ours_is_a_tool_error_with_the_remedy() {
    let house = House::builder().ready();
    let path = |name: &str| house.run_dir().join(format!("out.{name}"));
    fs::write(path("file"), "precious").unwrap();
    fs::create_dir(path("folder")).unwrap();
    let _reader = open(&house, "out.real");
    symlink(path("real"), path("link")).unwrap();
    let mut cases = vec![("file", "a regular file"), ("folder", "a directory"), ("link", "a symbolic link")];
    if Uid::effective().is_root() {
        let null = fs::metadata("/dev/null").unwrap().rdev() as nix::libc::dev_t;
        mknod(&path("device"), SFlag::S_IFCHR, Mode::S_IRUSR | Mode::S_IWUSR, null).unwrap();
        chown(&house.fifo("out.foreign"), Some(Uid::from_raw(65534)), None).unwrap();
        cases.extend([("device", "device"), ("foreign", "uid 65534")]);
    }
    let mut caller = house.caller();
    for (name, why) in cases {
        let said = caller.send(name, "x").unwrap_err();
        assert!(said.contains(&format!("out.{name} is refused")) && said.contains(why), "{name}: {said}");
        let remedy = if name == "foreign" { "not yours" } else { "mkfifo" };
        assert!(said.contains(remedy) && said.contains("nothing was sent"), "{name}: {said}");
    }
    house.fifo("out.deaf");
    let said = caller.send("deaf", "x").unwrap_err();
    assert!(said.contains("nobody is listening on deaf") && said.contains("out.deaf"), "{said}");
    let said = caller.send("nowhere", "x").unwrap_err();
    assert!(said.contains("real") && !said.contains("folder"), "{said}");
    let said = caller.send("real", &"m".repeat(1024 * 1024 + 1)).unwrap_err();
    assert!(said.contains("too large") && said.contains("1048576"), "{said}");
    assert_eq!(fs::read(path("file")).unwrap(), b"precious");
    assert_eq!(caller.send("real", "the daemon lives"), Ok("sent to real".to_owned()));
}

/// Acceptance E2.
#[test]
fn e2_a_mebibyte_arrives_also_where_json_writes_it_six_times_as_long() {
    let house = House::builder().settings("[channels.json]\nformat = \"json\"\n").ready();
    for (channel, text) in [("plain", "m"), ("control", "\u{1}"), ("json", "\n")] {
        let adapter = house.adapter(channel);
        let text = text.repeat(1024 * 1024);
        house.caller().send(channel, &text).unwrap();
        let line = house.wait_for_lines(&adapter, 1).remove(0);
        let got = match channel {
            "json" => serde_json::from_str::<Value>(&line).unwrap()["content"].as_str().unwrap().to_owned(),
            _ => line,
        };
        assert!(got == text, "{channel}");
    }
}

/// Acceptance E2.
#[test]
fn e2_a_reader_that_stops_in_the_middle_is_told_and_leaves_no_torn_line() {
    let house = House::builder().ready();
    let mut reader = open(&house, "out.x");
    let mut caller = house.caller();
    let said = caller.send("x", &"a".repeat(500_000)).unwrap_err();
    assert!(said.contains("stopped reading after") && said.contains("of 500001 bytes"), "{said}");
    let said = caller.send("x", "b").unwrap_err();
    assert!(said.contains("does not read: its pipe is full"), "{said}");
    let part = drain(&mut reader);
    assert!(part.iter().all(|byte| *byte == b'a'));
    caller.send("x", "next").unwrap();
    caller.send("x", "and next").unwrap();
    assert_eq!(drain(&mut reader), b"\nnext\nand next\n");
}

/// Field fault 37.
#[test]
fn f37_who_does_not_read_or_is_not_there_slows_nothing_else() {
    let house = House::builder().ready();
    let _deaf = open(&house, "out.deaf");
    house.fifo("out.gone");
    let fine = house.adapter("fine");
    std::thread::scope(|scope| {
        let deaf = scope.spawn(|| house.caller().send("deaf", &"d".repeat(500_000)));
        let gone = scope.spawn(|| house.caller().send("gone", "g"));
        let mut caller = house.caller();
        for n in 0..200 {
            caller.send("fine", &n.to_string()).unwrap();
        }
        assert_eq!(house.wait_for_lines(&fine, 200).len(), 200);
        assert!(!deaf.is_finished(), "it should have waited for its reader");
        house.send("answered", "say: messages and turns flow");
        assert!(gone.join().unwrap().unwrap_err().contains("nobody is listening"));
        assert!(deaf.join().unwrap().unwrap_err().contains("stopped reading"));
    });
}
