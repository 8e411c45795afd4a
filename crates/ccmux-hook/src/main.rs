//! Hands Claude Code's hook input to the daemon and gets out of the way.
//!
//! ```text
//! Claude Code ─ stdin ─► ccmux-hook ─ one line ─► control.sock
//!             ◄ stdout ─            ◄ one line ── the daemon
//! ```
//!
//! It stands on Claude's critical path, so whatever happens it exits 0 and prints nothing but what the daemon told it
//! to, within [`LIMIT`]; only a reply with `wait_s` makes it stay longer. Whatever can block is [`InTime`]. It knows no
//! event by name: what a hook means is the daemon's business.
mod in_time;
mod line;
mod rewrite;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use std::{env, io, panic};

use ccmux_wire::hook::{HookReply, MAX_FRAME_BYTES};
use ccmux_wire::paths::{control_socket, runtime_dir};
use in_time::{InTime, PIPE};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};

/// The contract says 300 ms from start to end; the rest is for exec and exit.
const LIMIT: Duration = Duration::from_millis(280);

/// As long as most inputs at most.
const AT_ONCE: usize = 8 * 1024;

const VERSION: &str = concat!("ccmux-hook ", env!("CARGO_PKG_VERSION"));
const HELP: &str = "\
Usage: ccmux-hook < HOOK_INPUT

Hands a hook input of Claude Code to the ccmux daemon (control.sock in $CCMUX_RUNTIME_DIR, default /tmp/ccmux)
and prints what the daemon wants printed. Without a daemon: exit 0, nothing printed. Options: --help, --version";

fn main() {
    panic::set_hook(Box::new(|_| {}));
    let until = Instant::now() + LIMIT;
    match env::args_os().nth(1).unwrap_or_default().to_str() {
        Some("--help" | "-h") => return print(HELP, until),
        Some("--version" | "-V") => return print(VERSION, until),
        _ => {}
    }
    // A panic, too, is no business of Claude's.
    let _ = panic::catch_unwind(|| talk(until));
}

/// The whole conversation; `None` where it ended early.
fn talk(until: Instant) -> Option<()> {
    let mut input = Vec::with_capacity(AT_ONCE);
    // Cut at the limit, it makes a frame over the limit, which is given up.
    InTime::new(io::stdin(), 0, until).take(MAX_FRAME_BYTES as u64).read_to_end(&mut input).ok()?;
    let line = line::for_daemon(&input, until)?;
    let daemon = reach(until)?;
    InTime::new(&daemon, usize::MAX, until).write_all(&line).ok()?;
    let mut replies = BufReader::new(InTime::new(&daemon, 0, until));
    let mut reply = next_reply(&mut replies)?;
    if let (None, Some(wait_s)) = (&reply.stdout, reply.wait_s) {
        replies.get_mut().until = Instant::now() + Duration::from_secs(wait_s.into());
        reply = next_reply(&mut replies)?;
    }
    print(&reply.stdout?.to_string(), replies.get_ref().until);
    Some(())
}

/// Another user's socket must neither read the prompts nor decide on permissions. A connect waits as long as a send may.
fn reach(until: Instant) -> Option<UnixStream> {
    let address = SocketAddrUnix::new(control_socket(&runtime_dir(None)).ok()?).ok()?;
    let daemon = socket(AddressFamily::UNIX, SocketType::STREAM, None).ok()?;
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    set_socket_timeout(&daemon, Timeout::Send, Some(left)).ok()?;
    connect(&daemon, &address).ok()?;
    let daemon = UnixStream::from(daemon);
    daemon.set_nonblocking(true).ok()?;
    Some(daemon)
}

fn next_reply(replies: &mut impl BufRead) -> Option<HookReply> {
    let mut line = Vec::new();
    let mut replies = replies.take(MAX_FRAME_BYTES as u64);
    replies.read_until(b'\n', &mut line).ok()?;
    let reply: HookReply = serde_json::from_slice(&line).ok()?;
    reply.ok.then_some(reply)
}

fn print(text: &str, until: Instant) {
    let _ = InTime::new(io::stdout(), PIPE, until).write_all(format!("{text}\n").as_bytes());
}
