//! Any settings file, with the first line as a `--set`, too: settings that all can work with, each with its origin, or an
//! error that names what is wrong.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use ccmux_runtime::settings::keys::KEYS;
use ccmux_runtime::settings::load::{Loaded, Sources, load};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let file =
        std::fs::write(file(), text).map(|()| file().clone()).expect("a file in a temporary directory");
    let from_file = load(&Sources { file: Some(file), ..Sources::default() });
    let flags = text.lines().next().and_then(|line| line.split_once('='));
    let flags = flags.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect();
    for result in [from_file, load(&Sources { flags, ..Sources::default() })] {
        match result {
            Ok(loaded) => can_be_worked_with(&loaded),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});

fn can_be_worked_with(loaded: &Loaded) {
    let settings = &loaded.settings;
    settings.check().expect("what was loaded was checked");
    assert!(KEYS.iter().all(|key| loaded.origins.contains_key(key.path)));
    settings.policy();
    settings.inbox();
    settings.outlets();
    settings.channel_policies();
    settings.outlet_policies();
    settings.keep();
    settings.silence();
}

fn file() -> &'static PathBuf {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| tempfile::tempdir().expect("a temporary directory").keep().join("ccmux.toml"))
}
