//! Relative links in documents lead to files that exist.

use std::path::{Component, Path, PathBuf};

use super::Finding;
use super::tree::{TextFile, Tree};

/// Looks at every `](target)` in every Markdown file, outside of code.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.texts.iter().filter(|file| file.path.ends_with(".md"));
    pages.flat_map(|page| in_page(tree, page)).collect()
}

fn in_page(tree: &Tree, page: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_code = false;
    for (number, line) in page.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        for target in targets(line).into_iter().filter(|_| !in_code) {
            if !exists(tree, &page.path, target) {
                let what = format!("the link to `{target}` leads nowhere");
                findings.push(Finding::error(
                    &page.path,
                    number + 1,
                    what,
                    "correct the path, or write the file",
                ));
            }
        }
    }
    findings
}

/// The relative targets in a line, without their anchors.
fn targets(line: &str) -> Vec<&str> {
    let prose = line.split('`').step_by(2);
    let after = prose.flat_map(|part| part.split("](").skip(1));
    let target = after.filter_map(|rest| rest.split([')', ' ', '#']).next());
    target.filter(|target| !target.is_empty() && !target.contains(':') && !target.starts_with('/')).collect()
}

fn exists(tree: &Tree, page: &str, target: &str) -> bool {
    let mut path = Path::new(page).parent().map(PathBuf::from).unwrap_or_default();
    for component in Path::new(target).components() {
        match component {
            // Out of the repository; the guard itself goes up.
            Component::ParentDir if !path.pop() => return false,
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    tree.paths.iter().any(|known| Path::new(known).starts_with(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> usize {
        let tree = Tree::of(&[
            ("docs/A.md", line),
            ("docs/adr/0001-x.md", ""),
            ("README.md", ""),
            ("config/c.toml", ""),
        ]);
        check(&tree).len()
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        for line in [
            "[a](adr/0001-x.md#why)",
            "[r](../README.md)",
            "[c](../config/c.toml \"title\")",
            "[d](adr/)",
            "[s](#here)",
        ] {
            assert_eq!(found(line), 0, "{line}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        for line in ["[a](B.md)", "![p](../img.svg)", "[x](../../out.md)", "[a](A.md) [b](adr/2.md)"] {
            assert_eq!(found(line), 1, "{line}");
        }
    }

    #[test]
    fn the_web_and_code_are_not_looked_at() {
        for line in [
            "[w](https://example.org/x.md)",
            "`[x](nowhere.md)`",
            "```\n[x](nowhere.md)\n```",
            "[m](mailto:a@b)",
        ] {
            assert_eq!(found(line), 0, "{line}");
        }
    }
}
