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
use ccmux_wire::halves;
use ccmux_wire::hook::{HookFrame, MAX_FRAME_BYTES};
use serde_json::Value;

use crate::rewrite::rewrite;

/// Takes milliseconds to read, where less takes microseconds.
const MUCH: usize = 256 * 1024;

/// The end of a frame whose payload is still to come: it is the last field.
const NO_PAYLOAD: &[u8] = b"null}";

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

/// The line for the daemon.
fn frame_line(input: &[u8]) -> Option<Vec<u8>> {
    let (event, payload) = event_and_payload(input)?;
    let hook = HookFrame { event, ..HookFrame::of(Value::Null, |name| env::var(name).ok()) };
    let head = serde_json::to_vec(&Frame::new(Request::Hook(hook))).ok()?;
    let line = [head.strip_suffix(NO_PAYLOAD)?, &payload, b"}\n"].concat();
    (line.len() <= MAX_FRAME_BYTES).then_some(line)
}

/// Input that is no JSON goes as one string: the daemon may log it, Claude is not disturbed.
fn event_and_payload(input: &[u8]) -> Option<(String, Vec<u8>)> {
    let mut payload = Vec::with_capacity(input.len());
    if let Some(event) = rewrite(input, &mut payload) {
        return Some((event, payload));
    }
    payload.clear();
    let mended = halves::mended(input);
    if let Some(event) = mended.and_then(|mended| rewrite(mended.as_bytes(), &mut payload)) {
        return Some((event, payload));
    }
    let text = serde_json::to_vec(&String::from_utf8_lossy(input)).ok()?;
    Some((String::new(), text))
}
