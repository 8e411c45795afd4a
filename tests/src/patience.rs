//! Waiting for a fact, with a limit: no test sleeps in the hope that something has happened meanwhile.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Generous: only how long a failing test takes.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Longer than a batch takes to be typed: for seeing that nothing happens.
pub const WATCH: Duration = Duration::from_millis(1500);

const STEP: Duration = Duration::from_millis(20);

/// The fact, once `fact` returns it; `None` if it did not within `limit`.
pub fn wait_at_most<T>(limit: Duration, mut fact: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + limit;
    loop {
        if let Some(found) = fact() {
            return Some(found);
        }
        if Instant::now() >= until {
            return None;
        }
        sleep(STEP);
    }
}

/// [`wait_at_most`] that panics with `what` was waited for.
pub fn wait_for<T>(limit: Duration, what: &str, fact: impl FnMut() -> Option<T>) -> T {
    wait_at_most(limit, fact).unwrap_or_else(|| panic!("waited {} s in vain for {what}", limit.as_secs()))
}

/// Runs the same test for many cases at the same time: most of it is waiting.
pub fn at_once<T: Send>(cases: impl IntoIterator<Item = T>, test: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| test(case));
        }
    });
}

/// Watches for `window` that nothing of the kind happens; panics with what did.
pub fn stays_quiet(window: Duration, what: &str, mut happened: impl FnMut() -> Option<String>) {
    if let Some(found) = wait_at_most(window, &mut happened) {
        panic!("{what}: {found}");
    }
}

/// A command's output, once it has ended, and whatever it started that has its stdout or stderr.
///
/// # Panics
/// If that takes longer than `limit`; then all of them are killed.
pub fn run_to_end(mut command: Command, limit: Duration) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let child = command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
    let group = Pid::from_raw(child.id().cast_signed());
    let reaper = std::thread::spawn(move || child.wait_with_output());
    let ended = |limit| wait_at_most(limit, || reaper.is_finished().then_some(())).is_some();
    if ended(limit) {
        return reaper.join().unwrap().unwrap();
    }
    let _ = killpg(group, Signal::SIGKILL);
    assert!(ended(LIMIT), "{command:?}: something outside its process group keeps its stdout or stderr open");
    let Output { status, stderr, .. } = reaper.join().unwrap().unwrap();
    let fault = match status.signal() {
        Some(_) => "did not end",
        None => "left a program behind that keeps its stdout or stderr open",
    };
    panic!("{command:?} {fault}\n{}", String::from_utf8_lossy(&stderr));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Output {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run_to_end(command, Duration::from_secs(2))
    }

    #[test]
    #[should_panic(expected = "did not end\nhalf")]
    fn a_command_that_does_not_end_is_told_with_what_it_said() {
        shell("echo half >&2; sleep 600");
    }

    #[test]
    #[should_panic(expected = "left a program behind")]
    fn a_program_that_a_command_left_with_its_output_is_told() {
        shell("sleep 600 &");
    }
}
