//! Every source opens with its docs, and none grows beyond what one can hold in mind.

use super::tree::{Tree, without_tests};
use super::{Finding, Weight};

/// Lines without tests: above the first one is told, above the second one fails.
const LONG: usize = 500;
const TOO_LONG: usize = 700;

/// The hook is on Claude's critical path: under 100 lines, docs included.
const HOOK: (&str, usize) = ("crates/ccmux-hook/src/main.rs", 99);

/// Rooms of the policy and their budgets (ADR 0015), without tests, comments and blank lines, all files of a room together.
/// A file counts for the first room that holds it.
const POLICY: [Room; 2] = [
    Room { folder: "crates/ccmux-policy/src/attention/", budget: 2000 },
    Room { folder: "crates/ccmux-policy/src/", budget: 3400 },
];

/// How timelines are written down and replayed: a tool of tests, which decides nothing.
const NOTATION: &str = "crates/ccmux-policy/src/timeline.rs";

/// A folder that must not grow beyond a number of lines of code.
#[derive(Debug, Clone, Copy)]
struct Room {
    folder: &'static str,
    budget: usize,
}

/// Looks at all Rust files.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut grown = [0; POLICY.len()];
    for file in tree.sources() {
        let lines = without_tests(&file.text).lines().count();
        findings.extend(missing_docs(&file.path, &file.text));
        if is_test(&file.path) {
            continue;
        }
        findings.extend(length(&file.path, lines));
        if let Some(room) = room_of(&file.path) {
            grown[room] += lines_of_code(&file.text);
        }
    }
    findings.extend(POLICY.iter().zip(grown).filter_map(|(room, lines)| overgrown(room, lines)));
    findings
}

fn room_of(path: &str) -> Option<usize> {
    POLICY.iter().position(|room| path.starts_with(room.folder)).filter(|_| path != NOTATION)
}

fn overgrown(room: &Room, lines: usize) -> Option<Finding> {
    let what = format!("{lines} lines of decisions, the budget is {}", room.budget);
    let remedy = "ask whether Claude should decide instead";
    (lines > room.budget).then(|| Finding::error(room.folder, 1, what, remedy))
}

/// Docs are asked for, so they don't count.
fn lines_of_code(text: &str) -> usize {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    without_tests(text).lines().filter(is_code).count()
}

fn missing_docs(path: &str, text: &str) -> Option<Finding> {
    let remedy = "begin the file with `//!`: what it is, what it does not know, an example";
    (!text.starts_with("//!")).then(|| Finding::error(path, 1, "no module docs", remedy))
}

fn is_test(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

fn length(path: &str, lines: usize) -> Option<Finding> {
    let weight = match lines {
        _ if path == HOOK.0 && lines > HOOK.1 => Weight::Error,
        _ if lines > TOO_LONG => Weight::Error,
        _ if lines > LONG => Weight::Warning,
        _ => return None,
    };
    let what = format!("{lines} lines without tests");
    Some(Finding { weight, ..Finding::error(path, lines, what, "split it by what changes together") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(String, Weight)> {
        let findings = check(&Tree::of(&[(path, text)]));
        findings.into_iter().map(|finding| (finding.what, finding.weight)).collect()
    }

    fn long(lines: usize) -> String {
        format!("//! docs\n{}", "x\n".repeat(lines - 1))
    }

    #[test]
    fn a_source_without_docs_is_found_in_tests_too() {
        for path in ["crates/a/src/b.rs", "xtask/src/main.rs", "tests/tests/e.rs"] {
            assert_eq!(
                found(path, "fn main() {}\n"),
                [("no module docs".to_owned(), Weight::Error)],
                "{path}"
            );
            assert_eq!(found(path, "//! docs\n"), [], "{path}");
        }
        assert_eq!(found("docs/example.rs", "fn main() {}\n"), []);
    }

    #[test]
    fn long_files_are_told_and_too_long_ones_fail() {
        assert_eq!(found("crates/a/src/b.rs", &long(500)), []);
        assert_eq!(found("crates/a/src/b.rs", &long(501))[0].1, Weight::Warning);
        assert_eq!(found("crates/a/src/b.rs", &long(701))[0].1, Weight::Error);
        assert_eq!(found("crates/a/src/b/tests.rs", &long(701)), []);
        let with_tests = format!("{}\n#[cfg(test)]\nmod tests {{\n{}}}\n", long(400), "x\n".repeat(900));
        assert_eq!(found("crates/a/src/b.rs", &with_tests), []);
    }

    #[test]
    fn the_hook_has_a_limit_of_its_own() {
        assert_eq!(found(HOOK.0, &long(99)), []);
        assert_eq!(found(HOOK.0, &long(100))[0].1, Weight::Error);
    }

    /// How many findings so many lines of code in a folder make, spread over files of 500 lines.
    fn overgrown_by(folder: &str, lines: usize) -> usize {
        let sizes = (0..lines).step_by(499).map(|done| (lines - done).min(499) + 1);
        let files: Vec<(String, String)> =
            sizes.enumerate().map(|(part, size)| (format!("{folder}{part}.rs"), long(size))).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
        check(&Tree::of(&files)).iter().filter(|finding| finding.weight == Weight::Error).count()
    }

    #[test]
    fn each_room_of_the_policy_has_its_own_budget() {
        for (folder, budget) in POLICY.map(|room| (room.folder, room.budget)) {
            assert_eq!(overgrown_by(folder, budget), 0, "{folder}");
            assert_eq!(overgrown_by(folder, budget + 1), 1, "{folder}");
        }
    }
}
