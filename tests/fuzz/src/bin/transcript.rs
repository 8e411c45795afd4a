//! Any bytes as a transcript, cut anywhere: turns with something in them, and of the beginning the same ones.
#![no_main]

use ccmux_fuzz::oracle;

libfuzzer_sys::fuzz_target!(|input: (u16, &[u8])| {
    let (cut, bytes) = input;
    oracle::a_cut_transcript_gives_the_same_turns(bytes, usize::from(cut));
});
