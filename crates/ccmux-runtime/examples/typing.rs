//! Measures how long a text takes into a pane, beside programs that type without a guard, in one run.
//!
//! ```text
//! cargo run --release -p ccmux-runtime --example typing [ROUNDS]
//! ```
//!
//! The pane runs a program that hands on what is typed; a text has arrived when its last byte has. Prints one JSON object,
//! for `cargo xtask bench`: milliseconds, and of the processor those of the `tmux` processes (the server works the same for
//! all). It knows nothing of looks: the pauses in which the screen settles are not in here.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ccmux_runtime::prompt::pieces;
use ccmux_runtime::terminal::{Guard, LaunchCommand, Terminal, Typed};
use ccmux_runtime::tmux::{Tmux, TmuxSettings};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// A message of ordinary size.
const SMALL: usize = 65;
const BIG: usize = 28 * 1024;
/// What the first ccmux typed at once, and how long it waited then.
const OLD_PIECE: usize = 52;
const OLD_PAUSE: Duration = Duration::from_millis(50);
/// The old way takes half a minute; so much of it is run.
const OLD_PART: usize = 10;
/// What a terminal says at the end of a paste.
const PASTE_END: &str = "\x1b[201~";
const LIMIT: Duration = Duration::from_secs(60);

/// One way of typing: how long it took each time, and its share of the processor.
#[derive(Default)]
struct Way {
    took: Vec<f64>,
    cpu: Vec<f64>,
}

impl Way {
    fn note(&mut self, way: impl FnOnce()) {
        let (start, before) = (Instant::now(), children_ms());
        way();
        self.took.push(start.elapsed().as_secs_f64() * 1e3);
        self.cpu.push(children_ms() - before);
    }

    fn figures(&self) -> serde_json::Value {
        serde_json::json!({"ms": median(&self.took), "cpu_ms": self.cpu.iter().sum::<f64>() / self.cpu.len() as f64})
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn children_ms() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e3
}

/// A tmux server of our own, and what arrives in its pane.
struct Stage {
    runtime: tokio::runtime::Runtime,
    tmux: Tmux,
    socket: String,
    arrived: Receiver<Vec<u8>>,
    pid: i32,
}

impl Stage {
    fn new(folder: &Path) -> Self {
        let socket = format!("ccmux-typing-{}", std::process::id());
        let tmux = Tmux::new(TmuxSettings {
            binary: "tmux".into(),
            socket: Some(socket.clone()),
            config: Some("/dev/null".into()),
            session: "ccmux".to_owned(),
            window: "claude".to_owned(),
            sink: vec!["cat".to_owned()],
            sink_socket: folder.join("sink.sock"),
            own_unit: false,
            silence_timeout: Duration::from_secs(3),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let ear = folder.join("ear");
        let listener = UnixListener::bind(&ear).unwrap();
        let script = format!("stty raw -echo; printf '\\033[?2004h'; exec nc -U '{}'", ear.display());
        let argv = ["sh", "-c", &script].map(str::to_owned).to_vec();
        let launch = LaunchCommand { argv, cwd: folder.to_owned() };
        let pid = runtime.block_on(tmux.respawn(launch)).expect("tmux must be installed").pid;
        Self { runtime, tmux, socket, arrived: hear(listener), pid }
    }

    /// Types it as ccmux does: guarded, in pieces.
    fn ours(&self, text: &str, with_enter: bool) {
        let guard = Guard { pid: self.pid, untouched: None };
        let typed = self.runtime.block_on(self.tmux.inject(guard.clone(), pieces(text)));
        assert_eq!(typed, Ok(Typed::Done));
        if with_enter {
            assert_eq!(self.runtime.block_on(self.tmux.press_enter(guard)), Ok(Typed::Done));
        }
    }

    /// A `tmux` process with a command list.
    fn tmux(&self, words: &[&str]) {
        let mut tmux = Command::new("tmux");
        let status = tmux.args(["-L", &self.socket]).args(words).stdin(Stdio::null()).status().unwrap();
        assert!(status.success(), "{words:?}");
    }

    fn paste_at_once(&self, text: &str) {
        let mut tmux = Command::new("tmux");
        let words = [
            "load-buffer",
            "-b",
            "all",
            "-",
            ";",
            "paste-buffer",
            "-p",
            "-r",
            "-d",
            "-b",
            "all",
            "-t",
            "=ccmux:",
        ];
        let mut tmux = tmux.args(["-L", &self.socket]).args(words).stdin(Stdio::piped()).spawn().unwrap();
        tmux.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(tmux.wait().unwrap().success());
    }

    /// Everything up to an end, without the marks of a paste.
    fn hear_until(&self, end: &str) -> String {
        let mut heard = Vec::new();
        while !heard.ends_with(end.as_bytes()) {
            heard.extend(self.arrived.recv_timeout(LIMIT).expect("it must arrive"));
        }
        String::from_utf8(heard).unwrap().replace("\x1b[200~", "").replace(PASTE_END, "")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.socket, "kill-server"]).status();
    }
}

fn hear(listener: UnixListener) -> Receiver<Vec<u8>> {
    let (tell, arrived) = channel();
    let mut ear = listener.accept().unwrap().0;
    std::thread::spawn(move || {
        let mut piece = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = ear.read(&mut piece) {
            let _ = tell.send(piece[..read].to_vec());
        }
    });
    arrived
}

fn small(stage: &Stage, rounds: usize) -> serde_json::Value {
    let text = "x".repeat(SMALL);
    let (mut ours, mut two, mut one) = (Way::default(), Way::default(), Way::default());
    for _ in 0..rounds {
        ours.note(|| {
            stage.ours(&text, true);
            assert_eq!(stage.hear_until("\r"), format!("{text}\r"));
        });
        two.note(|| {
            stage.tmux(&["send-keys", "-t", "=ccmux:", "-l", &text]);
            stage.tmux(&["send-keys", "-t", "=ccmux:", "Enter"]);
            stage.hear_until("\r");
        });
        one.note(|| {
            stage.tmux(&[
                "send-keys",
                "-t",
                "=ccmux:",
                "-l",
                &text,
                ";",
                "send-keys",
                "-t",
                "=ccmux:",
                "Enter",
            ]);
            stage.hear_until("\r");
        });
    }
    serde_json::json!({"ours": ours.figures(), "two": two.figures(), "one": one.figures()})
}

/// Words of all sorts, and an end that stands nowhere else.
fn big_text() -> String {
    let words = "words 'and' more; $HOME \"x\" ~ {z} é ";
    let mut text: String = words.chars().cycle().take(BIG - 64).collect();
    text.push_str("the end!");
    text
}

fn big(stage: &Stage, rounds: usize) -> serde_json::Value {
    let text = big_text();
    let (mut ours, mut once, mut old) = (Way::default(), Way::default(), Way::default());
    let end = format!("the end!{PASTE_END}");
    for _ in 0..rounds {
        ours.note(|| {
            stage.ours(&text, false);
            assert!(stage.hear_until(&end) == text, "28 KB did not arrive as they were sent");
        });
        once.note(|| {
            stage.paste_at_once(&text);
            stage.hear_until(&end);
        });
    }
    old.note(|| {
        let chars: Vec<char> = text.chars().take(BIG / OLD_PART).collect();
        for piece in chars.chunks(OLD_PIECE) {
            let piece: String = piece.iter().collect();
            stage.tmux(&["send-keys", "-t", "=ccmux:", "-l", "--", &piece]);
            std::thread::sleep(OLD_PAUSE);
        }
    });
    let _ = stage.arrived.try_iter().count();
    let (old_ms, old_cpu) = (old.took[0] * OLD_PART as f64, old.cpu[0] * OLD_PART as f64);
    serde_json::json!({
        "ours": ours.figures(), "once": once.figures(), "old": {"ms": old_ms, "cpu_ms": old_cpu},
    })
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(50);
    let folder = std::env::temp_dir().join(format!("ccmux-typing-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let stage = Stage::new(&folder);
    let found = serde_json::json!({"small": small(&stage, rounds), "big": big(&stage, rounds.min(20))});
    println!("{found}");
    drop(stage);
    let _ = std::fs::remove_dir_all(&folder);
}
