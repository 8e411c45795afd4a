//! Any bytes on a channel, in any chunks: the same messages come of them, and the prompt has one head for each.
#![no_main]

use ccmux_fuzz::oracle;

libfuzzer_sys::fuzz_target!(|input: (u8, &[u8])| {
    let (chunk, bytes) = input;
    oracle::chunks_change_nothing(bytes, usize::from(chunk) + 1);
    oracle::a_prompt_has_one_head_a_message(bytes);
});
