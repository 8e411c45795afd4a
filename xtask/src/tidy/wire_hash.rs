//! docs/PROTOCOL.md carries a hash of what crosses process boundaries, so that nobody changes the one without reading
//! the other: `<!-- wire hash: 0123abcd -->`.

use std::fs;

use anyhow::Context;

use super::Finding;
use super::tree::{TextFile, Tree, without_tests};
use crate::cargo;

const PATH: &str = "docs/PROTOCOL.md";
const BEFORE: &str = "<!-- wire hash: ";
const AFTER: &str = " -->";

/// Compares the hash in the page with that of the sources.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.text(PATH) else {
        return vec![Finding::error(PATH, 1, "the file is missing", "write it: every frame with an example")];
    };
    let hash = hash_of(tree);
    let remedy = "read the page again, correct it, then `cargo xtask tidy --fix`";
    match page.lines().enumerate().find_map(|(number, line)| Some((number, written_in(line)?))) {
        Some((_, written)) if written == hash => Vec::new(),
        Some((number, _)) => {
            vec![Finding::error(
                PATH,
                number + 1,
                "crates/ccmux-wire changed since this page was read",
                remedy,
            )]
        }
        None => vec![Finding::error(PATH, 1, "no line with the wire hash", remedy)],
    }
}

/// Writes the hash into the page, at its end if it has none.
pub fn fix(tree: &Tree) -> anyhow::Result<()> {
    let Some(page) = tree.text(PATH) else {
        return Ok(());
    };
    let fixed = with_hash(page, &hash_of(tree));
    if fixed != page {
        fs::write(cargo::root().join(PATH), fixed).with_context(|| format!("can't write {PATH}"))?;
    }
    Ok(())
}

fn with_hash(page: &str, hash: &str) -> String {
    let line = format!("{BEFORE}{hash}{AFTER}");
    match page.lines().find(|line| written_in(line).is_some()) {
        Some(old) => page.replacen(old, &line, 1),
        None => format!("{}\n\n{line}\n", page.trim_end()),
    }
}

fn written_in(line: &str) -> Option<&str> {
    line.trim().strip_prefix(BEFORE)?.strip_suffix(AFTER)
}

/// FNV-1a over the sources in the order of their paths, without tests.
fn hash_of(tree: &Tree) -> String {
    let mut sources: Vec<&TextFile> =
        tree.texts.iter().filter(|file| file.path.starts_with("crates/ccmux-wire/src/")).collect();
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    let bytes = sources.iter().flat_map(|file| without_tests(&file.text).bytes());
    format!(
        "{:08x}",
        bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(page: &str, wire: &str) -> Tree {
        Tree::of(&[(PATH, page), ("crates/ccmux-wire/src/lib.rs", wire), ("crates/other/src/lib.rs", page)])
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(hash_of(&tree("", "")), "811c9dc5");
        assert_eq!(hash_of(&tree("", "a")), "e40c292c");
    }

    #[test]
    fn a_change_of_the_wire_is_found_until_it_is_fixed() {
        let page = with_hash("# Protocol\n", &hash_of(&tree("", "one")));
        assert_eq!(check(&tree(&page, "one")), []);
        assert_eq!(check(&tree(&page, "two"))[0].line, 3);
        let fixed = with_hash(&page, &hash_of(&tree("", "two")));
        assert_eq!(check(&tree(&fixed, "two")), []);
        assert_eq!(fixed.lines().count(), page.lines().count());
    }

    #[test]
    fn tests_of_the_wire_may_change() {
        let with_tests = |tests: &str| format!("pub struct A;\n\n#[cfg(test)]\nmod tests {{{tests}}}\n");
        assert_eq!(hash_of(&tree("", &with_tests("a"))), hash_of(&tree("", &with_tests("b"))));
    }

    #[test]
    fn a_page_without_the_line_is_found() {
        assert_eq!(check(&tree("# Protocol\n", ""))[0].what, "no line with the wire hash");
    }
}
