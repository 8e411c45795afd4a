//! An adapter that runs beside a house: a program in its environment, what it said so far, and how it ended.
//!
//! ```no_run
//! # use ccmux_tests::{AdapterProgram, House};
//! let house = House::builder().ready();
//! let mut cron = AdapterProgram::built_in(&house, &["cron", "--at", "* * * * *", "good morning"]);
//! house.wait_for_messages(1);
//! assert!(cron.end().success());
//! ```

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::house::House;
use crate::patience::{LIMIT, wait_for};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A program that runs until it is told to end; it ends with the value, and with it whatever it started.
#[derive(Debug)]
pub struct AdapterProgram {
    child: Child,
    log: PathBuf,
}

impl AdapterProgram {
    /// Runs any program.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn run(house: &House, mut command: Command) -> Self {
        let log = house.path(&format!("adapter-{}.log", COUNT.fetch_add(1, Ordering::Relaxed)));
        let file = File::create(&log).unwrap();
        command.stdout(file.try_clone().unwrap()).stderr(file).process_group(0);
        let child =
            command.spawn().unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
        Self { child, log }
    }

    /// Runs `ccmux adapter`.
    pub fn built_in(house: &House, arguments: &[&str]) -> Self {
        let mut command = house.command(house.bin("ccmux"));
        command.arg("adapter").args(arguments);
        Self::run(house, command)
    }

    /// What it wrote to stdout and stderr.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until it has said a text; the line that holds it.
    pub fn wait_for(&self, text: &str) -> String {
        wait_for(LIMIT, &format!("{text:?} in {:?}", self.said()), || {
            self.said().lines().find(|line| line.contains(text)).map(str::to_owned)
        })
    }

    /// To the program alone, not to what it started.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// It dies without a chance to do anything; what it started lives on until this value goes.
    pub fn kill9(&mut self) {
        self.signal(Signal::SIGKILL);
        wait_for(LIMIT, "the adapter's death", || self.child.try_wait().unwrap());
    }

    /// SIGTERM, and how it ended.
    pub fn end(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        wait_for(LIMIT, "the adapter's end", || self.child.try_wait().unwrap())
    }
}

impl Drop for AdapterProgram {
    fn drop(&mut self) {
        let _ = killpg(self.pid(), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}
