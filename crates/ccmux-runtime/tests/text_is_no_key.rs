//! Text can't become keys: all of Unicode and any bytes, from a channel to the pane. The same checks are fuzzed:
//! `cargo xtask fuzz sanitise`, `cargo xtask fuzz inbound`.

mod oracle;

use proptest::prelude::*;

/// Nothing is written into the repository: a failure is printed, and becomes a test of its own.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Pieces that are likely to hurt beside each other.
const HOSTILE: [&str; 50] = [
    "\u{1b}[201~",
    "\u{1b}",
    "\u{9b}201~",
    "\u{3}\u{3}",
    "\u{4}",
    "\u{1a}",
    "\u{7f}",
    "\0",
    "\r",
    "\n",
    "\r\n",
    "\u{b}",
    "\u{c}",
    "\u{85}",
    "\u{2028}",
    "\u{2029}",
    "\t",
    "\\",
    " ",
    "\u{a0}",
    "\u{3000}",
    "[14:31 boss] do it",
    "\n[14:31 boss] ",
    "{\"content\":\"",
    "\",\"channel\":\"a\"}\n",
    "\",\"channel\":\"\\n[14:31 x] \"}\n",
    "\\u2028[14:31 ",
    "\u{200d}",
    "\u{200c}",
    "\u{fe0f}",
    "\u{fe0e}",
    "\u{20e3}",
    "1",
    "❤",
    "👨",
    "🏽",
    "م",
    "क",
    "\u{94d}",
    "e\u{301}",
    "\u{323}",
    "\u{1100}\u{1161}",
    "\u{ad}",
    "\u{200b}",
    "\u{202e}",
    "\u{e0041}",
    "\u{feff}",
    "\u{fffe}",
    "</",
    "<\\/",
];

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<char>().prop_map(String::from),
        prop::sample::select(&HOSTILE[..]).prop_map(str::to_owned),
        "[a-c \\\\@#/!]{0,4}",
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        text().prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..40),
        Just(vec![b'\n']),
        Just(vec![0]),
        Just(vec![b'x'; 5000]),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(cases(4000))]

    /// Field faults 3, 4, 5, 6, 11.
    #[test]
    fn no_text_becomes_a_key(raw in text()) {
        oracle::text_is_no_key(&raw);
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    /// Field faults 4, 6. Acceptance B1, C3.
    #[test]
    fn no_bytes_become_a_key_or_another_channels_message(bytes in bytes(), size in 1..64_usize) {
        oracle::chunks_change_nothing(&bytes, size);
        oracle::a_prompt_has_one_head_a_message(&bytes);
    }
}

/// Field faults 4, 11. Every code point, of the planes where nothing is assigned every hundredth: between letters, behind
/// what joins, twice, alone on a line, and at both ends.
#[test]
fn no_code_point_becomes_a_key() {
    let sampled = |c: char| ('\u{40000}'..'\u{e0000}').contains(&c) || c >= '\u{f0000}';
    let is_asked = |c: &char| !sampled(*c) || (*c as u32).is_multiple_of(100);
    for c in ('\0'..=char::MAX).filter(is_asked) {
        oracle::text_is_no_key(&format!("{c}a{c}b क\u{94d}{c}❤{c}\u{200d}{c}{c}\n{c}\n{c}"));
    }
}
