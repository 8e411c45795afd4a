//! Where the binaries are: beside the test's own executable, so that what is tested is what was built.
//!
//! ```text
//! target/debug/deps/b_input-0123…   the test
//! target/debug/ccmuxd               what it runs
//! ```

use std::path::{Path, PathBuf};

/// The folder with `ccmuxd` and the others.
///
/// # Panics
/// If one is missing.
pub fn folder() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own executable");
    let folder = test.parent().and_then(Path::parent).expect("target/<profile>/deps/test").to_owned();
    for name in ["ccmuxd", "ccmux", "ccmux-hook", "ccmux-demo-agent"] {
        assert!(
            folder.join(name).is_file(),
            "{name} is not in {}: build the workspace first: cargo xtask test",
            folder.display()
        );
    }
    folder
}

/// The folder for what is built, and for what is installed for the tests: `target`.
pub fn target() -> PathBuf {
    folder().parent().expect("target/<profile>").to_owned()
}

/// The repository's folder.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the repository").to_owned()
}

/// The tmux of whoever runs the tests, also for a house whose own search path has none.
pub fn tmux() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("tmux")).find(|file| file.is_file());
    found.unwrap_or_else(|| "tmux".into())
}

/// A program that the system has.
pub fn in_path(program: &str) -> Option<PathBuf> {
    let dirs = std::env::var_os("PATH")?;
    std::env::split_paths(&dirs).map(|dir| dir.join(program)).find(|path| path.is_file())
}
