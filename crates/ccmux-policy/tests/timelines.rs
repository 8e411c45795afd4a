//! Runs every timeline in `tests/timelines`: the right behaviour as text, readable without Rust.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a test reads its data

use std::path::Path;

use ccmux_policy::timeline::replay;

#[test]
fn every_timeline_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/timelines");
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 15, "only {} timelines", files.len());
    let failures: Vec<String> = files
        .iter()
        .filter_map(|file| {
            let text = std::fs::read_to_string(file).unwrap();
            let error = replay(&text).err()?;
            Some(format!("{}: {error}", file.file_name().unwrap().to_string_lossy()))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
