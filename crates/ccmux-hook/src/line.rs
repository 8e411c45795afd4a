//! The line for the daemon, made of what came on stdin and of the environment.
//!
//! ```text
//! {"hook_event_name":"Stop",...}   ──►   {"v":1,"type":"hook","event":"Stop",...,"payload":{...}}
//! ```
//!
//! Knows no socket.
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Instant;
use std::{env, process, thread};

use ccmux_wire::control::{Frame, Request};
use ccmux_wire::hook::{HookFrame, MAX_FRAME_BYTES};
use serde_json::Value;

/// Takes milliseconds to read, where less takes microseconds.
const MUCH: usize = 256 * 1024;

/// Much to read and write takes long on a busy machine, and no poll ends that: then a thread holds the clock.
pub fn for_daemon(input: &[u8], until: Instant) -> Option<Vec<u8>> {
    let (_done, is_done) = channel::<()>();
    let watch = move || {
        let left = until.saturating_duration_since(Instant::now());
        if is_done.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
            process::exit(0);
        }
    };
    let _ = (input.len() > MUCH).then(|| thread::Builder::new().spawn(watch));
    frame_line(input)
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
