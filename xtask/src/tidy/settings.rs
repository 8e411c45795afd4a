//! `config/ccmux.toml` is what `ccmuxd --print-default-config` prints: every key with its default, as comments.

use std::process::Command;

use super::Finding;
use super::tree::Tree;
use crate::cargo;

const PATH: &str = "config/ccmux.toml";
const REMEDY: &str = "cargo run -q -p ccmuxd -- --print-default-config > config/ccmux.toml";

/// What the daemon prints; `None` if it prints nothing.
pub fn printed_defaults() -> anyhow::Result<Option<String>> {
    cargo::run("build", &["--quiet", "--package", "ccmuxd"])?;
    let output =
        Command::new(cargo::binaries("debug")?.join("ccmuxd")).arg("--print-default-config").output()?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((output.status.success() && !printed.is_empty()).then_some(printed))
}

/// Compares the file with what was printed, and names the first line that differs.
pub fn check(tree: &Tree, printed: Option<&str>) -> Vec<Finding> {
    let Some(printed) = printed else {
        let what = "`ccmuxd --print-default-config` prints nothing";
        return vec![Finding::error(
            "crates/ccmuxd/src/main.rs",
            1,
            what,
            "make it print the commented defaults",
        )];
    };
    let Some(file) = tree.text(PATH) else {
        return vec![Finding::error(PATH, 1, "the file is missing", REMEDY)];
    };
    if file == printed {
        return Vec::new();
    }
    let same = file.lines().zip(printed.lines()).take_while(|(ours, theirs)| ours == theirs).count();
    vec![Finding::error(PATH, same + 1, "differs from the defaults in the code", REMEDY)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() {
        let tree = Tree::of(&[(PATH, "# a = 1\n# b = 2\n")]);
        assert_eq!(check(&tree, Some("# a = 1\n# b = 2\n")), []);
        assert_eq!(check(&tree, Some("# a = 1\n# b = 3\n"))[0].line, 2);
        assert_eq!(check(&tree, Some("# a = 1\n# b = 2\n# c = 3\n"))[0].line, 3);
    }

    #[test]
    fn a_missing_file_and_a_silent_daemon_are_found() {
        assert_eq!(check(&Tree::default(), Some("x"))[0].what, "the file is missing");
        assert_eq!(check(&Tree::default(), None)[0].path, "crates/ccmuxd/src/main.rs");
    }
}
