//! docs/OPERATIONS.md, Backup: a copy of the live databases, and a daemon that goes on from it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::PathBuf;

use ccmux_tests::House;

/// By the `sqlite3` tool, while the daemon writes.
fn copy_of(house: &House, database: &str) -> PathBuf {
    let copy = house.path(&format!("{database}.copy"));
    let mut sqlite = house.command("sqlite3");
    sqlite.arg(house.state_dir().join(database)).arg(format!(".backup {}", copy.display()));
    let output = house.run_to_end(sqlite);
    assert!(output.status.success(), "sqlite3 must be installed: {output:?}");
    let mut check = house.command("sqlite3");
    check.arg(&copy).arg("PRAGMA integrity_check");
    assert_eq!(String::from_utf8(house.run_to_end(check).stdout).unwrap().trim(), "ok");
    copy
}

#[test]
fn a_copy_of_live_databases_is_whole_and_a_daemon_goes_on_from_it() {
    let house = House::builder().ready();
    house.send("answered", "say: before the copy");
    let fifo = house.open_fifo("in.busy");
    let writing = std::thread::spawn(move || {
        use std::io::Write;
        for n in 0..200 {
            writeln!(&fifo, "say: {n}").unwrap();
        }
    });
    let copies = ["inbox.db", "turns.db"].map(|database| (database, copy_of(&house, database)));
    writing.join().unwrap();
    assert!(house.stop().success());
    for (database, copy) in copies {
        for ending in ["-wal", "-shm"] {
            let _ = fs::remove_file(house.state_dir().join(format!("{database}{ending}")));
        }
        fs::copy(copy, house.state_dir().join(database)).unwrap();
    }
    fs::remove_dir_all(house.state_dir().join("intake")).unwrap();
    house.start();
    let said = house.ccmux_ok(&["inbox", "list", "--state", "answered"]);
    assert_eq!(said.lines().filter(|line| line.contains("default")).count(), 1, "{said}");
    assert!(house.tail(&["--since", "0"]).wait_for("before the copy").contains("before the copy"));
    house.send("answered", "say: after it");
}
