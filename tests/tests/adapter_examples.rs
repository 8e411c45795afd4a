//! The complete adapters of docs/ADAPTERS.md, taken out of the document and run beside a real daemon: a block
//! ```` ```LANGUAGE adapter=FILE ```` is that file.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ccmux_tests::{AdapterProgram, House, binaries};

/// A cold build of serde_json on a busy machine.
const BUILD_LIMIT: Duration = Duration::from_secs(300);

/// The text of an adapter.
fn block(name: &str) -> String {
    let path = binaries::repository().join("docs/ADAPTERS.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, behind) = text.split_once(&format!(" adapter={name}\n")).expect(name);
    behind.split_once("```\n").expect("a fence that is closed").0.to_owned()
}

/// A house with a folder for the adapter.
fn house() -> House {
    let house = House::builder().ready();
    for place in ["todo", "sent"] {
        fs::create_dir_all(house.path("folder").join(place)).unwrap();
    }
    house
}

/// What it is to do, whatever it is written in.
fn check(house: &House, program: &[PathBuf]) {
    let folder = house.path("folder");
    let start = || {
        let mut command = house.command(&program[0]);
        command.args(&program[1..]).arg(&folder);
        AdapterProgram::run(house, command)
    };
    let put = |name: &str, text: &str| {
        let hidden = folder.join("todo").join(format!(".{name}"));
        fs::write(&hidden, text).unwrap();
        fs::rename(hidden, folder.join("todo").join(name)).unwrap();
    };
    let sent = |name: &str| {
        house.wait_until(&format!("{name} to be sent"), || folder.join("sent").join(name).exists());
    };
    let answers = || fs::read_to_string(folder.join("answers")).unwrap_or_default();

    let mut killed = start();
    put("a", "a \"quoted\" \\ text\tof\nsay: two lines & more");
    sent("a");
    house.wait_until("the first message", || house.stored().len() == 1);

    // What is written while the daemon is away waits in the pipe.
    house.kill9();
    put("b", "say: while away\n");
    sent("b");
    house.start();
    house.wait_until("the second message", || house.stored().len() == 2);

    // The adapter dies between writing and moving: it sends the same again.
    killed.kill9();
    fs::rename(folder.join("sent/a"), folder.join("todo/a")).unwrap();
    let mut adapter = start();
    sent("a");
    put("c", "say: last");
    house.wait_until("the last message", || house.stored().len() == 3);
    let texts = ["a \"quoted\" \\ text    of\nsay: two lines & more", "say: while away", "say: last"];
    assert_eq!(house.stored_on("spool"), texts);
    house.wait_for_messages(3);

    house.write("in.t", "mcp: spool hello\n");
    house.wait_until("the first answer", || answers() == "hello\n");
    house.stop();
    house.start();
    // Claude's call reaches a daemon that listens again; one that it makes before that would fail.
    house.wait_until("the port of the tools", || house.status().mcp.port.is_some());
    house.wait_ready();
    house.write("in.t", "mcp: spool again\n");
    house.wait_until("the second answer", || answers() == "hello\nagain\n");

    // The FIFOs are swept away: it makes others.
    for name in ["in.spool", "out.spool"] {
        fs::remove_file(house.run_dir().join(name)).unwrap();
    }
    house.wait_until("a new FIFO", || house.run_dir().join("in.spool").exists());
    put("d", "say: still here");
    house.wait_until("a message by the new FIFO", || house.stored_on("spool").len() == 4);
    house.write("in.t", "mcp: spool too\n");
    house.wait_until("an answer by the new FIFO", || answers() == "hello\nagain\ntoo\n");
    adapter.end();
    assert_eq!(adapter.said(), "");
}

fn written(house: &House, name: &str) -> PathBuf {
    let path = house.path(name);
    fs::write(&path, block(name)).unwrap();
    path
}

#[test]
fn the_adapter_in_shell_does_what_the_document_says() {
    let house = house();
    check(&house, &["sh".into(), written(&house, "spool.sh")]);
}

#[test]
fn the_adapter_in_python_does_what_the_document_says() {
    let house = house();
    check(&house, &["python3".into(), written(&house, "spool.py")]);
}

#[test]
fn the_adapter_in_rust_does_what_the_document_says() {
    let house = house();
    let program = build(&house.path("spool"), &block("spool.rs"));
    check(&house, &[program]);
}

/// Builds a program that needs serde_json, in the workspace's version, without asking anybody.
fn build(folder: &Path, source: &str) -> PathBuf {
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("src/main.rs"), source).unwrap();
    let manifest = "[package]\nname = \"spool\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nserde_json = \"1\"\n";
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::copy(binaries::repository().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--offline"]).current_dir(folder).env_remove("RUSTC_WRAPPER");
    cargo.env("CARGO_TARGET_DIR", folder.join("target"));
    let mut child = cargo.spawn().unwrap();
    let ended = ccmux_tests::patience::wait_for(BUILD_LIMIT, "cargo", || child.try_wait().unwrap());
    assert!(ended.success(), "the adapter in Rust does not build");
    folder.join("target/debug/spool")
}
