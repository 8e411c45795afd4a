//! Any line on `control.sock`: a request that reads the same when it is written again, or an answer that says what is
//! wrong, on one line.
#![no_main]

use std::mem::discriminant;

use ccmux_runtime::control::server::parse;
use ccmux_wire::control::{Frame, Reply, Request};

libfuzzer_sys::fuzz_target!(|line: &[u8]| match parse(line) {
    Ok(request) => reads_again(request),
    Err(reply) => says_what_is_wrong(&reply),
});

/// By its kind: the last digit of a fraction may differ.
fn reads_again(request: Request) {
    let kind = discriminant(&request);
    let written = serde_json::to_vec(&Frame::new(request)).expect("a request can be written");
    assert!(!written.contains(&b'\n'));
    let again = parse(&written).unwrap_or_else(|reply| panic!("{reply:?}: {written:?}"));
    assert_eq!(discriminant(&again), kind);
}

fn says_what_is_wrong(reply: &Reply) {
    assert!(!reply.ok && reply.code.is_some(), "{reply:?}");
    assert!(reply.error.as_ref().is_some_and(|why| !why.is_empty()), "{reply:?}");
    let line = serde_json::to_vec(reply).expect("a reply can be written");
    assert!(!line.contains(&b'\n'));
}
