//! Which crate may depend on which (the drawing in docs/ARCHITECTURE.md), and what some must never reach.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, Node, PackageId};

use super::Finding;

/// Every crate of the workspace and the crates of the workspace it depends on, tests included. No other way.
const LAYERS: &[(&str, &[&str])] = &[
    ("ccmux-wire", &[]),
    ("ccmux-notify", &[]),
    ("ccmux-policy", &["ccmux-wire"]),
    ("ccmux-runtime", &["ccmux-notify", "ccmux-policy", "ccmux-wire"]),
    ("ccmuxd", &["ccmux-policy", "ccmux-runtime", "ccmux-wire"]),
    ("ccmux-cli", &["ccmux-notify", "ccmux-wire"]),
    ("ccmux-hook", &["ccmux-wire"]),
    ("ccmux-demo", &[]),
    ("ccmux-tests", &["ccmux-wire"]),
    ("xtask", &["ccmux-policy", "ccmux-tests"]),
];

/// What a crate must not reach by any path, tests aside.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    (
        "ccmux-policy",
        &["tokio", "nix", "rustix", "rusqlite", "rand"],
        "it decides without touching the world",
    ),
    ("ccmux-hook", &["tokio", "nix", "clap", "anyhow"], "it stands on Claude's critical path"),
    ("ccmux-notify", &["tokio", "rusqlite"], "it works without a daemon, and starts in no time"),
    ("ccmux-wire", &["tokio", "nix", "rusqlite"], "everybody carries it"),
    ("ccmux-cli", &["rusqlite"], "it asks the daemon"),
];

/// What the check looks at, by names.
#[derive(Debug, Default)]
pub struct Dependencies {
    /// Between crates of the workspace, of every kind.
    inside: BTreeMap<String, BTreeSet<String>>,
    /// All that a crate of the workspace reaches in a build without tests.
    reached: BTreeMap<String, BTreeSet<String>>,
}

impl Dependencies {
    /// Reads them from cargo's resolved graph.
    pub fn of(metadata: &Metadata) -> Self {
        let members: BTreeSet<&str> =
            metadata.workspace_packages().iter().map(|package| package.name.as_str()).collect();
        let mut dependencies = Self::default();
        for package in metadata.workspace_packages() {
            let direct = package.dependencies.iter().map(|dependency| dependency.name.as_str());
            let inside = direct.filter(|name| members.contains(name)).map(str::to_owned).collect();
            dependencies.inside.insert(package.name.to_string(), inside);
            dependencies.reached.insert(package.name.to_string(), reached_from(metadata, &package.id));
        }
        dependencies
    }
}

fn reached_from(metadata: &Metadata, start: &PackageId) -> BTreeSet<String> {
    let nodes: BTreeMap<&PackageId, &Node> =
        metadata.resolve.iter().flat_map(|resolve| &resolve.nodes).map(|node| (&node.id, node)).collect();
    let (mut seen, mut open) = (BTreeSet::from([start]), vec![start]);
    while let Some(node) = open.pop().and_then(|id| nodes.get(id)) {
        for dependency in &node.deps {
            let is_built = dependency.dep_kinds.iter().any(|kind| kind.kind != DependencyKind::Development);
            if is_built && seen.insert(&dependency.pkg) {
                open.push(&dependency.pkg);
            }
        }
    }
    seen.into_iter().filter(|id| *id != start).map(|id| metadata[id].name.to_string()).collect()
}

/// Compares with the tables.
pub fn check(dependencies: &Dependencies) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, inside) in &dependencies.inside {
        match LAYERS.iter().find(|(layer, _)| layer == name) {
            Some((_, allowed)) => findings.extend(compare(name, inside, allowed)),
            None => findings.push(at(
                name,
                format!("the crate {name} stands in no layer"),
                "add it to xtask/src/tidy/layers.rs and to docs/ARCHITECTURE.md, or make it a module",
            )),
        }
    }
    for (name, names, why) in FORBIDDEN {
        let reached = dependencies.reached.get(*name);
        for forbidden in
            names.iter().filter(|forbidden| reached.is_some_and(|reached| reached.contains(**forbidden)))
        {
            let remedy =
                format!("remove it ({why}); `cargo tree -p {name} -e normal -i {forbidden}` shows the way");
            findings.push(at(name, format!("{name} reaches {forbidden}"), remedy));
        }
    }
    findings
}

fn compare(name: &str, inside: &BTreeSet<String>, allowed: &[&str]) -> Vec<Finding> {
    let too_many =
        inside.iter().filter(|dependency| !allowed.contains(&dependency.as_str())).map(|dependency| {
            at(
                name,
                format!("{name} depends on {dependency}"),
                "depend the other way, or move the code down to where both may look",
            )
        });
    let too_few = allowed.iter().filter(|dependency| !inside.contains(**dependency)).map(|dependency| {
        at(
            name,
            format!("{name} no longer depends on {dependency}"),
            "take the line out of xtask/src/tidy/layers.rs",
        )
    });
    too_many.chain(too_few).collect()
}

fn at(name: &str, what: String, remedy: impl Into<String>) -> Finding {
    let room = match name {
        "xtask" => "xtask".to_owned(),
        "ccmux-tests" => "tests".to_owned(),
        _ => format!("crates/{name}"),
    };
    Finding::error(&format!("{room}/Cargo.toml"), 1, what, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependencies(inside: &[(&str, &[&str])], reached: &[(&str, &[&str])]) -> Dependencies {
        let table = |rows: &[(&str, &[&str])]| {
            let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            rows.iter().map(|(name, names)| ((*name).to_owned(), set(names))).collect()
        };
        Dependencies { inside: table(inside), reached: table(reached) }
    }

    fn whats(dependencies: &Dependencies) -> Vec<String> {
        check(dependencies).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn the_designed_layers_are_fine() {
        assert_eq!(whats(&dependencies(LAYERS, &[("ccmux-hook", &["serde_json", "ccmux-wire"])])), [""; 0]);
    }

    #[test]
    fn a_dependency_upwards_and_a_missing_one_are_found() {
        let found = whats(&dependencies(&[("ccmux-policy", &["ccmux-runtime"])], &[]));
        assert_eq!(
            found,
            ["ccmux-policy depends on ccmux-runtime", "ccmux-policy no longer depends on ccmux-wire"]
        );
    }

    #[test]
    fn a_crate_without_a_layer_is_found() {
        assert_eq!(
            whats(&dependencies(&[("ccmux-util", &[])], &[])),
            ["the crate ccmux-util stands in no layer"]
        );
    }

    #[test]
    fn what_must_not_be_reached_is_found_on_any_path() {
        let found =
            whats(&dependencies(&[], &[("ccmux-hook", &["serde", "tokio"]), ("ccmux-policy", &["rand"])]));
        assert_eq!(found, ["ccmux-policy reaches rand", "ccmux-hook reaches tokio"]);
    }
}
