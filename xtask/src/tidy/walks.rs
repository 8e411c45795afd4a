//! The functions that docs/ARCHITECTURE.md names (`module::function`, `Type::function`) exist, in a file that knows
//! the type or bears the module's name.

use super::Finding;
use super::tree::{TextFile, Tree};

const PATH: &str = "docs/ARCHITECTURE.md";

/// Crates whose functions are not ours.
const FOREIGN: [&str; 4] = ["std", "core", "tokio", "nix"];

/// Looks up every name in backticks.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(PATH) else {
        return vec![Finding::error(
            PATH,
            1,
            "the file is missing",
            "write it: the house, and the two walks",
        )];
    };
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for name in line.split('`').skip(1).step_by(2) {
            let Some((owner, function)) = function_in(name) else {
                continue;
            };
            if !tree.sources().any(|file| defines(file, owner, function)) {
                let what = format!("`{name}` does not exist");
                findings.push(Finding::error(PATH, number + 1, what, "name the function as it is built"));
            }
        }
    }
    findings
}

/// `screen::classify`, `Inbox::ingest(channel, offset, bytes)` → the owner and the function.
fn function_in(name: &str) -> Option<(&str, &str)> {
    let path = name.split('(').next()?;
    let (owners, function) = path.rsplit_once("::")?;
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_function = is_word(function) && function.starts_with(|c: char| c.is_lowercase() || c == '_');
    let owner = owners.rsplit("::").next()?;
    let foreign = FOREIGN.contains(&owners.split("::").next()?);
    (is_function && !foreign && owners.split("::").all(is_word)).then_some((owner, function))
}

fn defines(file: &TextFile, owner: &str, function: &str) -> bool {
    let has = |ending: char| file.text.contains(&format!("fn {function}{ending}"));
    if !has('(') && !has('<') {
        return false;
    }
    if owner.starts_with(char::is_uppercase) {
        return file.text.contains(owner);
    }
    let module = owner.replace('_', "-");
    file.path
        .split(['/', '.'])
        .any(|part| part == owner || part == module || part == format!("ccmux-{module}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> usize {
        let tree = Tree::of(&[
            (PATH, line),
            ("crates/ccmux-runtime/src/inbox/mod.rs", "impl Inbox { pub async fn ingest(&self) {} }"),
            ("crates/ccmux-policy/src/screen.rs", "pub fn classify<'a>(text: &'a str) {}"),
        ]);
        check(&tree).len()
    }

    #[test]
    fn functions_that_exist_are_fine() {
        for line in
            ["`Inbox::ingest(channel, offset, bytes)`", "`screen::classify`", "`policy::screen::classify`"]
        {
            assert_eq!(found(line), 0, "{line}");
        }
    }

    #[test]
    fn functions_that_do_not_exist_are_found() {
        for line in ["a `Inbox::digest`", "`Outbox::ingest`", "`gate::classify`", "`x` and `screen::classif`"]
        {
            assert_eq!(found(line), 1, "{line}");
        }
    }

    #[test]
    fn other_things_in_backticks_are_left_alone() {
        for line in ["`BoxHolds::Ours`", "`in.telegram`", "`std::fs::read`", "screen::nothing", "`a b::c`"] {
            assert_eq!(found(line), 0, "{line}");
        }
    }
}
