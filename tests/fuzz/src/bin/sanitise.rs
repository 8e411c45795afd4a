//! Any text, through the sanitiser: what leaves it is no key, and Claude changes nothing of it.
#![no_main]

use ccmux_fuzz::oracle;

libfuzzer_sys::fuzz_target!(|raw: &str| oracle::text_is_no_key(raw));
