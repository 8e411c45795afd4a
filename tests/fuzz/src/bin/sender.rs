//! Any bytes of a sender over TCP: what is read is one clean event, of no more than came, and what was whole stays whole.
#![no_main]

use ccmux_wire::sender::{MAX_SENDER_BYTES, Said, is_whole, read};

libfuzzer_sys::fuzz_target!(|input: (u16, &[u8])| {
    let (cut, bytes) = input;
    assert!(!is_whole(&bytes[..usize::from(cut).min(bytes.len())]) || is_whole(bytes));
    if let Ok(Said::Lines { message, window, .. }) = read(bytes) {
        assert!(bytes.len() <= MAX_SENDER_BYTES && !message.is_empty() && !message.contains('\n'));
        assert!(window.is_none_or(|window| window.as_str().bytes().all(|byte| byte.is_ascii_digit())));
    }
});
