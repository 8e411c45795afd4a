//! Every source opens with its docs, and none grows beyond what one can hold in mind.

use super::tree::{Tree, without_tests};
use super::{Finding, Weight};

/// Lines without tests: above the first one is told, above the second one fails.
const LONG: usize = 500;
const TOO_LONG: usize = 700;

/// The hook is on Claude's critical path: under 100 lines, docs included.
const HOOK: (&str, usize) = ("crates/ccmux-hook/src/main.rs", 99);

/// The policy without tests, comments and blank lines, all files together.
const POLICY: (&str, usize) = ("crates/ccmux-policy/src/", 2500);

/// How timelines are written down and replayed: a tool of tests, which decides nothing.
const NOTATION: &str = "crates/ccmux-policy/src/timeline.rs";

/// Looks at all Rust files.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut policy_lines = 0;
    for file in tree.sources() {
        let lines = without_tests(&file.text).lines().count();
        findings.extend(missing_docs(&file.path, &file.text));
        if !is_test(&file.path) {
            findings.extend(length(&file.path, lines));
            policy_lines += if file.path.starts_with(POLICY.0) && file.path != NOTATION {
                lines_of_code(&file.text)
            } else {
                0
            };
        }
    }
    if policy_lines > POLICY.1 {
        let what = format!("ccmux-policy has {policy_lines} lines, its budget is {}", POLICY.1);
        findings.push(Finding::error(POLICY.0, 1, what, "ask whether Claude should decide instead"));
    }
    findings
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
    fn the_hook_and_the_policy_have_limits_of_their_own() {
        assert_eq!(found(HOOK.0, &long(99)), []);
        assert_eq!(found(HOOK.0, &long(100))[0].1, Weight::Error);
        let parts: Vec<String> = (0..6).map(|part| format!("crates/ccmux-policy/src/{part}.rs")).collect();
        let text = long(450);
        let files: Vec<(&str, &str)> = parts.iter().map(|path| (path.as_str(), text.as_str())).collect();
        assert_eq!(check(&Tree::of(&files[..5])).len(), 0);
        assert_eq!(check(&Tree::of(&files))[0].weight, Weight::Error);
    }
}
