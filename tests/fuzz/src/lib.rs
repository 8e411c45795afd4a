//! What the fuzz targets share: the checks that the tests of ccmux-runtime ask too. A target is one file in src/bin:
//!
//! ```text
//! fuzz_target!(|raw: &str| oracle::text_is_no_key(raw));
//! ```

#[path = "../../../crates/ccmux-runtime/tests/oracle/mod.rs"]
pub mod oracle;
