//! The Rust that Cargo.toml and README.md promise to do is the one that the dependencies want: no older one, and no newer.
//! What the standard library has only later is clippy's business (`incompatible_msrv`).

use cargo_metadata::Metadata;
use cargo_metadata::semver::Version;

use super::Finding;
use super::tree::Tree;

/// A crate, and the oldest Rust that it says it builds with.
type Wish = (String, Version);

/// What crates of other people want.
pub fn wishes(metadata: &Metadata) -> Vec<Wish> {
    let members = &metadata.workspace_members;
    let others = metadata.packages.iter().filter(|package| !members.contains(&package.id));
    others.filter_map(|package| Some((package.name.to_string(), package.rust_version.clone()?))).collect()
}

/// Compares them with what we promise.
pub fn check(tree: &Tree, wishes: &[Wish]) -> Vec<Finding> {
    let (Some(promised), Some(newest)) = (promised(tree), wishes.iter().max_by_key(|(_, rust)| rust)) else {
        return vec![Finding::error(
            "Cargo.toml",
            1,
            "no rust-version is found",
            "write `rust-version = \"1.N\"`",
        )];
    };
    let mut findings = Vec::new();
    if (promised.major, promised.minor) != (newest.1.major, newest.1.minor) {
        let what = format!("rust-version is {promised}, and {} wants {}", newest.0, newest.1);
        findings.push(Finding::error("Cargo.toml", 1, what, "promise what is true, here and in README.md"));
    }
    let words = format!("Rust {}.{} or newer", promised.major, promised.minor);
    if !tree.text("README.md").is_some_and(|readme| readme.contains(&words)) {
        findings.push(Finding::error("README.md", 1, format!("it does not say `{words}`"), "say it"));
    }
    findings
}

fn promised(tree: &Tree) -> Option<Version> {
    let manifest = tree.text("Cargo.toml")?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "))?;
    Version::parse(&format!("{}.0", line.trim_matches('"'))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(promised: &str, readme: &str, wanted: &[(&str, &str)]) -> Vec<Finding> {
        let manifest = format!("[workspace.package]\nrust-version = \"{promised}\"\n");
        let tree = Tree::of(&[("Cargo.toml", &manifest), ("README.md", readme)]);
        let wishes = wanted.iter().map(|(name, rust)| ((*name).to_owned(), Version::parse(rust).unwrap()));
        check(&tree, &wishes.collect::<Vec<_>>())
    }

    #[test]
    fn what_is_promised_is_what_the_newest_wish_is() {
        let wanted = [("a", "1.60.0"), ("b", "1.89.0")];
        assert_eq!(findings("1.89", "They need Rust 1.89 or newer.", &wanted), []);
        let found = findings("1.88", "They need Rust 1.89 or newer.", &wanted);
        assert!(found.len() == 2 && found[0].what.contains("b wants 1.89.0"), "{found:?}");
        assert_eq!(findings("1.90", "Rust 1.90 or newer", &wanted).len(), 1);
    }
}
