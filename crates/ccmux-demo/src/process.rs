//! Child processes with input, output, a time limit and a way to stop them. Knows nothing of hooks or tools.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// How long output is awaited after the child has gone: a grandchild may hold the pipe for ever.
const LAST_WORDS: Duration = Duration::from_millis(300);
const OUTPUT_LIMIT: usize = 4 << 20;

/// Set by whoever no longer wants the result.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What became of a child.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Exit code, 128 + signal, or none if it was stopped by us or never ran.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command to its end, its time limit or its cancellation. Blocks; runs in a thread of its own.
pub fn run(mut command: Command, input: Vec<u8>, limit: Duration, cancel: &Cancel) -> Outcome {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own, so that a stop reaches the shell's children too.
    command.process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => {
            return Outcome { code: Some(127), stderr: e.to_string(), ..Outcome::default() };
        }
    };
    feed(&mut child, input);
    let (stdout, out_done) = collect(child.stdout.take());
    let (stderr, err_done) = collect(child.stderr.take());
    let code = wait(&mut child, limit, cancel);
    let until = Instant::now() + LAST_WORDS;
    for done in [out_done, err_done] {
        let _ = done.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
    Outcome { code, stdout: text_of(&stdout), stderr: text_of(&stderr) }
}

fn feed(child: &mut Child, input: Vec<u8>) {
    if let Some(mut stdin) = child.stdin.take() {
        // A child that does not read must not stop us: its input goes from a thread.
        std::thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
    }
}

type Collected = Arc<Mutex<Vec<u8>>>;

fn collect(pipe: Option<impl Read + Send + 'static>) -> (Collected, mpsc::Receiver<()>) {
    let collected = Collected::default();
    let (done, is_done) = mpsc::channel();
    if let Some(mut pipe) = pipe {
        let into = Arc::clone(&collected);
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(len @ 1..) = pipe.read(&mut buffer) {
                let Ok(mut into) = into.lock() else { break };
                let room = OUTPUT_LIMIT.saturating_sub(into.len());
                into.extend_from_slice(&buffer[..len.min(room)]);
            }
            let _ = done.send(());
        });
    }
    (collected, is_done)
}

fn text_of(collected: &Collected) -> String {
    collected.lock().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn wait(child: &mut Child, limit: Duration, cancel: &Cancel) -> Option<i32> {
    let until = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                return status.code().or_else(|| status.signal().map(|signal| 128 + signal));
            }
            Err(_) => return None,
            Ok(None) if cancel.is_set() || Instant::now() >= until => {
                stop(child);
                return None;
            }
            Ok(None) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// TERM to the group, and KILL to what is still there a moment later.
fn stop(child: &mut Child) {
    let Ok(group) = i32::try_from(child.id()).map(Pid::from_raw) else {
        return;
    };
    let _ = killpg(group, Signal::SIGTERM);
    for _ in 0..20 {
        if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = killpg(group, Signal::SIGKILL);
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(line: &str, input: &[u8], limit: Duration, cancel: &Cancel) -> Outcome {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]);
        run(command, input.to_vec(), limit, cancel)
    }

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn input_output_and_code_come_through() {
        let outcome = sh("cat; echo oops >&2; exit 3", b"hello", LONG, &Cancel::default());
        assert_eq!(outcome, Outcome { code: Some(3), stdout: "hello".into(), stderr: "oops\n".into() });
    }

    #[test]
    fn a_child_that_reads_nothing_does_not_stop_us() {
        assert_eq!(sh("exit 0", &vec![b'x'; 1 << 20], LONG, &Cancel::default()).code, Some(0));
    }

    #[test]
    fn a_limit_and_a_cancellation_end_the_whole_group() {
        let before = Instant::now();
        assert_eq!(sh("sleep 60 & sleep 60", b"", Duration::from_millis(50), &Cancel::default()).code, None);
        let cancel = Cancel::default();
        cancel.cancel();
        assert_eq!(sh("sleep 60", b"", LONG, &cancel).code, None);
        assert!(before.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_outcome() {
        let outcome = run(Command::new("/nowhere/x"), Vec::new(), LONG, &Cancel::default());
        assert_eq!(outcome.code, Some(127));
    }
}
