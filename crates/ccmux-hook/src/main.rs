//! Hands Claude Code's hook input to the daemon and gets out of the way.
//!
//! ```text
//! Claude Code ─ stdin ─► ccmux-hook ─ one line ─► control.sock
//!             ◄ stdout ─            ◄ one line ── the daemon
//! ```
//!
//! It stands on Claude's critical path, so whatever happens it exits 0 and prints nothing but what the daemon told it
//! to, within [`LIMIT`]; only a reply with `wait_s` makes it stay longer. One thread does everything that can block,
//! and `main` holds the clock. It knows no event by name: what a hook means is the daemon's business.
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};
use std::{env, io, panic, process, thread, time::Duration};

use ccmux_wire::control::{Frame, Request};
use ccmux_wire::hook::{HookFrame, HookReply, MAX_FRAME_BYTES};
use ccmux_wire::paths::{control_socket, runtime_dir};
use serde_json::Value;

/// The contract says 300 ms from start to end; the rest is for exec and exit.
const LIMIT: Duration = Duration::from_millis(280);

const VERSION: &str = concat!("ccmux-hook ", env!("CARGO_PKG_VERSION"));
const HELP: &str = "\
Usage: ccmux-hook < HOOK_INPUT

Hands a hook input of Claude Code to the ccmux daemon (control.sock in $CCMUX_RUNTIME_DIR, default /tmp/ccmux)
and prints what the daemon wants printed. Without a daemon: exit 0, nothing printed. Options: --help, --version";

fn main() {
    panic::set_hook(Box::new(|_| {}));
    match env::args_os().nth(1).unwrap_or_default().to_str() {
        Some("--help" | "-h") => return print(HELP),
        Some("--version" | "-V") => return print(VERSION),
        _ => {}
    }
    let (prolong, limits) = channel();
    let _ = thread::Builder::new().spawn(move || talk(&prolong));
    let mut limit = LIMIT;
    // An error says that the thread is through, or that the time is up.
    while let Ok(longer) = limits.recv_timeout(limit) {
        limit = longer;
    }
    process::exit(0);
}

/// The whole conversation; `None` where it ended early. Whoever reads `prolong` ends the process when the time is up.
fn talk(prolong: &Sender<Duration>) -> Option<()> {
    let (mut input, stdin) = (Vec::new(), io::stdin().lock());
    // Cut at the limit, it makes a frame over the limit, which is given up.
    stdin.take(MAX_FRAME_BYTES as u64).read_to_end(&mut input).ok()?;
    let line = frame_line(&input)?;
    let mut daemon = connect()?;
    daemon.write_all(&line).ok()?;
    let mut replies = BufReader::new(daemon);
    let mut reply = next_reply(&mut replies)?;
    if let (None, Some(wait_s)) = (&reply.stdout, reply.wait_s) {
        prolong.send(Duration::from_secs(wait_s.into())).ok()?;
        reply = next_reply(&mut replies)?;
    }
    print(&reply.stdout?.to_string());
    Some(())
}

/// The line for the daemon. Input that is no JSON goes as one string: the daemon may log it, Claude is not disturbed.
fn frame_line(input: &[u8]) -> Option<Vec<u8>> {
    let text = |_| String::from_utf8_lossy(input).into();
    let payload: Value = ccmux_wire::halves::from_slice(input).unwrap_or_else(text);
    let hook = HookFrame::of(payload, |name| env::var(name).ok());
    let mut line = serde_json::to_vec(&Frame::new(Request::Hook(hook))).ok()?;
    line.push(b'\n');
    (line.len() <= MAX_FRAME_BYTES).then_some(line)
}

/// Another user's socket must neither read the prompts nor decide on permissions.
fn connect() -> Option<UnixStream> {
    UnixStream::connect(control_socket(&runtime_dir(None)).ok()?).ok()
}

fn next_reply(replies: &mut impl BufRead) -> Option<HookReply> {
    let mut line = Vec::new();
    let mut replies = replies.take(MAX_FRAME_BYTES as u64);
    replies.read_until(b'\n', &mut line).ok()?;
    let reply: HookReply = serde_json::from_slice(&line).ok()?;
    reply.ok.then_some(reply)
}

fn print(text: &str) {
    let _ = io::stdout().lock().write_all(format!("{text}\n").as_bytes());
}
