//! Any bytes as a transcript, cut anywhere: every turn has a block, and of the beginning come the same turns, but for the
//! last one, which may go on.
#![no_main]

use ccmux_runtime::turns::transcript::turns_in;

libfuzzer_sys::fuzz_target!(|input: (u16, &[u8])| {
    let (cut, bytes) = input;
    let (whole, begun) = (turns_in(bytes), turns_in(&bytes[..usize::from(cut).min(bytes.len())]));
    let blocks: usize = whole.iter().map(|turn| turn.blocks.len()).sum();
    assert!(blocks <= bytes.len() && whole.iter().all(|turn| !turn.blocks.is_empty()), "{whole:?}");
    let complete = begun.len().saturating_sub(1);
    assert_eq!(begun[..complete], whole[..complete.min(whole.len())], "cut at {cut}");
});
